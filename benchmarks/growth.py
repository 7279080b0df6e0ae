"""How cost grows with the side of the images, with the batch, and with the number of unlabelled images: not at all.

    python benchmarks/growth.py [--unlabeled 200 2000 20000]

The step is FPGM's in bfloat16, with the loader's work in it where stores are compared. The start of a run is a whole
run of one step, from reading store and split to the model; its memory is the most that a process of its own held.
"""

from __future__ import annotations

from harness import compare, memory, take_turns

import argparse
import multiprocessing
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import repeat
from pathlib import Path

import torch

from fpgm.config import resolve
from fpgm.data.batches.batch import Batch
from fpgm.data.splits.split import Split
from fpgm.data.store import Store
from fpgm.spectrum import SpectralAlignment, generic_profile
from fpgm.training.run import train
from spectrum import bare_pair
from step import make_batch, make_trainer
from streams import VIEWS, make_store, make_stream

SIZE, MASKED, VALIDATION = 64, 70, 8  # make_store gives masks to so many images


def align(sizes: Iterable[int]) -> None:
    """Compare the alignment with the pair at each size."""
    run, generator = SpectralAlignment(generic_profile(128), 0.05), torch.Generator().manual_seed(0)
    for size in sizes:
        image = torch.rand(2, 3, size, size, generator=generator)
        seconds = take_turns({"pair": partial(bare_pair, image), "ours": partial(run, image)}, rounds=20)
        compare("growth", f"alignment of 2×3×{size}²", seconds["ours"], seconds["pair"], "bare rfft2 + irfft2")


def step_on(folder: Path, batches: Iterator[Batch]) -> Callable[[], object]:
    """Return a step that asks for its own batch."""
    trainer = make_trainer(folder)
    return lambda: trainer.step(next(batches), trainer.method.stages[0])


def compare_steps(folder: Path, batches: dict[str, tuple[int, int]]) -> None:
    """Compare steps of some count and size with the first of them, which has the fewest pixels."""
    sides = {name: step_on(folder, repeat(make_batch(*batch))) for name, batch in batches.items()}
    times = take_turns(sides, rounds=2, warm_up=1)
    first, *others = batches
    pixels = {name: count * size**2 for name, (count, size) in batches.items()}
    for name in others:
        against = f"{first} ({pixels[name] // pixels[first]} times fewer pixels)"
        compare("growth", f"FPGM step, {name}", times[name], times[first], against)


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
    few, *more = stores
    for name in more:
        compare("growth", f"run of 1 step, {name} unlabelled", starts[name], starts[few], f"{few} unlabelled")
        compare("growth", f"FPGM step, {name} unlabelled", steps[name], steps[few], f"{few} unlabelled")
        compare("growth", f"peak memory, {name} unlabelled", peaks[name], peaks[few], f"{few} unlabelled", unit="MB")


def main() -> None:
    """Grow one thing after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unlabeled", type=int, nargs="+", default=[200, 2000, 20000])
    options = parser.parse_args()
    torch.set_num_threads(2)
    align((64, 128, 256, 512, 1024))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        unlabeled(folder, options.unlabeled)
        compare_steps(folder, {f"8 + 8 of {size}²": (8, size) for size in (64, 128, 256)})
        compare_steps(folder, {f"{count} + {count} of 128²": (count, 128) for count in (2, 4, 8, 16)})


if __name__ == "__main__":
    main()
