"""What the loader costs: a training step fed by it against one fed from a cached batch, and memory over an epoch.

    python benchmarks/streams.py [--rounds 20] [--size 128] [--images 10000] [--parts memory hue prepare step]

The sides of a comparison take turns in one run. The step is the UNet's in bfloat16 with channels last: labelled and
weak images in one pass, strong views in another. The pool of the memory part is written to a temporary folder.
"""

from __future__ import annotations

from harness import amount, compare, memory, precisions, take_turns

import argparse
import math
import multiprocessing
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from kornia.enhance import adjust_hue
from torch.nn.functional import cross_entropy

from fpgm.data.batches.batch import Batch, Views
from fpgm.data.batches.pool import Pool
from fpgm.data.batches.streams import Stream
from fpgm.data.batches.views import jitter
from fpgm.data.manifest import ImageRow, Manifest
from fpgm.data.store import Store, StoredImage, write_store
from fpgm.nets.unet import UNet

TARGET = 1.05  # of a step with the loader beside one from a cached batch
VIEWS = {"paper": Views(strong=1), "released": Views(strong=2, cutmix=True, mix=True)}


def make_store(folder: Path, count: int, size: int) -> Store:
    """Pictures that differ, of noise: nothing could compress them."""
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (64, size, size, 3), np.uint8)
    mask = np.zeros((size, size), np.uint8)
    mask[size // 4 : size // 2, size // 4 : size // 2] = 1

    def records() -> Iterator[StoredImage]:
        for i in range(count):
            row = ImageRow(f"{i:06d}", None, None, None, None, size, size, 1 / 16 if i < 70 else None)
            yield StoredImage(row, noise[i % 64] + np.uint8(i // 64 % 256), mask if i < 70 else None, "0" * 64)

    header = {"name": "noise", "source": "benchmark", "size": size, "rules": {}, "inputs": ""}
    write_store(folder / "noise", records(), lambda rows: Manifest.describe(rows, **header))
    return Store.open(folder / "noise")


def make_stream(store: Store, views: Views, batch_unlabeled: int = 8) -> Stream:
    """70 labelled images, the rest unlabelled."""
    ids = [f"noise/{entry}" for entry in store.ids]
    pools = Pool({"noise": store}, ids[:70]), Pool({"noise": store}, ids[70:])
    return Stream(*pools, views, seed=0, batch_unlabeled=batch_unlabeled)


def measure_hue(rounds: int) -> None:
    """Why the hue is not turned by kornia."""
    torch.set_num_threads(1)
    for size in (128, 256):
        picture = torch.rand(3, size, size)
        sides = {
            "fpgm": partial(jitter, picture, [1, 1, 1, 0.1], [3]),
            "kornia": partial(adjust_hue, picture, 0.1 * 2 * math.pi),
        }
        times = take_turns(sides, 10 * rounds)
        compare("streams", f"hue of one picture of {size}²", times["fpgm"], times["kornia"], "kornia", fast=True)


def measure_prepare(store: Store, rounds: int) -> None:
    """How long one batch takes to prepare on one thread."""
    torch.set_num_threads(1)
    for name, views in (*VIEWS.items(), ("weak views only", Views())):
        batches = make_stream(store, views).loop(0, 10**6, workers=0)
        seconds = take_turns({name: partial(next, batches)}, rounds)[name]
        print(f"  batch 8 + 8 at {store.size}², {name}: {amount(seconds, 's')} on one thread")


def make_step() -> Callable[[Batch], None]:
    """A step of the paper's UNet."""
    network = UNet().to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(network.parameters(), 0.01, momentum=0.9)

    def step(batch: Batch) -> None:
        weak = torch.cat((batch.image_l, batch.weak_u)).to(memory_format=torch.channels_last)
        strong = torch.cat(batch.strong_u).to(memory_format=torch.channels_last)
        with torch.autocast("cpu", torch.bfloat16, enabled="bfloat16" in precisions()):
            logits, strong_logits = network(weak).float(), network(strong).float()
        labeled, unlabeled = logits.split((len(batch.image_l), len(batch.weak_u)))
        target = unlabeled.argmax(1).repeat(len(batch.strong_u), 1, 1)
        loss = cross_entropy(labeled, batch.mask_l) + cross_entropy(strong_logits, target)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def measure_step(store: Store, name: str, rounds: int) -> None:
    """A step with the loader against a step from a cached batch; each loaded batch is prepared during a loaded step."""
    torch.set_num_threads(2)
    step, stream = make_step(), make_stream(store, VIEWS[name])
    cached, loop = stream.batch(0), stream.loop(0, 10**6)
    sides = {"cached": lambda: step(cached), "loader": lambda: step(next(loop))}
    times = take_turns(sides, rounds, warm_up=2)
    loop.close()
    what = f"step with the loader, views of `{name}`, {store.size}²"
    compare("streams", what, times["loader"], times["cached"], "from a cached batch", target=TARGET)


def measure_memory(folder: Path, count: int, size: int) -> None:
    """Go once through a large pool and compare the memory early in the epoch with the most of all of it."""
    store = make_store(folder, count, size)
    stream, steps = make_stream(store, Views(), batch_unlabeled=64), (count - 70) // 64
    seen: set[str] = set()
    levels: list[tuple[float, float]] = []
    for batch in stream.loop(0, steps):
        seen.update(batch.id_u)
        if batch.index % 10 == 0 and batch.index < steps - 5:
            (worker,) = multiprocessing.active_children()
            levels.append((memory(), memory(pid=worker.pid or 0)))
    print(f"one epoch of {len(seen)} images of {size}², {count * size**2 * 3 / 2**20:.0f} MB on disk")
    for place, process in enumerate(("the process", "its worker")):
        held = [level[place] for level in levels]
        what = f"most memory of {process}, {len(seen):,} images"
        compare("streams", what, max(held), held[2], "after 1,280 images", unit="MB")


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ("memory", "hue", "prepare", "step")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--images", type=int, default=10000)
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        store = make_store(Path(name) / "small", 1000, options.size)
        if "memory" in options.parts:  # first, before others have used memory
            measure_memory(Path(name) / "large", options.images, options.size)
        if "hue" in options.parts:
            measure_hue(options.rounds)
        if "prepare" in options.parts:
            measure_prepare(store, options.rounds)
        for recipe in VIEWS if "step" in options.parts else ():
            measure_step(store, recipe, options.rounds)


if __name__ == "__main__":
    main()
