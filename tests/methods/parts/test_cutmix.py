"""CutMix."""

from __future__ import annotations

import torch

from fpgm.methods.parts.cutmix import paste


def test_paste_takes_the_inside_from_the_first() -> None:
    box = torch.tensor([[[True, False]]])
    assert paste(torch.tensor([[[1, 2]]]), torch.tensor([[[3, 4]]]), box).tolist() == [[[1, 4]]]
    assert paste(torch.ones(1, 3, 1, 2), torch.zeros(1, 3, 1, 2), box)[0, :, 0].tolist() == [[1, 0]] * 3
