"""What a run reports while it runs: progress bar, metrics.csv, TensorBoard."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from fpgm.files import disk_of, write_text


class MetricsFile:
    """`metrics.csv`: a row per logged step; a value that a step does not have is left empty.

    Args:
        path: file to write; rows of steps from `start` on are dropped, because a resumed run makes them again.
        start: first step that is still to come.
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


class _Bar(Progress):
    """A progress bar with a line of values below it."""

    values = ""

    def get_renderables(self) -> Iterator[RenderableType]:
        """Give the bar and its line."""
        yield from super().get_renderables()
        yield Text(self.values, style="dim")


class Telemetry:
    """Progress bar, metrics.csv and TensorBoard of a run.

    Args:
        folder: run folder.
        start: first step to come.
        total: number of steps.
        console: where the progress bar is drawn; None for none.
    """

    def __init__(self, folder: Path, start: int, total: int, console: Console | None) -> None:
        self.metrics = MetricsFile(folder / "metrics.csv", start)
        self.writer = _tensorboard(folder / "tensorboard", start)
        self.progress = _Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
            disable=console is None,
        )
        self.task = self.progress.add_task("training", total=total, completed=start)
        self.clock = time.perf_counter(), start

    def __enter__(self) -> Telemetry:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()
        if self.writer is not None:
            self.writer.close()

    def speed(self, step: int) -> float:
        """Return the steps per second since the last call."""
        before, self.clock = self.clock, (time.perf_counter(), step)
        return (self.clock[1] - before[1]) / (self.clock[0] - before[0])

    def advance(self, step: int) -> None:
        """Move the bar."""
        self.progress.update(self.task, completed=step)

    def log(self, step: int, values: Mapping[str, float | str]) -> None:
        """Show and keep the values of a step."""
        self.metrics.add(step, values)
        numbers = {name: value for name, value in values.items() if isinstance(value, float)}
        self.progress.values = "  ".join(f"{name} {value:.3g}" for name, value in numbers.items())
        if self.writer is not None:
            for name, value in numbers.items():
                self.writer.add_scalar(name, value, step)


def _tensorboard(folder: Path, start: int) -> Any:
    """Return a TensorBoard writer, or None where the extra `tb` is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=start)


def _text(value: float | str) -> str:
    return f"{value:.6g}" if isinstance(value, float) else value
