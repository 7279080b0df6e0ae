"""Folds of the labelled images."""

from __future__ import annotations

import pytest

from fpgm.data.splits.folds import labeled_folds
from fpgm.data.splits.split import Split
from tests.data.making import Listed, own


def whole(count: int = 24, labeled: int = 20) -> tuple[dict[str, Listed], Split]:
    """Images 0, 1, … to train on, of which those from `labeled` on have no mask; `far` is not trained on."""
    bare = {str(k) for k in range(labeled, count)}
    train = tuple(f"mine/{k}" for k in range(count))
    split = Split(train, ("far/0",), ("far/1",), (), "given", 0, without_mask=count - labeled)
    return {"mine": own("mine", count, bare), "far": own("far", 2, seed=1)}, split


def test_each_labelled_image_is_held_out_once() -> None:
    stores, split = whole()
    folds = labeled_folds(stores, split, "all", 3)
    assert sorted(len(fold.held_out) for fold in folds) == [6, 7, 7]
    assert sorted(id_ for fold in folds for id_ in fold.held_out) == sorted(split.train[:20])
    for fold in folds:
        assert fold.split.train == tuple(id_ for id_ in split.train if id_ not in fold.held_out)
        assert fold.split.labeled(fold.labeled) == [id_ for id_ in split.train[:20] if id_ not in fold.held_out]
        assert (fold.split.without_mask, fold.split.validation, fold.split.test) == (4, ("far/0",), ("far/1",))
    assert folds == labeled_folds(stores, split, "all", 3)


def test_masks_that_are_held_back_are_in_no_fold() -> None:
    stores, split = whole()
    folds = labeled_folds(stores, split, "10", 2)
    assert {id_ for fold in folds for id_ in fold.held_out} == set(split.train[:10])
    assert all(fold.labeled == 5 and len(fold.split.train) == 19 for fold in folds)


def test_groups_are_not_cut_and_their_unlabelled_images_stay_out() -> None:
    stores, split = whole()
    stores["mine"].groups = {str(k): f"p{k % 4}" for k in range(22)}  # 20 and 21 are unlabelled, of p0 and p1
    folds = labeled_folds(stores, split, "all", 4)
    for fold in folds:
        (patient,) = {int(id_[5:]) % 4 for id_ in fold.held_out}
        assert len(fold.held_out) == 5
        assert ("mine/20" in fold.split.train) == (patient != 0)
        assert ("mine/21" in fold.split.train) == (patient != 1)
        assert fold.split.without_mask == (3 if patient < 2 else 4)


@pytest.mark.parametrize("count", [1, 5])
def test_more_folds_than_groups_are_refused(count: int) -> None:
    stores, split = whole()
    stores["mine"].groups = {str(k): f"p{k % 4}" for k in range(20)}
    with pytest.raises(ValueError, match=f"--cross-validate {count}: the 20 labelled images are of 4 groups"):
        labeled_folds(stores, split, "all", count)


def test_one_group_makes_no_folds() -> None:
    stores, split = whole()
    stores["mine"].groups = {str(k): "p0" for k in range(20)}
    with pytest.raises(ValueError, match="the 20 labelled images are all of one video, patient or group"):
        labeled_folds(stores, split, "all", 2)
