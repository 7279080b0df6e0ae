"""What a training waits for between two steps: a validation and a checkpoint, beside the steps between two of them.

Preset `mini` on one thread, as `fpgm reproduce` runs it: `lite_unet` after some steps, 8 labelled images, and as many
validation images as protocol `strict` of the public data sets has. The method is `supervised`, whose steps are the
shortest.
"""

from __future__ import annotations

from harness import compare, take_turns

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from lightning_fabric import Fabric

from fpgm.config import DataConfig, resolve
from fpgm.data.batches.pool import Pool
from fpgm.data.store import open_stores
from fpgm.data.synthetic_store import build_phantom
from fpgm.methods.supervised import Supervised
from fpgm.nets import LiteUNet
from fpgm.training.memory import kept_memory
from fpgm.training.trainer import Trainer
from step import make_batch

DOMAIN, IMAGES = "phantom-a", 236
MOST = 0.05  # of the training


def measure(size: int, folder: Path, labeled: int, average: float) -> dict[str, float]:
    """Return the least seconds of a step, a validation and a checkpoint, with images of size x size."""
    method = Supervised(LiteUNet()).to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(method.parameter_groups(), lr=1e-3, fused=True)
    fabric = Fabric(accelerator="cpu", devices=1, precision="32-true")
    trainer = Trainer(fabric, method, optimizer, folder, iterations=30_000, average=average)
    build_phantom(DOMAIN, folder / "store", IMAGES, size)
    pool = Pool(open_stores(folder / "store"), [f"{DOMAIN}/{index:05d}" for index in range(IMAGES)])
    sides: dict[str, Callable[[], object]] = {
        "step": partial(trainer.step, make_batch(labeled, size), method.stages[0]),
        "validation": partial(trainer.score, pool, trainer.predictor()),
        "checkpoint": partial(trainer.save, trainer.last),
    }
    with kept_memory():
        return take_turns(sides, rounds=5, warm_up=2)


def main() -> None:
    """Print the ratios."""
    torch.set_num_threads(1)
    config = resolve("mini", "supervised", DataConfig(store=Path(), split="").model_dump())
    between, saved = config.train.validate_every, config.train.save_every
    for size in (64, 128):
        with tempfile.TemporaryDirectory() as folder:
            seconds = measure(size, Path(folder), config.data.batch_labeled, config.train.average)
        steps = {count: (count * seconds["step"], f"{count} steps of supervised") for count in (between, saved)}
        what = f"validation, {IMAGES} images of {size}², lite_unet"
        compare("pauses", what, seconds["validation"], *steps[between], target=MOST)
        compare("pauses", f"checkpoint, {size}², lite_unet", seconds["checkpoint"], *steps[saved], target=MOST)


if __name__ == "__main__":
    main()
