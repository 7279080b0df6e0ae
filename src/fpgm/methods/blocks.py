"""Parts that two or more methods share."""

from __future__ import annotations

import copy
import math
from typing import TypeVar

import torch
from torch import Tensor, nn

from fpgm.methods.base import Step
from fpgm.nets import Backbone

Module = TypeVar("Module", bound=nn.Module)


def paste(inside: Tensor, outside: Tensor, box: Tensor) -> Tensor:
    """CutMix: `inside` where the box is true, `outside` elsewhere.

    Shape:
        inside, outside: (B, H, W) or (B, C, H, W); box: (B, H, W) bool.
    """
    return torch.where(box if inside.ndim == box.ndim else box.unsqueeze(1), inside, outside)


def channel_dropout(feature: Tensor, generator: torch.Generator, share: float = 0.5) -> Tensor:
    """Zero whole channels of (B, C, H, W) with probability `share` and scale the others up, as Dropout2d does."""
    keep = torch.rand(*feature.shape[:2], 1, 1, generator=generator) >= share
    return feature * (keep.to(feature) / (1 - share))


def decode_perturbed(net: Backbone, image: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Logits of clean features and of features with channels dropped, decoded in one pass.

    Batch norm in the decoder sees both halves together: the grouping is part of the recipe.
    """
    features = [torch.cat((map_, channel_dropout(map_, generator))) for map_ in net.encode(image)]
    clean, perturbed = net.decode(features).chunk(2)
    return clean, perturbed


def ramp_up(step: Step, length: int) -> float:
    """exp(−5 (1 − t)²) with t from 0 to 1 over `length` steps; 1 at once if `length` is 0."""
    progress = min(1.0, step.index / length) if length else 1.0
    return math.exp(-5 * (1 - progress) ** 2)


def frozen_copy(module: Module) -> Module:
    """Return a copy that never learns by gradient: a teacher."""
    return copy.deepcopy(module).requires_grad_(False)


@torch.no_grad()
def move_teacher(teacher: nn.Module, student: nn.Module, decay: float, *, buffers: bool) -> None:
    """Set teacher to decay · teacher + (1 − decay) · student, over the parameters and, if said, the buffers.

    Integer buffers (counts of batches) are copied. Without buffers the teacher keeps its own statistics.
    """
    pairs: list[tuple[Tensor, Tensor]] = list(zip(teacher.parameters(), student.parameters(), strict=True))
    if buffers:
        pairs += zip(teacher.buffers(), student.buffers(), strict=True)
    for old, new in pairs:
        if old.is_floating_point():
            old.mul_(decay).add_(new, alpha=1 - decay)
        else:
            old.copy_(new)
