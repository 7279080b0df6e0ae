"""Splits, and draws of their labelled images, as axes of a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from fpgm.data.splits.split import Split
from fpgm.experiments.folds import Fold, find_split, make_folds
from fpgm.experiments.plan import plan


@pytest.fixture
def store(phantom_store: Path, tmp_path: Path) -> Path:
    """The phantoms without splits."""
    folder = tmp_path / "store"
    folder.mkdir()
    for one in phantom_store.glob("phantom-*"):
        (folder / one.name).symlink_to(one)
    return folder


def test_folds_are_protocols_times_splits_times_draws() -> None:
    folds = make_folds(["paper", "strict"], [0, 1], [0, 2])
    assert len(folds) == 8 and len({fold.folder for fold in folds}) == len({fold.split for fold in folds}) == 8
    assert folds[0].folder == "paper" and folds[0].split == "paper-0"  # as before there were others
    assert folds[-1].folder == "strict-split-1-draw-2" and folds[-1].split == "strict-1-draw-2"


def test_a_draw_changes_the_labelled_images_alone(store: Path) -> None:
    first, second = (find_split(store, Fold("strict", draw=draw), save=True) for draw in (0, 1))
    assert (
        second
        == Split.load(store / "splits" / "strict-0-draw-1")
        == find_split(store, Fold("strict", draw=1), save=False)
    )
    for part in ("validation", "test", "unseen"):
        assert getattr(first, part) == getattr(second, part)
    assert sorted(first.train) == sorted(second.train) and first.labeled("20%") != second.labeled("20%")
    other = find_split(store, Fold("strict", seed=1), save=False)
    assert set(other.test) != set(first.test)
    with pytest.raises(ValueError, match="strict-0-draw-2 holds a split strict-0-draw-1: rename"):
        (store / "splits" / "strict-0-draw-1").rename(store / "splits" / "strict-0-draw-2")
        find_split(store, Fold("strict", draw=2), save=False)


def test_images_without_masks_stay_at_the_end() -> None:
    split = Split(tuple(f"a/{k}" for k in range(20)), (), ("a/t",), (), "paper", 0, without_mask=5)
    drawn = split.redrawn(3)
    assert drawn.train[15:] == split.train[15:] and sorted(drawn.train[:15]) == sorted(split.train[:15])
    assert drawn.redrawn(3) is drawn and drawn == split.redrawn(3) != split.redrawn(4)


def test_rows_may_have_iterations_of_their_own(tmp_path: Path) -> None:
    options = {"store": tmp_path, "out": tmp_path, "methods": ["supervised", "fpgm"], "labeled": ["5%"]}
    cells = plan(["main"], settings=["train.iterations=7"], iterations={"fpgm": 3}, **options)  # type: ignore[arg-type]  # of several types
    assert [cell.config().train.iterations for cell in cells] == [7, 3]
    with pytest.raises(ValueError, match="--iterations names 'fpg', which is no row; near it: fpgm"):
        plan(["main"], iterations={"fpg": 3}, **options)  # type: ignore[arg-type]  # settings by **
