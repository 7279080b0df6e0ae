"""CutMix: boxes of one image pasted into another."""

from __future__ import annotations

import torch
from torch import Tensor

from fpgm.data.batches.batch import Batch


def paste(inside: Tensor, outside: Tensor, box: Tensor) -> Tensor:
    """CutMix: `inside` where the box is true, `outside` elsewhere.

    Shape:
        inside, outside: (B, H, W) or (B, C, H, W); box: (B, H, W) bool.
    """
    return torch.where(box if inside.ndim == box.ndim else box.unsqueeze(1), inside, outside)


def mix_views(
    batch: Batch, labels: tuple[Tensor, Tensor], partner: tuple[Tensor, Tensor]
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """CutMix the partners into the strong views: images, labels and pixels to keep, one of each per view.

    Args:
        batch: with strong views of images and partners, and boxes.
        labels: pseudo-labels and pixels to keep of the images, each (U, H, W); and
        partner: those of the mix partners.
    """
    images = [paste(*views) for views in zip(batch.strong_m, batch.strong_u, batch.boxes_u, strict=True)]
    targets = [paste(partner[0], labels[0], box) for box in batch.boxes_u]
    kept = [paste(partner[1], labels[1], box) for box in batch.boxes_u]
    return images, targets, kept
