"""How every benchmark measures: all sides in one run, taking turns, so that a busy machine is unfair to none."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read once, when torch is first imported

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROWS = "FPGM_BENCH_ROWS"  # names the file in which `make bench` collects the rows

logging.disable(logging.INFO)  # lightning_fabric tells of every precision it is given


@dataclass(frozen=True)
class Row:
    """What ours costs beside another: both in seconds or, with the unit "MB", in MB.

    A unit such as "images/s" shows one over the seconds. ``target`` is the most the ratio may be, or with ``fast``,
    which turns the ratio round, the least; ``limit`` is the most that ours may cost, whatever the other does. A row of
    a ``curve`` is drawn on the page, ``at`` this place of its axis.
    """

    part: str
    what: str
    ours: float
    other: float
    against: str
    target: float | None = None
    unit: str = "s"
    fast: bool = False
    limit: float | None = None
    curve: str = ""
    at: float = 0.0

    @property
    def ratio(self) -> float:
        """How many times the other's cost ours is; with ``fast``, how many times as fast."""
        return self.other / self.ours if self.fast else self.ours / self.other

    @property
    def met(self) -> bool | None:
        """Whether target and limit are kept; None if there is neither."""
        kept = [] if self.limit is None else [self.ours <= self.limit]
        if self.target is not None:
            kept.append(self.ratio >= self.target if self.fast else self.ratio <= self.target)
        return all(kept) if kept else None

    def cells(self) -> list[str]:
        """Return the row as text: part, what, ours, the other, its figure, ratio, target, met."""
        ratio = f"{number(self.ratio)}×" + " as fast" * self.fast
        aims = [] if self.target is None else [f"{'≥' if self.fast else '≤'} {self.target:g}×"]
        if self.limit is not None:
            aims.append(f"{'≥' if self.unit.endswith('/s') else '≤'} {amount(self.limit, self.unit)}")
        met = {True: "yes", False: "**no**", None: ""}[self.met]
        ours, other = amount(self.ours, self.unit), amount(self.other, self.unit)
        return [self.part, self.what, ours, self.against, other, ratio, " and ".join(aims), met]


def number(value: float) -> str:
    """Write a number with three digits, or three decimals where it is near 1 or below."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value >= 2 else f"{value:.3f}"


def amount(cost: float, unit: str) -> str:
    """Write a cost with its unit, seconds as what reads best."""
    if unit == "s":
        scale, unit = (1e6, "µs") if cost < 1e-3 else (1e3, "ms") if cost < 1 else (1, "s")
        return f"{number(cost * scale)} {unit}"
    return f"{number(1 / cost if unit.endswith('/s') else cost)} {unit}"


def compare(part: str, what: str, ours: float, other: float, against: str, **more: Any) -> None:
    """Print a row, and add it to the table of `make bench` if that is running; see ``Row`` for the arguments."""
    row = Row(part, what, ours, other, against, **more)
    _, what, mine, against, theirs, ratio, aim, met = row.cells()
    note = f"  (target {aim}: {'met' if row.met else 'MISSED'})" if met else ""
    print(f"  {what:48s}{mine:>14s}  {ratio:>16s}  {against}, {theirs}{note}", flush=True)
    if ROWS in os.environ:
        with Path(os.environ[ROWS]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(row)) + "\n")


def take_turns(sides: Mapping[str, Callable[[], object]], rounds: int = 30, warm_up: int = 3) -> dict[str, float]:
    """Return the least seconds of each side over ``rounds`` turns: what it costs when nothing else runs."""
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(warm_up + rounds):
        for name, run in sides.items():
            start = time.perf_counter()
            run()
            if turn >= warm_up:
                spent[name].append(time.perf_counter() - start)
    return {name: min(values) for name, values in spent.items()}


def memory(field: str = "RssAnon", pid: int | str = "self") -> float:
    """MB a process holds: RssAnon, what it shares with neither files nor others; VmHWM, the most it ever held."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024
