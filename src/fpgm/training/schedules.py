"""What depends on the step alone: learning rate, stage, randomness."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
import torch

from fpgm.methods import Stage

Schedule = Literal["poly", "cosine"]


def poly(base: float, index: int, total: int, power: float) -> float:
    """Return base (1 - index / total)^power."""
    return base * (1 - index / total) ** power


def cosine(base: float, index: int, total: int) -> float:
    """Return base (1 + cos(π index / total)) / 2."""
    return base * (1 + math.cos(math.pi * index / total)) / 2


def learning_rate(base: float, index: int, total: int, schedule: Schedule, power: float, warmup: int) -> float:
    """Return the learning rate of a step: `poly` or `cosine`, times a linear rise over the first `warmup` steps."""
    rate = poly(base, index, total, power) if schedule == "poly" else cosine(base, index, total)
    return rate * min(1.0, (index + 1) / warmup) if warmup else rate


def first_steps(stages: Sequence[Stage], total: int) -> list[int]:
    """Return the step at which each stage begins; a stage without a step is refused."""
    ends = np.cumsum([stage.share for stage in stages])
    if abs(ends[-1] - 1) > 1e-9:
        raise ValueError(f"the shares of the stages add up to {ends[-1]:g}, not 1: {[stage.name for stage in stages]}")
    starts = [0, *(round(end * total) for end in ends[:-1])]
    for stage, (first, after) in zip(stages, pairwise([*starts, total]), strict=True):
        if first == after:
            raise ValueError(
                f"the stage {stage.name!r} is {stage.share:g} of {total} steps, less than one step: "
                "raise train.iterations or the stage's share"
            )
    return starts


def step_seed(seed: int, index: int, rank: int) -> int:
    """Return a seed for one step on one rank: a resumed run draws what the first one would have drawn."""
    return int(np.random.SeedSequence((seed, 3, index, rank)).generate_state(1)[0])


def step_generator(seed: int, index: int, rank: int) -> torch.Generator:
    """Return the generator that a method draws from in one step."""
    return torch.Generator().manual_seed(step_seed(seed, index, rank) ^ 1)
