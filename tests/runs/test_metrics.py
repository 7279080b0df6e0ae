"""metrics.csv: rows by step, resumed files."""

from __future__ import annotations

import csv
from pathlib import Path

from fpgm.runs.metrics import MetricsFile


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
