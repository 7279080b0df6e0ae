"""Images per second of the phantom, for 1 and 2 processes and sizes 128 and 256."""

from __future__ import annotations

import itertools
import time
from functools import partial

from fpgm.data.parallel import Workers
from fpgm.data.synthetic import phantom

COUNT, WARM_UP, ROUNDS = 256, 64, 3


def rate(size: int, processes: int) -> float:
    """Images per second over ``COUNT`` pictures once the processes are up; the best of a few rounds."""
    draw, best = partial(phantom, "phantom-a", size=size), 0.0
    with Workers(processes) as workers:
        list(workers.map(draw, range(WARM_UP)))
        for _ in range(ROUNDS):
            start = time.perf_counter()
            drawn = sum(1 for _ in workers.map(draw, range(COUNT)))
            best = max(best, drawn / (time.perf_counter() - start))
    return best


def main() -> None:
    """Print the table."""
    print(f"{'size':>5} {'processes':>9} {'images/s':>9}")
    for size, processes in itertools.product((128, 256), (1, 2)):
        print(f"{size:>5} {processes:>9} {rate(size, processes):>9.0f}", flush=True)


if __name__ == "__main__":
    main()
