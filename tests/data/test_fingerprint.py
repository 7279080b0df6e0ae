"""Fingerprints against the naive loop, hand-made pictures and the public data sets."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from fpgm.data.fingerprint import (
    NEAR,
    Reference,
    close_pairs,
    dhash,
    distance,
    distances,
    find_differences,
    pack,
    recognise,
    reference,
)

HEX = st.text("0123456789abcdef", min_size=64, max_size=64)
PUBLIC = {
    "Kvasir-SEG": 1000,
    "CVC-ClinicDB": 612,
    "CVC-ColonDB": 380,
    "ETIS-LaribPolypDB": 196,
    "CVC-300": 60,
    "BKAI-IGH": 1000,
}


def own(dataset: str) -> list[Reference]:
    return [row for row in reference() if row.dataset == dataset]


def flip(hash_: str, bits: int) -> str:
    """Change the first `bits` bits."""
    return f"{int(hash_, 16) ^ ((1 << bits) - 1):064x}"


def picture(rows: np.ndarray) -> Image.Image:
    """A 17 x 16 picture, which the hash does not resample."""
    return Image.fromarray(np.broadcast_to(rows, (16, 17)).astype(np.uint8))


# A falling ramp is brighter on the left everywhere: all bits set; a rising or a flat one sets none.
@pytest.mark.parametrize(
    ("values", "expected"),
    [(np.arange(17)[::-1], "f" * 64), (np.arange(17), "0" * 64), (np.full(17, 9), "0" * 64)],
)
def test_dhash_of_ramps(values: np.ndarray, expected: str) -> None:
    assert dhash(picture(values)) == expected


# One bright pixel at column 3 of row 2: only its comparison with column 4 is true. Bit 2*16 + 3 = 35 from the left,
# i.e. the 9th hex digit (bits 32-35) is 0001.
def test_convention_bits_go_row_by_row_from_the_left() -> None:
    rows = np.zeros((16, 17))
    rows[2, 3] = 200
    assert dhash(picture(rows)) == "0" * 8 + "1" + "0" * 55


def test_dhash_takes_any_mode_and_ignores_brightness() -> None:
    grey = np.random.default_rng(0).integers(0, 100, (40, 50), dtype=np.uint8)
    expected = dhash(Image.fromarray(grey))
    assert dhash(Image.fromarray(grey).convert("RGB")) == expected
    assert distance(dhash(Image.fromarray(grey + 50)), expected) <= 2  # rounding alone


@given(HEX, HEX)
def test_distance_is_the_count_of_differing_bits(a: str, b: str) -> None:
    assert distance(a, b) == bin(int(a, 16) ^ int(b, 16)).count("1")
    assert distance(a, a) == 0
    assert distance(a, flip(a, 256)) == 256


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_close_pairs_equal_the_double_loop(block: int) -> None:
    rng = np.random.default_rng(1)
    centres = rng.integers(0, 256, (5, 32), dtype=np.uint8)
    packed = centres[rng.integers(0, 5, 40)]
    packed[:, :2] ^= rng.integers(0, 256, (40, 2), dtype=np.uint8)  # up to 16 bits apart within a cluster
    away = distances(packed, packed)
    expected = [(i, j, away[i, j]) for i in range(40) for j in range(i + 1, 40) if away[i, j] <= NEAR]
    assert len(expected) > 20
    assert list(zip(*close_pairs(packed, block=block), strict=True)) == expected
    between = [(i, j, away[i, j + 10]) for i in range(10) for j in range(30) if away[i, j + 10] <= NEAR]
    assert list(zip(*close_pairs(packed[:10], packed[10:], block=block), strict=True)) == between


def test_close_pairs_include_the_limit_itself() -> None:
    packed = pack(["0" * 64, flip("0" * 64, NEAR), flip("0" * 64, NEAR + 1)])
    assert [tuple(map(int, pair)) for pair in zip(*close_pairs(packed), strict=True)] == [(0, 1, 12), (1, 2, 1)]
    assert len(close_pairs(packed[:0])[0]) == 0


@pytest.mark.parametrize("bad", ["12", "x" * 64, "0" * 63])
def test_malformed_fingerprint_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match=r"64 hex digits.*fpgm data prepare"):
        pack(["0" * 64, bad])


def test_reference_holds_the_six_sets_under_their_catalogue_names() -> None:
    assert Counter(row.dataset for row in reference()) == PUBLIC
    assert all(0 < row.foreground < 1 for row in reference())


def test_reference_knows_that_cvc300_is_a_part_of_colondb() -> None:
    colon = {row.id: row.dhash for row in own("CVC-ColonDB")}
    assert {row.id for row in own("CVC-300")} == {str(frame) for frame in range(149, 209)}
    assert all(colon[row.id] == row.dhash for row in own("CVC-300"))


def test_sets_are_far_apart() -> None:
    small = [row for row in reference() if row.dataset not in ("CVC-300", "Kvasir-SEG", "BKAI-IGH")]
    i, j, _ = close_pairs(pack([row.dhash for row in small]), limit=45)
    assert {(small[a].dataset, small[b].dataset) for a, b in zip(i, j, strict=True)} == {
        (name, name) for name in ("CVC-ClinicDB", "CVC-ColonDB", "ETIS-LaribPolypDB")
    }


def test_recognise_prefers_the_named_set_then_the_nearest() -> None:
    hash_ = own("CVC-300")[0].dhash
    for name in ("CVC-300", "CVC-ColonDB"):
        assert recognise([hash_], name)[0] == next(row for row in own(name) if row.dhash == hash_)
    bkai = own("BKAI-IGH")[5]
    assert recognise([flip(bkai.dhash, NEAR), flip("5" * 64, 3)], "mine") == [bkai, None]


def test_compare_accepts_the_reference_itself() -> None:
    rows = own("CVC-ColonDB")
    shares = [row.foreground for row in rows]
    assert find_differences("CVC-ColonDB", [r.id for r in rows], [r.dhash for r in rows], shares) == []


def test_compare_names_each_problem() -> None:
    rows = own("ETIS-LaribPolypDB")
    ids, hashes = [row.id for row in rows], [row.dhash for row in rows]
    shares = [row.foreground for row in rows]
    gone = ids.pop()
    hashes.pop(), shares.pop()
    hashes[0] = "5" * 64  # another picture altogether
    hashes[1] = own("BKAI-IGH")[0].dhash
    shares[2] = 0.0  # mask lost
    shares[3] = float("nan")  # no mask at all: not compared
    ids[4] = "frame4"
    ids.append("extra"), hashes.append("a" * 64), shares.append(0.1)
    found = {(f.id, f.problem): f.detail for f in find_differences("ETIS-LaribPolypDB", ids, hashes, shares)}
    assert set(found) == {
        (ids[0], "altered"),
        (ids[1], "foreign"),
        (ids[2], "altered"),
        ("frame4", "renamed"),
        ("extra", "unknown"),
        (gone, "missing"),
    }
    assert "BKAI-IGH" in found[ids[1], "foreign"]
    assert f"ETIS-LaribPolypDB/{rows[4].id}" in found["frame4", "renamed"]
    assert "0.00%" in found[ids[2], "altered"]
    assert "of 256 bits" in found[ids[0], "altered"]


def test_compare_of_ones_own_set_finds_only_foreign_pictures() -> None:
    stolen = own("Kvasir-SEG")[7]
    findings = find_differences("mine", ["a", "b"], ["5" * 64, flip(stolen.dhash, 4)], [0.1, 0.2])
    assert [(f.id, f.problem) for f in findings] == [("b", "foreign")]
    assert stolen.id in findings[0].detail


def test_real_pictures_match_their_reference(real_data: Path) -> None:
    """Measured on these reduced JPEG copies: distance 0-9, mean 1.3."""
    rows = [row for name in ("CVC-300", "ETIS-LaribPolypDB") for row in own(name)]
    away = []
    for row in rows:
        with Image.open(real_data / row.dataset / "images" / f"{row.id}.jpg") as file:
            away.append(distance(dhash(file), row.dhash))
    assert max(away) <= 9
    assert np.mean(away) < 2
