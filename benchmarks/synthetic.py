"""Images per second of the phantom, for 1 and 2 processes and sizes 128 and 256."""

from __future__ import annotations

import itertools
import time

from fpgm.data.synthetic import DOMAINS, phantoms

COUNT, WARM_UP = 256, 256  # the pool draws 256 at a time, so the warm-up ends with a block
ROUNDS = 3


def rate(size: int, workers: int) -> float:
    """Images per second over ``COUNT`` pictures once the processes are up."""
    best = 0.0
    for domain in itertools.islice(itertools.cycle(DOMAINS), ROUNDS):
        stream = phantoms(domain, WARM_UP + COUNT, size=size, workers=workers)
        for _ in itertools.islice(stream, WARM_UP):
            pass
        start = time.perf_counter()
        drawn = sum(1 for _ in stream)
        best = max(best, drawn / (time.perf_counter() - start))
    return best


def main() -> None:
    """Print the table."""
    print(f"{'size':>5} {'processes':>9} {'images/s':>9}")
    for size, processes in itertools.product((128, 256), (1, 2)):
        workers = 0 if processes == 1 else processes
        print(f"{size:>5} {processes:>9} {rate(size, workers):>9.0f}", flush=True)


if __name__ == "__main__":
    main()
