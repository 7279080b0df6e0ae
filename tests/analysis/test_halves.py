"""Halves and what is made of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgm.analysis.halves import Comparison, compare_all, divide, divide_videos, half_means


@given(st.integers(2, 60), st.integers(0, 2**32))
def test_halves_are_disjoint_and_equal(count: int, seed: int) -> None:
    first, second = divide(count, np.random.default_rng(seed))
    assert len(first) == len(second) == count // 2
    assert len({*first.tolist(), *second.tolist()}) == count // 2 * 2


@given(st.lists(st.integers(0, 6), min_size=8, max_size=60), st.integers(0, 2**32))
def test_no_video_is_in_both_halves(raw: list[int], seed: int) -> None:
    videos = np.unique(raw, return_inverse=True)[1]
    first, second = divide_videos(videos, np.random.default_rng(seed))
    assert not set(videos[first]) & set(videos[second])
    assert sorted([*first, *second]) == list(range(len(videos)))
    assert len(first) <= len(videos) // 2
    # as full as whole videos allow: none of the others would still fit
    sizes = np.bincount(videos)
    assert all(len(first) + sizes[video] > len(videos) // 2 for video in set(videos[second]))


def test_draws_differ() -> None:
    rng = np.random.default_rng(0)
    assert len({tuple(sorted(divide(20, rng)[0])) for _ in range(20)}) == 20
    videos = np.repeat(np.arange(10), 3)
    assert len({tuple(divide_videos(videos, rng)[0]) for _ in range(20)}) > 10


def test_half_means_by_hand() -> None:
    profiles = np.array([[1.0, 0], [3, 0], [5, 2], [7, 4]])
    means = half_means(profiles, [(np.array([0, 1]), np.array([2, 3])), (np.array([0, 2]), np.array([1, 3]))])
    assert means.tolist() == [[[2, 0], [3, 1]], [[6, 3], [5, 2]]]  # (side, division, radius)


def shapes(*tails: float) -> np.ndarray:
    """Profiles (D, 2) of the shape (1 - t, t)."""
    return np.array([[1 - tail, tail] for tail in tails])


def find(comparisons: list[Comparison], kind: str, first: str) -> Comparison:
    return next(entry for entry in comparisons if (entry.kind, entry.first) == (kind, first))


def test_distances_and_ratios_by_hand() -> None:
    # |(1 - s, s) - (1 - t, t)| = sqrt 2 |s - t|, divided by |(1 - s, s)|; with s = 0 that is 1
    root = np.sqrt(2)
    halves = {
        "a": np.stack([shapes(0, 0), shapes(0.01, 0.03)]),
        "b": np.stack([shapes(0.1, 0.3), shapes(0.1, 0.3)]),
        "c": np.stack([shapes(0.1, 0.1), shapes(0.1, 0.1)]),
    }
    apart = {"a": np.stack([shapes(0, 0), shapes(0.04, 0.04)])}
    outlines = {"a": np.array([1.0, 0]), "b": np.array([0.5, 0.5]), "c": np.array([1.0, 0])}
    found = list(compare_all(["a", "b", "c"], halves, apart, outlines))
    assert [entry.kind for entry in found] == ["halves"] * 3 + ["video halves"] + ["sets"] * 3
    within = find(found, "halves", "a")
    assert within.likeness.distance == pytest.approx(0.02 * root)  # mean of 0.01 and 0.03
    assert (within.low, within.high) == (pytest.approx(0.011 * root), pytest.approx(0.029 * root))
    between = find(found, "sets", "a")
    assert between.second == "b"
    assert between.likeness.distance == pytest.approx(0.2 * root)
    assert between.times_halves == pytest.approx(10)  # 0.2 / 0.02, b's halves being equal
    assert between.times_video_halves == pytest.approx(5)  # 0.2 / 0.04
    assert between.outline_distance == pytest.approx(0.5 * root)


def test_no_ratio_where_there_is_nothing_to_divide_by() -> None:
    equal = {name: np.stack([shapes(tail), shapes(tail)]) for name, tail in (("b", 0.1), ("c", 0.2))}
    outlines = {"b": np.array([0.9, 0.1]), "c": np.array([0.9, 0.1])}
    *_, pair = compare_all(["b", "c"], equal, {}, outlines)
    assert (pair.times_halves, pair.times_video_halves) == (None, None)
    assert pair.outline_distance == 0


def test_halves_of_a_mixture_are_compared_but_not_with_the_sets() -> None:
    halves = {name: np.stack([shapes(0.1), shapes(0.2)]) for name in ("a", "b", "mixture")}
    outlines = {name: np.array([0.9, 0.1]) for name in halves}
    found = list(compare_all(["a", "b"], halves, {}, outlines))
    assert [(entry.first, entry.second) for entry in found] == [
        ("a", "a"),
        ("b", "b"),
        ("mixture", "mixture"),
        ("a", "b"),
    ]
