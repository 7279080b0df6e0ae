"""Calibration against loops over pixels, and a temperature against scipy's search."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_expit

from fpgm.calibration import BINS, COLDEST, HOTTEST, calibration_error, fit_temperature, reliability, temper


def naive_error(probability: list[float], truth: list[bool]) -> float:
    """Pixel by pixel: put each into its bin, then weigh the gaps."""
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(15)]
    for value, true in zip(probability, truth, strict=True):
        bins[min(int(np.float32(value) * np.float32(15)), 14)].append((value, true))
    total = 0.0
    for members in bins:
        if members:
            confidence = sum(value for value, _ in members) / len(members)
            share = sum(true for _, true in members) / len(members)
            total += len(members) / len(probability) * abs(confidence - share)
    return total


@given(st.lists(st.tuples(st.floats(0, 1, width=32), st.booleans()), min_size=1, max_size=60))
def test_the_error_is_that_of_a_loop(pixels: list[tuple[float, bool]]) -> None:
    probability, truth = map(list, zip(*pixels, strict=True))
    assert calibration_error(reliability(probability, truth)) == pytest.approx(
        naive_error(probability, truth), abs=1e-6
    )


def test_convention_fifteen_bins_of_equal_width_and_one_is_in_the_last() -> None:
    counts = reliability([0, 0.06, 0.07, 1, 0.99], [0, 0, 1, 1, 0])  # 1/15 is 0.0667
    assert BINS == 15 and counts.pixels.tolist() == [2, 1, *[0] * 11, 0, 2]
    assert counts.foreground.tolist() == [0, 1, *[0] * 11, 0, 1]
    # |0.06 - 0| + |0.07 - 1| + |1.99 - 1| over five pixels
    assert calibration_error(counts) == pytest.approx((0.06 + 0.93 + 0.99) / 5)


def test_shares_that_are_probabilities_have_no_error() -> None:
    counts = reliability([0.25] * 4 + [0.8] * 5, [1, 0, 0, 0, 1, 1, 1, 1, 0])
    assert calibration_error(counts) == pytest.approx(0, abs=1e-7)
    mean, share = counts.shares()
    assert mean == pytest.approx([0.25, 0.8]) and share == pytest.approx([0.25, 0.8])


@pytest.mark.parametrize("true_temperature", [0.4, 1.0, 2.5])
def test_the_temperature_is_that_of_scipys_search(true_temperature: float) -> None:
    rng = np.random.default_rng(3)
    odds = rng.normal(-2, 4, 20_000)
    truth = rng.random(20_000) < expit(odds / true_temperature)

    def loss(scale: float) -> float:
        return float(-np.where(truth, log_expit(odds / scale), log_expit(-odds / scale)).mean())

    found = fit_temperature(odds, truth)
    assert found == pytest.approx(minimize_scalar(loss, bounds=(0.05, 20), method="bounded").x, rel=1e-3)
    assert found == pytest.approx(true_temperature, rel=0.1)


def test_pixels_without_a_best_temperature_take_an_end() -> None:
    assert fit_temperature([3.0, -3.0], [1, 0]) == COLDEST  # all right: the surer the better
    assert fit_temperature([3.0, -3.0], [0, 1]) == HOTTEST


@given(st.floats(0.1, 10), st.lists(st.floats(0, 1, width=32), min_size=1, max_size=30))
def test_convention_a_temperature_changes_no_mask_at_one_half(temperature: float, values: list[float]) -> None:
    given_ = np.array([*values, 0.5, np.nextafter(np.float32(0.5), np.float32(0)), 0, 1], np.float32)
    found = temper(given_, temperature)
    assert found.dtype == np.float32 and np.array_equal(found >= 0.5, given_ >= 0.5)
    assert (np.diff(found[np.argsort(given_, kind="stable")]) >= 0).all() and found.min() >= 0 and found.max() <= 1


def test_a_temperature_divides_the_log_odds() -> None:
    found = temper(np.array([0.2, 0.9], np.float32), 2.0)  # odds 1/4 and 9, whose roots are 1/2 and 3
    assert found == pytest.approx([1 / 3, 3 / 4], rel=1e-6)
    plain = np.array([0.3], np.float32)
    assert temper(plain, 1.0) is plain
