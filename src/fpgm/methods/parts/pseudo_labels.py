"""Pseudo-labels: making them, cleaning them, and what the log says of them."""

from __future__ import annotations

import numpy as np
import torch
from scipy import ndimage
from torch import Tensor, nn

from fpgm.losses import pseudo_label


@torch.no_grad()
def eval_pseudo_labels(net: nn.Module, image: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """Pseudo-labels and pixels to keep, from the network in evaluation mode; then it is set back."""
    training = net.training
    net.eval()
    labels = pseudo_label(net(image), threshold)
    net.train(training)
    return labels


def keep_largest(labels: Tensor) -> Tensor:
    """Keep of each image only its largest 8-connected component, the first of equals: (B, H, W) in {0, 1}."""
    kept = torch.zeros(labels.shape, dtype=labels.dtype)
    for image, largest in zip(labels.cpu().numpy(), kept, strict=True):
        numbers, count = ndimage.label(image, structure=np.ones((3, 3)))
        if count:
            chosen = np.bincount(numbers.ravel())[1:].argmax() + 1
            largest.copy_(torch.from_numpy(numbers == chosen))
    return kept.to(labels.device)


def kept_notes(labels: Tensor, keep: Tensor | None = None) -> dict[str, Tensor]:
    """For the log: the pseudo-labels that take part, as shares of all pixels, by class.

    Where `kept_foreground` stays at 0 the unlabelled images teach nothing but background.

    Args:
        labels: pseudo-labels (B, H, W), 0 for the background.
        keep: pixels that take part, (B, H, W) bool; all if not given.
    """
    foreground = labels > 0
    kept = torch.ones_like(foreground) if keep is None else keep
    shares = {"kept_background": kept & ~foreground, "kept_foreground": kept & foreground}
    return {name: share.float().mean() for name, share in shares.items()}


@torch.no_grad()
def label_notes(z1: Tensor, z2: Tensor) -> dict[str, Tensor]:
    """For the log: foreground share of the hard labels of two networks (B, K, H, W), and how many pixels agree."""
    first, second = z1.argmax(1), z2.argmax(1)
    shares = {"foreground_1": (first > 0).float().mean(), "foreground_2": (second > 0).float().mean()}
    return {**shares, "agreement": (first == second).float().mean(), **kept_notes(torch.cat((first, second)))}
