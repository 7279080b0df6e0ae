"""``metrics.csv``: losses, validation Dice and speed by step."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fpgm.files import disk_of, read_file, write_text
from fpgm.runs.folder import RunFolder


class MetricsFile:
    """`metrics.csv`: a row per logged step; a value that a step does not have is left empty.

    Args:
        path: the file; rows of steps from `start` on are dropped, because a resumed run makes them again.
        start: the first step that is still to come.
    """

    def __init__(self, path: Path, start: int) -> None:
        self.path = path
        self.columns: list[str] = ["step"]
        self.rows: list[dict[str, str]] = []
        if start and path.is_file():
            whole, _, _ = path.read_text(encoding="utf-8", errors="replace").rpartition("\n")
            reader = csv.DictReader(io.StringIO(whole))
            if "step" in (reader.fieldnames or ()):
                self.columns = list(reader.fieldnames or ())
                self.rows = [row for row in reader if row["step"].isdigit() and int(row["step"]) <= start]
        self._rewrite()

    def add(self, step: int, values: Mapping[str, float | str]) -> None:
        """Append a row; a new name adds a column."""
        row = {"step": str(step), **{name: _text(value) for name, value in values.items()}}
        self.rows.append(row)
        new = [name for name in row if name not in self.columns]
        if new:
            self.columns += new
            self._rewrite()
        else:
            with disk_of(self.path), self.path.open("a", newline="", encoding="utf-8") as file:
                csv.DictWriter(file, self.columns).writerow(row)

    def _rewrite(self) -> None:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self.columns)
        writer.writeheader()
        writer.writerows(self.rows)
        write_text(self.path, text.getvalue())


def read_metrics(run: Path) -> list[dict[str, str]]:
    """Read the rows of a run; a value that a step does not have is an empty text."""
    path = RunFolder(run).metrics
    if not path.is_file():
        raise FileNotFoundError(f"{run} is not a whole run: it has no {path.name}; copy the whole folder again")
    try:
        rows = list(csv.DictReader(io.StringIO(read_file(path).decode(), newline="")))
        for number, row in enumerate(rows, start=2):
            _check_row(row, number)
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{path} cannot be read ({error}); copy the whole folder again") from None
    return rows


def _check_row(row: Mapping[str | None, Any], number: int) -> None:
    """Refuse a row that was not written here: its step and the values that are drawn are numbers, in their columns."""
    if None in row or None in row.values() or not str(row.get("step")).isdecimal():
        raise ValueError(f"line {number} is not a row of a step")
    for column in ("sup", "val_dice"):
        if row.get(column):
            float(row[column])


def _text(value: float | str) -> str:
    return f"{value:.6g}" if isinstance(value, float) else value
