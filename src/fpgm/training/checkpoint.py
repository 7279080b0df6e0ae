"""Everything a run needs to go on, in one file; refused when it does not fit what it is loaded into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from fpgm.methods import Method
from fpgm.tensors import non_finite, read_tensors, write_tensors

FORMAT = "fpgm-checkpoint-1"


def save(
    path: Path, method: Method, optimizer: Optimizer, record: dict[str, Any], average: nn.Module | None = None
) -> None:
    """Write everything a run needs to go on; what is not finite is refused, and the file that is there stays.

    Args:
        path: file to write.
        method: method whose whole state is kept, buffers and inner optimisers included.
        optimizer: main optimiser; its state is kept, its settings are the configuration's.
        record: JSON-serialisable progress, e.g. the next step.
        average: predictor with averaged weights, if the run has one.
    """
    tensors = {f"method.{name}": value for name, value in method.state_dict().items()}
    if average is not None:
        tensors |= {f"average.{name}": value for name, value in average.state_dict().items()}
    scalars: dict[str, Any] = {}
    for owner, player in _optimizers(method, optimizer).items():
        for number, entries in player.state_dict()["state"].items():
            for name, value in entries.items():
                target = tensors if isinstance(value, Tensor) else scalars
                target[f"optimizer.{owner}.{number}.{name}"] = value
    if bad := non_finite(tensors):
        raise ValueError(
            f"the training has diverged: the values of {bad} are not finite. Lower optimizer.lr or use --precision "
            "32-true; what was saved before is intact"
        )
    write_tensors(path, tensors, FORMAT, {"scalars": scalars, "record": record})


def load(
    path: Path, method: Method, optimizer: Optimizer | None = None, average: nn.Module | None = None
) -> dict[str, Any]:
    """Put a checkpoint's state into method, averaged predictor and, if given, optimisers; return its record."""
    tensors, content = read_tensors(path, FORMAT)
    if bad := non_finite(tensors):
        raise ValueError(f"{path} is of a training that has diverged: the values of {bad} are not finite")
    _load_module(path, method, tensors, "method")
    if average is not None:
        _load_module(path, average, tensors, "average")
    if optimizer is not None:
        _load_optimizers(_optimizers(method, optimizer), {**tensors, **content["scalars"]})
    record: dict[str, Any] = content["record"]
    return record


def _load_optimizers(players: dict[str, Optimizer], entries: dict[str, Any]) -> None:
    states: dict[str, dict[int, dict[str, Any]]] = {}
    for key, value in entries.items():
        kind, _, rest = key.partition(".")
        if kind == "optimizer":
            owner, number, name = rest.split(".")
            states.setdefault(owner, {}).setdefault(int(number), {})[name] = value
    for owner, player in players.items():
        groups = player.state_dict()["param_groups"]
        player.load_state_dict({"state": states.get(owner, {}), "param_groups": groups})


def _optimizers(method: Method, optimizer: Optimizer) -> dict[str, Optimizer]:
    return {"main": optimizer, **method.inner_optimizers()}


def _load_module(path: Path, module: nn.Module, tensors: dict[str, Tensor], kind: str) -> None:
    """Put one module's part of a checkpoint in place, or say what does not fit."""
    state = {name.partition(".")[2]: value for name, value in tensors.items() if name.startswith(f"{kind}.")}
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        raise ValueError(f"{path} does not fit this method or network: {error}") from None
