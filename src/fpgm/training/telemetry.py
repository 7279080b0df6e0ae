"""What a run reports while it runs: progress bar, metrics.csv, TensorBoard."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from fpgm.runs.folder import RunFolder
from fpgm.runs.metrics import MetricsFile


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
        self.metrics = MetricsFile(RunFolder(folder).metrics, start)
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
