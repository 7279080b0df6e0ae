"""Cells that take no time: their folder says what they are to do, and who did it."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import torch

from fpgm.experiments.plan import Cell, Variant
from fpgm.experiments.runner import Outcome, Steps
from fpgm.runs.evaluation import FORMAT


def cell(out: Path, name: str = "supervised", seed: int = 0) -> Cell:
    variant = Variant(name, "supervised")
    return Cell(
        out / name / f"seed-{seed}", variant, "5%", seed, "mini", out / "store", "paper-0", (), ("main", "zero-shot")
    )


def note(cell: Cell, file: str, text: object) -> None:
    with (cell.folder / file).open("a") as stream:
        stream.write(f"{text}\n")


def notes(cell: Cell, file: str) -> list[str]:
    path = cell.folder / file
    return path.read_text().split() if path.is_file() else []


def train(cell: Cell) -> str:
    """Do what the name of the variant says, once or always, and note the process."""
    first = not notes(cell, "trained")
    note(cell, "threads", torch.get_num_threads())
    note(cell, "devices", os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
    note(cell, "trained", os.getpid())  # last, because some tests kill the process once it is there
    deed = cell.variant.name
    if deed == "broken" or (deed == "shaky" and first):
        raise RuntimeError("the disk is on fire")
    if deed == "mistaken":
        raise ValueError("a sentence for the user")
    if deed == "dying" and first:
        os.kill(os.getpid(), signal.SIGKILL)
    if deed == "preempted" and first:
        time.sleep(600)  # until a signal comes
    if deed == "hanging" and first:
        signal.sigwait({signal.SIGUSR1})  # which nobody sends
    return "device"


def evaluate(cell: Cell, device: str) -> None:
    assert device == "device"
    folder = cell.folder / "evaluation"
    folder.mkdir(exist_ok=True)
    (folder / "evaluation.json").write_text(json.dumps({"format": FORMAT}))


STEPS = Steps(train, evaluate)


class Diary:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def started(self, cell: Cell) -> None:
        self.lines.append(f"started {cell.variant.name} {cell.seed}")

    def ended(self, outcome: Outcome, again: bool) -> None:
        self.lines.append(f"{outcome.state} {outcome.cell.variant.name} {outcome.cell.seed}{' again' * again}")

    def waiting(self, count: int) -> None:
        self.lines.append(f"waiting {count}")


# a program that holds a lock file until it is sent a line
HOLD = """
import fcntl, sys
with open(sys.argv[1], "w") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("held", flush=True)
    sys.stdin.readline()
"""
