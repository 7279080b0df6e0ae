"""How cost grows with the side of the images, the batch, the number of unlabelled images, and the runs of a report.

    python benchmarks/growth.py [--unlabeled 200 2000 20000 100000] [--runs 10 100 1000]

The step is FPGM's in the fastest precision, with the loader's work in it where stores are compared. The start of a
run is a whole run of one step, from reading store and split to the model; its memory is the most that a process of
its own held.
"""

from __future__ import annotations

from harness import compare, memory, take_turns

import argparse
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fpgm.config import resolve
from fpgm.data.batches.batch import Batch
from fpgm.data.splits.split import Split
from fpgm.data.store import Store
from fpgm.methods import METHODS
from fpgm.training.run import train
from step import make_batch, make_trainer
from streams import VIEWS, make_store, make_stream

sys.path.insert(0, str(Path(__file__).parents[1]))  # runs are written as tests write them

from tests.report.making import write_run

SIZE, MASKED, VALIDATION = 32, 70, 8  # make_store gives masks to so many images


def step_on(folder: Path, batches: Iterator[Batch]) -> Callable[[], object]:
    """Return a step that asks for its own batch."""
    trainer = make_trainer(folder)
    return lambda: trainer.step(next(batches), trainer.method.stages[0])


def compare_steps(folder: Path, curve: str, batches: dict[str, tuple[int, int]], axis: int) -> None:
    """Compare steps of some count and size with the first of them, which has the fewest pixels.

    Args:
        folder: folder of the runs.
        curve: name of their curve.
        batches: images of each kind in a batch, and their side.
        axis: which of the two grows.
    """
    sides = {name: step_on(folder, repeat(make_batch(*batch))) for name, batch in batches.items()}
    times = take_turns(sides, rounds=2, warm_up=1)
    first = next(iter(batches))
    pixels = {name: count * size**2 for name, (count, size) in batches.items()}
    for name, batch in batches.items():
        against = f"{first} ({pixels[name] // pixels[first]} times fewer pixels)"
        compare("growth", f"FPGM step, {name}", times[name], times[first], against, curve=curve, at=batch[axis])


def make_data(folder: Path, count: int) -> Path:
    """Write a store and a split with so many unlabelled images."""
    ids = [f"noise/{id_}" for id_ in make_store(folder, MASKED + count, SIZE).ids]
    split = Split(tuple(ids[VALIDATION:]), tuple(ids[:VALIDATION]), (), (), "benchmark", 0, without_mask=count)
    split.save(folder / "splits" / "benchmark")
    return folder


def run_once(store: Path) -> None:
    """Train for one step in a new folder."""
    data = {"store": store, "split": "benchmark", "labeled": str(MASKED - VALIDATION)}
    config = resolve("mini", "fpgm", data, ["train.iterations=1", "train.pictures_every=0"])
    with tempfile.TemporaryDirectory() as folder:
        train(config, Path(folder), accelerator="cpu")


def peak(store: Path) -> float:
    """Return the most MB this process held, which has done nothing but one run."""
    run_once(store)
    return memory("VmHWM")


def peak_apart(store: Path) -> float:
    """Return the same of a new process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(peak, store).result()


def load(store: Path) -> Iterator[Batch]:
    """Give batches that are prepared when they are asked for, so that a step pays for all of it."""
    return make_stream(Store.open(store / "noise"), VIEWS["paper"]).loop(0, 10**6, workers=0)


def unlabeled(folder: Path, counts: list[int]) -> None:
    """Compare start, step and memory with those of the smallest store."""
    stores = {f"{count:,}": make_data(folder / str(count), count) for count in sorted(counts)}
    starts = take_turns({name: partial(run_once, store) for name, store in stores.items()}, rounds=2, warm_up=1)
    steps = take_turns({name: step_on(folder, load(store)) for name, store in stores.items()}, rounds=10)
    peaks = {name: peak_apart(store) for name, store in stores.items()}
    few = next(iter(stores))
    for count, name in zip(sorted(counts), stores, strict=True):
        more: dict[str, Any] = {"against": f"{few} unlabelled", "at": count}
        start, step, most = (f"{what} by unlabelled images" for what in ("a run of one step", "a step", "peak memory"))
        compare("growth", f"run of 1 step, {name} unlabelled", starts[name], starts[few], curve=start, **more)
        compare("growth", f"FPGM step, {name} unlabelled", steps[name], steps[few], curve=step, **more)
        what = f"peak memory, {name} unlabelled"
        compare("growth", what, peaks[name], peaks[few], curve=most, unit="MB", **more)


def make_runs(folder: Path, count: int) -> None:
    """Write evaluated runs of ten methods, seed by seed: two sets of 50 images each."""
    for number in range(count):
        method, seed = sorted(METHODS)[number % 10], number // 10
        masks = np.random.default_rng(number).random((50, 16, 16)) < 0.3
        found = {"Kvasir-SEG": masks, "CVC-300": masks}
        truth = {name: np.roll(masks, 1, axis=2) for name in found}
        write_run(folder / f"{number:04}", found, truth, method=method, seed=seed)


def report_once(runs: Path) -> tuple[float, float]:
    """Return the seconds of `fpgm report`, and the most MB that it held."""
    script = (
        "import sys; from fpgm.cli import main; assert main(sys.argv[1:]) == 0; print(open('/proc/self/status').read())"
    )
    with tempfile.TemporaryDirectory() as out:
        start = time.perf_counter()
        command = [sys.executable, "-c", script, "report", str(runs), "--out", out]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        seconds = time.perf_counter() - start
    return seconds, next(int(line.split()[1]) for line in said.splitlines() if line.startswith("VmHWM")) / 1024


def reports(folder: Path, counts: list[int]) -> None:
    """Compare time and memory of a report with those of the fewest runs."""
    made: dict[int, tuple[float, float]] = {}
    for count in sorted(counts):
        make_runs(folder / str(count), count)
        made[count] = report_once(folder / str(count))
    few = min(counts)
    for count, (seconds, most) in made.items():
        more: dict[str, Any] = {"against": f"of {few}", "at": count}
        curve = "{} by runs"
        compare("growth", f"report of {count:,} runs", seconds, made[few][0], curve=curve.format("a report"), **more)
        what, curve = f"memory of a report of {count:,} runs", curve.format("memory of a report")
        compare("growth", what, most, made[few][1], unit="MB", curve=curve, **more)


def main() -> None:
    """Grow one thing after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unlabeled", type=int, nargs="+", default=[200, 2_000, 20_000, 100_000])
    parser.add_argument("--runs", type=int, nargs="+", default=[10, 100, 1_000])
    options = parser.parse_args()
    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        unlabeled(folder, options.unlabeled)
        reports(folder / "reports", options.runs)
        sides = {f"8 + 8 of {size}²": (8, size) for size in (64, 128, 256)}
        compare_steps(folder, "a step by side of the images", sides, axis=1)
        counts = {f"{count} + {count} of 128²": (count, 128) for count in (2, 4, 8, 16)}
        compare_steps(folder, "a step by images of each kind", counts, axis=0)


if __name__ == "__main__":
    main()
