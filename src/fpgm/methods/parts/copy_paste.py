"""Bidirectional copy-paste: one large rectangle per step, halves of a batch pasted into each other, in two stages."""

from __future__ import annotations

import torch
from torch import Tensor

from fpgm.data.batches.batch import Batch
from fpgm.losses import cross_entropy_dice
from fpgm.methods.base import Stage


def copy_paste_stages(pretrain: float = 1 / 3) -> tuple[Stage, Stage]:
    """Pre-training on labelled images for a share of the steps; then self-training, from the best weights so far."""
    return Stage("pretrain", pretrain), Stage("self-train", 1 - pretrain, start="best")


def check_halves(labelled: int, unlabelled: int) -> None:
    """Refuse numbers of images whose halves cannot be paired."""
    if labelled % 2 or labelled != unlabelled:
        raise ValueError(
            f"a process has {labelled} labelled and {unlabelled} unlabelled images in a step, but copy-paste pairs "
            "halves of both: set data.batch_labeled and data.batch_unlabeled to one even number per process"
        )


def copy_paste_halves(batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """First and second half of the labelled images, of their masks and of the unlabelled images."""
    check_halves(len(batch.image_l), len(batch.weak_u))
    (a, b), (mask_a, mask_b) = batch.image_l.chunk(2), batch.mask_l.chunk(2)
    p, q = batch.weak_u.chunk(2)
    return a, b, mask_a, mask_b, p, q


def paste_box(image: Tensor, side: float, generator: torch.Generator) -> Tensor:
    """Draw one rectangle for a whole batch (…, H, W): true inside, (H, W) bool on the same device.

    It has int(side · H) × int(side · W) pixels. Its offsets are uniform from 0 to H − height − 1 and W − width − 1:
    as in the official code, the last place that would fit is never drawn.
    """
    if not 0 < side < 1:
        raise ValueError(f"side is {side}: give the rectangle's share of the image's side, in (0, 1)")
    box = torch.zeros(image.shape[-2:], dtype=torch.bool)
    height, width = (int(length * side) for length in box.shape)
    top = int(torch.randint(box.shape[0] - height, (), generator=generator))
    left = int(torch.randint(box.shape[1] - width, (), generator=generator))
    box[top : top + height, left : left + width] = True
    return box.to(image.device)


def region_loss(logits: Tensor, target: Tensor, region: Tensor) -> Tensor:
    """(Cross-entropy + Dice) / 2 within a region (H, W), every class masked; 0 for an empty one."""
    return cross_entropy_dice(logits, target, mask=region, smooth=1e-10)
