"""``engine.json`` in a model folder: which engine computes the model on a processor, and how it was chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fpgm.files import first_fault, read_file, write_text

ENGINE, ONNX = "engine.json", "engine.onnx"  # the record, and the model for the engines that read ONNX
LEAST_DICE = 0.999  # of an engine's mask of each image with that of torch in float32

EngineName = Literal["torch", "torch-bfloat16", "onnxruntime", "openvino", "openvino-bfloat16"]


class EngineTiming(BaseModel):
    """One engine beside torch in float32.

    Attributes:
        engine: its name.
        one: seconds of one image.
        eight: seconds of eight images in one pass.
        least_dice: Dice of the two masks on the worst image; two empty masks have 1.
        other_polyps: number of images in which it finds more or fewer polyps.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    engine: EngineName
    one: float = Field(gt=0, allow_inf_nan=False)
    eight: float = Field(gt=0, allow_inf_nan=False)
    least_dice: float = Field(ge=0, le=1)
    other_polyps: int = Field(ge=0)

    @property
    def agrees(self) -> bool:
        """Whether its masks are those of torch: Dice on every image, and no polyp more or less."""
        return self.least_dice >= LEAST_DICE and not self.other_polyps


class EngineRecord(BaseModel):
    """The engine of a model.

    Attributes:
        engine: its name.
        weights_sha256: hash of the weights it was chosen for; with others the record does not count.
        onnx_sha256: hash of ``engine.onnx``; empty if torch computes.
        threads: number of threads they were timed with.
        images: number of images they were compared on.
        source: where the images are from.
        timings: the engines that were tried, torch first.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["fpgm-engine-1"] = "fpgm-engine-1"
    engine: EngineName
    weights_sha256: str
    onnx_sha256: str = ""
    threads: int = Field(ge=1)
    images: int = Field(ge=1)
    source: str
    timings: tuple[EngineTiming, ...]


def write_engine(folder: Path, record: EngineRecord) -> None:
    """Write the record of a model folder."""
    write_text(folder / ENGINE, record.model_dump_json(indent=1) + "\n")


def read_engine(folder: Path, weights_sha256: str) -> EngineRecord | None:
    """Read the record of a model folder; None if it has none, or one of other weights."""
    path = folder / ENGINE
    if not path.is_file():
        return None
    try:
        record = EngineRecord.model_validate_json(read_file(path, folder))
    except ValidationError as error:
        raise ValueError(f"{path}: {first_fault(error)}; delete it, or choose an engine again") from None
    return record if record.weights_sha256 == weights_sha256 else None
