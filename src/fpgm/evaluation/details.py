"""What is examined of one image beside its scores: its polyps, its false alarms, its calibration."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from fpgm.calibration import reliability
from fpgm.regions import TOUCHING
from fpgm.runs.details import ImageDetails

Plane = NDArray[np.float32]


class Item(NamedTuple):
    """One image: id, patient or video if known, predicted and true mask (S, S), foreground probabilities (S, S)."""

    id: str
    group: str | None
    mask: NDArray[np.bool_]
    truth: NDArray[np.uint8]
    probability: Plane


def examine(item: Item) -> ImageDetails:
    """Measure the connected polyps and false alarms of an image, and count its pixels by probability."""
    counts = reliability(item.probability, item.truth)
    return ImageDetails(
        group=item.group,
        polyps=find_polyps(item.mask, item.truth),
        alarms=find_alarms(item.mask, item.truth),
        pixels=tuple(counts.pixels.tolist()),
        foreground=tuple(counts.foreground.tolist()),
        probability=tuple(counts.probability.round(4).tolist()),
    )


def find_polyps(mask: NDArray[np.bool_], truth: NDArray[np.uint8]) -> tuple[tuple[int, int], ...]:
    """Return the pixels of each connected polyp of the true mask (S, S), and how many of them were predicted."""
    return tuple(zip(*_regions(truth != 0, mask), strict=True))


def find_alarms(mask: NDArray[np.bool_], truth: NDArray[np.uint8]) -> tuple[int, ...]:
    """Return the pixels of each connected region of the predicted mask (S, S) that touches no pixel of a polyp."""
    return tuple(area for area, hits in zip(*_regions(mask, truth != 0), strict=True) if not hits)


def _regions(mask: NDArray[np.bool_], other: NDArray[np.bool_]) -> tuple[list[int], list[int]]:
    """Return the pixels of each connected region of a mask, and how many of them another mask has."""
    if not mask.any():
        return [], []
    lines = [np.flatnonzero(mask.any(axis)) for axis in (1, 0)]
    box = tuple(
        slice(there[0], there[-1] + 1) for there in lines
    )  # labelling the whole image takes three times as long
    labels, count = ndimage.label(mask[box], TOUCHING)
    areas = np.bincount(labels.ravel(), minlength=count + 1)
    shared = np.bincount(labels[other[box]], minlength=count + 1)
    return areas[1:].tolist(), shared[1:].tolist()
