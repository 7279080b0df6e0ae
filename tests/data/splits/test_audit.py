"""The audit on hand-made duplicates and on the real data sets' known ones."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from fpgm.data.splits.audit import Place, describe_leaks, judge, strangers, summary, write_pairs, write_sequences
from fpgm.data.splits.duplicates import Evidence, gather
from fpgm.data.splits.protocols import draw, import_lists, parse_lists
from fpgm.data.store import Store
from tests.data.making import Listed, make_store, own, public, real_store, scene


@pytest.fixture
def stores(tmp_path: Path) -> dict[str, Store]:
    """a: 1 = 2 exactly, 3 is 1 brighter; b: 1 = a/1, 2 on its own; flat: pictures without contrast, all different."""
    rng = np.random.default_rng(0)
    one, other, fourth = scene(rng), scene(rng), scene(rng)
    brighter = np.asarray(ImageEnhance.Brightness(Image.fromarray(one)).enhance(1.05))
    flat = {str(k): np.full((64, 64, 3), (k * 40, 90, 30), np.uint8) for k in range(4)}
    return {
        "a": make_store(tmp_path, "a", {"1": one, "2": one.copy(), "3": brighter, "4": fourth}),
        "b": make_store(tmp_path, "b", {"1": one, "2": other}),
        "flat": make_store(tmp_path, "flat", flat),
    }


def pairs(evidence: Evidence) -> dict[tuple[str, str], bool]:
    rows = zip(evidence.first, evidence.second, evidence.exact, strict=True)
    return {(evidence.ids[i], evidence.ids[j]): bool(exact) for i, j, exact in rows}


def test_exact_and_near_duplicates_are_told_apart(stores: dict[str, Store]) -> None:
    assert pairs(gather(stores)) == {
        ("a/1", "a/2"): True,
        ("a/1", "a/3"): False,
        ("a/2", "a/3"): False,
        ("a/1", "b/1"): True,
        ("a/2", "b/1"): True,
        ("a/3", "b/1"): False,
    }


def test_pixel_check_rejects_equal_fingerprints_of_different_pictures(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    store = make_store(tmp_path, "a", {"1": scene(rng), "2": scene(rng)})
    store.dhash = ("0" * 64, "0" * 64)
    assert pairs(gather({"a": store})) == {}


def test_pictures_without_contrast_are_duplicates_only_if_equal(tmp_path: Path) -> None:
    black, grey = np.zeros((64, 64, 3), np.uint8), np.full((64, 64, 3), 90, np.uint8)
    store = make_store(tmp_path, "a", {"1": black, "2": grey, "3": black})
    assert pairs(gather({"a": store})) == {("a/1", "a/3"): True}


def test_groups_follow_chains_of_duplicates_and_videos() -> None:
    rows = np.array([0, 2])
    evidence = Evidence(
        ids=tuple("abcdef"),
        sequences=(None, "v", None, "v", None, None),
        first=rows,
        second=rows + 1,  # a-b, c-d; b and d are one video
        distance=rows,
        exact=rows > 9,
    )
    groups = evidence.groups()
    assert len(set(groups[:4])) == 1
    assert len(set(groups)) == 3


def test_videos_of_ones_own_copy_are_known_by_fingerprint() -> None:
    clinic = public("CVC-ClinicDB")["CVC-ClinicDB"]
    frames = ("1", "25", "26")  # two of sequence 1, one of sequence 2
    copy = Listed("mine", ["x", "y", "z"], [clinic.dhash[clinic.ids.index(frame)] for frame in frames])
    assert gather({"mine": copy}).sequences == (
        "CVC-ClinicDB sequence 1",
        "CVC-ClinicDB sequence 1",
        "CVC-ClinicDB sequence 2",
    )
    assert gather({"mine": own("mine", 3)}).sequences == (None, None, None)


def test_given_groups_join_the_evidence_under_the_name_of_their_data_set(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    pictures = {str(k): scene(rng) for k in range(4)}
    more = {str(k): scene(rng) for k in range(2)}
    stores = {
        "a": make_store(tmp_path, "a", pictures, groups={"0": "7", "2": "7", "3": "8"}),
        "b": make_store(tmp_path, "b", more, groups={"0": "7"}),
    }
    evidence = gather(stores)
    assert evidence.given == ("a group 7", None, "a group 7", "a group 8", "b group 7", None)
    groups = evidence.groups()
    assert groups[0] == groups[2] and len(set(groups)) == 5
    findings = judge(evidence, {"train": ["a/0", "a/1", "b/0"], "test": ["a/2", "a/3"]})
    (leak,) = (found for found in findings if found.verdict == "LEAK")
    assert leak.shared == (("a group 7", "a/0", "a/2"),)
    assert (leak.first.sequences, leak.second.sequences) == (1, 2)
    assert describe_leaks(findings) == ["train a and test a share 1 groups"]


def test_an_image_can_have_a_video_and_a_given_group() -> None:
    clinic = public("CVC-ClinicDB")["CVC-ClinicDB"]  # frames 1 and 2 are of sequence 1, frame 30 of sequence 2
    clinic.groups = {"2": "p", "30": "p"}
    groups = dict(zip(clinic.ids, gather({"CVC-ClinicDB": clinic}).groups(), strict=True))
    assert groups["1"] == groups["2"] == groups["30"] != groups["60"]


def test_judge_compares_whole_data_sets(stores: dict[str, Store]) -> None:
    parts = {name: [f"{name}/{id_}" for id_ in store.ids] for name, store in stores.items()}
    findings = judge(gather(stores), parts)
    rows = [(str(f.first.place), str(f.second.place), f.exact, f.near, f.verdict) for f in findings]
    assert rows == [
        ("a", "a", 1, 2, "repeats"),
        ("b", "b", 0, 0, "ok"),
        ("flat", "flat", 0, 0, "ok"),
        ("a", "b", 2, 1, "LEAK"),
        ("a", "flat", 0, 0, "ok"),
        ("b", "flat", 0, 0, "ok"),
    ]
    leak = findings[3]
    assert leak.first.images == ("a/1", "a/2", "a/3")
    assert (leak.first.size, leak.second.images, leak.second.size) == (4, ("b/1",), 2)


def test_judge_compares_parts_and_leaves_out_other_images(stores: dict[str, Store], tmp_path: Path) -> None:
    evidence = gather(stores)
    parts = {"train": ["b/1", "a/4"], "test": ["a/3", "b/2"], "unseen": ["flat/0"]}
    findings = judge(evidence, parts)
    leaks = [f for f in findings if f.verdict == "LEAK"]
    assert [(f.first.place, f.second.place, f.exact, f.near) for f in leaks] == [
        (Place("train", "b"), Place("test", "a"), 0, 1)
    ]
    write_pairs(tmp_path / "pairs.csv", evidence, findings)
    with (tmp_path / "pairs.csv").open() as file:
        (row,) = csv.DictReader(file)
    # The first id stands at the first place, although the data sets come in the other order.
    assert (row["first"], row["second"], row["kind"]) == ("b/1", "a/3", "near")
    assert (row["first_place"], row["second_place"], row["verdict"]) == ("train b", "test a", "LEAK")
    assert 0 <= int(row["bits"]) <= 12
    assert len(findings) == 6


def test_judge_without_any_duplicate() -> None:
    findings = judge(gather({"a": own("a", 5)}), {"train": ["a/0"], "test": ["a/1"]})
    assert [f.verdict for f in findings] == ["ok", "ok", "ok"]


def test_shared_videos_are_a_leak_between_parts_only(tmp_path: Path) -> None:
    stores = {"CVC-ClinicDB": public("CVC-ClinicDB")["CVC-ClinicDB"]}
    parts = {"train": ["CVC-ClinicDB/1", "CVC-ClinicDB/20", "CVC-ClinicDB/60"], "test": ["CVC-ClinicDB/9"]}
    findings = judge(gather(stores), parts)
    leak = findings[-1]
    assert [f.verdict for f in findings] == ["ok", "ok", "LEAK"]
    assert leak.shared == (("CVC-ClinicDB sequence 1", "CVC-ClinicDB/1", "CVC-ClinicDB/9"),)
    assert (leak.first.sequences, leak.second.sequences) == (2, 1)
    sentence = "all 1 groups of test CVC-ClinicDB are in train CVC-ClinicDB too, such as CVC-ClinicDB sequence 1"
    assert sentence in summary(findings, [])
    write_sequences(tmp_path / "s.csv", findings)
    assert (tmp_path / "s.csv").read_text().splitlines() == [
        "sequence,first_place,second_place",
        "CVC-ClinicDB sequence 1,train CVC-ClinicDB,test CVC-ClinicDB",
    ]


def test_strangers_belong_to_sets_that_are_not_there() -> None:
    colon = public("CVC-ColonDB")
    everything = {f"CVC-ColonDB/{id_}" for id_ in colon["CVC-ColonDB"].ids}
    (group,) = strangers(colon, everything)
    assert (group.dataset, group.belongs_to, len(group.ids)) == ("CVC-ColonDB", "CVC-300", 60)
    assert "60 images of CVC-ColonDB belong to CVC-300" in summary([], [group])[1]
    assert summary([], [group])[1].endswith("149–208")
    assert strangers(public("CVC-ColonDB", "CVC-300"), everything) == []
    assert strangers(colon, {"CVC-ColonDB/1"}) == []
    bkai = public("BKAI-IGH")["BKAI-IGH"]
    mine = {"mine": Listed("mine", ["p", "q"], [bkai.dhash[3], "5" * 64])}
    assert [(g.belongs_to, g.ids) for g in strangers(mine, {"mine/p", "mine/q"})] == [("BKAI-IGH", ("p",))]


# The real data


@pytest.fixture(scope="module")
def real(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Store]:
    folder = tmp_path_factory.mktemp("store")
    names = ("CVC-ClinicDB", "CVC-ColonDB", "CVC-300")
    return {name: real_store(folder, real_data, name) for name in names}


@pytest.fixture(scope="module")
def real_evidence(real: dict[str, Store]) -> Evidence:
    return gather(real)


def test_cvc300_is_found_in_colondb(real: dict[str, Store], real_evidence: Evidence) -> None:
    parts = {name: [f"{name}/{id_}" for id_ in store.ids] for name, store in real.items()}
    findings = judge(real_evidence, parts)
    assert [str(f.first.place) + "|" + str(f.second.place) for f in findings if f.verdict == "LEAK"] == [
        "CVC-ColonDB|CVC-300"
    ]
    leak = findings[-1]
    assert leak.first.images == tuple(f"CVC-ColonDB/{frame}" for frame in range(149, 209))
    assert len(leak.second.images) == 60
    same = {(i, j) for i, j, _, exact in leak.pairs.tolist() if exact}
    ids = real_evidence.ids
    assert {(ids[i], ids[j]) for i, j in same} >= {(f"CVC-ColonDB/{k}", f"CVC-300/{k}") for k in range(149, 209)}
    assert [video.sequence[-2:].strip() for video in leak.shared] == ["7", "9", "10"]
    assert "all 60 images of CVC-300 are in CVC-ColonDB too: 149–208" in summary(findings, [])


def test_known_duplicates_inside_the_sets(real_evidence: Evidence) -> None:
    """34 images of ColonDB repeat another (17 groups, 86 pairs), 2 of CVC-300, none of ClinicDB."""
    found: dict[str, list[tuple[str, str]]] = {}
    for (a, b), exact in pairs(real_evidence).items():
        if exact and a.split("/")[0] == b.split("/")[0]:
            found.setdefault(a.split("/")[0], []).append((a, b))
    assert {name: len(rows) for name, rows in found.items()} == {"CVC-ColonDB": 86, "CVC-300": 2}
    assert len({b for _, b in found["CVC-ColonDB"]}) == 34


def test_published_clinicdb_split_shares_all_its_test_sequences(
    real: dict[str, Store], real_evidence: Evidence, real_data: Path
) -> None:
    lists = [f"CVC-ClinicDB/{part}={real_data}/splits/pranet_clinicdb_{part}.txt" for part in ("train", "test")]
    split = import_lists(real, parse_lists(lists), 0)
    assert (len(split.train), len(split.test)) == (550, 62)
    (leak,) = (f for f in judge(real_evidence, split.parts()) if f.verdict == "LEAK")
    assert len(leak.shared) == leak.second.sequences == 26


@pytest.mark.parametrize(("protocol", "clean"), [("strict", True), ("paper", False)])
@pytest.mark.parametrize("seed", [0, 1])
def test_strict_split_is_clean_and_paper_split_is_not(
    real: dict[str, Store], real_evidence: Evidence, protocol: str, clean: bool, seed: int
) -> None:
    split = draw(real, protocol, seed)
    verdicts = {f.verdict for f in judge(real_evidence, split.parts())}
    assert ("LEAK" not in verdicts) == clean
