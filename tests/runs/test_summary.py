"""Means, deviations and bootstrap intervals, against theory."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from fpgm.runs.summary import Summary, share_interval, summarise


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


def naive_cluster_interval(values: list[float], groups: list[str], draws: int = 4000) -> tuple[float, float]:
    """Draw whole groups with replacement, in loops."""
    rng = np.random.default_rng(11)
    names = sorted(set(groups))
    means = []
    for _ in range(draws):
        taken: list[float] = []
        for place in rng.integers(0, len(names), len(names)):
            taken += [value for value, group in zip(values, groups, strict=True) if group == names[place]]
        means.append(sum(taken) / len(taken))
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def test_groups_are_resampled_whole() -> None:
    rng = np.random.default_rng(2)
    groups = [f"patient {number}" for number in range(9) for _ in range(1 + 2 * number)]
    level = {group: rng.normal(0.6, 0.15) for group in set(groups)}
    values = [level[group] + rng.normal(0, 0.05) for group in groups]
    summary = summarise(values, groups=groups)
    low, high = naive_cluster_interval(values, groups)
    assert (summary.count, summary.groups) == (81, 9) and summary.mean == pytest.approx(np.mean(values))
    assert summary.low == pytest.approx(low, abs=0.01) and summary.high == pytest.approx(high, abs=0.01)


def test_frames_of_two_videos_that_are_alike_give_the_interval_of_two_values() -> None:
    # ten frames of Dice 0 and ten of Dice 1: as in the case of two values, means are 0, 1/2 or 1
    values, groups = [0.0] * 10 + [1.0] * 10, ["a"] * 10 + ["b"] * 10
    clustered, plain = summarise(values, groups=groups), summarise(values)
    assert (clustered.low, clustered.high, clustered.groups) == (0.0, 1.0, 2)
    assert plain.groups is None and 0.2 < plain.low < plain.high < 0.8  # far too narrow


def test_what_has_no_group_is_a_group_of_its_own() -> None:
    values = [0.1, 0.2, 0.5, 0.9]
    assert summarise(values, groups=[None] * 4) == summarise(values, groups=["a", "b", "c", None]) == summarise(values)
    assert summarise(values, groups=["a", "a", None, None]).groups == 3
    assert summarise([*values, np.nan], groups=["a", "a", "b", "b", "c"]).groups == 2
    alone = summarise(values, groups=["a"] * 4)
    assert alone.groups == 1 and alone.mean == pytest.approx(0.425) and math.isnan(alone.low) and math.isnan(alone.high)


@pytest.mark.parametrize(("count", "total"), [(0, 5), (4, 5), (5, 5), (3, 200), (19, 64)])
def test_the_interval_of_a_share_is_wilsons(count: int, total: int) -> None:
    found = binomtest(count, total).proportion_ci(method="wilson")
    assert share_interval(count, total) == pytest.approx((found.low, found.high), abs=1e-6)


def test_the_share_of_nothing_has_no_interval() -> None:
    assert all(map(math.isnan, share_interval(0, 0)))
