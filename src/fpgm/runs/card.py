"""``model.json``: what a network's weights are and where they come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fpgm._version import __version__
from fpgm.data.pictures import MAX_SIZE, MIN_SIZE
from fpgm.files import check_inside, first_fault, read_file

CARD = "model.json"


class Site(BaseModel):
    """The unlabelled frames that batch-norm statistics were estimated from, and what that changed.

    Attributes:
        folder: name of the folder or data set they were in, without its path.
        frames: number of frames.
        sha256: hash of their pixels at the model's size, in order.
        base_sha256: hash of the weights that were adapted.
        half_difference: distance between the statistics of the first and the second half of the frames, in standard
            deviations; None of a single frame. See `fpgm.nets.statistics.distance`.
        enough: number of frames, evenly spread, that would have done; None if there are too few to tell.
        shift: distance of the frames from the old statistics, in their standard deviations.
        changed: share of the frames' pixels whose class has changed.
        masks: number of frames with a mask, which serves the next two figures alone.
        dice_before: mean Dice on these with the old statistics; None without masks.
        dice_after: the same with the new ones.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    folder: str
    frames: int = Field(ge=1)
    sha256: str
    base_sha256: str
    half_difference: float | None
    enough: int | None
    shift: float
    changed: float = Field(ge=0, le=1)
    masks: int = Field(0, ge=0)
    dice_before: float | None = None
    dice_after: float | None = None


class Statistics(BaseModel):
    """Source of the batch-norm statistics.

    Attributes:
        source: the passes of the training; clean training images; or unlabelled frames of a site.
        own: share of each image's own mean and variance: 0 none, 1 the image alone.
        scores: validation Dice of the statistics that were compared, if a comparison chose these.
        site: the frames, if the source is a site.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Literal["training", "clean", "site"] = "training"
    own: float = Field(0.0, ge=0, le=1)
    scores: dict[str, float] = {}
    site: Site | None = None

    @model_validator(mode="after")
    def _check(self) -> Statistics:
        if (self.source == "site") != (self.site is not None):
            raise ValueError("the source is a site where the site's frames are described, and only there")
        return self


class Calibration(BaseModel):
    """The temperature of the probabilities, and what it was fitted on.

    Attributes:
        temperature: what the log-odds of the foreground are divided by.
        images: number of validation images it was fitted on.
        error_before: expected calibration error on these without it.
        error_after: the same with it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    temperature: float = Field(gt=0, allow_inf_nan=False)
    images: int = Field(ge=1)
    error_before: float = Field(ge=0, le=1)
    error_after: float = Field(ge=0, le=1)


class LeastArea(BaseModel):
    """The smallest area of a polyp; smaller regions of a mask are specks. What it was chosen on, and what it changes.

    Attributes:
        share: smallest area as a share of the image.
        images: number of validation images it was chosen on.
        dice_before: mean Dice on these with all regions.
        dice_after: the same without specks.
        alarms_before: regions on these that touch no polyp.
        alarms_after: the same without specks.
        found_before: polyps on these of which a pixel was found.
        found_after: the same without specks.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    share: float = Field(ge=0, le=1)
    images: int = Field(ge=1)
    dice_before: float = Field(ge=0, le=1)
    dice_after: float = Field(ge=0, le=1)
    alarms_before: int = Field(ge=0)
    alarms_after: int = Field(ge=0)
    found_before: int = Field(ge=0)
    found_after: int = Field(ge=0)


class ModelCard(BaseModel):
    """``model.json``: all that is needed to use a network's weights, and where they come from.

    Attributes:
        net: name of the network for `fpgm.nets.build`, with its arguments.
        size: side of the square images it takes.
        values: range of their values.
        classes: meaning of its output channels; the first is the background.
        training: summary of the run.
        statistics: source of the batch-norm statistics.
        calibration: temperature of the probabilities; None of a model without one.
        least_area: smallest area of a polyp; None of a model that keeps every region.
        weights_sha256: hash of the file of weights.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["fpgm-model-1"] = "fpgm-model-1"
    package_version: str = __version__
    net: str
    arguments: dict[str, Any]
    size: int = Field(ge=MIN_SIZE, le=MAX_SIZE)
    values: Literal["0 to 1"] = "0 to 1"
    classes: tuple[str, ...] = ("background", "polyp")
    training: dict[str, Any]
    statistics: Statistics = Statistics()
    calibration: Calibration | None = None
    least_area: LeastArea | None = None
    weights_sha256: str = ""

    @property
    def temperature(self) -> float:
        """What the log-odds of the foreground are divided by; 1 where nothing was fitted."""
        return self.calibration.temperature if self.calibration else 1.0

    def least_pixels(self, pixels: int) -> int:
        """Return the smallest area of a polyp in an image of so many pixels; 0 where nothing was chosen."""
        return round(self.least_area.share * pixels) if self.least_area else 0


def model_folder(path: Path) -> Path:
    """Return the model folder of a run folder, or the folder itself."""
    below = path / "model"
    if not below.is_dir():
        return path
    check_inside(below, path)
    return below


def read_card(folder: Path) -> ModelCard:
    """Read and check the card of a model folder."""
    path = folder / CARD
    if not path.is_file():
        raise FileNotFoundError(f"{folder} holds no model: there is no {CARD}; has the training come to its end?")
    return parse_card(read_file(path), str(path))


def parse_card(text: str | bytes, source: str) -> ModelCard:
    """Check the text of a card; `source` is named where it is not a card."""
    try:
        return ModelCard.model_validate_json(text)
    except ValidationError as error:
        raise ValueError(f"{source} is not the card of a model of this version: {first_fault(error)}") from None
