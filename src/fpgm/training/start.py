"""From what a user asks for to a run: what is not given is what is usual or, on resume, what the run began with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from fpgm.config import USUAL_METHOD, USUAL_PRESET, Preset, RunConfig, amend, raise_iterations, resolve
from fpgm.data.splits.split import split_folder, split_setting
from fpgm.data.store import list_stores
from fpgm.registry import import_method
from fpgm.runs.card import CARD, read_card
from fpgm.runs.folder import RunFolder
from fpgm.training.cross_validation import cross_validate as cross_validate_run
from fpgm.training.first_weights import base_card, base_file
from fpgm.training.run import train
from fpgm.training.trainer import Trainer


def start(
    out: Path,
    data: Path | None = None,
    *,
    method: str | None = None,
    labeled: str | None = None,
    split: str | None = None,
    preset: Preset | None = None,
    iterations: int | None = None,
    seed: int | None = None,
    precision: str | None = None,
    settings: Iterable[str] = (),
    base: Path | None = None,
    resume: bool = False,
    cross_validate: int | None = None,
    accelerator: str = "auto",
    devices: int = 1,
    num_nodes: int = 1,
    track: Sequence[str] = (),
    console: Console | None = None,
) -> Trainer:
    """Begin a run, or go on with one, and bring it to its end.

    Args:
        out: run folder; to be made, or with `resume` that of the run.
        data: store; with `resume` that of the run if not given.
        method: name of a method, or ``package.module:Class``, which is imported; `USUAL_METHOD` if not given.
        labeled: training images whose masks may be used.
        split: name or path of a split of the store; the only one if not given.
        preset: source of the defaults; `USUAL_PRESET` if not given.
        iterations: number of steps; with `resume` of a run that has ended, a larger one goes on.
        seed: seed of weights, batches and augmentation.
        precision: precision as in Lightning Fabric.
        settings: further settings, `key=value`.
        base: run folder, model folder or safetensors file with the first weights; the network is that of the model.
        resume: go on with the run in `out`; what is given besides must be as it was.
        cross_validate: number of folds of the labelled images to score before the run; none if not given.
        accelerator: kind of device, as in Lightning Fabric.
        devices: number of processes per machine.
        num_nodes: number of machines.
        track: trackers that get the figures of the run.
        console: where progress and notes are shown; None for nowhere.
    """
    if devices < 1 or num_nodes < 1:
        raise ValueError(f"--devices {devices} and --num-nodes {num_nodes}: both must be at least 1")
    method = method and import_method(method)
    given = {"iterations": iterations, "precision": precision}
    changes = [
        *([f"train.seed={seed}"] if seed is not None else []),
        *([] if base is None else _fine_tuning(base)),
        *settings,
        *(f"train.{name}={value}" for name, value in given.items() if value is not None),
    ]
    if resume and not _may_begin(out, data, cross_validate):
        config = _continued(out, data, split, labeled, preset, method, changes)
    else:
        store = _store(data)
        chosen = _chosen(store, split_setting(store, split_folder(store, split)), labeled)
        config = resolve(preset or USUAL_PRESET, method or USUAL_METHOD, chosen, changes)
    if cross_validate is not None:
        _cross_validate(config, out, cross_validate, resume, accelerator, devices * num_nodes, console)
    return train(
        config,
        out,
        resume=resume,
        accelerator=accelerator,
        devices=devices,
        num_nodes=num_nodes,
        track=track,
        console=console,
    )


def _may_begin(out: Path, data: Path | None, cross_validate: int | None) -> bool:
    """Whether a run to go on with has no settings, but what is given is enough: they were lost, or folds came first."""
    folder = RunFolder(out)
    return (
        not folder.config.is_file() and data is not None and (cross_validate is not None or folder.checkpoints.is_dir())
    )


def _cross_validate(
    config: RunConfig, out: Path, count: int, resume: bool, accelerator: str, processes: int, console: Console | None
) -> None:
    """Score the folds before the run, and say the mean."""
    if processes > 1:
        raise ValueError("--cross-validate runs in one process: leave --devices and --num-nodes out")
    scores = cross_validate_run(config, out, count, resume=resume, accelerator=accelerator, console=console)
    if console is not None:
        console.print(scores.describe(), highlight=False)


def _store(data: Path | None) -> Path:
    """Return the store of a new run, which must be one."""
    if data is None:
        raise ValueError(
            "fpgm train needs --data STORE, which `fpgm data prepare` or `fpgm data synth` makes; --resume needs none"
        )
    if data.is_dir():
        list_stores(data)
    return data


def _continued(
    out: Path,
    data: Path | None,
    split: str | None,
    labeled: str | None,
    preset: Preset | None,
    method: str | None,
    settings: Iterable[str],
) -> RunConfig:
    """Return the configuration of the run in a folder, with what is given besides; `train` refuses what differs."""
    path = RunFolder(out).config
    if not path.is_file():
        what = "holds no run" if out.is_dir() else "is not there"
        raise ValueError(f"{out} {what}, so there is nothing to resume: begin the run without --resume")
    config = RunConfig.load(path)
    store = config.data.store if data is None or _same(data, config.data.store) else data
    if not store.is_dir():
        raise ValueError(
            f"the run in {out} was trained on the store {store}, which is not there: put it back, or resume in the "
            "folder where the run was begun"
        )
    name = config.data.split if split is None else split_setting(store, split_folder(store, split))
    new = amend(config, preset, method, _chosen(store, name, labeled), settings)
    return raise_iterations(config, new) if new.train.iterations > config.train.iterations and _ended(out) else new


def _ended(out: Path) -> bool:
    """Whether the model of a run is of its last step."""
    folder = RunFolder(out)
    if not (folder.model / CARD).is_file():
        return False
    return bool(read_card(folder.model).training.get("iterations") == RunConfig.load(folder.config).train.iterations)


def _fine_tuning(base: Path) -> list[str]:
    """Return the settings of a run that starts from a model: its network, and the place of its weights."""
    base_file(base)
    card = base_card(base)
    if card and card.net == "ensemble":
        raise ValueError(f"--from {base} is a combination of runs: give one of those it was made of")
    network = [f"net.name={card.net}", f"net.arguments={json.dumps(card.arguments)}"] if card else []
    return [*network, "net.pretrained=false", f"net.start={json.dumps(str(base.resolve()))}"]


def _same(first: Path, second: Path) -> bool:
    return first.resolve() == second.resolve()


def _chosen(store: Path, split: str, labeled: str | None) -> dict[str, Any]:
    """Return the fields of `DataConfig` that are given."""
    chosen: dict[str, Any] = {"store": store, "split": split}
    return chosen if labeled is None else chosen | {"labeled": labeled}
