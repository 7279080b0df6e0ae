"""Folders that are divided already: hand-made trees with the table of ids, parts and masks that they must give."""

from __future__ import annotations

from pathlib import Path

import pytest

from fpgm.data.raw.layouts import BUNDLE, own_folders, recognise
from tests.data.pictures import touch

Row = tuple[str, str | None, str]  # id, part, mask


def both(folder: str, *stems: str, masks: str = "masks") -> list[str]:
    return [f"{folder}/{side}/{stem}.png" for side in ("images", masks) for stem in stems]


# name, files, rows, files left out
TREES: dict[str, tuple[str, list[str], list[Row], list[str]]] = {
    "part folders with equal stems": (
        "mydata",
        [*both("mydata/train", "1", "2"), *both("mydata/val", "1"), *both("mydata/test", "1")],
        [
            ("test/1", "test", "mydata/test/masks/1.png"),
            ("train/1", "train", "mydata/train/masks/1.png"),
            ("train/2", "train", "mydata/train/masks/2.png"),
            ("validation/1", "validation", "mydata/val/masks/1.png"),
        ],
        [],
    ),
    "other names of parts, labels, patients below": (
        "mydata",
        [*both("mydata/Training", "p1/1", masks="labels"), *both("mydata/valid", "p2/1", masks="labels")],
        [
            ("train/p1/1", "train", "mydata/Training/labels/p1/1.png"),
            ("validation/p2/1", "validation", "mydata/valid/labels/p2/1.png"),
        ],
        [],
    ),
    "YOLO, val and valid": (
        "mydata",
        [
            "mydata/images/train/1.jpg",
            "mydata/images/val/1.jpg",
            "mydata/images/val/2.jpg",
            "mydata/labels/train/1.png",
            "mydata/labels/valid/1.png",
            "mydata/labels/valid/2.png",
        ],
        [
            ("train/1", "train", "mydata/labels/train/1.png"),
            ("validation/1", "validation", "mydata/labels/valid/1.png"),
            ("validation/2", "validation", "mydata/labels/valid/2.png"),
        ],
        [],
    ),
    "nnU-Net with a labelled test set": (
        "Dataset7_Polyp",
        [
            "Dataset7_Polyp/imagesTr/a_1_0000.png",
            "Dataset7_Polyp/labelsTr/a_1.png",
            "Dataset7_Polyp/dataset.json",
            "Dataset7_Polyp/imagesTs/a_2_0000.png",
            "Dataset7_Polyp/labelsTs/a_2.png",
        ],
        [
            ("test/a_2", "test", "Dataset7_Polyp/labelsTs/a_2.png"),
            ("train/a_1", "train", "Dataset7_Polyp/labelsTr/a_1.png"),
        ],
        [],
    ),
    "nnU-Net without labels of the test set: that is not a split, and these are not trained on": (
        "Dataset7_Polyp",
        ["Dataset7_Polyp/imagesTr/a_0000.png", "Dataset7_Polyp/labelsTr/a.png", "Dataset7_Polyp/imagesTs/b_0000.png"],
        [("train/a", None, "Dataset7_Polyp/labelsTr/a.png")],
        ["Dataset7_Polyp/imagesTs/b_0000.png"],
    ),
    "nnU-Net of two channels is not a colour picture": (
        "d",
        [
            "d/imagesTr/a_0000.png",
            "d/imagesTr/a_0001.png",
            "d/imagesTr/b_0000.png",
            "d/labelsTr/a.png",
            "d/labelsTr/b.png",
        ],
        [("b", None, "d/labelsTr/b.png")],
        ["d/imagesTr/a_0000.png", "d/imagesTr/a_0001.png", "d/labelsTr/a.png"],
    ),
    "a test folder without masks": (
        "mydata",
        [*both("mydata/train", "1"), "mydata/test/images/2.png"],
        [("train/1", None, "mydata/train/masks/1.png")],
        ["mydata/test/images/2.png"],
    ),
    "masks beside images, in parts": (
        "mydata",
        ["mydata/train/a.jpg", "mydata/train/a_mask.png", "mydata/test/a.jpg", "mydata/test/a_gt.png"],
        [("test/a", "test", "mydata/test/a_gt.png"), ("train/a", "train", "mydata/train/a_mask.png")],
        [],
    ),
    "a train folder alone is not a split": (
        "train",
        both("mydata/train", "1"),
        [("1", None, "mydata/train/masks/1.png")],
        [],
    ),
    "a public data set keeps its ids": (
        "Kvasir-SEG",
        [*both("Kvasir-SEG/train", "a"), *both("Kvasir-SEG/val", "b")],
        [("a", "train", "Kvasir-SEG/train/masks/a.png"), ("b", "validation", "Kvasir-SEG/val/masks/b.png")],
        [],
    ),
}


@pytest.mark.parametrize(("name", "names", "rows", "left_out"), TREES.values(), ids=TREES.keys())
def test_tree(tmp_path: Path, name: str, names: list[str], rows: list[Row], left_out: list[str]) -> None:
    touch(tmp_path, *names)
    (found,) = recognise(tmp_path)
    assert found.name == name
    assert [(pair.id, pair.part, found.relative(pair.mask or pair.image)) for pair in found.pairs] == rows
    assert [problem.file for problem in found.problems] == left_out


def test_own_folders_are_divided_too(tmp_path: Path) -> None:
    touch(tmp_path, "i/train/1.png", "i/test/1.png", "m/train/1.png", "m/test/1.png", "u/train/9.png")
    found = own_folders("mine", tmp_path / "i", tmp_path / "m", tmp_path / "u")
    assert [(pair.id, pair.part) for pair in found.pairs] == [
        ("test/1", "test"),
        ("train/1", "train"),
        ("train/9", None),  # unlabelled: it can only be trained on
    ]


def test_a_file_beside_the_parts_makes_them_folders_like_others(tmp_path: Path) -> None:
    touch(tmp_path, "i/train/1.png", "i/test/1.png", "i/2.png", "m/train/1.png", "m/test/1.png", "m/2.png")
    found = own_folders("mine", tmp_path / "i", tmp_path / "m")
    assert {(pair.id, pair.part) for pair in found.pairs} == {("2", None), ("train/1", None), ("test/1", None)}


def test_the_bundle_says_which_part_an_image_is_in(tmp_path: Path) -> None:
    touch(tmp_path, *(f"TrainDataset/{side}/{stem}.png" for side in ("image", "masks") for stem in ("1", "cju0")))
    touch(tmp_path, *both("TestDataset/CVC-ClinicDB", "2"), *both("TestDataset/CVC-300", "149"))
    found = recognise(tmp_path)
    assert {one.layout for one in found} == {BUNDLE}
    assert {(one.name, pair.id, pair.part) for one in found for pair in one.pairs} == {
        ("Kvasir-SEG", "cju0", "train"),
        ("CVC-ClinicDB", "1", "train"),
        ("CVC-ClinicDB", "2", "test"),
        ("CVC-300", "149", "test"),
    }
