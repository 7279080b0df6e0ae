"""Folders below folders, and the files that are not read."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from fpgm.data import pictures
from fpgm.data.raw.layouts import own_folders, recognise, unread_files
from fpgm.data.raw.walk import pictures_below
from tests.data.pictures import touch


def names(folder: Path) -> list[str]:
    return [one.id for one in pictures_below(folder)]


def test_every_folder_below_is_read_once(tmp_path: Path) -> None:
    touch(
        tmp_path, "10.png", "9.jpg", "p2/1.png", "p10/1.png", "p2/v/1.bmp", ".hidden/1.png", "__MACOSX/1.png", "a.txt"
    )
    (tmp_path / "p2/loop").symlink_to(tmp_path)
    assert names(tmp_path) == ["9", "10", "p2/1", "p2/v/1", "p10/1"]


def test_a_folder_in_a_folder_of_its_name_is_not_a_place(tmp_path: Path) -> None:
    touch(tmp_path, "frames/Frames/1.png", "frames/Frames/p/2.png")
    assert names(tmp_path / "frames") == ["1", "p/2"]


def test_images_and_masks_in_folders_below_pair_by_place_then_by_the_only_stem(tmp_path: Path) -> None:
    touch(tmp_path, "i/p1/1.png", "i/p2/1.png", "i/p2/2.png", "i/p3/7.png", "i/0.png", "i/p4/8.png", "i/p5/8.png")
    touch(tmp_path, "m/p1/1.png", "m/p2/1_mask.png", "m/2.png", "m/other/7.png", "m/0.png", "m/p6/8.png", "m/9.png")
    found = own_folders("mine", tmp_path / "i", tmp_path / "m")
    assert {pair.id: pair.mask and found.relative(pair.mask) for pair in found.pairs} == {
        "0": "masks/0.png",
        "p1/1": "masks/p1/1.png",
        "p2/1": "masks/p2/1_mask.png",
        "p2/2": "masks/2.png",
        "p3/7": "masks/other/7.png",
    }
    assert [(problem.kind, problem.file) for problem in found.problems] == [
        ("missing mask", "images/p4/8.png"),
        ("missing mask", "images/p5/8.png"),
        ("missing image", "masks/9.png"),
        ("missing image", "masks/p6/8.png"),  # of one of two patients: nobody can tell
    ]


def test_a_mask_of_another_patient_is_not_taken(tmp_path: Path) -> None:
    touch(tmp_path, "i/p1/1.png", "i/p2/1.png", "m/p1/1.png", "m/p3/1.png")
    found = own_folders("mine", tmp_path / "i", tmp_path / "m")
    assert [pair.id for pair in found.pairs] == ["p1/1"]


def test_folders_that_lie_in_each_other(tmp_path: Path) -> None:
    touch(tmp_path, "a.png", "b.png", "masks/a.png", "masks/b.png", "more/c.png")
    found = own_folders("mine", tmp_path, tmp_path / "masks", tmp_path / "more")
    assert [(pair.id, pair.mask is not None) for pair in found.pairs] == [("a", True), ("b", True), ("c", False)]
    assert not found.problems and unread_files([found]) == {}


def test_what_is_not_read_is_counted_by_kind(tmp_path: Path) -> None:
    touch(tmp_path, "x/images/1.png", "x/masks/1.png", "x/images/2.HEIC", "x/images/3.heic", "x/notes.txt", "x/README")
    touch(
        tmp_path, "x/images/lonely.png", "y/z.jpg", "Thumbs.db", ".DS_Store", "store/s/manifest.json", "store/s/data.h5"
    )
    (found,) = recognise(tmp_path)
    assert unread_files([found]) == {".heic": 2, ".jpg": 1, ".txt": 1, "without suffix": 1}
    assert unread_files([found], everywhere=False) == {".heic": 2, ".txt": 1, "without suffix": 1}  # of x alone
    assert [problem.file for problem in found.problems] == ["x/images/lonely.png"]


def test_without_pydicom_its_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    touch(tmp_path, "i/1.png", "i/2.dcm", "m/1.png")
    found = own_folders("mine", tmp_path / "i", tmp_path / "m")
    assert unread_files([found]) == {".dcm": 1}
    assert pictures.readable() == pictures.PICTURES
