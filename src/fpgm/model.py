"""A trained network as a folder: ``model.safetensors`` holds the weights, ``model.json`` says what they are.

Neither training code nor data is needed to use it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from fpgm.files import file_sha256
from fpgm.nets import build
from fpgm.nets.ensemble import Ensemble
from fpgm.nets.shapes import network_shapes
from fpgm.nets.statistics import blend
from fpgm.runs.card import CARD, ModelCard, model_folder, read_card
from fpgm.runs.writing import write_model_record
from fpgm.tensors import non_finite, read_tensors, tensor_shapes, write_tensors

WEIGHTS = "model.safetensors"
FORMAT = "fpgm-weights-1"


def save_model(folder: Path, net: nn.Module, card: ModelCard, *, base: Path | None = None) -> ModelCard:
    """Write the weights, then ``model.json`` with their hash and ``MODEL_CARD.md``, and return the card.

    The hash also covers what else of the card changes predictions: see `_content`. Weights that are not finite are
    refused.

    Args:
        folder: model folder to write.
        net: the network.
        card: content of ``model.json``, without the hash.
        base: run folder or model folder that the model was adapted from, if it was.
    """
    if bad := non_finite(net.state_dict()):
        raise ValueError(f"this network cannot be saved: the values of {bad} are not finite; lower optimizer.lr")
    write_tensors(folder / WEIGHTS, net.state_dict(), FORMAT, _content(card))
    complete = card.model_copy(update={"weights_sha256": file_sha256(folder / WEIGHTS)})
    write_model_record(folder, complete, base)
    return complete


def load_model(path: Path) -> tuple[nn.Module, ModelCard]:
    """Return the network of a run folder or model folder, in evaluation mode, and its card.

    Batch norm uses an image's own statistics to the share that the card says. A file that was changed, cut short, does
    not belong to the card or has weights that are not finite is refused, before it takes the memory of a network.
    """
    folder = model_folder(path)
    card = read_card(folder)
    if file_sha256(folder / WEIGHTS) != card.weights_sha256:
        raise ValueError(f"{folder / WEIGHTS} is not the file that {CARD} describes: copy the whole folder again")
    arguments = _offline(card.arguments)
    _check_shapes(folder, card.net, arguments)
    weights, content = read_tensors(folder / WEIGHTS, FORMAT)
    if bad := non_finite(weights):
        raise ValueError(
            f"{folder / WEIGHTS} is of a training that has diverged: the values of {bad} are not finite. Train again "
            "with a lower optimizer.lr, or use another model"
        )
    if content != _content(card):
        raise ValueError(
            f"{folder / WEIGHTS} was not saved for the share of an image's own statistics, the temperature and the "
            f"smallest area that {CARD} says, {card.statistics.own:g}, {card.temperature:g} and "
            f"{card.least_area.share if card.least_area else 0:g}: copy the whole folder again"
        )
    net = build(card.net, **arguments)
    net.load_state_dict(weights)
    if isinstance(net, Ensemble):
        net = net.blended()
    elif card.statistics.own:
        net = blend(net, card.statistics.own)
    return net.eval(), card


def _offline(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a network whose weights are in our file: it has no others to download."""
    return {**arguments, "pretrained": False} if "pretrained" in arguments else arguments


def _check_shapes(folder: Path, net: str, arguments: dict[str, Any]) -> None:
    """Refuse weights that are not those of the card's network."""
    expected, found = network_shapes(net, **arguments), tensor_shapes(folder / WEIGHTS)
    if expected != found:
        name = next(key for key in (*expected, *found) if expected.get(key) != found.get(key))
        raise ValueError(
            f"{folder / WEIGHTS} does not fit the network of {CARD}: {name} is {found.get(name, 'not there')}, the "
            f"network has {expected.get(name, 'no such part')}; copy the whole folder again"
        )


def _content(card: ModelCard) -> dict[str, float]:
    """Return what the file of weights says beside them, if it is not the usual.

    That is the share of an image's own statistics, the temperature, and the smallest area of a polyp.
    """
    area = card.least_area.share if card.least_area else 0
    values = {"own": (card.statistics.own, 0), "temperature": (card.temperature, 1), "least_area": (area, 0)}
    return {name: value for name, (value, usual) in values.items() if value != usual}


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
