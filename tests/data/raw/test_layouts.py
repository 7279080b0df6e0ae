"""Each layout from a tree of empty files: no picture is opened to recognise one."""

from __future__ import annotations

from pathlib import Path

import pytest

from fpgm.data.raw.layouts import BUNDLE, Found, own_folders, recognise
from tests.data.pictures import touch

HASHED = "cju0qkwl35piu0993l0dewei2"

# name, layout, files, pairs as image -> mask
TREES: dict[str, tuple[str, str, list[str], dict[str, str]]] = {
    "Kvasir native": (
        "Kvasir-SEG",
        "images/masks",
        ["Kvasir-SEG/images/a.jpg", "Kvasir-SEG/masks/a.jpg", "Kvasir-SEG/kavsir_bboxes.json"],
        {"Kvasir-SEG/images/a.jpg": "Kvasir-SEG/masks/a.jpg"},
    ),
    "ClinicDB native": (
        "CVC-ClinicDB",
        "Original/Ground Truth",
        ["any/Original/1.tif", "any/Ground Truth/1.tif"],
        {"any/Original/1.tif": "any/Ground Truth/1.tif"},
    ),
    "ClinicDB as PNG, one folder deeper, other case": (
        "CVC-ClinicDB",
        "Original/Ground Truth",
        ["cvc-clinicdb/PNG/ORIGINAL/1.PNG", "cvc-clinicdb/PNG/ground truth/1.PNG"],
        {"cvc-clinicdb/PNG/ORIGINAL/1.PNG": "cvc-clinicdb/PNG/ground truth/1.PNG"},
    ),
    "ColonDB native, with outlines and regions": (
        "CVC-ColonDB",
        "N with pN",
        ["x/1.tiff", "x/p1.tiff", "x/c1.tiff", "x/s1.tiff", "x/10.tiff", "x/p10.tiff"],
        {"x/1.tiff": "x/p1.tiff", "x/10.tiff": "x/p10.tiff"},
    ),
    "ETIS native": (
        "ETIS-LaribPolypDB",
        "N with Ground Truth/pN",
        ["x/1.tif", "x/2.tif", "x/Ground Truth/p1.tif", "x/Ground Truth/p2.tif"],
        {"x/1.tif": "x/Ground Truth/p1.tif", "x/2.tif": "x/Ground Truth/p2.tif"},
    ),
    "ETIS native, images in a folder of their own": (
        "ETIS-LaribPolypDB",
        "N with Ground Truth/pN",
        ["x/ETIS-LaribPolypDB/1.tif", "x/Ground Truth/p1.tif"],
        {"x/ETIS-LaribPolypDB/1.tif": "x/Ground Truth/p1.tif"},
    ),
    "BKAI native": (
        "BKAI-IGH",
        "train/train_gt",
        ["x/train/a.jpeg", "x/train_gt/a.jpeg", "x/test/b.jpeg"],
        {"x/train/a.jpeg": "x/train_gt/a.jpeg"},
    ),
    "BKAI as Kaggle unpacks it": (
        "BKAI-IGH",
        "train/train_gt",
        ["bkai-igh-neopolyp/train/train/a.jpeg", "bkai-igh-neopolyp/train_gt/train_gt/a.jpeg"],
        {"bkai-igh-neopolyp/train/train/a.jpeg": "bkai-igh-neopolyp/train_gt/train_gt/a.jpeg"},
    ),
    "bundle of a known name": (
        "ETIS-LaribPolypDB",
        "images/masks",
        ["ETIS/images/1.png", "ETIS/masks/1.png"],
        {"ETIS/images/1.png": "ETIS/masks/1.png"},
    ),
    "bundle of an unknown name": (
        "hospital-a",
        "images/masks",
        ["hospital-a/image/1.png", "hospital-a/mask/1.png"],
        {"hospital-a/image/1.png": "hospital-a/mask/1.png"},
    ),
    "unpacked into a folder of its own name": (
        "Kvasir-SEG",
        "images/masks",
        ["Kvasir-SEG/Kvasir-SEG/images/a.jpg", "Kvasir-SEG/Kvasir-SEG/masks/a.jpg"],
        {"Kvasir-SEG/Kvasir-SEG/images/a.jpg": "Kvasir-SEG/Kvasir-SEG/masks/a.jpg"},
    ),
    "one HDF5 file per image": (
        "Kvasir-SEG",
        "one HDF5 file per image",
        ["Kvasir/h5/1.h5", "Kvasir/h5/2.h5"],
        {"Kvasir/h5/1.h5": "Kvasir/h5/1.h5", "Kvasir/h5/2.h5": "Kvasir/h5/2.h5"},
    ),
}


