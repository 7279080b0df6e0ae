"""Weights that rise with the steps."""

from __future__ import annotations

import math

from fpgm.methods.base import Step


def ramp_up(step: Step, length: int, every: int = 1) -> float:
    """exp(−5 (1 − t)²) with t from 0 to 1 over `length` steps, in stairs of `every`; 1 at once if `length` is 0."""
    progress = min(1.0, step.index // every * every / length) if length else 1.0
    return math.exp(-5 * (1 - progress) ** 2)


def staircase(step: Step, share: float) -> float:
    """`ramp_up` over a share of the training, in 200 stairs (of 150 steps each in the paper's 30,000)."""
    length = round(share * step.total)
    return ramp_up(step, length, max(1, length // 200))
