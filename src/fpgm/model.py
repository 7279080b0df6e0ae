"""A trained network as a folder: weights, and a card that says what they are.

``model.safetensors`` holds the weights, ``model.json`` all that is needed to use them: architecture, image size, value
range, classes, a summary of the training, and the hash of the weights. Neither training code nor data is needed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from torch import nn

from fpgm._version import __version__
from fpgm.files import write_text
from fpgm.nets import build
from fpgm.tensors import read_tensors, write_tensors

WEIGHTS, CARD = "model.safetensors", "model.json"
FORMAT: Literal["fpgm-model-1"] = "fpgm-model-1"


class ModelCard(BaseModel):
    """``model.json``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["fpgm-model-1"] = FORMAT
    package_version: str = __version__
    net: str
    arguments: dict[str, Any]
    size: int
    values: Literal["0 to 1"] = "0 to 1"
    classes: tuple[str, ...] = ("background", "polyp")
    training: dict[str, Any]
    weights_sha256: str = ""


def save_model(folder: Path, net: nn.Module, card: ModelCard) -> None:
    """Write the weights, then the card with their hash."""
    write_tensors(folder / WEIGHTS, net.state_dict(), FORMAT, {})
    complete = card.model_copy(update={"weights_sha256": _sha256(folder / WEIGHTS)})
    write_text(folder / CARD, complete.model_dump_json(indent=1) + "\n")


def load_model(path: Path) -> tuple[nn.Module, ModelCard]:
    """Return the network of a run folder or model folder, in evaluation mode, and its card.

    A file that was changed, cut short, or does not belong to the card is refused.
    """
    folder = path / "model" if (path / "model").is_dir() else path
    card = read_card(folder)
    if _sha256(folder / WEIGHTS) != card.weights_sha256:
        raise ValueError(f"{folder / WEIGHTS} is not the file that {CARD} describes: copy the whole folder again")
    weights, _ = read_tensors(folder / WEIGHTS, FORMAT)
    net = build(card.net, **card.arguments)
    try:
        net.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(f"{folder / WEIGHTS} does not fit the network of {CARD}: {error}") from None
    return net.eval(), card


def read_card(folder: Path) -> ModelCard:
    """Read and check ``model.json``."""
    path = folder / CARD
    if not path.is_file():
        raise FileNotFoundError(f"{folder} holds no model: there is no {CARD}; has the training come to its end?")
    try:
        return ModelCard.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "its text"
        raise ValueError(f"{path} is not the card of a model of this version: {place}: {first['msg']}") from None


def _sha256(path: Path) -> str:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    return hashlib.sha256(path.read_bytes()).hexdigest()
