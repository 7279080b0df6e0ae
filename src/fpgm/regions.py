"""Connected regions of masks: which pixels are one region, and masks without the small ones. H x W is an image."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Mask = NDArray[np.bool_]
TOUCHING = np.ones((3, 3), bool)  # pixels that touch, at a corner too, are one region


def clean(mask: Mask, *, keep_largest: bool = False, min_area: int = 0) -> Mask:
    """Return the mask (H, W) without regions of fewer pixels than `min_area`, or with the largest region alone."""
    if not (keep_largest or min_area > 1) or not mask.any():
        return mask
    labels, _ = ndimage.label(mask, TOUCHING)
    areas = np.bincount(labels.ravel())
    areas[0] = 0
    kept = areas >= max(min_area, 1)
    if keep_largest:
        kept &= np.arange(len(areas)) == areas.argmax()
    cleaned: Mask = kept[labels]
    return cleaned
