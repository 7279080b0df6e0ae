"""Eq. 3, 4 and 11: amplitude, radial profile, broadcast."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fpgm.spectrum import amplitude, broadcast, likeness, radial_profile, radius_grid, resample
from tests.spectrum import naive
from tests.spectrum.strategies import images


@given(images())
def test_profile_equals_the_double_loop(image: torch.Tensor) -> None:
    expected = [
        [naive.profile(np.fft.fftshift(np.abs(np.fft.fft2(c, norm="ortho")))) for c in i.numpy()] for i in image
    ]
    assert np.allclose(radial_profile(amplitude(image), image.shape[-1]), expected, atol=1e-12)


@given(images())
def test_half_and_full_plane_have_the_same_profile(image: torch.Tensor) -> None:
    full = torch.fft.fft2(image, norm="ortho").abs()
    assert torch.allclose(radial_profile(full), radial_profile(amplitude(image), image.shape[-1]), atol=1e-12)


@given(images(square=True))
def test_profile_ignores_flips_and_quarter_turns(image: torch.Tensor) -> None:
    profile = radial_profile(amplitude(image), image.shape[-1])
    for turned in (image.flip(-1), image.flip(-2), image.rot90(1, (-2, -1)), image.rot90(3, (-2, -1))):
        assert torch.allclose(radial_profile(amplitude(turned), image.shape[-1]), profile, atol=1e-12)


@given(st.integers(8, 40), st.integers(8, 40), st.booleans())
def test_profile_of_a_broadcast_profile_is_the_profile(height: int, width: int, half: bool) -> None:
    profile = torch.rand(2, min(height, width) // 2, dtype=torch.float64)
    plane = broadcast(profile, height, width, half=half)
    assert torch.allclose(radial_profile(plane, width if half else None), profile, atol=1e-12)


def test_convention_radius_is_the_floored_distance_in_index_units() -> None:
    radius = radius_grid(8, 8)
    assert radius[0, 0] == 0 and radius[0, 4] == 4 and radius[3, 4] == 5
    # torch's root may be off by the last bit; those of squares are exact
    assert float(radius[7, 1]) == pytest.approx(2**0.5, rel=1e-15)
    plane = torch.zeros(8, 8)
    plane[1, 1] = 8  # distance 1.41: one of the eight frequencies of ring 1
    assert radial_profile(plane).tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize(("size", "bins"), [((8, 8), 4), ((9, 9), 4), ((9, 16), 4), ((16, 11), 5), ((256, 256), 128)])
def test_convention_number_of_radii_is_half_the_shorter_side(size: tuple[int, int], bins: int) -> None:
    assert radial_profile(torch.rand(size)).shape == (bins,)


def test_convention_frequencies_beyond_the_last_radius_do_not_enter_the_profile() -> None:
    plane = torch.zeros(16, 16)
    plane[radius_grid(16, 16) >= 8] = 1e9
    assert radial_profile(plane).abs().sum() == 0


def test_convention_frequencies_beyond_the_last_radius_take_its_value() -> None:
    plane = broadcast(torch.arange(8.0), 16, 16)
    assert plane[8, 8] == 7 and plane[0, 7] == 7 and plane[0, 0] == 0


def test_convention_the_zero_frequency_comes_first() -> None:
    plane = torch.zeros(8, 8)
    plane[0, 0] = 5
    assert radial_profile(plane).tolist() == [5, 0, 0, 0]


def test_convention_fft_is_orthonormal() -> None:
    assert amplitude(torch.ones(1, 1, 16, 16))[0, 0, 0, 0] == 16  # sum / sqrt(256)


def test_convention_another_size_is_reached_in_normalised_frequency() -> None:
    ramp = torch.arange(8.0)
    assert resample(ramp, 8) is ramp
    assert resample(ramp, 4).tolist() == [0, 2, 4, 6]
    assert resample(ramp, 16).tolist() == [*(n / 2 for n in range(15)), 7]


def test_likeness_compares_shapes() -> None:
    profile = torch.tensor([4.0, 3, 2, 1])
    assert likeness(profile, 7 * profile) == pytest.approx((1, 0), abs=1e-12)
    correlation, distance = likeness(profile, torch.tensor([1.0, 2, 3, 4]))
    assert correlation == pytest.approx(-1)
    assert distance == pytest.approx((20 / 30) ** 0.5)  # (3, 1, -1, -3) against (4, 3, 2, 1), both over 10
    assert likeness(torch.arange(4.0), torch.arange(8.0))[1] == pytest.approx(0, abs=1e-12)


@given(images(dtype=torch.float32))
def test_amplitude_equals_abs_in_single_precision(image: torch.Tensor) -> None:
    assert torch.allclose(amplitude(image), torch.fft.rfft2(image, norm="ortho").abs(), rtol=1e-6, atol=1e-6)


def test_profile_is_differentiable() -> None:
    image = torch.rand(1, 1, 9, 12, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: radial_profile(amplitude(x), 12), (image,))


def test_tables_made_in_inference_mode_serve_in_training() -> None:
    image = torch.rand(1, 1, 11, 53, requires_grad=True)  # a size no other test uses
    with torch.inference_mode():
        radial_profile(amplitude(image), 53)
    radial_profile(amplitude(image), 53).sum().backward()
    assert image.grad is not None and image.grad.abs().sum() > 0


def test_bad_input_is_explained() -> None:
    with pytest.raises(ValueError, match="expected 9 columns in the half plane of width 16, got 16"):
        radial_profile(torch.rand(16, 16), 16)
    with pytest.raises(ValueError, match="at least 8x8 pixels, got 8x7"):
        radial_profile(torch.rand(8, 7))
    with pytest.raises(ValueError, match="5 radii does not fit 16x16 images, which have 8; use resample"):
        broadcast(torch.rand(5), 16, 16)
