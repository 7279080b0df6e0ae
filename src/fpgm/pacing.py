"""How long work takes: in words, and when to say so where there is no terminal that draws a progress bar."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

Clock = Callable[[], float]
Name = TypeVar("Name", bound=str)
EVERY = 30.0  # seconds between two lines


class Pace:
    """Time of a work that is counted: when a line about it is due, and how long the rest takes.

    Args:
        start: how much was done before.
        total: how much there is.
        every: seconds between two lines.
        clock: gives the time in seconds.
    """

    def __init__(self, start: int, total: int, every: float = EVERY, clock: Clock = time.monotonic) -> None:
        self.start, self.total, self.every, self.clock = start, total, every, clock
        self.began = self.said = clock()

    def due(self) -> bool:
        """Whether it is time for a line; the next one is due `every` seconds later."""
        if self.clock() - self.said < self.every:
            return False
        self.restart()
        return True

    def restart(self) -> None:
        """Count the time to the next line from now on."""
        self.said = self.clock()

    def left(self, done: int) -> str:
        """Write how long the rest takes at the mean pace so far: ", about 5 min left", or nothing."""
        if done <= self.start or done >= self.total:
            return ""
        each = (self.clock() - self.began) / (done - self.start)
        return f", about {duration(each * (self.total - done))} left"


def take_turns(sides: Mapping[Name, Callable[[], object]], rounds: int = 30, warm_up: int = 3) -> dict[Name, float]:
    """Return the least seconds of each side over ``rounds`` turns: what it costs when nothing else runs."""
    spent: dict[Name, list[float]] = {name: [] for name in sides}
    for turn in range(warm_up + rounds):
        for name, run in sides.items():
            start = time.perf_counter()
            run()
            if turn >= warm_up:
                spent[name].append(time.perf_counter() - start)
    return {name: min(values) for name, values in spent.items()}


def duration(seconds: float) -> str:
    """Write a time for a person: 12 s, 5 min, 2 h 5 min, 3 d 4 h."""
    for unit, name, part, small in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if seconds >= unit:
            return f"{seconds // unit:.0f} {name} {seconds % unit // part:.0f} {small}"
    return f"{seconds / 60:.0f} min" if seconds >= 100 else f"{seconds:.0f} s"
