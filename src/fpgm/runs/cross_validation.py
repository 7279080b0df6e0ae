"""``cross_validation.json``: Dice of the folds of a cross-validation."""

from __future__ import annotations

from pathlib import Path
from statistics import stdev
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fpgm.files import first_fault, read_file, write_text
from fpgm.runs.folder import RunFolder


class FoldScore(BaseModel):
    """Mean Dice of a network on the labelled images that it was not trained on, and their number."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    images: int = Field(ge=1)
    dice: float = Field(ge=0, le=1)


class CrossValidation(BaseModel):
    """What is known of a cross-validation, whole or under way.

    Attributes:
        count: number of folds.
        settings_sha256: hash of the settings and train images of the run.
        folds: scores of the folds that are done, in order.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["fpgm-cross-validation-1"] = "fpgm-cross-validation-1"
    count: int = Field(ge=2)
    settings_sha256: str
    folds: tuple[FoldScore, ...] = ()

    @property
    def dice(self) -> float:
        """Mean Dice over the labelled images."""
        return sum(fold.images * fold.dice for fold in self.folds) / sum(fold.images for fold in self.folds)

    def describe(self) -> str:
        """Write the result in a line."""
        spread = f" ± {stdev(fold.dice for fold in self.folds):.4f} over folds" if len(self.folds) > 1 else ""
        images = sum(fold.images for fold in self.folds)
        return f"Dice {self.dice:.4f}{spread} on {images} labelled images, by {self.count}-fold cross-validation"


def write_cross_validation(run: Path, record: CrossValidation) -> None:
    """Write the record of a run."""
    write_text(RunFolder(run).cross_validation, record.model_dump_json(indent=1) + "\n")


def read_cross_validation(run: Path) -> CrossValidation | None:
    """Read the record of a run; None if it has none."""
    path = RunFolder(run).cross_validation
    if not path.is_file():
        return None
    try:
        return CrossValidation.model_validate_json(read_file(path, run))
    except ValidationError as error:
        raise ValueError(f"{path}: {first_fault(error)}; delete it and cross-validate again") from None
