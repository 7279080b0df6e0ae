"""Predictions as pictures: mask, probabilities, overlay. H x W is the picture."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image
from scipy import ndimage

from fpgm.files import atomic_path
from fpgm.regions import Mask
from fpgm.serving.findings import Plane
from fpgm.serving.predictor import Predicted

Kind = Literal["masks", "probabilities", "overlays", "disagreements", "films"]
SUFFIXES: Mapping[Kind, str] = {
    "masks": ".png",
    "probabilities": ".png",
    "overlays": ".jpg",
    "disagreements": ".png",
    "films": ".mp4",  # one of all frames; the others are pictures
}
COLOUR = (255, 212, 0)
_QUICK = {"compress_type": zlib.Z_RLE}  # a third of the time of the usual PNG, a tenth more bytes


def mask_picture(mask: Mask) -> Image.Image:
    """Return a mask (H, W) as 8-bit grey: 255 where a polyp is, 0 elsewhere."""
    return Image.fromarray(mask.astype(np.uint8) * np.uint8(255))


def probability_picture(probability: Plane) -> Image.Image:
    """Return probabilities (H, W) as 16-bit grey: 65535 times the probability, rounded."""
    return Image.fromarray(np.rint(probability * 65535).astype(np.uint16))


def overlay(picture: Image.Image, mask: Mask) -> Image.Image:
    """Draw the outline of a mask (H, W) around its polyps, so that they stay visible; its width follows the size."""
    pixels = np.array(picture.convert("RGB"))
    width = max(2, round(max(mask.shape) / 300))
    for rows, columns in ndimage.find_objects(mask.astype(np.uint8)):
        near = _grown(rows, width), _grown(columns, width)
        inside = mask[near]
        around = ndimage.binary_dilation(inside, ndimage.generate_binary_structure(2, 1), width) & ~inside
        pixels[near][around] = COLOUR
    return Image.fromarray(pixels)


def save_pictures(out: Path, name: str, picture: Image.Image, found: Predicted, kinds: Iterable[Kind]) -> None:
    """Write OUT/<kind>/<name> for each kind of picture, each atomically."""
    for kind in kinds:
        if kind == "films":
            continue
        with atomic_path(place(out, kind, name)) as draft:
            if kind == "masks":
                mask_picture(found.mask).save(draft, "PNG", **_QUICK)
            elif kind == "probabilities":
                probability_picture(found.probability).save(draft, "PNG", **_QUICK)
            elif kind == "disagreements":
                assert found.disagreement is not None
                probability_picture(found.disagreement).save(draft, "PNG", **_QUICK)
            else:
                overlay(picture, found.mask).save(draft, "JPEG", quality=92, subsampling=0)


def place(out: Path, kind: Kind, name: str) -> Path:
    """Return the file of a kind for a name, which may have folders in it."""
    return out / kind / f"{name}{SUFFIXES[kind]}"


def _grown(side: slice, width: int) -> slice:
    return slice(max(side.start - width, 0), side.stop + width)
