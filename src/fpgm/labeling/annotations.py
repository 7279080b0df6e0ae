"""Annotated images, whatever the tool: what is common to its formats. H x W is an image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from fpgm.data.pictures import MAX_PIXELS

Mask = NDArray[np.bool_]
LABEL = "polyp"


class Polyp(NamedTuple):
    """One polyp: left and top of its box, its mask (h, w) there, its confidence, and how it is labelled."""

    left: int
    top: int
    mask: Mask
    score: float = 1.0
    label: str = LABEL


@dataclass(frozen=True)
class AnnotatedImage:
    """An image with its polyps.

    Attributes:
        file: path of the image file, with ``/``, below the folder of all images.
        width: its width in pixels.
        height: its height.
        polyps: what is marked.
    """

    file: str
    width: int
    height: int
    polyps: tuple[Polyp, ...] = ()

    @property
    def name(self) -> str:
        """The path without its suffix."""
        return str(PurePosixPath(self.file).with_suffix(""))

    def mask(self) -> Mask:
        """Return all polyps as one mask (H, W); what lies outside of the image is cut off."""
        whole = np.zeros((self.height, self.width), bool)
        for left, top, part, *_ in self.polyps:
            y, x = max(-top, 0), max(-left, 0)
            there = whole[max(top, 0) : max(top + len(part), 0), max(left, 0) : max(left + part.shape[1], 0)]
            there |= part[y : y + there.shape[0], x : x + there.shape[1]]
        return whole


@dataclass(frozen=True)
class Annotations:
    """What a file says: images with their polyps, and what was left out, with the reason."""

    images: tuple[AnnotatedImage, ...]
    left_out: tuple[str, ...] = field(default=())


def from_polygon(points: Iterable[tuple[float, float]], width: int, height: int) -> Mask:
    """Return the mask (H, W) of a polygon: pixels whose centre is inside, and the border as Pillow draws it."""
    corners = [(float(x) - 0.5, float(y) - 0.5) for x, y in points]
    if len(corners) < 3 or not np.isfinite(corners).all():
        raise ValueError(f"a polygon has {len(corners)} corners, and needs three that are finite")
    drawn = Image.new("1", (width, height))
    ImageDraw.Draw(drawn).polygon(corners, fill=1, outline=1)
    return np.array(drawn, bool)


def check_file(name: object) -> str:
    """Return the path of an image that a file names; refuse one that leads elsewhere."""
    text = str(name)
    place = PurePosixPath(text.replace("\\", "/"))
    if not place.name or place.is_absolute() or ".." in place.parts or not text.isprintable() or ":" in place.parts[0]:
        raise ValueError(f"{text[:60]!r} is not the path of an image below a folder")
    return str(place)


def check_sides(record: Mapping[str, Any], width: str = "width", height: str = "height") -> tuple[int, int]:
    """Return width and height of an image; refuse what no picture has."""
    try:
        sides = int(record[width]), int(record[height])
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"an image has no {width} and {height} that are whole numbers") from None
    if min(sides) < 1 or sides[0] * sides[1] > MAX_PIXELS:
        raise ValueError(f"an image of {sides[0]} x {sides[1]} pixels is not taken: at most {MAX_PIXELS:,} pixels are")
    return sides
