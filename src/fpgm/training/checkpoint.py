"""Everything a run needs to go on, in one file; refused when it does not fit what it is loaded into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from fpgm.methods import Method
from fpgm.tensors import read_tensors, write_tensors

FORMAT = "fpgm-checkpoint-1"


def save(path: Path, method: Method, optimizer: Optimizer, record: dict[str, Any]) -> None:
    """Write everything a run needs to go on.

    Args:
        path: file to write.
        method: its whole state is kept, buffers and inner optimisers included.
        optimizer: the main one; its state is kept, its settings are the configuration's.
        record: JSON-serialisable progress, e.g. the next step.
    """
    tensors = {f"method.{name}": value for name, value in method.state_dict().items()}
    scalars: dict[str, Any] = {}
    for owner, player in _optimizers(method, optimizer).items():
        for number, entries in player.state_dict()["state"].items():
            for name, value in entries.items():
                target = tensors if isinstance(value, Tensor) else scalars
                target[f"optimizer.{owner}.{number}.{name}"] = value
    write_tensors(path, tensors, FORMAT, {"scalars": scalars, "record": record})


def load(path: Path, method: Method, optimizer: Optimizer) -> dict[str, Any]:
    """Put a checkpoint's state into method and optimisers and return its record."""
    tensors, content = read_tensors(path, FORMAT)
    load_method(path, method, tensors)
    states: dict[str, dict[int, dict[str, Any]]] = {}
    for key, value in {**tensors, **content["scalars"]}.items():
        kind, _, rest = key.partition(".")
        if kind == "optimizer":
            owner, number, name = rest.split(".")
            states.setdefault(owner, {}).setdefault(int(number), {})[name] = value
    for owner, player in _optimizers(method, optimizer).items():
        groups = player.state_dict()["param_groups"]
        player.load_state_dict({"state": states.get(owner, {}), "param_groups": groups})
    record: dict[str, Any] = content["record"]
    return record


def _optimizers(method: Method, optimizer: Optimizer) -> dict[str, Optimizer]:
    return {"main": optimizer, **method.inner_optimizers()}


def load_method(path: Path, method: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Put the method's part of a checkpoint in place, or say what does not fit."""
    state = {name.partition(".")[2]: value for name, value in tensors.items() if name.startswith("method.")}
    try:
        method.load_state_dict(state)
    except RuntimeError as error:
        raise ValueError(f"{path} does not fit this method or network: {error}") from None
