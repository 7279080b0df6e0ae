"""metrics.csv and the progress bar."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from rich.console import Console

from fpgm.training.telemetry import MetricsFile, Telemetry


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_new_name_adds_a_column(tmp_path: Path) -> None:
    metrics = MetricsFile(tmp_path / "metrics.csv", 0)
    metrics.add(1, {"loss": 0.5, "stage": "train"})
    metrics.add(2, {"loss": 0.25})
    metrics.add(3, {"val_dice": 1.0})
    assert read(tmp_path / "metrics.csv") == [
        {"step": "1", "loss": "0.5", "stage": "train", "val_dice": ""},
        {"step": "2", "loss": "0.25", "stage": "", "val_dice": ""},
        {"step": "3", "loss": "", "stage": "", "val_dice": "1"},
    ]


def test_a_resumed_file_drops_what_will_be_made_again(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    metrics = MetricsFile(path, 0)
    for step in (2, 4, 6):
        metrics.add(step, {"loss": float(step)})
    with path.open("a") as file:
        file.write("8,")  # cut off by a kill
    resumed = MetricsFile(path, 4)
    assert [row["step"] for row in read(path)] == ["2", "4"]
    resumed.add(6, {"loss": 1.0})
    assert [row["step"] for row in read(path)] == ["2", "4", "6"]


def test_a_new_run_starts_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("step,loss\n1,2\n")
    MetricsFile(tmp_path / "metrics.csv", 0)
    assert read(tmp_path / "metrics.csv") == []


def test_the_bar_shows_values_and_tensorboard_keeps_them(tmp_path: Path) -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=100)
    with Telemetry(tmp_path, 0, 10, console) as telemetry:
        telemetry.log(1, {"stage": "train", "loss": 0.125, "confident": 0.5, "it/s": telemetry.speed(1)})
        telemetry.advance(1)
    assert "1/10" in text.getvalue() and "loss 0.125  confident 0.5" in text.getvalue()
    assert list((tmp_path / "tensorboard").iterdir())
