"""Polyps of masks drawn by hand, and against a plain search."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fpgm.serving.findings import Finding, describe
from tests.drawing import MASKS, drawn, searched


def test_two_polyps() -> None:
    mask = drawn(
        "xx...",
        "....x",
        "....x",
        "...xx",
    )
    probability = np.zeros((4, 5), np.float32)
    probability[0, :2] = 0.5, 0.75
    probability[1:, 4], probability[3, 3] = 1, 0.5
    # the right one: 4 pixels, (1 + 1 + 1 + 0.5) / 4; from column 3, row 1, 2 wide, 3 high
    assert describe(mask, probability) == [Finding(4, 0.875, (3, 1, 2, 3)), Finding(2, 0.625, (0, 0, 2, 1))]


def test_nothing_found_is_an_empty_list() -> None:
    assert describe(np.zeros((3, 4), bool), np.ones((3, 4), np.float32)) == []


def test_convention_pixels_that_touch_at_a_corner_are_one_polyp() -> None:
    assert [found.area for found in describe(drawn("x.", ".x"), np.ones((2, 2), np.float32))] == [2]


def test_masks_and_probabilities_of_two_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"mask is \(2, 3\), the probability \(3, 2\)"):
        describe(np.ones((2, 3), bool), np.ones((3, 2), np.float32))


@given(MASKS, st.integers(0, 2**32 - 1))
def test_polyps_are_those_of_a_plain_search(mask: NDArray[np.bool_], seed: int) -> None:
    probability = np.random.default_rng(seed).random(mask.shape, np.float32)
    expected = []
    for polyp in searched(mask):
        rows, columns = zip(*polyp, strict=True)
        box = min(columns), min(rows), max(columns) - min(columns) + 1, max(rows) - min(rows) + 1
        expected.append((len(polyp), pytest.approx(np.mean([probability[pixel] for pixel in polyp])), box, None))
    found = describe(mask, probability)
    assert sorted(found, key=lambda one: one.box) == sorted(expected, key=lambda one: one[2])
    assert [one.area for one in found] == sorted((one.area for one in found), reverse=True)
