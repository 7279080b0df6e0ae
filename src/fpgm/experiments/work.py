"""The two steps of a cell: training and evaluation."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path

import torch
from rich.console import Console

from fpgm.evaluation import evaluate_run
from fpgm.experiments.plan import Cell
from fpgm.experiments.runner import Steps
from fpgm.training.run import train
from fpgm.training.trainer import Stopped, Trainer


def make_steps(accelerator: str, console: Console | None = None) -> Steps:
    """Return the steps of real cells.

    Args:
        accelerator: accelerator of the training, as `fpgm train` takes it.
        console: console for the progress of both steps; None where several cells are computed at a time.
    """
    return Steps(
        train=partial(train_cell, accelerator=accelerator, console=console),
        evaluate=partial(evaluate_cell, console=console),
    )


def train_cell(cell: Cell, *, accelerator: str, console: Console | None) -> torch.device:
    """Train a cell and return the device it was trained on."""
    return trained(cell, accelerator, console).fabric.device


def trained(cell: Cell, accelerator: str, console: Console | None = None) -> Trainer:
    """Train a cell from its last checkpoint on; on a request to stop it saves and raises KeyboardInterrupt."""
    try:
        trainer = train(cell.config(), cell.folder, resume=True, accelerator=accelerator, console=console)
    except Stopped:
        raise KeyboardInterrupt from None  # no failure of this cell, and no other is to be begun
    if trainer.stop_requested:  # during the last step: the run has ended, but nothing else is to begin
        raise KeyboardInterrupt
    return trainer


def evaluate_cell(cell: Cell, device: torch.device, *, console: Console | None) -> Path:
    """Evaluate a cell on all test and unseen sets."""
    with console.status("evaluating") if console else nullcontext() as status:

        def advance(name: str, done: int, total: int) -> None:
            if status:
                status.update(f"evaluating {name}: {done} of {total} images")

        return evaluate_run(cell.folder, cell.store, device=device, advance=advance)
