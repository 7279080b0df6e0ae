"""Start runs as a person does, and look at what they leave."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import torch
from safetensors import safe_open

from fpgm.cli import main
from tests.processes import PATIENCE, alone

SMALL = [
    "net.name=unet",
    "net.arguments={channels: [2, 4, 4, 8, 8]}",
    "data.batch_labeled=4",
    "data.batch_unlabeled=4",
]
OFTEN = [
    "train.validate_every=4",
    "train.save_every=2",
    "train.log_every=1",
    "train.pictures_every=0",
    "train.choose_statistics=false",
]


TWO = ("--devices", "2", "--accelerator", "cpu")


def arguments(store: Path, out: Path, *more: str, method: str = "fpgm", iterations: int = 12) -> list[str]:
    options = ["--method", method, "--data", str(store), "--out", str(out), "--labeled", "16", "--preset", "mini"]
    settings = [*SMALL, *OFTEN, "method.threshold=0.5"] if method == "fpgm" else [*SMALL, *OFTEN]
    return ["train", *options, "--iterations", str(iterations), *more, "--set", *settings]


def complete(command: list[str]) -> None:
    """Run a command to its end in this process, which prepares its batches too."""
    assert main([*command, "data.workers=0"]) == 0


def complete_fresh(command: list[str]) -> None:
    """Run a command to its end in an interpreter of its own, which starts those of other ranks."""
    words = [sys.executable, "-m", "fpgm", *command]
    done = subprocess.run(words, env=alone(), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def weights(run: Path, name: str = "last") -> dict[str, torch.Tensor]:
    with safe_open(run / "checkpoints" / f"{name}.safetensors", "pt") as file:
        return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  # it is not a dict


def rows(run: Path) -> list[dict[str, str]]:
    with (run / "metrics.csv").open(newline="") as file:
        return [{name: value for name, value in row.items() if name != "it/s"} for row in csv.DictReader(file)]


def same(left: Path, right: Path) -> None:
    for name in ("last", "best"):
        expected, found = weights(left, name), weights(right, name)
        assert expected.keys() == found.keys()
        assert all(torch.equal(expected[key], found[key]) for key in expected)
    assert rows(left) == rows(right)
