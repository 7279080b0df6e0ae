"""``fpgm train``: one run, from a store to a model."""

from __future__ import annotations

from pathlib import Path
from typing import Literal


def train(
    *,
    out: Path,
    data: Path | None = None,
    method: str | None = None,
    labeled: str | None = None,
    split: str | None = None,
    preset: Literal["paper", "mini"] | None = None,
    iterations: int | None = None,
    seed: int | None = None,
    from_: Path | None = None,
    set: list[str] | None = None,
    resume: bool = False,
    cross_validate: int | None = None,
    accelerator: str = "auto",
    devices: int = 1,
    num_nodes: int = 1,
    precision: str | None = None,
    track: list[Literal["mlflow", "wandb"]] | None = None,
) -> int:
    """Train a model; a stopped or killed run continues with --resume and ends with the same weights.

    `fpgm train --data STORE --out RUN` is enough to begin, and `fpgm train --resume --out RUN` to continue.

    Args:
        out: run folder to write.
        data: store that `fpgm data prepare` or `fpgm data synth` made; only a resumed run needs none.
        method: name of the method: fpgm_teacher if not given; supervised, fpgm …; a wrong name lists them. Also a name
            that an installed package registers, or package.module:Class, which is imported.
        labeled: number or percentage of training images whose masks may be used, or all. If not given, 5% where a data
            set of the paper or the phantom is trained on, and all of one's own.
        split: name of a folder under STORE/splits, or path of a split; the only one of the store if not given.
        preset: source of the defaults: mini, for a CPU and few labels, if not given; or paper, the paper's setting,
            which needs a GPU.
        iterations: number of steps; the preset's if not given. With --resume of a run that has ended, a larger number
            goes on: the learning rate is that of the new number from there on.
        seed: seed of weights, batches and augmentation; 0 if not given.
        from_: run folder, model folder, or safetensors file of an encoder, to start from; the network is that of the
            model. What of a file matches is said.
        set: further settings as key=value, e.g. method.gamma=0.1 optimizer.lr=0.02; may be repeated. A wrong key is
            refused with the nearest ones. net.NAME=VALUE sets an argument of the network.
        resume: continue the run in --out from its last checkpoint, with its settings; others are refused.
        cross_validate: number of folds. Before the run, train so many times without one fold of the labelled images,
            whole groups at a time, and score it; the mean Dice is printed and kept in RUN/cross_validation.json.
        accelerator: kind of device: auto, cpu, cuda, mps …, as in Lightning Fabric.
        devices: number of processes per machine, one per device.
        num_nodes: number of machines.
        precision: 32-true, bf16-mixed, 16-mixed, or auto: bf16-mixed on a GPU that has it, 32-true elsewhere. If not
            given, 32-true in the preset paper and auto in mini.
        track: also give settings and figures, no images, to mlflow (at MLFLOW_TRACKING_URI, else in RUN/mlruns) or
            wandb (in RUN/wandb; sent only if WANDB_MODE is online).
    """
    from fpgm.cli.terminal import console
    from fpgm.training.start import start
    from fpgm.training.trainer import Stopped

    output = console()
    try:
        trainer = start(
            out,
            data,
            method=method,
            labeled=labeled,
            split=split,
            preset=preset,
            iterations=iterations,
            seed=seed,
            base=from_,
            precision=precision,
            settings=set or (),
            resume=resume,
            cross_validate=cross_validate,
            accelerator=accelerator,
            devices=devices,
            num_nodes=num_nodes,
            track=track or (),
            console=output,
        )
    except Stopped as stopped:
        if stopped.rank:
            return 0  # at any other code of a child the launcher kills rank zero, which may still be busy
        said = f"stopped before step {stopped.step}, all is saved; go on with `fpgm train --resume --out {out}`"
        output.print(said, soft_wrap=True)
        return 130
    if trainer.fabric.is_global_zero:
        dice, step = trainer.best_score["dice"], trainer.best_score["step"]
        told = f"best validation Dice {dice:.4f} at step {step:.0f}"
        if not step:
            told = f"no validation images, so these are the {trainer.shipped()} of the last step"
        output.print(f"{told}; the model is in {out / 'model'}")
    return 0
