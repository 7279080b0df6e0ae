"""Weights that rise with the steps."""

from __future__ import annotations

import pytest
import torch

from fpgm.methods import Step
from fpgm.methods.parts.ramps import ramp_up, staircase


def at(index: int) -> Step:
    return Step(index, 30_000, "train", torch.Generator().manual_seed(0))


def test_ramp_rises_from_almost_nothing_to_one() -> None:
    assert ramp_up(at(0), 10) == pytest.approx(0.0067, abs=1e-4)  # e^-5
    assert ramp_up(at(5), 10) == pytest.approx(0.2865, abs=1e-4)  # e^-1.25
    assert ramp_up(at(10), 10) == ramp_up(at(50), 10) == ramp_up(at(0), 0) == 1


def test_a_ramp_may_rise_in_stairs() -> None:
    assert ramp_up(at(149), 30_000, every=150) == ramp_up(at(0), 30_000)
    assert ramp_up(at(15_149), 30_000, every=150) == ramp_up(at(15_000), 30_000) < ramp_up(at(15_149), 30_000)
    assert ramp_up(at(30_000), 30_000, every=150) == ramp_up(at(40_000), 30_000, every=150) == 1


def test_a_staircase_is_a_ramp_over_a_share_of_the_training() -> None:
    for index in (0, 149, 150, 15_000, 29_999):  # `at` is of 30,000 steps: stairs of 150
        assert staircase(at(index), 1.0) == ramp_up(at(index), 30_000, every=150)
    assert staircase(at(15_000), 0.5) == staircase(at(0), 0) == 1
