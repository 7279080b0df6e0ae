"""Images per second of the phantom at sizes 128 and 256, two processes beside one. The target is 200 at 128 on two."""

from __future__ import annotations

from harness import compare, take_turns

from collections.abc import Callable
from functools import partial

from fpgm.data.parallel import Workers
from fpgm.data.synthetic import phantom

COUNT, WARM_UP, ROUNDS = 256, 64, 2
TARGET = {128: 200}  # images/s by size


def drawing(workers: Workers, size: int) -> Callable[[], int]:
    """Return what draws ``COUNT`` pictures, once the processes are up."""
    draw = partial(phantom, "phantom-a", size=size)
    list(workers.map(draw, range(WARM_UP)))
    return lambda: sum(1 for _ in workers.map(draw, range(COUNT)))


def main() -> None:
    """Let one process and two take turns."""
    for size in (128, 256):
        with Workers(1) as one, Workers(2) as two:
            sides = {"one": drawing(one, size), "two": drawing(two, size)}
            slow, quick = (value / COUNT for value in take_turns(sides, ROUNDS, warm_up=0).values())
        limit = 1 / TARGET[size] if size in TARGET else None
        what = f"phantoms of {size}², 2 processes"
        compare("synthetic", what, quick, slow, "1 process", unit="images/s", fast=True, limit=limit)


if __name__ == "__main__":
    main()
