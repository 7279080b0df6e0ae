"""Teachers: copies of a network, and how they follow it."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import Tensor, nn

from fpgm.methods.base import Step
from fpgm.nets import Backbone

Module = TypeVar("Module", bound=nn.Module)


def frozen_copy(module: Module) -> Module:
    """Return a copy that never learns by gradient: a teacher."""
    return copy.deepcopy(module).requires_grad_(False)


def fresh_copy(module: Module) -> Module:
    """Return a second network: the same layers, initialised anew by each layer's own scheme.

    Layers draw from torch's generator, which the run seeds before it builds: for the paper's UNet the weights are
    those of a second `UNet(...)` built right after the first. Trained weights of the original are not taken over;
    a pretrained encoder is the same in both.
    """
    other = copy.deepcopy(module)
    for layer in other.modules():
        reset = getattr(layer, "reset_parameters", None)
        if callable(reset):
            reset()
    if isinstance(other, Backbone) and other.pretrained:
        other.load_pretrained()
    pairs = zip(module.parameters(), other.parameters(), strict=True)
    if all(torch.equal(old, new) for old, new in pairs):
        raise ValueError(
            f"{type(module).__name__} cannot be initialised anew, and two equal networks teach each other nothing: "
            "give its layers a reset_parameters()"
        )
    return other


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


def teacher_decay(step: Step, limit: float = 0.99) -> float:
    """min(1 − 1 / (t + 1), limit): 0 at the first step, so that what the teacher was before is forgotten."""
    return min(1 - 1 / (step.index + 1), limit)


def averaging_decay(step: Step, limit: float) -> float:
    """min(1 − 1 / (t / 4 + 1), limit): an average over the last quarter of the steps, until the limit."""
    return min(1 - 1 / (step.index / 4 + 1), limit)
