"""Masks, probabilities and overlays as picture files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from PIL import Image

from fpgm.serving.pictures import COLOUR, overlay, save_pictures
from fpgm.serving.predictor import Predicted

MASKS = arrays(bool, st.tuples(st.integers(1, 12), st.integers(1, 12)))


def test_files_hold_what_is_promised(tmp_path: Path) -> None:
    probability = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    mask = probability >= 0.5
    save_pictures(
        tmp_path, "sub/a", Image.new("RGB", (4, 3)), Predicted(mask, probability, None), ["masks", "probabilities"]
    )
    assert not (tmp_path / "overlays").exists()
    saved = Image.open(tmp_path / "masks" / "sub" / "a.png")
    assert saved.mode == "L" and np.array_equal(np.asarray(saved), mask * 255)
    levels = np.asarray(Image.open(tmp_path / "probabilities" / "sub" / "a.png"))
    assert levels.dtype == np.uint16 and levels[0, 0] == 0 and levels[-1, -1] == 65535
    assert np.abs(levels / 65535 - probability).max() <= 0.5 / 65535 + 1e-7


def test_a_large_picture_has_a_wider_outline() -> None:
    for side, width in ((64, 2), (1200, 4)):
        mask = np.zeros((side, side), bool)
        mask[20:40, 20:40] = True
        drawn = np.asarray(overlay(Image.new("RGB", (side, side)), mask)).any(-1)
        assert drawn[30].nonzero()[0].tolist() == [*range(20 - width, 20), *range(40, 40 + width)]


@given(MASKS)
def test_the_outline_surrounds_the_polyps_and_leaves_them_visible(mask: NDArray[np.bool_]) -> None:
    picture = Image.fromarray(np.full((*mask.shape, 3), 77, np.uint8))
    drawn = np.asarray(overlay(picture, mask))
    outline = (drawn == COLOUR).all(-1)
    # up to two steps up, down, left or right of the mask, but not in it
    rows, columns = np.indices(mask.shape)
    near = np.zeros_like(mask)
    for row, column in np.argwhere(mask):
        near |= np.abs(rows - row) + np.abs(columns - column) <= 2
    assert np.array_equal(outline, near & ~mask)
    assert (drawn[~outline] == 77).all()


def test_overlays_are_jpeg_of_the_same_size(tmp_path: Path) -> None:
    mask = np.zeros((30, 50), bool)
    mask[10:20, 10:20] = True
    save_pictures(
        tmp_path, "a", Image.new("RGB", (50, 30), "blue"), Predicted(mask, mask.astype(np.float32), None), ["overlays"]
    )
    saved = Image.open(tmp_path / "overlays" / "a.jpg")
    assert saved.format == "JPEG" and saved.size == (50, 30)
    assert saved.getpixel((9, 15)) == pytest.approx(COLOUR, abs=40)
    assert saved.getpixel((40, 25)) == pytest.approx((0, 0, 255), abs=10)
