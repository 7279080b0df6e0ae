"""How every benchmark measures: all sides in one run, taking turns, so that a busy machine is unfair to none."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read once, when torch is first imported

import logging
import time
from collections.abc import Callable, Mapping

logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it tells of every precision it is given


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


def row(label: str, seconds: float, note: str = "") -> None:
    """Print one line of a table: what, how long, and how it compares."""
    print(f"  {label:32s}{seconds * 1e3:9.2f} ms  {note}".rstrip())
