"""Everything a run needs to go on, in one file; refused when it does not fit what it is loaded into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

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
    states = {owner: len(player.state_dict()["state"]) for owner, player in _optimizers(method, optimizer).items()}
    write_tensors(path, tensors, FORMAT, {"scalars": scalars, "record": record, "states": states})


def load(
    path: Path, method: Method, optimizer: Optimizer | None = None, average: nn.Module | None = None
) -> dict[str, Any]:
    """Put a checkpoint's state into method, averaged predictor and, if given, optimisers; return its record."""
    tensors, content = read_tensors(path, FORMAT)
    if not isinstance(content, dict) or not all(isinstance(content.get(part), dict) for part in ("scalars", "record")):
        raise ValueError(f"{path} is not a whole checkpoint: there is no progress in it")
    if bad := non_finite(tensors):
        raise ValueError(f"{path} is of a training that has diverged: the values of {bad} are not finite")
    _load_module(path, method, tensors, "method")
    if average is not None:
        _load_module(path, average, tensors, "average")
    if optimizer is not None:
        try:
            entries = {**tensors, **content["scalars"]}
            _load_optimizers(_optimizers(method, optimizer), entries, content.get("states") or {})
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} does not fit this optimiser: {error}") from None
    record: dict[str, Any] = content["record"]
    return record


def read_progress(path: Path, record: dict[str, Any], iterations: int) -> tuple[int, dict[str, float]]:
    """Return the next step and the best score so far of a checkpoint's record, or say that they cannot be."""
    step, best = record.get("next_step"), record.get("best")
    if type(step) is not int or not 0 <= step <= iterations:
        raise ValueError(f"{path} is not a checkpoint of this run: its next step is {step!r}, of {iterations}")
    if not isinstance(best, dict) or not all(isinstance(best.get(key), int | float) for key in ("dice", "step")):
        raise ValueError(f"{path} is not a checkpoint of this run: its best score is {best!r}")
    return step, best


def _load_optimizers(players: dict[str, Optimizer], entries: dict[str, Any], counts: dict[str, int]) -> None:
    """Give the optimisers their states; `counts` is how many each had, which the first checkpoints do not say."""
    states: dict[str, dict[int, dict[str, Any]]] = {}
    for key, value in entries.items():
        kind, _, rest = key.partition(".")
        if kind == "optimizer":
            owner, number, name = rest.split(".")
            states.setdefault(owner, {}).setdefault(int(number), {})[name] = value
    for owner, player in players.items():
        _check_states(owner, player, states.get(owner, {}), counts.get(owner))
        groups = player.state_dict()["param_groups"]
        player.load_state_dict({"state": states.get(owner, {}), "param_groups": groups})
        _order_as_weights(player)


def _order_as_weights(player: Optimizer) -> None:
    """Give moments the memory order of their weights: a fused step on a CPU pairs them by their place in memory."""
    for parameter, state in player.state.items():
        for name, value in state.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                state[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)


def _check_states(owner: str, player: Optimizer, states: dict[int, dict[str, Any]], count: int | None) -> None:
    """Refuse states that are missing or of other parameters: a run that goes on without them is another run."""
    parameters = [parameter for group in player.param_groups for parameter in group["params"]]
    stateless = isinstance(player, SGD) and not player.defaults["momentum"]
    if (count is not None and len(states) != count) or (count is None and not states and not stateless):
        raise ValueError(f"the state of the optimiser {owner} is missing or not whole")
    for number, entries in states.items():
        for name, value in entries.items():
            fits = number in range(len(parameters)) and (
                not isinstance(value, Tensor) or not value.ndim or value.shape == parameters[number].shape
            )
            if not fits:
                raise ValueError(f"{name} of parameter {number} is not of a parameter of {owner}")


def _optimizers(method: Method, optimizer: Optimizer) -> dict[str, Optimizer]:
    return {"main": optimizer, **method.inner_optimizers()}


def _load_module(path: Path, module: nn.Module, tensors: dict[str, Tensor], kind: str) -> None:
    """Put one module's part of a checkpoint in place, or say what does not fit."""
    state = {name.partition(".")[2]: value for name, value in tensors.items() if name.startswith(f"{kind}.")}
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        raise ValueError(f"{path} does not fit this method or network: {error}") from None
