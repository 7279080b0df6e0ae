"""How every benchmark measures: all sides in one run, taking turns, so that a busy machine is unfair to none."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read once, when torch is first imported

import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fpgm.pacing import take_turns

__all__ = ["ROWS", "Row", "amount", "compare", "memory", "number", "precisions", "take_turns"]

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


def memory(field: str = "RssAnon", pid: int | str = "self") -> float:
    """MB a process holds: RssAnon, what it shares with neither files nor others; VmHWM, the most it ever held."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def precisions() -> dict[str, str]:
    """Return what steps are timed in: the names of precisions and what Fabric calls them; float32 is the last.

    Where the processor does not compute in bfloat16 itself, a step in it takes ten times as long, and says nothing.
    """
    from fpgm.serving.torch_engine import has_bfloat16

    return ({"bfloat16": "bf16-mixed"} if has_bfloat16() else {}) | {"float32": "32-true"}
