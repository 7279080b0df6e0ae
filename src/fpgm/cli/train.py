"""``fpgm train``: one run, from a store to a model."""

from __future__ import annotations

from pathlib import Path
from typing import Literal


def train(
    *,
    method: str,
    data: Path,
    out: Path,
    labeled: str = "5%",
    split: str | None = None,
    preset: Literal["paper", "mini"] = "paper",
    iterations: int | None = None,
    seed: int = 0,
    set: list[str] | None = None,
    resume: bool = False,
    accelerator: str = "auto",
    devices: int = 1,
    num_nodes: int = 1,
    precision: str | None = None,
) -> int:
    """Train a method; a stopped or killed run continues with --resume and ends with the same weights.

    Args:
        method: name of the method: supervised, fpgm …; a wrong name lists them.
        data: store that `fpgm data prepare` or `fpgm data synth` made.
        out: run folder to write.
        labeled: number or percentage of training images whose masks may be used.
        split: name of a folder under STORE/splits; the only one if not given.
        preset: source of the defaults: paper, the paper's setting; or mini, for a CPU and few labels.
        iterations: number of steps; the preset's if not given.
        seed: seed of weights, batches and augmentation.
        set: further settings as key=value, e.g. method.gamma=0.1 optimizer.lr=0.02; may be repeated. A wrong key is
            refused with the nearest ones.
        resume: continue the run in --out from its last checkpoint.
        accelerator: kind of device: auto, cpu, cuda, mps …, as in Lightning Fabric.
        devices: number of processes per machine, one per device.
        num_nodes: number of machines.
        precision: 32-true, bf16-mixed, 16-mixed, or auto: bf16-mixed on a GPU that has it, 32-true elsewhere. If not
            given, 32-true in the preset paper and auto in mini.
    """
    from fpgm.cli.terminal import console
    from fpgm.config import resolve
    from fpgm.training.run import train as run
    from fpgm.training.trainer import Stopped

    if devices < 1 or num_nodes < 1:
        raise ValueError(f"--devices {devices} and --num-nodes {num_nodes}: both must be at least 1")
    settings = [f"train.seed={seed}", *(set or [])]
    if iterations is not None:
        settings.append(f"train.iterations={iterations}")
    if precision is not None:
        settings.append(f"train.precision={precision}")
    chosen = {"store": data, "split": split or only_split(data), "labeled": labeled}
    config = resolve(preset, method, chosen, settings)
    output = console()
    try:
        trainer = run(
            config,
            out,
            resume=resume,
            accelerator=accelerator,
            devices=devices,
            num_nodes=num_nodes,
            console=output,
        )
    except Stopped as stopped:
        if stopped.rank:
            return 0  # at any other code of a child the launcher kills rank zero, which may still be busy
        output.print(f"stopped before step {stopped.step}, all is saved; go on with the same command and --resume")
        return 130
    if trainer.fabric.is_global_zero:
        dice, step = trainer.best_score["dice"], trainer.best_score["step"]
        output.print(f"best validation Dice {dice:.4f} at step {step:.0f}; the model is in {out / 'model'}")
    return 0


def only_split(store: Path) -> str:
    """Return the name of the one split of a store."""
    if not store.is_dir():
        raise FileNotFoundError(
            f"there is no store {store}: make it with `fpgm data prepare --root RAW --out {store}`, "
            f"or with drawn images with `fpgm data synth --out {store}`"
        )
    names = sorted(path.parent.name for path in (store / "splits").glob("*/split.json"))
    if len(names) == 1:
        return names[0]
    if names:
        raise ValueError(f"{store} has several splits, choose one with --split: {', '.join(names)}")
    raise FileNotFoundError(f"{store} has no split yet: make one with `fpgm data split --data {store}`")
