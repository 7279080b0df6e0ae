"""Hospitals of a store, and the protocol that keeps one of them unseen."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from fpgm.data.catalog import hospital_of, sequence
from fpgm.data.splits.dividing import Shares
from fpgm.data.splits.duplicates import gather
from fpgm.data.splits.hospitals import find_hospital, folds, hospitals
from fpgm.data.splits.protocols import draw
from fpgm.data.splits.split import PARTS, Split, dataset_of, split_name
from tests.data.making import own, public

FIVE = ("Kvasir-SEG", "CVC-ClinicDB", "CVC-ColonDB", "ETIS-LaribPolypDB", "CVC-300")
SIX = (*FIVE, "BKAI-IGH")
CLINICS = ("phantom-a", "phantom-e", "north")


def counts(split: Split, name: str) -> tuple[int, ...]:
    return tuple(split.counts()[name][part] for part in PARTS)


def clinics() -> dict:
    return {name: own(name, 20, seed=k) for k, name in enumerate(CLINICS)}


def test_hospitals_of_a_store() -> None:
    assert hospitals(public(*SIX)) == {
        "Kvasir": ("Kvasir-SEG",),
        "CVC": ("CVC-ClinicDB", "CVC-ColonDB", "CVC-300"),
        "ETIS": ("ETIS-LaribPolypDB",),
        "BKAI": ("BKAI-IGH",),
    }
    assert folds(clinics()) == list(CLINICS)


@pytest.mark.parametrize(
    ("name", "hospital"),
    [
        ("CVC", "CVC"),
        ("cvc", "CVC"),
        ("CVC-300", "CVC"),
        ("ColonDB", "CVC"),
        ("cvc clinicdb", "CVC"),
        ("ETIS", "ETIS"),
        ("etis-larib", "ETIS"),
        ("Kvasir-SEG", "Kvasir"),
        ("NeoPolyp", "BKAI"),
        ("North", "north"),
        ("phantom e", "phantom-e"),
    ],
)
def test_a_hospital_is_found_by_its_name_or_a_data_set(name: str, hospital: str) -> None:
    assert find_hospital(name, public(*SIX) | clinics()) == hospital


@pytest.mark.parametrize("name", ["Oslo", "", "BKAI", "CVC-"])
def test_an_unknown_hospital_is_answered_with_those_that_are_there(name: str) -> None:
    stores = public("Kvasir-SEG", "ETIS-LaribPolypDB") | {"north": own("north", 4)}
    with pytest.raises(
        ValueError, match=rf"no hospital '{name}' in the store, which has Kvasir \(Kvasir-SEG\), ETIS .*, north$"
    ):
        find_hospital(name, stores)


def test_a_hospital_without_masks_cannot_be_the_unseen_one() -> None:
    stores = clinics() | {"films": own("films", 3, {"0", "1", "2"}, seed=9)}
    assert folds(stores) == list(CLINICS)
    with pytest.raises(ValueError, match=r"films has no image with a mask.*leave out one of phantom-a, phantom-e, nor"):
        draw(stores, "hospitals", 0, leave_out="films")
    split = draw(stores, "hospitals", 0, leave_out="north")
    assert split.without_mask == 3 and counts(split, "films") == (3, 0, 0, 0)


def test_one_hospital_is_not_enough() -> None:
    with pytest.raises(ValueError, match=r"two hospitals or more; this store has CVC \(CVC-ColonDB, CVC-300\); add"):
        draw(public("CVC-ColonDB", "CVC-300"), "hospitals", 0, leave_out="CVC")


def test_hospitals_of_one_name_are_refused() -> None:
    stores = public("CVC-ColonDB", "ETIS-LaribPolypDB") | {"cvc": own("cvc", 4)}
    with pytest.raises(ValueError, match="CVC and cvc would be hospitals of the same name cvc: prepare one of them"):
        folds(stores)


@pytest.mark.parametrize(
    ("hospital", "name"),
    [("ETIS", "hospitals-etis-0"), ("phantom-a", "hospitals-phantom-a-0"), ("St. Élise 2", "hospitals-st-élise-2-0")],
)
def test_a_fold_has_a_folder_name_of_its_own(hospital: str, name: str) -> None:
    assert split_name("hospitals", 0, hospital) == name
    assert split_name("strict", 3) == "strict-3"


def test_convention_a_hospital_is_left_out_with_all_its_data_sets() -> None:
    split = draw(public(*FIVE), "hospitals", 0, leave_out="CVC")
    assert (split.protocol, split.left_out, split.name) == ("hospitals", "CVC", "hospitals-cvc-0")
    assert Counter(map(dataset_of, split.unseen)) == {"CVC-ClinicDB": 612, "CVC-ColonDB": 380, "CVC-300": 60}
    assert counts(split, "Kvasir-SEG") == (700, 100, 200, 0)
    assert counts(split, "ETIS-LaribPolypDB") == (100, 32, 64, 0)
    assert split.notes == ()
    assert draw(public(*FIVE), "hospitals", 0, leave_out="CVC-300") == split


def test_convention_cvc_300_is_in_no_part_where_colondb_is_trained_on() -> None:
    split = draw(public(*FIVE), "hospitals", 0, leave_out="ETIS")
    assert "CVC-300" not in split.counts() and counts(split, "ETIS-LaribPolypDB") == (0, 0, 0, 196)
    assert counts(split, "CVC-ColonDB") == (230, 50, 100, 0)  # whole: CVC-300 is not tested on
    assert split.notes == ("CVC-300: 60 images left out: they are frames of CVC-ColonDB",)
    alone = draw(public("CVC-300", "ETIS-LaribPolypDB"), "hospitals", 0, leave_out="ETIS")
    assert sum(counts(alone, "CVC-300")) == 60


def test_convention_data_sets_that_the_paper_holds_out_are_trained_on() -> None:
    split = draw(public("BKAI-IGH", "ETIS-LaribPolypDB"), "hospitals", 0, leave_out="ETIS")
    assert counts(split, "BKAI-IGH")[3] == 0
    assert counts(split, "BKAI-IGH")[:3] == pytest.approx((700, 100, 200), abs=30)  # near duplicates stay together
    split = draw(clinics(), "hospitals", 0, fractions=Shares(0.5, 0.25, 0.25), leave_out="north")
    assert [counts(split, name) for name in CLINICS] == [(10, 5, 5, 0), (10, 5, 5, 0), (0, 0, 0, 20)]


@pytest.mark.parametrize("hospital", ["Kvasir", "CVC", "ETIS", "BKAI"])
def test_nothing_crosses_a_boundary(hospital: str) -> None:
    stores = public(*SIX)
    split = draw(stores, "hospitals", 0, leave_out=hospital)
    assert {hospital_of(dataset_of(id_)) for id_ in split.unseen} == {hospital}
    assert all(hospital_of(dataset_of(id_)) != hospital for part in PARTS[:3] for id_ in split.parts()[part])
    part_of = {id_: part for part, ids in split.parts().items() for id_ in ids}
    videos: dict[str, set[str]] = {}
    for id_, part in part_of.items():
        if name := sequence(id_):
            videos.setdefault(name, set()).add(part)
    assert len(videos) > 40 and all(len(parts) == 1 for parts in videos.values())
    evidence = gather(stores)
    for i, j in zip(evidence.first, evidence.second, strict=True):
        ends = part_of.get(evidence.ids[i]), part_of.get(evidence.ids[j])
        assert None in ends or ends[0] == ends[1]


def test_copies_of_unseen_images_leave_the_training_hospitals() -> None:
    stores = clinics()
    stores["north"].dhash = (stores["phantom-a"].dhash[3], *stores["north"].dhash[1:])
    split = draw(stores, "hospitals", 0, leave_out="phantom-a")
    assert "north/0" not in {id_ for ids in split.parts().values() for id_ in ids}
    assert "north: 1 images left out: they share a video, a group or near duplicates with unseen data" in split.notes


def test_a_data_set_is_divided_alike_in_all_folds() -> None:
    first, second = (draw(clinics(), "hospitals", 0, leave_out=name) for name in CLINICS[:2])
    assert [id_ for id_ in first.test if id_.startswith("north")] == [id_ for id_ in second.test if id_[0] == "n"]


def test_a_fold_comes_back_from_its_files(tmp_path: Path) -> None:
    split = draw(clinics(), "hospitals", 2, leave_out="phantom-e")
    split.save(tmp_path / split.name)
    assert Split.load(tmp_path / "hospitals-phantom-e-2") == split


@pytest.mark.parametrize(
    ("protocol", "options", "message"),
    [
        ("hospitals", {}, "name it with --leave-out, one of phantom-a, phantom-e, north"),
        ("hospitals", {"leave_out": "north", "unseen": ["phantom-a"]}, "and nothing else: omit --unseen"),
        ("hospitals", {"leave_out": "south"}, "no hospital 'south' in the store, which has phantom-a, phantom-e, nort"),
        ("strict", {"leave_out": "north"}, "--leave-out is for protocol hospitals; protocol strict"),
    ],
)
def test_what_makes_no_fold_is_refused(protocol: str, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw(clinics(), protocol, 0, **options)


def test_masks_alone_count(tmp_path: Path) -> None:
    stores = clinics()
    stores["north"].has_mask = np.array([False] + [True] * 19)
    split = draw(stores, "hospitals", 0, leave_out="north")
    assert len(split.unseen) == 19 and "north: 1 images without a mask left out" in split.notes
