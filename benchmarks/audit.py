"""Time the audit of 3,248 images, and show how the search for near duplicates grows with the number of images.

    python benchmarks/audit.py [--data STORE] [--images 3248] [--hashes 2500 5000 10000 20000]

STORE is filled up with phantoms to so many images; without it all are phantoms. The audit reads the store, finds the
duplicates and sorts them by data set. The search is timed on random fingerprints, one image in ten near another;
beside its peak memory stands that of a table of all distances.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
import tracemalloc
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
from rich.console import Console
from rich.table import Table

from fpgm.data import audit
from fpgm.data.building import build_phantom
from fpgm.data.duplicates import gather
from fpgm.data.fingerprint import Packed, close_pairs
from fpgm.data.store import Store, open_stores


def peak() -> float:
    """Peak memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def time_audit(stores: dict[str, Store]) -> None:
    """Audit the data sets and say how long it took."""
    before, start = peak(), time.perf_counter()
    evidence = gather(stores)
    parts = {name: [f"{name}/{id_}" for id_ in store.ids] for name, store in stores.items()}
    findings = audit.judge(evidence, parts)
    audit.strangers(stores, set(evidence.ids))
    seconds = time.perf_counter() - start
    leaks = sum(finding.verdict == "LEAK" for finding in findings)
    print(f"{len(evidence.ids)} images, {len(evidence.first)} pairs, {leaks} leaks: {seconds:.2f} s", end=", ")
    print(f"peak memory {before:.0f} -> {peak():.0f} MB")


def fingerprints(count: int, rng: np.random.Generator) -> Packed:
    """Random fingerprints of which every tenth is the one before with four bits changed."""
    packed = rng.integers(0, 256, (count, 32), dtype=np.uint8)
    packed[9::10] = packed[8::10][: len(packed[9::10])]
    packed[9::10, 0] ^= 15
    return packed


def time_search(counts: list[int]) -> None:
    """Time the search for pairs and measure what it allocates."""
    rng = np.random.default_rng(0)
    table = Table("images", "seconds", "pairs", "peak MB", "MB of all distances", title="Search for near duplicates")
    for count in counts:
        packed = fingerprints(count, rng)
        start = time.perf_counter()
        found = len(close_pairs(packed)[0])
        seconds = time.perf_counter() - start
        tracemalloc.start()
        close_pairs(packed)
        memory = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        table.add_row(f"{count}", f"{seconds:.2f}", f"{found}", f"{memory:.0f}", f"{count**2 * 2 / 2**20:.0f}")
    Console().print(table)


def main() -> None:
    """Run both parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--images", type=int, default=3248)
    parser.add_argument("--hashes", type=int, nargs="+", default=[2500, 5000, 10000, 20000])
    options = parser.parse_args()
    stores = open_stores(options.data) if options.data else {}
    with tempfile.TemporaryDirectory() as folder:
        missing = options.images - sum(map(len, stores.values()))
        if missing > 0:
            build_phantom("phantom-a", Path(folder), missing, 128, 0)
            stores |= open_stores(Path(folder))
        time_audit(stores)
    time_search(options.hashes)


if __name__ == "__main__":
    main()
