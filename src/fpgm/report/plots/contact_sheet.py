"""Contact sheets: many pictures in a grid, with the outlines of their masks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from fpgm.files import atomic_path

Pixels = NDArray[np.uint8]
_GAP = 4
_OUTLINE = (0, 255, 120)


def contact_sheet(
    images: Sequence[Pixels],
    masks: Sequence[Pixels] | None,
    path: Path,
    columns: int = 8,
    captions: Sequence[str] = (),
) -> None:
    """Write a PNG of images (S, S, 3) in rows of ``columns``, with the outlines of their masks (S, S) if given.

    Captions are written into the upper left corners of the first images.
    """
    if not images:
        raise ValueError("a contact sheet needs at least one image")
    step = len(images[0]) + _GAP
    rows = -(-len(images) // columns)
    sheet = Image.new("RGB", (min(columns, len(images)) * step + _GAP, rows * step + _GAP), "white")
    for place, image in enumerate(images):
        picture = Image.fromarray(image if masks is None else outlined(image, masks[place]))
        if place < len(captions):
            ImageDraw.Draw(picture).text((3, 1), captions[place], fill="white", stroke_width=1, stroke_fill="black")
        sheet.paste(picture, (place % columns * step + _GAP, place // columns * step + _GAP))
    with atomic_path(path) as draft:
        sheet.save(draft, "PNG")


def outlined(image: Pixels, mask: Pixels, colour: tuple[int, ...] = _OUTLINE) -> Pixels:
    """Paint the border of a mask (S, S), its pixels with a neighbour outside, onto a copy of the image (S, S, 3)."""
    inside = np.pad(mask.astype(bool), 1)
    core = inside[:-2, 1:-1] & inside[2:, 1:-1] & inside[1:-1, :-2] & inside[1:-1, 2:]
    painted = image.copy()
    painted[inside[1:-1, 1:-1] & ~core] = colour
    return painted
