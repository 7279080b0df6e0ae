"""What a model says of itself; readable without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from fpgm._version import __version__

CARD = "model.json"


class ModelCard(BaseModel):
    """``model.json``: all that is needed to use a network's weights, and where they come from.

    Attributes:
        net: name of the network for `fpgm.nets.build`, with its arguments.
        size: side of the square images it takes.
        values: range of their values.
        classes: what its output channels mean; the first is the background.
        training: summary of the run.
        weights_sha256: hash of the file of weights.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["fpgm-model-1"] = "fpgm-model-1"
    package_version: str = __version__
    net: str
    arguments: dict[str, Any]
    size: int
    values: Literal["0 to 1"] = "0 to 1"
    classes: tuple[str, ...] = ("background", "polyp")
    training: dict[str, Any]
    weights_sha256: str = ""


def model_folder(path: Path) -> Path:
    """Return the model folder of a run folder, or the folder itself."""
    return path / "model" if (path / "model").is_dir() else path


def read_card(folder: Path) -> ModelCard:
    """Read and check the card of a model folder."""
    path = folder / CARD
    if not path.is_file():
        raise FileNotFoundError(f"{folder} holds no model: there is no {CARD}; has the training come to its end?")
    return parse_card(path.read_bytes(), str(path))


def parse_card(text: str | bytes, source: str) -> ModelCard:
    """Check the text of a card; `source` is named where it is none."""
    try:
        return ModelCard.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "its text"
        raise ValueError(f"{source} is not the card of a model of this version: {place}: {first['msg']}") from None