def named(found: Found) -> dict[str, str | None]:
    return {found.relative(p.image): p.mask and found.relative(p.mask) for p in found.pairs}


@pytest.mark.parametrize(("name", "layout", "names", "pairs"), TREES.values(), ids=TREES.keys())
def test_layout(tmp_path: Path, name: str, layout: str, names: list[str], pairs: dict[str, str]) -> None:
    touch(tmp_path, *names)
    (found,) = recognise(tmp_path)
    assert (found.name, found.layout) == (name, layout)
    assert named(found) == pairs
    assert not found.problems


@pytest.mark.parametrize(("name", "layout", "names", "pairs"), TREES.values(), ids=TREES.keys())
def test_system_files_are_passed_over(
    tmp_path: Path, name: str, layout: str, names: list[str], pairs: dict[str, str]
) -> None:
    folders = {str(Path(entry).parent) for entry in names}
    litter = [f"{folder}/{file}" for folder in folders for file in ("._1.png", ".DS_Store", "Thumbs.db", "desktop.ini")]
    touch(tmp_path, *names, *litter, "__MACOSX/readme.txt", ".hidden/images/1.png", ".hidden/masks/1.png")
    (found,) = recognise(tmp_path)
    assert named(found) == pairs
    assert not found.problems


def test_the_root_can_be_the_data_set_itself(tmp_path: Path) -> None:
    touch(tmp_path / "CVC-300", "images/149.png", "masks/149.png")
    (found,) = recognise(tmp_path / "CVC-300")
    assert (found.name, found.pairs[0].id) == ("CVC-300", "149")


def test_bundle_is_taken_apart_and_joined(tmp_path: Path) -> None:
    train = [HASHED, "ck2bxiswtxuw80838qkisqjwz", "1", "20"]
    touch(tmp_path, *(f"TrainDataset/{side}/{stem}.png" for side in ("image", "masks") for stem in train))
    tests = {"Kvasir": "cju1", "CVC-ClinicDB": "3", "CVC-300": "149", "CVC-ColonDB": "149", "ETIS-LaribPolypDB": "1"}
    for name, stem in tests.items():
        touch(tmp_path, f"TestDataset/{name}/images/{stem}.png", f"TestDataset/{name}/masks/{stem}.png")
    found = {entry.name: entry for entry in recognise(tmp_path)}
    assert {name: [pair.id for pair in entry.pairs] for name, entry in found.items()} == {
        "Kvasir-SEG": [HASHED, "cju1", "ck2bxiswtxuw80838qkisqjwz"],
        "CVC-ClinicDB": ["1", "3", "20"],
        "CVC-ColonDB": ["149"],
        "ETIS-LaribPolypDB": ["1"],
        "CVC-300": ["149"],
    }
    assert {entry.layout for entry in found.values()} == {BUNDLE}
    assert not any(entry.problems or entry.note for entry in found.values())


def test_bundle_reports_a_stem_of_both_parts(tmp_path: Path) -> None:
    touch(tmp_path, *(f"TrainDataset/{side}/{stem}.png" for side in ("images", "masks") for stem in ("1", "2")))
    touch(tmp_path, *(f"TestDataset/CVC-ClinicDB/{side}/2.png" for side in ("images", "masks")))
    (found,) = recognise(tmp_path)
    assert [pair.id for pair in found.pairs] == ["1"]
    assert [problem.kind for problem in found.problems] == ["duplicate stem"] * 2


def test_of_two_copies_the_larger_is_taken_and_the_other_named(tmp_path: Path) -> None:
    touch(tmp_path, *(f"CVC-ClinicDB/PNG/{side}/1.png" for side in ("Original", "Ground Truth")))
    touch(tmp_path, *(f"CVC-ClinicDB/TIF/{side}/{n}.tif" for side in ("Original", "Ground Truth") for n in (1, 2)))
    (found,) = recognise(tmp_path)
    assert [pair.image.suffix for pair in found.pairs] == [".tif", ".tif"]
    assert "CVC-ClinicDB/PNG" in found.note


