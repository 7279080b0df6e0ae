"""A trained network as a folder: ``model.safetensors`` holds the weights, ``model.json`` says what they are.

Neither training code nor data is needed to use it.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from fpgm.files import file_sha256
from fpgm.nets import build
from fpgm.nets.statistics import blend
from fpgm.runs.card import CARD, ModelCard, model_folder, read_card
from fpgm.runs.writing import write_model_record
from fpgm.tensors import read_tensors, write_tensors

WEIGHTS = "model.safetensors"
FORMAT = "fpgm-weights-1"


def save_model(folder: Path, net: nn.Module, card: ModelCard, *, base: Path | None = None) -> ModelCard:
    """Write the weights, then ``model.json`` with their hash and ``MODEL_CARD.md``, and return the card.

    The hash also covers the share of an image's own statistics.

    Args:
        folder: model folder to write.
        net: the network.
        card: content of ``model.json``, without the hash.
        base: run folder or model folder that the model was adapted from, if it was.
    """
    write_tensors(folder / WEIGHTS, net.state_dict(), FORMAT, _content(card))
    complete = card.model_copy(update={"weights_sha256": file_sha256(folder / WEIGHTS)})
    write_model_record(folder, complete, base)
    return complete


def load_model(path: Path) -> tuple[nn.Module, ModelCard]:
    """Return the network of a run folder or model folder, in evaluation mode, and its card.

    Batch norm uses an image's own statistics to the share that the card says. A file that was changed, cut short, or
    does not belong to the card is refused.
    """
    folder = model_folder(path)
    card = read_card(folder)
    if file_sha256(folder / WEIGHTS) != card.weights_sha256:
        raise ValueError(f"{folder / WEIGHTS} is not the file that {CARD} describes: copy the whole folder again")
    weights, content = read_tensors(folder / WEIGHTS, FORMAT)
    if content != _content(card):
        raise ValueError(
            f"{folder / WEIGHTS} was not saved for the share of an image's own statistics that {CARD} says, "
            f"{card.statistics.own:g}: copy the whole folder again"
        )
    net = build(card.net, **card.arguments)
    try:
        net.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(f"{folder / WEIGHTS} does not fit the network of {CARD}: {error}") from None
    if card.statistics.own:
        net = blend(net, card.statistics.own)
    return net.eval(), card


def _content(card: ModelCard) -> dict[str, float]:
    """Return what the file of weights says beside them: the share of an image's own statistics, if any."""
    return {"own": card.statistics.own} if card.statistics.own else {}


def choose_device(name: str) -> torch.device:
    """Return the device of that name, or the best there is, once it has been seen to work."""
    best = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        probe = torch.ones(1, device=best if name == "auto" else name)
        probe.cpu()  # which "meta", whose tensors hold nothing, cannot
        return probe.device
    except (RuntimeError, AssertionError) as error:  # torch says the latter where it was built without CUDA
        reason = str(error).partition("\n")[0]
        raise ValueError(f"--device {name} cannot be used here: {reason}; try --device auto") from None
