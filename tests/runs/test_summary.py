"""Means, deviations and bootstrap intervals, against theory."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fpgm.runs.summary import Summary, summarise


def test_two_values_resample_to_three_means() -> None:
    # means of two draws from {0, 1}: 0, 1/2 or 1 with probabilities 1/4, 1/2, 1/4
    summary = summarise([0, 1])
    assert summary == Summary(0.5, pytest.approx(math.sqrt(0.5)), 0.0, 1.0, 2)


def test_the_interval_of_many_values_is_that_of_theory() -> None:
    values = np.random.default_rng(5).normal(70, 12, 400)
    summary = summarise(values)
    half = 1.96 * 12 / math.sqrt(400)
    assert summary.mean == pytest.approx(values.mean()) and summary.sd == pytest.approx(np.std(values, ddof=1))
    assert summary.high - summary.mean == pytest.approx(half, rel=0.1)
    assert summary.mean - summary.low == pytest.approx(half, rel=0.1)
    assert summarise(values) == summary != summarise(values, seed=1)


def test_what_is_not_there_does_not_enter() -> None:
    assert summarise([0.2, np.nan, 0.4, np.nan]) == summarise([0.2, 0.4])
    nothing = summarise([np.nan])
    assert nothing.count == 0 and math.isnan(nothing.mean) and math.isnan(nothing.high)
    one = summarise([0.3])
    assert (one.mean, one.low, one.high, one.count) == (0.3, 0.3, 0.3, 1) and math.isnan(one.sd)
    assert summarise([0.5, 0.5]) == Summary(0.5, 0.0, 0.5, 0.5, 2)
