"""Polyps of masks drawn by hand, and against a plain search."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from fpgm.serving.findings import Finding, clean, describe

MASKS = arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9)))


def drawn(*rows: str) -> NDArray[np.bool_]:
    return np.array([[letter == "x" for letter in row] for row in rows])


def searched(mask: NDArray[np.bool_]) -> list[set[tuple[int, int]]]:
    """Return the polyps as sets of pixels, found by walking from pixel to pixel."""
    rest = {(int(row), int(column)) for row, column in np.argwhere(mask)}
    polyps = []
    while rest:
        edge, polyp = [rest.pop()], set()
        while edge:
            row, column = edge.pop()
            polyp.add((row, column))
            near = {(row + down, column + right) for down in (-1, 0, 1) for right in (-1, 0, 1)} & rest
            rest -= near
            edge += near
        polyps.append(polyp)
    return polyps


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
        expected.append((len(polyp), pytest.approx(np.mean([probability[pixel] for pixel in polyp])), box))
    found = describe(mask, probability)
    assert sorted(found, key=lambda one: one.box) == sorted(expected, key=lambda one: one[2])
    assert [one.area for one in found] == sorted((one.area for one in found), reverse=True)


@given(MASKS, st.integers(0, 12), st.booleans())
def test_cleaning_keeps_whole_polyps(mask: NDArray[np.bool_], least: int, largest: bool) -> None:
    polyps = [polyp for polyp in searched(mask) if len(polyp) >= least]
    kept = searched(clean(mask, keep_largest=largest, min_area=least))
    assert all(polyp in polyps for polyp in kept)
    if largest:
        assert [len(polyp) for polyp in kept] == [max(map(len, polyps))] if polyps else kept == []
    else:
        assert len(kept) == len(polyps)


def test_least_area_counts_itself() -> None:
    mask = drawn("xx.x")
    assert clean(mask, min_area=2).tolist() == drawn("xx..").tolist()
    assert clean(mask, min_area=1).tolist() == clean(mask).tolist() == mask.tolist()
    assert not clean(mask, min_area=3).any()
    assert clean(mask, keep_largest=True, min_area=3).tolist() == drawn("....").tolist()
