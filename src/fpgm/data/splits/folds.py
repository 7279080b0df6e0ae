"""Folds of the labelled images for a cross-validation, whole groups at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from fpgm.data.splits.dividing import draw_generator, linked
from fpgm.data.splits.duplicates import gather
from fpgm.data.splits.split import Split, dataset_of
from fpgm.data.store import Store


class LabeledFold(NamedTuple):
    """A split without some labelled images, the number of its labelled ones, and those images."""

    split: Split
    labeled: int
    held_out: tuple[str, ...]


def labeled_folds(stores: Mapping[str, Store], split: Split, labeled: str | int, count: int) -> list[LabeledFold]:
    """Divide the labelled images into folds of nearly equal size, at random by the seed of the split.

    Images that share a video, a given group or near duplicates are in one fold; unlabelled images that are linked to
    the images of a fold are left out of its training.

    Args:
        stores: the data sets of the train images, or more.
        split: the split; its validation, test and unseen images stay as they are.
        labeled: the labelled images, as `Split.labeled` takes them.
        count: number of folds, two or more.
    """
    chosen = set(split.labeled(labeled))
    names = {dataset_of(id_) for id_ in split.train}
    groups = linked(gather({name: store for name, store in stores.items() if name in names}))
    groups = [group for group in groups if chosen & set(group)]
    if len(groups) < 2:
        raise ValueError(
            f"--cross-validate {count}: the {len(chosen)} labelled images are all of one video, patient or group of "
            "near duplicates, which is not cut: label images of others, or omit --cross-validate"
        )
    if not 2 <= count <= len(groups):
        raise ValueError(
            f"--cross-validate {count}: the {len(chosen)} labelled images are of {len(groups)} groups that are not cut "
            f"(videos, patients, near duplicates): give 2 to {len(groups)}"
        )
    return [_without(split, len(chosen), set(fold)) for fold in _deal(groups, chosen, count, split.seed)]


def _deal(groups: list[list[str]], chosen: set[str], count: int, seed: int) -> list[list[str]]:
    """Give the groups, in random order and large ones first, each to the fold with the fewest labelled images."""
    order = [groups[k] for k in draw_generator(seed, "folds").permutation(len(groups))]
    folds: list[list[str]] = [[] for _ in range(count)]
    for group in sorted(order, key=lambda group: -len(chosen & set(group))):
        min(folds, key=lambda fold: len(chosen & set(fold))).extend(group)
    return folds


def _without(split: Split, labeled: int, fold: set[str]) -> LabeledFold:
    """Leave the images of a fold out of train."""
    held_out = tuple(id_ for id_ in split.train[:labeled] if id_ in fold)
    train = tuple(id_ for id_ in split.train if id_ not in fold)
    bare = split.train[len(split.train) - split.without_mask :]
    kept = replace(split, train=train, without_mask=sum(id_ not in fold for id_ in bare))
    return LabeledFold(kept, labeled - len(held_out), held_out)
