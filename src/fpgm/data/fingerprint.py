"""Fingerprints: a picture in 256 bits, the fingerprints of the six public data sets, and a comparison with them.

Letters: N pictures, M others. A fingerprint is written as 64 hex digits and computed with as a row of 32 bytes.
Near duplicates lie within ``NEAR`` bits; over the six data sets, pictures of different sets differ by 40 bits or more
(apart from CVC-300, which is a part of CVC-ColonDB), and a reduced JPEG copy of a picture by 9 bits or fewer.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fpgm.data.catalog import find

NEAR = 12  # bits of 256
SHARE_TOLERANCE = (0.0005, 0.05)  # of a foreground share: absolute + relative; reduced copies need a quarter of it

Packed = NDArray[np.uint8]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Reference:
    """A picture of a public data set: its native size, fingerprint and share of foreground in [0, 1]."""

    dataset: str
    id: str
    width: int
    height: int
    dhash: str
    foreground: float


@dataclass(frozen=True)
class Difference:
    """What is wrong with one image of a user's copy."""

    dataset: str
    id: str
    problem: Literal["missing", "altered", "renamed", "foreign", "unknown"]
    detail: str


def dhash(picture: Image.Image) -> str:
    """Return the difference hash of a picture: 64 hex digits.

    The grey picture is reduced to 17 x 16 with Lanczos; row by row, a bit is set where a pixel is brighter than its
    right neighbour. Brightness and contrast do not change it; a crop, a flip or a turn does.
    """
    grey = np.asarray(picture.convert("L").resize((17, 16), Image.Resampling.LANCZOS))
    return np.packbits(grey[:, :-1] > grey[:, 1:]).tobytes().hex()


def pack(hashes: Sequence[str]) -> Packed:
    """Turn N fingerprints into bytes (N, 32)."""
    try:
        rows = [bytes.fromhex(text) for text in hashes]
    except (TypeError, ValueError):
        rows = [b""]
    if any(len(row) != 32 for row in rows):
        raise ValueError("a fingerprint is 64 hex digits; prepare the data again with `fpgm data prepare`")
    return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, 32)


def distance(first: str, second: str) -> int:
    """Count the bits in which two fingerprints differ: 0 … 256."""
    return int(distances(pack([first]), pack([second]))[0, 0])


def distances(first: Packed, second: Packed) -> NDArray[np.int16]:
    """Count differing bits of every pair: (N, 32), (M, 32) -> (N, M).

    As a product of signs: agreeing bits give +1, differing bits -1, and sums of 256 of them are exact in float32.
    """
    agreement = _signs(first) @ _signs(second).T
    return ((256 - agreement) / 2).astype(np.int16)


def close_pairs(
    first: Packed, second: Packed | None = None, *, limit: int = NEAR, block: int = 1024
) -> tuple[Indices, Indices, Indices]:
    """Find the pairs at most ``limit`` bits apart: rows of ``first``, rows of ``second``, distances.

    Without ``second`` each pair within ``first`` comes once, lower row first. Pairs are sorted; the work goes
    block by block, so that memory grows with the pairs found and not with N x M.
    """
    other = first if second is None else second
    found = [np.zeros((0, 3), np.int64)]
    for top in range(0, len(first), block):
        for left in range(top if second is None else 0, len(other), block):
            away = distances(first[top : top + block], other[left : left + block])
            near = away <= limit
            if second is None and left == top:
                near = np.triu(near, 1)
            i, j = np.nonzero(near)
            found.append(np.stack([i + top, j + left, away[i, j]], axis=1))
    pairs = np.concatenate(found)
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    return pairs[:, 0], pairs[:, 1], pairs[:, 2]


@cache
def reference() -> tuple[Reference, ...]:
    """Read the fingerprints of the six public data sets: 3,248 rows."""
    text = (files("fpgm.data") / "reference" / "fingerprints.csv").read_text(encoding="utf-8")
    return tuple(
        Reference(
            dataset=_key(row["dataset"]),
            id=row["id"],
            width=int(row["width"]),
            height=int(row["height"]),
            dhash=row["dhash256"],
            foreground=float(row["foreground"]),
        )
        for row in csv.DictReader(text.splitlines())
    )


def recognise(hashes: Sequence[str], dataset: str = "") -> list[Reference | None]:
    """Name each picture: the nearest reference picture within ``NEAR`` bits, those of ``dataset`` first, or None."""
    rows = reference()
    mine, theirs, away = close_pairs(pack(hashes), _reference_packed())
    names: list[Reference | None] = [None] * len(hashes)
    order = sorted(range(len(mine)), key=lambda k: (rows[theirs[k]].dataset != dataset, away[k]), reverse=True)
    for k in order:  # the best comes last and stays
        names[mine[k]] = rows[theirs[k]]
    return names


def find_differences(
    dataset: str, ids: Sequence[str], hashes: Sequence[str], shares: Sequence[float]
) -> list[Difference]:
    """Compare one data set with the reference.

    Args:
        dataset: its name; if the reference does not have it, only pictures of other data sets are found.
        ids: N file stems.
        hashes: N fingerprints.
        shares: N shares of foreground in [0, 1]; NaN where there is no mask.
    """
    own = {row.id: row for row in reference() if row.dataset == dataset}
    differences: list[Difference] = []
    seen = set(ids) & own.keys()
    for id_, hash_, share, name in zip(ids, hashes, shares, recognise(hashes, dataset), strict=True):
        known = own.get(id_)
        if known and distance(known.dhash, hash_) <= NEAR:
            differences += _compare_share(known, share)
        elif name is None:
            differences += _strange(dataset, id_, known, hash_, bool(own))
        elif name.dataset == dataset:
            seen.add(name.id)
            differences.append(Difference(dataset, id_, "renamed", f"the picture is {dataset}/{name.id}"))
        else:
            differences.append(Difference(dataset, id_, "foreign", f"belongs to {name.dataset} (picture {name.id})"))
    gone = (id_ for id_ in own if id_ not in seen)
    return differences + [Difference(dataset, id_, "missing", "in the public data set, not here") for id_ in gone]


def _strange(dataset: str, id_: str, known: Reference | None, hash_: str, public: bool) -> Iterable[Difference]:
    """Describe a picture that is not in the reference."""
    if known:
        bits = distance(known.dhash, hash_)
        yield Difference(dataset, id_, "altered", f"picture differs by {bits} of 256 bits (at most {NEAR} expected)")
    elif public:
        yield Difference(dataset, id_, "unknown", "no picture of the public data set")


def _compare_share(known: Reference, share: float) -> Iterable[Difference]:
    """Compare the foreground share of a mask; NaN, no mask, is skipped."""
    absolute, relative = SHARE_TOLERANCE
    if abs(share - known.foreground) > absolute + relative * known.foreground:
        detail = f"mask covers {share:.2%} of the picture, {known.foreground:.2%} expected"
        yield Difference(known.dataset, known.id, "altered", detail)


def _signs(packed: Packed) -> NDArray[np.float32]:
    return np.unpackbits(packed, axis=1).astype(np.float32) * 2 - 1


def _key(name: str) -> str:
    """Return the catalogue's key of a data set of the reference file, which writes one of them in full."""
    entry = find(name)
    assert entry is not None, name
    return entry.key


@cache
def _reference_packed() -> Packed:
    return pack([row.dhash for row in reference()])
