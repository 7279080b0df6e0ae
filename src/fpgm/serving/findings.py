"""Findings of a mask: each connected polyp with its area, confidence and box. H x W is an image."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from fpgm.regions import TOUCHING, Mask

Plane = NDArray[np.float32]


def check_finite(probabilities: Plane) -> Plane:
    """Return probabilities as they are; refuse those of a network that gave something else than numbers."""
    if not np.isfinite(probabilities).all():
        raise ValueError(
            "the network gives values that are not finite, of which no mask can be made: its training has diverged or "
            "its file was changed. Use another model"
        )
    return probabilities


class Finding(NamedTuple):
    """One polyp.

    Attributes:
        area: its pixels.
        confidence: mean foreground probability over them.
        box: left, top, width and height in pixels.
        disagreement: mean disagreement of a combined model's members over its pixels; None of a single model.

    Examples:
        >>> Finding(area=120, confidence=0.9, box=(4, 8, 12, 10)).box
        (4, 8, 12, 10)
    """

    area: int
    confidence: float
    box: tuple[int, int, int, int]
    disagreement: float | None = None


def describe(mask: Mask, probability: Plane, disagreement: Plane | None = None) -> list[Finding]:
    """Return the connected polyps of a mask (H, W) with probabilities (H, W), the largest first.

    Args:
        mask: the mask.
        probability: foreground probabilities.
        disagreement: where the members of a combined model disagree (H, W), if it is one.

    Examples:
        >>> mask = np.zeros((32, 32), bool)
        >>> mask[4:8, 10:20] = True
        >>> [found] = describe(mask, np.where(mask, 0.75, 0.1).astype(np.float32))
        >>> found.area, found.confidence, found.box
        (40, 0.75, (10, 4, 10, 4))
    """
    if mask.shape != probability.shape:
        raise ValueError(f"the mask is {mask.shape}, the probability {probability.shape}: give them of one size")
    labels, _ = ndimage.label(mask, TOUCHING)
    found = []
    for number, (rows, columns) in enumerate(ndimage.find_objects(labels), start=1):
        inside = labels[rows, columns] == number
        confidence = float(probability[rows, columns][inside].mean(dtype=np.float64))
        box = columns.start, rows.start, columns.stop - columns.start, rows.stop - rows.start
        spread = None if disagreement is None else float(disagreement[rows, columns][inside].mean(dtype=np.float64))
        found.append(Finding(int(inside.sum()), confidence, box, spread))
    return sorted(found, key=lambda one: (-one.area, one.box))
