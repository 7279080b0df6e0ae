"""Layouts that are common beside those of the public data sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from fpgm.data.raw.layouts import add_unlabeled, own_folders, recognise, rename
from tests.data.pictures import touch


def rows(root: Path) -> dict[str, list[tuple[str, str | None]]]:
    return {one.name: [(p.id, p.mask and one.relative(p.mask)) for p in one.pairs] for one in recognise(root)}


def test_masks_beside_their_images(tmp_path: Path) -> None:
    names = ["a.jpg", "a_mask.png", "b.jpg", "b_seg.png", "c.jpg", "c-gt.png", "d_mask.jpg", "e.jpg", "mask_e.png"]
    touch(tmp_path / "clinic", *names)
    expected = [
        ("a", "clinic/a_mask.png"),
        ("b", "clinic/b_seg.png"),
        ("c", "clinic/c-gt.png"),
        ("e", "clinic/mask_e.png"),
    ]
    assert rows(tmp_path) == {"clinic": expected}
    (found,) = recognise(tmp_path)
    assert [(p.kind, p.file) for p in found.problems] == [("missing mask", "clinic/d_mask.jpg")]


def test_masks_beside_their_images_in_the_user_s_folder(tmp_path: Path) -> None:
    touch(tmp_path, "p1/a.jpg", "p1/a_mask.png", "p2/a.jpg", "p2/a_mask.png")
    found = own_folders("mine", tmp_path, tmp_path)
    assert [(p.id, p.mask and found.relative(p.mask)) for p in found.pairs] == [
        ("p1/a", "images/p1/a_mask.png"),
        ("p2/a", "images/p2/a_mask.png"),
    ]


def test_images_and_labels_with_patients(tmp_path: Path) -> None:
    touch(tmp_path, *(f"clinic/{side}/{file}.png" for side in ("images", "labels") for file in ("p1/1", "p2/1", "3")))
    assert rows(tmp_path) == {
        "clinic": [("3", "clinic/labels/3.png"), ("p1/1", "clinic/labels/p1/1.png"), ("p2/1", "clinic/labels/p2/1.png")]
    }


@pytest.mark.parametrize("folder", ["PolypGen2021_v3/data_C{0}/", "PolypGen2021_v3/"])
def test_each_centre_of_polypgen_is_a_data_set(tmp_path: Path, folder: str) -> None:
    for centre in (1, 6):
        touch(tmp_path / folder.format(centre), f"images_C{centre}/x.jpg", f"masks_C{centre}/x_mask.jpg")
    assert {name: [id_ for id_, _ in pairs] for name, pairs in rows(tmp_path).items()} == {
        "PolypGen-C1": ["x"],
        "PolypGen-C6": ["x"],
    }
    assert [one.name for one in rename(recognise(tmp_path), "mine")] == ["mine-C1", "mine-C6"]


def test_one_data_set_can_be_named(tmp_path: Path) -> None:
    touch(tmp_path, "a/images/1.png", "a/masks/1.png")
    assert [one.name for one in rename(recognise(tmp_path), "clinic")] == ["clinic"]
    touch(tmp_path, "b/images/1.png", "b/masks/1.png")
    with pytest.raises(ValueError, match="--name clinic is for one data set, but there are a, b"):
        rename(recognise(tmp_path), "clinic")


def test_test_images_without_masks_are_used_if_they_are_given_as_unlabelled(tmp_path: Path) -> None:
    touch(tmp_path, "d/imagesTr/a_0000.png", "d/labelsTr/a.png", "d/imagesTs/b_0000.png")
    (found,) = recognise(tmp_path)
    more = add_unlabeled(found, tmp_path / "d/imagesTs")
    assert [(pair.id, pair.part, pair.mask is None) for pair in more.pairs] == [
        ("b_0000", None, True),
        ("train/a", None, False),
    ]
    assert not more.problems
