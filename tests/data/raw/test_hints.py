"""Masks the wrong way round: swapped folders, inverted masks, masks in which nothing is marked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fpgm.data.raw.layouts import own_folders, recognise
from fpgm.data.raw.prepare import Outcome, prepare
from fpgm.data.store import Store
from tests.data.pictures import bundle, disc, save


def run(folder: Path, images: str = "images", masks: str = "masks", **options: bool) -> Outcome:
    return prepare(own_folders("mine", folder / images, folder / masks), folder / "store", 32, **options)


def test_good_masks_get_no_hint(tmp_path: Path) -> None:
    assert run(bundle(tmp_path, 4)).hints == ()
    assert run(tmp_path).hints == ()


def test_inverted_masks(tmp_path: Path) -> None:
    bundle(tmp_path, 4)
    for number in (1, 2, 3):
        save(255 - disc(), tmp_path / f"masks/{number}.png")
    for status in ("written", "up to date"):
        outcome = run(tmp_path)
        (hint,) = outcome.hints
        assert outcome.status == status
        assert "3 of 4 masks is most of the image and of its border: are they inverted?" in hint


def test_a_large_polyp_is_not_inverted(tmp_path: Path) -> None:
    bundle(tmp_path, 2)
    mask = np.zeros((48, 64), np.uint8)
    mask[4:-4, 4:-4] = 255  # most of the image, nothing of its border
    for number in (1, 2):
        save(mask, tmp_path / f"masks/{number}.png")
    assert run(tmp_path).hints == ()


def test_swapped_folders(tmp_path: Path) -> None:
    bundle(tmp_path, 4)
    outcome = run(tmp_path, "masks", "images")
    assert outcome.status == "nothing usable"
    assert outcome.hints == (
        "4 of 4 masks are pictures of many colours, and the images look like masks: are --images and --masks swapped?",
    )


def test_frames_without_polyps_are_kept_in_one_s_own_data(tmp_path: Path) -> None:
    bundle(tmp_path, 3)
    save(0 * disc(), tmp_path / "masks/2.png")
    save(0 * disc(), tmp_path / "masks/3.jpg")
    (tmp_path / "masks/3.png").unlink()
    outcome = run(tmp_path)
    store = Store.open(tmp_path / "store/mine")
    assert outcome.problems == () and store.has_mask.all()
    assert (store.foreground > 0).tolist() == [True, False, False]
    assert store.masks([0, 1, 2]).any(axis=(1, 2)).tolist() == [True, False, False]
    assert "kept if every value is 0" in store.manifest.rules["mask"]


def test_a_full_mask_is_still_refused(tmp_path: Path) -> None:
    save(0 * disc() + 255, bundle(tmp_path, 2) / "masks/2.png")
    assert [problem.kind for problem in run(tmp_path).problems] == ["full mask"]


@pytest.mark.parametrize(("keep", "kept"), [(None, 1), (True, 2), (False, 1)])
def test_in_a_public_data_set_they_are_kept_if_asked_for(tmp_path: Path, keep: bool | None, kept: int) -> None:
    save(0 * disc(), bundle(tmp_path / "CVC-300", 2, first=149) / "masks/150.png")
    (found,) = recognise(tmp_path)
    outcome = prepare(found, tmp_path / "store", 32, keep_empty=keep)
    assert outcome.manifest and outcome.manifest.pairs == kept


def test_a_folder_in_which_every_mask_is_empty_is_refused(tmp_path: Path) -> None:
    bundle(tmp_path, 2)
    for number in (1, 2):
        save(0 * disc(), tmp_path / f"masks/{number}.png")
    with pytest.raises(
        ValueError, match="mine: all 2 masks are empty, every value in them is 0; masks are 0/1 or 0/255"
    ):
        run(tmp_path)
    assert not (tmp_path / "store").exists()
