"""Bidirectional copy-paste: the rectangle."""

from __future__ import annotations

import torch

from fpgm.methods.parts.copy_paste import paste_box


def test_a_paste_box_follows_the_shape_of_the_image() -> None:
    box = paste_box(torch.zeros(4, 3, 30, 60), 0.5, torch.Generator().manual_seed(0))
    assert box.shape == (30, 60) and int(box.any(1).sum()) == 15 and int(box.any(0).sum()) == 30
