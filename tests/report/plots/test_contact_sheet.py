"""Contact sheets, measured pixel by pixel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fpgm.report.plots.contact_sheet import contact_sheet, outlined


def test_outline_is_the_border_inside_the_mask() -> None:
    mask = np.zeros((5, 5), np.uint8)
    mask[1:4, 1:4] = 1
    image = np.zeros((5, 5, 3), np.uint8)
    painted = outlined(image, mask).any(axis=2)
    # of the 3 x 3 square only the middle has no neighbour outside
    assert painted.astype(int).tolist() == [[0, 0, 0, 0, 0], [0, 1, 1, 1, 0], [0, 1, 0, 1, 0], [0, 1, 1, 1, 0], [0] * 5]
    assert not image.any()


def test_outline_at_the_frame() -> None:
    painted = outlined(np.zeros((3, 3, 3), np.uint8), np.ones((3, 3), np.uint8)).any(axis=2)
    assert painted.sum() == 8  # beyond the frame is outside


def test_images_stand_in_rows(tmp_path: Path) -> None:
    images = [np.full((10, 10, 3), shade, np.uint8) for shade in (10, 20, 30, 40, 50)]
    contact_sheet(images, None, tmp_path / "new/sheet.png", columns=3)
    sheet = np.asarray(Image.open(tmp_path / "new/sheet.png"))
    assert sheet.shape == (2 * 14 + 4, 3 * 14 + 4, 3)  # gaps of 4
    assert [int(sheet[y, x, 0]) for y in (9, 23) for x in (9, 23, 37)] == [10, 20, 30, 40, 50, 255]


def test_masks_and_captions_are_drawn(tmp_path: Path) -> None:
    images, masks = [np.zeros((40, 40, 3), np.uint8)] * 2, [np.pad(np.ones((9, 9), np.uint8), ((25, 6), (25, 6)))] * 2
    contact_sheet(images, masks, tmp_path / "sheet.png", captions=["a"])
    sheet = np.asarray(Image.open(tmp_path / "sheet.png"))
    first, second = sheet[4:44, 4:44], sheet[4:44, 48:88]
    assert first[29, 29].tolist() == [0, 0, 0]
    assert first[25, 25].tolist() == second[25, 25].tolist() == [0, 255, 120]
    assert first[:20, :20].any()
    assert not second[:20, :20].any()


def test_no_images(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one"):
        contact_sheet([], None, tmp_path / "sheet.png")
