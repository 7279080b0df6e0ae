"""Time the audit of 3,248 images, and show how the search for near duplicates grows with the number of images.

    python benchmarks/audit.py [--data STORE] [--images 3248] [--hashes 5000 20000]

STORE is filled up with phantoms to so many images; without it all are phantoms. The audit reads the store, finds the
duplicates and sorts them by data set; beside it stands a loop over all pairs of fingerprints, and no more. The search
is timed on random fingerprints, one image in ten near another; beside its memory stands a table of all distances.
"""

from __future__ import annotations

from harness import compare, memory, take_turns

import argparse
import tempfile
import tracemalloc
from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np

from fpgm.data.fingerprint import NEAR, Packed, close_pairs, distances, pack
from fpgm.data.splits import audit
from fpgm.data.splits.duplicates import gather
from fpgm.data.store import Store, open_stores
from fpgm.data.synthetic_store import build_phantom

LOOP = "a loop over all pairs"


def run_audit(stores: dict[str, Store]) -> str:
    """Audit the data sets and say what was found."""
    evidence = gather(stores)
    parts = {name: [f"{name}/{id_}" for id_ in store.ids] for name, store in stores.items()}
    findings = audit.judge(evidence, parts)
    audit.strangers(stores, set(evidence.ids))
    leaks = sum(finding.verdict == "LEAK" for finding in findings)
    return f"{len(evidence.first)} pairs, {leaks} leaks"


def loop(packed: Packed) -> int:
    """Count the near pairs as a script would: fingerprints as whole numbers, one pair after the other."""
    numbers = [int.from_bytes(row.tobytes(), "big") for row in packed]
    return sum((a ^ b).bit_count() <= NEAR for a, b in combinations(numbers, 2))


def time_audit(stores: dict[str, Store]) -> None:
    """Compare the whole audit with the loop alone."""
    packed = pack([text for store in stores.values() for text in store.dhash])
    before, found = memory("VmHWM"), run_audit(stores)
    print(f"{len(packed)} images, {found}: peak memory {before:.0f} -> {memory('VmHWM'):.0f} MB")
    seconds = take_turns({"audit": partial(run_audit, stores), "loop": partial(loop, packed)}, 2, warm_up=0)
    ours, other = (value / len(packed) for value in seconds.values())
    compare("audit", f"all of it, {len(packed):,} images", ours, other, LOOP, unit="images/s", fast=True)


def fingerprints(count: int) -> Packed:
    """Random fingerprints of which every tenth is the one before with four bits changed."""
    packed = np.random.default_rng(0).integers(0, 256, (count, 32), dtype=np.uint8)
    packed[9::10] = packed[8::10][: len(packed[9::10])]
    packed[9::10, 0] ^= 15
    return packed


def allocated(run: Callable[[], object]) -> float:
    """Return the most MB a call held at once."""
    tracemalloc.start()
    run()
    most = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return most


def time_search(counts: list[int]) -> None:
    """Compare the search in the fewest images with the loop, and that in more images with it."""
    few, *more = sorted(counts)
    packed = fingerprints(few)
    assert len(close_pairs(packed)[0]) == loop(packed)
    seconds = take_turns({"ours": lambda: close_pairs(packed), "loop": lambda: loop(packed)}, 3, warm_up=0)
    held = allocated(lambda: close_pairs(packed))
    whole = allocated(lambda: distances(packed, packed))
    compare("audit", f"search in {few:,} fingerprints", seconds["ours"], seconds["loop"], LOOP, fast=True)
    compare("audit", f"memory of the search in {few:,}", held, whole, "a table of all distances", unit="MB")
    for count in more:
        run = partial(close_pairs, fingerprints(count))
        longer, against = take_turns({"": run}, 2, warm_up=0)[""], f"in {few:,}"
        pairs = f"{against} ({(count / few) ** 2:.3g} times fewer pairs)"
        compare("audit", f"search in {count:,} fingerprints", longer, seconds["ours"], pairs)
        compare("audit", f"memory of the search in {count:,}", allocated(run), held, against, unit="MB")


def main() -> None:
    """Run both parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--images", type=int, default=3248)
    parser.add_argument("--hashes", type=int, nargs="+", default=[5000, 20000])
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
