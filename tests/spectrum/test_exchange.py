"""Radial profiles of other images: the profile that comes out, what stays, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from fpgm.spectrum import amplitude, exchange, radial_profile
from fpgm.spectrum.exchange import MOST_GAIN
from tests.spectrum import naive
from tests.spectrum.strategies import GAMMAS, images


def partner_of(image: Tensor) -> Tensor:
    """Other noise, brighter and with less contrast."""
    return 0.4 + 0.3 * torch.rand(image.shape, generator=torch.Generator().manual_seed(1), dtype=image.dtype)


def by_loop(image: np.ndarray, partner: np.ndarray, gamma: float) -> np.ndarray:
    """One channel, ring by ring on the centred plane; corners beyond the last ring take its gain."""
    planes = [np.fft.fftshift(np.fft.fft2(one, norm="ortho")) for one in (image, partner)]
    own, other = (naive.profile(np.abs(plane)) for plane in planes)
    radius = naive.centred_radius(*image.shape)
    made = planes[0].copy()
    for y in range(image.shape[0]):
        for x in range(image.shape[1]):
            ring = min(int(radius[y, x]), len(own) - 1)
            made[y, x] *= np.clip(other[ring] / own[ring], 1 / MOST_GAIN, MOST_GAIN) ** gamma
    return np.fft.ifft2(np.fft.ifftshift(made), norm="ortho").real


@given(images(), GAMMAS)
def test_equals_the_double_loop(image: Tensor, gamma: float) -> None:
    partner = partner_of(image)
    expected = [
        [by_loop(*channels, gamma) for channels in zip(*pair, strict=True)]
        for pair in zip(image.numpy(), partner.numpy(), strict=True)
    ]
    assert np.allclose(exchange(image, partner, gamma), expected, atol=1e-9)


@given(images())
def test_an_image_is_its_own_partner_and_gamma_0_changes_nothing(image: Tensor) -> None:
    assert torch.allclose(exchange(image, image, 1.0), image, atol=1e-9)
    assert torch.allclose(exchange(image, partner_of(image), 0.0), image, atol=1e-9)


def test_at_gamma_1_the_profile_is_the_partners() -> None:
    image = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    partner = 0.1 + 0.8 * image.flip(0)
    found, wanted = (radial_profile(amplitude(one), 32) for one in (exchange(image, partner, 1.0), partner))
    assert torch.allclose(found, wanted)


def test_convention_exchange_changes_a_ring_by_a_factor_of_3_at_most() -> None:
    image = torch.rand(1, 1, 16, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.allclose(exchange(image, image / 100, 1.0), image / MOST_GAIN)
    assert exchange(image / 2, image, 1.0, clamp=True).max() <= 1


def test_each_image_has_its_own_strength() -> None:
    image = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    both = exchange(image, image.flip(0), torch.tensor([0.0, 0.7]))
    assert torch.allclose(both[0], image[0], atol=1e-6)
    assert torch.allclose(both[1:], exchange(image[1:], image[:1], 0.7), atol=1e-6)


def test_what_has_no_partner_is_a_sentence() -> None:
    image = torch.rand(2, 3, 16, 16)
    with pytest.raises(ValueError, match="give each image one of its own size"):
        exchange(image, image[:1], 0.5)
    with pytest.raises(ValueError, match=r"in \[0, 1\], got 2"):
        exchange(image, image, 2.0)
    with pytest.raises(ValueError, match="hold NaN or infinite values"):
        exchange(image, image / 0, 0.5)
