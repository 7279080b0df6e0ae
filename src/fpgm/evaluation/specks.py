"""The smallest area of a polyp, chosen on validation images: smaller regions of a mask are specks.

N images of S x S pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from fpgm.evaluation.scoring import foreground_masks, passes
from fpgm.regions import TOUCHING, Mask
from fpgm.runs.card import LeastArea

if TYPE_CHECKING:
    import torch
    from torch import nn

    from fpgm.data.batches.pool import Pool

MOST_LOST = 0.01  # of the polyps that were found
MOST_DICE_LOST = 0.001


def choose_least_area(net: nn.Module, pool: Pool, *, device: torch.device) -> LeastArea:
    """Put a network in evaluation mode, and choose the smallest area of a polyp on validation images; see `least_area`.

    Args:
        net: (B, 3, H, W) in [0, 1] → logits.
        pool: validation images with masks.
        device: device of the network.
    """
    net.eval()
    masks: list[Mask] = []
    truths: list[NDArray[np.uint8]] = []
    for chosen, logits in passes(net, pool, device):
        masks.extend(foreground_masks(logits))
        truths.extend(pool.masks(chosen))
    return least_area(masks, truths)


def least_area(masks: Sequence[Mask], truths: Sequence[NDArray[np.uint8]]) -> LeastArea:
    """Return the largest area that costs next to nothing for predicted and true masks (S, S).

    Without the smaller regions at most `MOST_LOST` of the polyps that were found are lost, and the mean Dice is lower
    by `MOST_DICE_LOST` at most. It is no larger than the largest of these polyps.
    """
    images = [_describe(mask, truth != 0) for mask, truth in zip(masks, truths, strict=True)]
    sizes = set(np.concatenate([image.areas for image in images]).tolist())
    most = max((int(image.polyps[image.found > 0].max(initial=1)) for image in images), default=1)
    before = now = _measure(images, 1)
    area = 1
    while area < most:
        later = _measure(images, area + 1) if area in sizes else now
        lost = before.found - later.found
        if lost > MOST_LOST * before.found or before.dice - later.dice > MOST_DICE_LOST:
            break
        area, now = area + 1, later
    return LeastArea(
        share=area / masks[0].size,
        images=len(masks),
        dice_before=round(before.dice, 6),
        dice_after=round(now.dice, 6),
        alarms_before=before.alarms,
        alarms_after=now.alarms,
        found_before=before.found,
        found_after=now.found,
    )


class _Image(NamedTuple):
    """One image: its predicted regions and its polyps, in pixels.

    Attributes:
        areas: pixels of each predicted region.
        hits: how many of them are of a polyp.
        polyps: pixels of each polyp.
        found: area of the largest region that touches it; 0: none does.
    """

    areas: NDArray[np.int64]
    hits: NDArray[np.int64]
    polyps: NDArray[np.int64]
    found: NDArray[np.int64]


def _describe(mask: Mask, truth: Mask) -> _Image:
    regions, polyps = (ndimage.label(plane, TOUCHING)[0].ravel() for plane in (mask, truth))
    areas = np.bincount(regions)
    areas[0] = 0  # the background
    hits = np.bincount(regions[polyps > 0], minlength=len(areas))
    sizes = np.bincount(polyps)
    found = np.zeros_like(sizes)
    np.maximum.at(found, polyps, areas[regions])
    return _Image(areas[1:], hits[1:], sizes[1:], found[1:])


class _Measured(NamedTuple):
    """Mean Dice, polyps of which a pixel was found, and regions that touch no polyp."""

    dice: float
    found: int
    alarms: int


def _measure(images: Sequence[_Image], area: int) -> _Measured:
    """Measure masks without regions of fewer pixels."""
    dice, found, alarms = [], 0, 0
    for image in images:
        kept = image.areas >= area
        total = image.areas[kept].sum() + image.polyps.sum()
        dice.append(2 * image.hits[kept].sum() / total if total else 1.0)
        found += int(np.count_nonzero(image.found >= area))
        alarms += int(np.count_nonzero(image.hits[kept] == 0))
    return _Measured(float(np.mean(dice)), found, alarms)
