"""Eq. 1 and 2: gradient, edge band, edge content."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fpgm.spectrum import edge_mask, edge_region, gradient, to_grey
from tests.spectrum import naive
from tests.spectrum.strategies import disc, images


@given(st.integers(0, 2**31), st.integers(8, 20), st.integers(8, 20), st.floats(0, 1))
def test_edge_band_equals_the_double_loop(seed: int, height: int, width: int, share: float) -> None:
    mask = np.random.default_rng(seed).random((height, width)) < share
    assert np.array_equal(edge_mask(torch.from_numpy(mask)[None])[0].numpy(), naive.edge_band(mask))


def test_edge_of_a_drawn_square() -> None:
    mask = torch.zeros(1, 12, 12)
    mask[0, 4:8, 4:8] = 1
    # The gradient is non-zero on the outline and one pixel around it; dilation adds a pixel on either side. Of the
    # 8x8 square from 2 to 9 nothing is spared: the 2x2 core, two pixels from the outside, is reached from all sides.
    expected = torch.zeros(12, 12, dtype=torch.bool)
    expected[2:10, 2:10] = True
    assert torch.equal(edge_mask(mask)[0], expected)


def test_inside_of_a_large_square_is_no_edge() -> None:
    mask = torch.zeros(1, 20, 20)
    mask[0, 4:16, 4:16] = 1
    edge = edge_mask(mask)[0]
    assert not edge[6:14, 6:14].any()
    assert edge[4:16, 4:16].sum() == 12 * 12 - 8 * 8


def test_gradient_of_a_step_is_four() -> None:
    mask = torch.zeros(1, 8, 10)
    mask[..., 5:] = 1
    assert gradient(mask)[0, 4].tolist() == [0, 0, 0, 0, 4, 4, 0, 0, 0, 4]  # the last one is the frame


def test_convention_a_mask_touching_the_frame_has_an_edge_there() -> None:
    edge = edge_mask(torch.ones(1, 12, 12))[0]
    assert edge[:2].all() and not edge[2:-2, 2:-2].any()


def test_convention_grey_is_the_luminance_of_rgb() -> None:
    primaries = torch.eye(3).view(3, 3, 1, 1).expand(3, 3, 8, 8)
    assert torch.allclose(to_grey(primaries)[:, 0, 0], torch.tensor([0.299, 0.587, 0.114]))


def test_convention_a_single_channel_is_grey_already() -> None:
    image = torch.rand(2, 1, 8, 8)
    assert torch.equal(to_grey(image), image[:, 0])


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32, torch.float64, torch.bfloat16])
def test_mask_type_does_not_matter(dtype: torch.dtype) -> None:
    mask = disc(16, 16, 5)[None]
    assert torch.equal(edge_mask(mask.to(dtype)), edge_mask(mask))
    assert torch.equal(edge_mask(mask[:, None].to(dtype)), edge_mask(mask))


@given(images(batch=2))
def test_edge_region_is_grey_on_the_band_and_zero_elsewhere(image: torch.Tensor) -> None:
    mask = disc(*image.shape[-2:], 3).expand(2, -1, -1)
    region, band = edge_region(image, mask), edge_mask(mask)
    assert torch.equal(region[band], to_grey(image)[band])
    assert region[~band].abs().sum() == 0


@pytest.mark.parametrize(
    ("image", "mask", "message"),
    [
        (torch.rand(3, 16, 16), torch.zeros(1, 16, 16), r"\(B, C, H, W\), got \(3, 16, 16\)"),
        (torch.rand(1, 2, 16, 16), torch.zeros(1, 16, 16), "1 .grey. or 3 .RGB. channels on axis 1, got 2"),
        (torch.zeros(1, 3, 16, 16, dtype=torch.uint8), torch.zeros(1, 16, 16), "divide by 255"),
        (torch.rand(1, 3, 4, 16), torch.zeros(1, 4, 16), "at least 8x8 pixels, got 4x16"),
        (torch.rand(1, 3, 16, 16), torch.zeros(16, 16), r"\(B, H, W\) or \(B, 1, H, W\), got \(16, 16\)"),
        (torch.rand(1, 3, 16, 16), torch.zeros(1, 3, 16, 16), r"\(B, 1, H, W\), got \(1, 3, 16, 16\)"),
        (torch.rand(1, 3, 16, 16), torch.zeros(1, 16, 17), "do not belong together"),
        (torch.rand(2, 3, 16, 16), torch.zeros(1, 16, 16), "do not belong together"),
        (torch.rand(1, 3, 16, 16), torch.full((1, 16, 16), 255), "got 255 to 255.*mask > 127"),
        (torch.rand(1, 3, 16, 16), torch.full((1, 16, 16), -1), "got -1 to -1"),
        (torch.rand(1, 3, 16, 16), torch.full((1, 16, 16), float("nan")), "got nan to nan"),
    ],
)
def test_bad_input_is_explained(image: torch.Tensor, mask: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        edge_region(image, mask)
