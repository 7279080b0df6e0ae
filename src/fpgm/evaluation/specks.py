"""The smallest area of a polyp, chosen on validation images: smaller regions of a mask are specks.

N images of S x S pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fpgm.evaluation.details import find_alarms, find_polyps
from fpgm.evaluation.scoring import predict_masks
from fpgm.regions import Mask, clean
from fpgm.runs.card import LeastArea

if TYPE_CHECKING:
    import torch
    from torch import nn

    from fpgm.data.batches.pool import Pool

MOST_LOST = 0.01  # of the polyps that were found
MOST_DICE_LOST = 0.001
_BATCH = 16


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
    for start in range(0, len(pool), _BATCH):
        chosen = np.arange(start, min(start + _BATCH, len(pool)))
        masks.extend(predict_masks(net, pool.images(chosen), device))
        truths.extend(pool.masks(chosen))
    return least_area(masks, truths)


def least_area(masks: Sequence[Mask], truths: Sequence[NDArray[np.uint8]]) -> LeastArea:
    """Return the largest area that costs next to nothing for predicted and true masks (S, S).

    Without the smaller regions at most `MOST_LOST` of the polyps that were found are lost, and the mean Dice is lower
    by `MOST_DICE_LOST` at most. It is no larger than the largest of these polyps.
    """
    polyps = [
        area for mask, truth in zip(masks, truths, strict=True) for area, hits in find_polyps(mask, truth) if hits
    ]
    before = now = _measure(masks, truths, 1)
    area, most = 1, max(polyps, default=1)
    while area < most:
        later = _measure(masks, truths, area + 1)
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


class _Measured(NamedTuple):
    """Mean Dice, polyps of which a pixel was found, and regions that touch no polyp."""

    dice: float
    found: int
    alarms: int


def _measure(masks: Sequence[Mask], truths: Sequence[NDArray[np.uint8]], area: int) -> _Measured:
    """Measure masks without regions of fewer pixels."""
    dice, found, alarms = [], 0, 0
    for mask, truth in zip(masks, truths, strict=True):
        kept, true = clean(mask, min_area=area), truth != 0
        total = np.count_nonzero(kept) + np.count_nonzero(true)
        dice.append(2 * np.count_nonzero(kept & true) / total if total else 1.0)
        found += sum(hits > 0 for _, hits in find_polyps(kept, truth))
        alarms += len(find_alarms(kept, truth))
    return _Measured(float(np.mean(dice)), found, alarms)