def test_problems_are_found_without_opening_a_picture(tmp_path: Path) -> None:
    touch(tmp_path, "Kvasir/images/1.jpg", "Kvasir/images/2.jpg", "Kvasir/masks/2.jpg", "Kvasir/masks/3.jpg")
    (found,) = recognise(tmp_path)
    assert [(p.kind, p.file) for p in found.problems] == [
        ("missing mask", "Kvasir/images/1.jpg"),
        ("missing image", "Kvasir/masks/3.jpg"),
    ]


def test_data_sets_are_chosen_by_name_or_alias_and_come_in_the_catalogues_order(tmp_path: Path) -> None:
    for name in ("zebra", "CVC-300", "Kvasir", "apple"):
        touch(tmp_path, f"{name}/images/1.png", f"{name}/masks/1.png")
    assert [entry.name for entry in recognise(tmp_path)] == ["Kvasir-SEG", "CVC-300", "apple", "zebra"]
    assert [entry.name for entry in recognise(tmp_path, ["cvc300", "KVASIR"])] == ["Kvasir-SEG", "CVC-300"]
    with pytest.raises(ValueError, match=r"no BKAI-IGH, pear under .*; recognised there: .*zebra"):
        recognise(tmp_path, ["BKAI", "pear", "apple"])


def test_nothing_recognised_says_what_is_there_and_what_is_expected(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.dcm", "a/2.dcm", "b/notes.txt", "readme")
    with pytest.raises(ValueError, match="no data set recognised") as error:
        recognise(tmp_path)
    for part in ("2 .dcm", "1 .txt", "1 without suffix", "images/masks", "TrainDataset", "--images DIR --masks DIR"):
        assert part in str(error.value)


def test_a_root_that_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a folder"):
        recognise(tmp_path / "nowhere")


def test_a_store_is_no_raw_data(tmp_path: Path) -> None:
    touch(tmp_path, "Kvasir-SEG/data.h5", "Kvasir-SEG/manifest.json")
    with pytest.raises(ValueError, match="no data set recognised"):
        recognise(tmp_path)


def test_own_folders(tmp_path: Path) -> None:
    touch(tmp_path, "i/a.png", "i/b.png", "m/a_mask.png", "m/b.png", "u/x/c.jpg", "u/x/d.jpg")
    found = own_folders("mine", tmp_path / "i", tmp_path / "m", tmp_path / "u")
    assert named(found) == {
        "images/a.png": "masks/a_mask.png",
        "images/b.png": "masks/b.png",
        "unlabeled/x/c.jpg": None,
        "unlabeled/x/d.jpg": None,
    }
    assert (found.name, found.layout) == ("mine", "own folders")


def test_unlabelled_alone_needs_no_masks(tmp_path: Path) -> None:
    touch(tmp_path, "c.jpg")
    assert [pair.mask for pair in own_folders("mine", unlabeled=tmp_path).pairs] == [None]


@pytest.mark.parametrize("name", ["", "../up", ".hidden", "a/b", "splits"])
def test_own_name_must_make_a_folder(tmp_path: Path, name: str) -> None:
    touch(tmp_path, "c.jpg")
    with pytest.raises(ValueError, match="cannot name a data set"):
        own_folders(name, unlabeled=tmp_path)


def test_own_folders_that_make_no_sense(tmp_path: Path) -> None:
    touch(tmp_path, "i/a.png", "empty/readme.txt")
    with pytest.raises(ValueError, match="--images and --masks together"):
        own_folders("mine", tmp_path / "i")
    with pytest.raises(ValueError, match="--images and --masks together"):
        own_folders("mine")
    with pytest.raises(ValueError, match="two are the same"):
        own_folders("mine", tmp_path / "i", tmp_path / "i")
    with pytest.raises(ValueError, match=r"--masks .*nowhere is not a folder"):
        own_folders("mine", tmp_path / "i", tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"--masks: no pictures .*(?s:.*)1 \.txt"):
        own_folders("mine", tmp_path / "i", tmp_path / "empty")


def test_real_data(real_data: Path) -> None:
    assert {entry.name: len(entry.pairs) for entry in recognise(real_data)} == {
        "Kvasir-SEG": 1000,
        "CVC-ClinicDB": 612,
        "CVC-ColonDB": 380,
        "ETIS-LaribPolypDB": 196,
        "CVC-300": 60,
    }
