"""Time all of an evaluation but the network: reading, metrics, writing, checking, intervals; processes against one.

    python benchmarks/evaluation.py [--images 1000] [--size 256] [--rounds 2] [--workers 2]

The red of each image is its predicted mask, so that a predictor which costs nothing gives plausible ones: displaced
copies of blobs, and noise, the worst case. The start of the processes is counted. The limit is a minute, and several
processes must not be slower than one, but for the 5 % that the same work varies by.
"""

from __future__ import annotations

from harness import compare, take_turns

import argparse
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the processes import this file: what is heavy is imported where it is used
    from fpgm.data.batches.pool import Pool
    from fpgm.data.store import StoredImage

LIMIT = 60.0


def make_pool(folder: Path, name: str, count: int, size: int) -> Pool:
    """A store of images whose red is a prediction of their mask."""
    import numpy as np

    from fpgm.data.batches.pool import Pool
    from fpgm.data.manifest import ImageRow, Manifest
    from fpgm.data.store import StoredImage, open_stores, write_store
    from metrics import blob, perturb

    rng = np.random.default_rng(0)
    masks = [blob(size, rng) if name == "blobs" else rng.random((size, size)) > 0.5 for _ in range(20)]
    predicted = [perturb(mask, rng) if name == "blobs" else rng.random((size, size)) > 0.5 for mask in masks]

    def records() -> Iterator[StoredImage]:
        for i in range(count):
            shift = tuple(rng.integers(-size // 8, size // 8, 2))
            image = rng.integers(0, 256, (size, size, 3), np.uint8)
            image[..., 0] = np.roll(predicted[i % 20], shift, (0, 1)) * np.uint8(255)
            mask = np.roll(masks[i % 20], shift, (0, 1)).astype(np.uint8)
            yield StoredImage(ImageRow(f"{i:06d}", *[None] * 4, size, size, float(mask.mean())), image, mask, "0" * 64)

    header = {"name": name, "source": "benchmark", "size": size, "rules": {}, "inputs": ""}
    write_store(folder / name, records(), lambda rows: Manifest.describe(rows, **header))
    stores = open_stores(folder, [name])
    return Pool(stores, [f"{name}/{id_}" for id_ in stores[name].ids])


def make_side(pool: Pool, name: str, folder: Path, workers: int) -> Callable[[], None]:
    """An evaluation from the store to the numbers of the table."""
    import torch
    from torch import Tensor, nn

    from fpgm.evaluation import evaluate_pools
    from fpgm.runs.evaluation import scores_file
    from fpgm.runs.scores import METRICS, RELEASED, read_scores
    from fpgm.runs.summary import summarise

    class Red(nn.Module):
        def forward(self, image: Tensor) -> Tensor:
            return torch.stack((torch.full_like(image[:, 0], 0.5), image[:, 0]), 1)

    def run() -> None:
        evaluate_pools(Red(), {name: pool}, folder, device=torch.device("cpu"), workers=workers)
        path = scores_file(folder, name)
        digest = sha256(path.read_bytes()).hexdigest()
        facts = {"dataset": name, "size": pool.size, "images": len(pool), "unseen": False}
        scores = read_scores(path, sha256=digest, **facts)
        for column in (*METRICS, *RELEASED):
            summarise(scores.values[column])

    return run


def main() -> None:
    """Let one process and several take turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in ("blobs", "noise"):
            side = partial(make_side, make_pool(folder, name, options.images, options.size), name, folder)
            times = take_turns({"one": side(1), "several": side(options.workers)}, options.rounds, warm_up=0)
            what = f"{options.images:,} images of {options.size}², {name}, {options.workers} processes"
            compare(
                "evaluation", what, times["several"], times["one"], "1 process", target=0.95, fast=True, limit=LIMIT
            )


if __name__ == "__main__":
    main()
