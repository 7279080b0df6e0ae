"""Polyps and false alarms of a pair of masks drawn by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fpgm.calibration import calibration_error, reliability
from fpgm.evaluation.details import Item, examine, find_alarms, find_polyps
from fpgm.runs.details import expected_calibration_error

TRUTH = """
1 1 . . . .
. . 1 . . .
. . . . . 1
. . . . . 1
. . . . . .
1 . . . . .
"""
MASK = """
. 1 1 . . .
. . . . . .
. . . . . .
. . . . . .
. . 1 . . .
. . . 1 . 1
"""


def drawn(text: str) -> np.ndarray:
    return np.array([[cell == "1" for cell in line.split()] for line in text.strip().splitlines()])


def test_convention_polyps_touch_at_corners_and_are_missed_without_a_pixel() -> None:
    truth, mask = drawn(TRUTH).astype(np.uint8), drawn(MASK)
    assert find_polyps(mask, truth) == ((3, 1), (2, 0), (1, 0))  # the first is joined at a corner, and found
    assert find_alarms(mask, truth) == (2, 1)  # two at a corner, one alone; the region above touches a polyp


@pytest.mark.parametrize(("mask", "truth"), [(False, True), (True, False), (False, False)])
def test_empty_masks_have_neither(mask: bool, truth: bool) -> None:
    masks = np.full((4, 4), mask), np.full((4, 4), truth, np.uint8)
    assert find_polyps(*masks) == (((16, 0),) if truth else ())
    assert find_alarms(*masks) == ((16,) if mask else ())


def test_an_image_is_examined_with_its_group_and_all_its_pixels() -> None:
    rng = np.random.default_rng(1)
    probability, truth = rng.random((6, 6), np.float32), drawn(TRUTH).astype(np.uint8)
    found = examine(Item("clinic/1", "video 3", probability > 0.5, truth, probability))
    assert found.group == "video 3" and sum(found.pixels) == 36 and sum(found.foreground) == 6
    assert expected_calibration_error([found]) == pytest.approx(
        calibration_error(reliability(probability, truth)), abs=1e-4
    )
