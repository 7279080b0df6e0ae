"""What a run reports while it runs: progress bar or lines, metrics.csv, and trackers such as TensorBoard."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from fpgm.pacing import Clock, Pace, duration
from fpgm.runs.folder import RunFolder
from fpgm.runs.metrics import MetricsFile
from fpgm.training.trackers import Tracker

TIMED = 5  # steps from which the time of the whole run is estimated, after a first one that warms up


class _Bar(Progress):
    """A progress bar with a line of values below it."""

    values = ""

    def get_renderables(self) -> Iterator[RenderableType]:
        """Give the bar and its line."""
        yield from super().get_renderables()
        yield Text(self.values, style="dim")


class Telemetry:
    """Progress bar, metrics.csv and trackers of a run.

    Where the console is not a terminal there is no bar, but a line every half minute and at each validation. After the
    first steps both say how long the run will take.

    Args:
        folder: run folder.
        start: first step to come.
        total: number of steps.
        console: where the progress is shown; None for nowhere.
        clock: gives the time in seconds.
        trackers: take the figures too; one that fails is left, and the run goes on.
    """

    def __init__(
        self,
        folder: Path,
        start: int,
        total: int,
        console: Console | None,
        clock: Clock = time.perf_counter,
        trackers: Iterable[Tracker] = (),
    ) -> None:
        self.console, self.start, self.total, self.clock = console, start, total, clock
        self.has_bar = console is not None and console.is_terminal
        self.pace = Pace(start, total, clock=clock)
        self.warmed_up = self.pace.began
        self.loss = ""
        self.metrics = MetricsFile(RunFolder(folder).metrics, start)
        self.trackers = list(trackers)
        self.progress = _Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
            disable=not self.has_bar,
        )
        self.task = self.progress.add_task("training", total=total, completed=start)
        self.last = clock(), start

    def __enter__(self) -> Telemetry:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()
        for tracker in list(self.trackers):
            self._tell(tracker, lambda own: own.close(failed=kind is not None))

    def speed(self, step: int) -> float:
        """Return the steps per second since the last call."""
        before, self.last = self.last, (self.clock(), step)
        return (self.last[1] - before[1]) / (self.last[0] - before[0])

    def advance(self, step: int) -> None:
        """Move the bar, or write a line if it is time for one."""
        self.progress.update(self.task, completed=step)
        if step == self.start + 1:
            self.warmed_up = self.clock()
        elif step == self.start + 1 + TIMED and step < self.total:
            self._estimate(step)
        if not self.has_bar and self.pace.due():
            self._line(step)

    def _estimate(self, step: int) -> None:
        each = (self.clock() - self.warmed_up) / TIMED
        count = self.total - step
        self._say(f"about {duration(count * each)}: {count} more steps at {each:.2g} s")

    def _line(self, step: int, validation: str = "") -> None:
        self.pace.restart()
        self._say(f"step {step} of {self.total}{self.loss}{validation}{self.pace.left(step)}")

    def _say(self, text: str) -> None:
        if self.console is not None:
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def log(self, step: int, values: Mapping[str, float | str]) -> None:
        """Show and keep the values of a step."""
        self.metrics.add(step, values)
        numbers = {name: value for name, value in values.items() if isinstance(value, float)}
        self.progress.values = "  ".join(f"{name} {value:.3g}" for name, value in numbers.items())
        if "loss" in numbers:
            self.loss = f", loss {numbers['loss']:.3f}"
        if "val_dice" in numbers and not self.has_bar:
            best = numbers.get("val_best_dice", numbers["val_dice"])
            self._line(step, f", validation Dice {numbers['val_dice']:.4f} (best {best:.4f})")
        for tracker in list(self.trackers):
            self._tell(tracker, lambda own: own.log(step, numbers))

    def _tell(self, tracker: Tracker, tell: Callable[[Tracker], None]) -> None:
        """Tell a tracker something; one that fails, for example because its server is gone, gets nothing more."""
        try:
            tell(tracker)
        except Exception as error:  # of another package, or of a server
            self.trackers.remove(tracker)
            self._say(
                f"{type(tracker).__name__} gets no more figures, the run goes on: {type(error).__name__}: {error}"
            )
