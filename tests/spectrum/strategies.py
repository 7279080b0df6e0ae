"""Images, masks and settings for the property tests."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from torch import Tensor

GAMMAS = st.floats(0.01, 1)
RECONSTRUCTIONS = st.sampled_from(["radial", "ratio"])


@st.composite
def images(
    draw: st.DrawFn, batch: int | None = None, square: bool = False, dtype: torch.dtype = torch.float64
) -> Tensor:
    """Draw a batch of noise images over a brightness, of any parity and proportion."""
    side = st.integers(8, 36)
    height = draw(side)
    width = height if square else draw(side)
    count = batch or draw(st.integers(1, 3))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    noise = torch.rand(count, draw(st.sampled_from([1, 3])), height, width, generator=generator, dtype=dtype)
    return draw(st.floats(0, 0.5)) + draw(st.floats(0.01, 0.5)) * noise


def disc(height: int, width: int, radius: float) -> Tensor:
    """Return a centred disc as a mask (H, W)."""
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    return ((y - height / 2) ** 2 + (x - width / 2) ** 2 <= radius**2).long()
