"""``evaluation/<data set>.details.json``: group, polyps, false alarms and calibration of each image; and their sums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fpgm.calibration import BINS, Reliability, calibration_error
from fpgm.files import first_fault, read_file, write_text

NOT_MEASURABLE = "not measurable"
_LIMITS = {"small": 0.01, "medium": 0.05, "large": float("inf")}  # sizes are below these shares of the image
SIZES = tuple(_LIMITS)
SIZE_RULE = "small polyps cover less than 1 % of the image, medium ones less than 5 %, large ones 5 % or more"

Count = Annotated[int, Field(ge=0)]
Counts = Annotated[tuple[Count, ...], Field(min_length=BINS, max_length=BINS)]
Sums = Annotated[
    tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...], Field(min_length=BINS, max_length=BINS)
]


class ImageDetails(NamedTuple):
    """One image.

    Attributes:
        group: patient or video, if known.
        polyps: pixels of each connected true polyp, and how many of these were predicted.
        alarms: pixels of each connected predicted region that touches no polyp.
        pixels: number of pixels in each bin of probability.
        foreground: how many of these are foreground.
        probability: sum of their probabilities.
    """

    group: str | None
    polyps: tuple[tuple[Count, Count], ...]
    alarms: tuple[Count, ...]
    pixels: Counts
    foreground: Counts
    probability: Sums


class Details(BaseModel):
    """The file: a line per image, in the order of the scores."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["fpgm-details-1"] = "fpgm-details-1"
    columns: tuple[str, ...] = ImageDetails._fields
    images: tuple[ImageDetails, ...]


class SizeCount(NamedTuple):
    """Polyps of one size, how many of them were missed, and false alarms of that size."""

    polyps: int
    missed: int
    alarms: int


class EmptyFrames(NamedTuple):
    """Frames without a polyp, how many of them have a false alarm, and false alarms on all of them."""

    frames: int
    alarmed: int
    alarms: int

    @property
    def rate(self) -> float | None:
        """False alarms per frame; None where there is no frame without a polyp."""
        return self.alarms / self.frames if self.frames else None


def write_details(path: Path, images: Iterable[ImageDetails]) -> None:
    """Write the details of a data set, a line per image."""
    header = json.dumps(Details(images=()).model_dump(exclude={"images"}), indent=1).removesuffix("\n}")
    rows = ",\n  ".join(json.dumps(image, ensure_ascii=False, separators=(",", ":")) for image in images)
    write_text(path, f'{header},\n "images": [\n  {rows}\n ]\n}}\n')


def read_details(path: Path, *, images: int, sha256: str) -> tuple[ImageDetails, ...]:
    """Read the details of a data set; a file that was changed is refused.

    Args:
        path: the file.
        images: number of images.
        sha256: hash of the file as it was written.
    """
    content = read_file(path)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(f"{path} is not the file that was written")
    try:
        found = Details.model_validate_json(content).images
    except ValidationError as error:
        raise ValueError(f"{path}: {first_fault(error)}") from None
    if len(found) != images:
        raise ValueError(f"{path} is of {len(found)} images, but there were {images}")
    return found


def size_of(pixels: int, image: int) -> str:
    """Name the size of a polyp or false alarm by its share of the image; both in pixels."""
    return next(name for name, limit in _LIMITS.items() if pixels / image < limit)


def count_by_size(details: Sequence[ImageDetails]) -> dict[str, SizeCount]:
    """Count polyps, missed ones and false alarms by size, over all images; of a missed polyp no pixel was found."""
    polyps, missed, alarms = (dict.fromkeys(SIZES, 0) for _ in range(3))
    for one in details:
        area = sum(one.pixels)
        for pixels, found in one.polyps:
            size = size_of(pixels, area)
            polyps[size] += 1
            missed[size] += found == 0
        for pixels in one.alarms:
            alarms[size_of(pixels, area)] += 1
    return {size: SizeCount(polyps[size], missed[size], alarms[size]) for size in SIZES}


def count_empty_frames(details: Sequence[ImageDetails]) -> EmptyFrames:
    """Count frames without a polyp and the false alarms on them."""
    empty = [one.alarms for one in details if not one.polyps]
    return EmptyFrames(len(empty), sum(map(bool, empty)), sum(map(len, empty)))


def pooled_reliability(details: Sequence[ImageDetails]) -> Reliability:
    """Add up the pixels of all images, bin by bin."""
    sums = [np.sum([getattr(one, name) for one in details], axis=0) for name in Reliability._fields]
    return Reliability(*sums)


def expected_calibration_error(details: Sequence[ImageDetails]) -> float:
    """Return the expected calibration error over all pixels of all images."""
    return calibration_error(pooled_reliability(details))
