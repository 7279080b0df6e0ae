"""A gallery of a data set: images from the worst to the best Dice, with the outlines of truth and prediction."""

from __future__ import annotations

from io import BytesIO
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageColor

from fpgm.report.plots.contact_sheet import outlined
from fpgm.report.plots.panels import read_found, read_scored
from fpgm.report.plots.predictions import PREDICTION, TRUTH
from fpgm.report.reading.groups import Row

MOST = 24  # images of a set
_SIDE = 160  # least pixels of a tile, so that an outline of one pixel is thin


class Tile(NamedTuple):
    """A picture with outlines as a JPEG file, the id of its image and its Dice."""

    id: str
    dice: float
    picture: bytes


def collect_gallery(row: Row, dataset: str, most: int = MOST) -> list[Tile]:
    """Return images of a data set with what a row's first seed found in them, the worst Dice first.

    Of more than `most` images, as many are taken at even steps of their order, the first and the last among them.
    """
    scores = next(iter(row.scores(dataset).values()))
    order = sorted(zip(scores.values["dice"].tolist(), scores.ids, strict=True))
    places = np.unique(np.linspace(0, len(order) - 1, min(most, len(order))).round().astype(int))
    ids = [order[place][1] for place in places.tolist()]
    images, truth = read_scored(row, dataset, ids)
    found = read_found(row, dataset, ids, truth)
    return [
        Tile(id_, dice, _drawn(image, true, mask))
        for id_, image, true, (mask, dice) in zip(ids, images, truth, found, strict=True)
    ]


def _drawn(image: NDArray[np.uint8], truth: NDArray[np.bool_], found: NDArray[np.bool_]) -> bytes:
    times = -(-_SIDE // len(image))
    picture = np.asarray(Image.fromarray(image).resize((times * len(image),) * 2, Image.Resampling.BICUBIC))
    for mask, colour in ((truth, TRUTH), (found, PREDICTION)):
        large = np.kron(mask, np.ones((times, times), bool)).astype(np.uint8)
        picture = outlined(picture, large, ImageColor.getrgb(colour))
    Image.fromarray(picture).save(file := BytesIO(), "JPEG", quality=85)
    return file.getvalue()
