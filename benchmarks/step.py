"""One FPGM training step, 8 labelled and 8 unlabelled images of 128 x 128, beside the same step written plainly.

Plain: float32, NCHW, the radial profile plane by plane and radius by radius. Both sides make the same three passes, the
same losses, a backward pass and an optimiser's step; the loader is not part of it (see `streams.py`). Then a step of
`supervised` on the network of preset `mini`, with and without the memory that is kept between steps.
"""

from __future__ import annotations

from harness import compare, precisions, take_turns

import tempfile
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from fpgm.data.batches.batch import Batch
from fpgm.losses import cross_entropy_dice, dice, pseudo_label
from fpgm.methods.fpgm import FPGM
from fpgm.methods.supervised import Supervised
from fpgm.nets import LiteUNet, UNet
from fpgm.spectrum import edge_region
from fpgm.training.memory import kept_memory
from fpgm.training.trainer import Trainer
from spectrum import released_loop

SIZE, COUNT = 128, 8


def make_batch(count: int = COUNT, size: int = SIZE) -> Batch:
    """Return noise images with a disc each."""
    generator = torch.Generator().manual_seed(0)
    image, weak, strong = (torch.rand(count, 3, size, size, generator=generator) for _ in range(3))
    y, x = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    mask = ((y - size / 2) ** 2 + (x - size / 2) ** 2 < (size / 5) ** 2).long().expand(count, -1, -1)
    none = torch.empty(0, 3, size, size)
    ids = tuple(f"noise/{i}" for i in range(count))
    return Batch(
        index=0,
        image_l=image,
        mask_l=mask,
        strong_l=(),
        strong_mask_l=(),
        weak_u=weak,
        strong_u=(strong,),
        boxes_u=(),
        weak_m=none,
        strong_m=(),
        id_l=ids,
        id_u=ids,
        id_m=(),
    )


class Plain:
    """The step as a script would have it."""

    def __init__(self) -> None:
        self.net = UNet().train()
        for block in self.net.encoder.blocks:
            block[3] = nn.Dropout(block[3].p)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=False)
        self.prior = torch.zeros(SIZE // 2)

    def learn(self, batch: Batch) -> None:
        """Move the prior, radius by radius."""
        region = edge_region(batch.image_l, batch.mask_l)
        plane = torch.fft.fftshift(torch.fft.fft2(region, norm="ortho").abs(), dim=(-2, -1))
        y, x = torch.meshgrid(torch.arange(SIZE) - SIZE // 2, torch.arange(SIZE) - SIZE // 2, indexing="ij")
        ring = (y**2 + x**2).sqrt().long()
        profiles = [torch.stack([one[ring == r].mean() for r in range(len(self.prior))]) for one in plane]
        current = torch.stack(profiles).mean(0)
        self.prior = current if not self.prior.any() else 0.999 * self.prior + 0.001 * current

    def __call__(self, batch: Batch) -> Tensor:
        """Make one step and return the loss."""
        with torch.no_grad():
            self.learn(batch)
            aligned = released_loop(batch.weak_u, self.prior, 0.05)
        logits = self.net(torch.cat((batch.image_l, batch.weak_u)))
        labels, keep = pseudo_label(logits[COUNT:], 0.95)
        loss = cross_entropy_dice(logits[:COUNT], batch.mask_l)
        for view in (batch.strong_u[0], aligned):
            loss = loss + 0.5 * dice(self.net(view), labels, mask=keep)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss


def make_trainer(folder: Path, precision: str | None = None) -> Trainer:
    """Return the package's trainer of the same method."""
    method = FPGM(UNet()).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(method.parameter_groups(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    fabric = Fabric(accelerator="cpu", devices=1, precision=precision or next(iter(precisions().values())))
    return Trainer(fabric, method, optimizer, folder, iterations=30_000)


def time_memory(folder: Path, rounds: int = 5) -> dict[bool, float]:
    """Return the least seconds of a step with the memory of the one before, and without."""
    method = Supervised(LiteUNet()).to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(method.parameter_groups(), lr=1e-3)
    trainer = Trainer(Fabric(accelerator="cpu", devices=1), method, optimizer, folder, iterations=30_000)
    batch, stage, seconds = make_batch(2 * COUNT), method.stages[0], {True: float("inf"), False: float("inf")}
    for _ in range(rounds):
        for kept in seconds:
            with kept_memory() if kept else nullcontext():
                trainer.step(batch, stage)  # takes the memory
                start = time.perf_counter()
                trainer.step(batch, stage)
                seconds[kept] = min(seconds[kept], time.perf_counter() - start)
    return seconds


def main() -> None:
    """Print the ratios."""
    torch.set_num_threads(2)
    batch, plain = make_batch(), Plain()
    with tempfile.TemporaryDirectory() as folder:
        sides = {name: make_trainer(Path(folder), precision) for name, precision in precisions().items()}
        steps = {name: partial(side.step, batch, side.method.stages[0]) for name, side in sides.items()}
        seconds = take_turns({"plain": partial(plain, batch), **steps}, rounds=5, warm_up=1)
        torch.set_num_threads(1)
        memory = time_memory(Path(folder))
    what = f"FPGM step, {COUNT} + {COUNT} images of {SIZE}²"
    fastest = min(steps, key=lambda name: seconds[name])
    for name in steps:
        target = 0.4 if name == fastest else None
        compare("step", f"{what}, {name}", seconds[name], seconds["plain"], "written plainly, float32", target=target)
    what = f"step of supervised, lite_unet, {2 * COUNT} images of {SIZE}², one thread"
    compare("step", f"{what}, memory kept", memory[True], memory[False], "given back after each step")


if __name__ == "__main__":
    main()
