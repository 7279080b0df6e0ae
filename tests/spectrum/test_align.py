"""Eq. 6 to 12: spectral shape alignment."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from fpgm.spectrum import FrequencyPrior, SpectralAlignment, align, amplitude, generic_profile, radial_profile
from fpgm.spectrum.align import decompose, energy, interpolate, reconstruct, rescale, shape
from tests.spectrum import naive
from tests.spectrum.strategies import GAMMAS, RECONSTRUCTIONS, disc, images


def prior_for(image: Tensor, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(min(image.shape[-2:]) // 2, generator=generator, dtype=torch.float64) + 0.01


def profile_of(image: Tensor) -> Tensor:
    return radial_profile(amplitude(image), image.shape[-1])


@given(images(), GAMMAS, RECONSTRUCTIONS)
def test_equals_the_double_loop(image: Tensor, gamma: float, reconstruction: str) -> None:
    prior = prior_for(image)
    expected = [[naive.align(c, prior.numpy(), gamma, reconstruction) for c in i] for i in image.numpy()]
    assert np.allclose(align(image, prior, gamma, reconstruction), expected, atol=1e-9)


@given(images(), GAMMAS, RECONSTRUCTIONS)
def test_phase_is_kept(image: Tensor, gamma: float, reconstruction: str) -> None:
    before = torch.fft.rfft2(image)
    after = torch.fft.rfft2(align(image, prior_for(image), gamma, reconstruction))
    clear = (before.abs() > 1e-6) & (after.abs() > 1e-6)
    assert torch.allclose((before / before.abs())[clear], (after / after.abs())[clear], atol=1e-6)


@given(images(), GAMMAS, RECONSTRUCTIONS)
def test_energy_is_kept_and_the_profile_is_the_interpolated_one(
    image: Tensor, gamma: float, reconstruction: str
) -> None:
    prior, before = prior_for(image), profile_of(image)
    after = profile_of(align(image, prior, gamma, reconstruction))
    assert torch.allclose(after.sum(-1), before.sum(-1), rtol=1e-9)
    expected = ((1 - gamma) * before / before.sum(-1, True) + gamma * prior / prior.sum()) * before.sum(-1, True)
    assert torch.allclose(after, expected, rtol=1e-9)


@given(images(), RECONSTRUCTIONS)
def test_full_guidance_gives_the_shape_of_the_prior(image: Tensor, reconstruction: str) -> None:
    prior = prior_for(image)
    after = profile_of(align(image, prior, 1.0, reconstruction))
    assert torch.allclose(after / after.sum(-1, True), prior / prior.sum(), rtol=1e-9)


@given(images(square=True), GAMMAS, RECONSTRUCTIONS)
def test_turning_and_aligning_commute(image: Tensor, gamma: float, reconstruction: str) -> None:
    prior = prior_for(image)
    aligned = align(image, prior, gamma, reconstruction)
    for turn in (lambda x: x.flip(-1), lambda x: x.flip(-2), lambda x: x.rot90(1, (-2, -1))):
        assert torch.allclose(align(turn(image), prior, gamma, reconstruction), turn(aligned), atol=1e-9)


@given(images(batch=3), GAMMAS, RECONSTRUCTIONS)
def test_a_batch_is_a_loop_over_images(image: Tensor, gamma: float, reconstruction: str) -> None:
    prior = prior_for(image)
    alone = torch.cat([align(one[None], prior, gamma, reconstruction) for one in image])
    assert torch.allclose(align(image, prior, gamma, reconstruction), alone, atol=1e-12)


@given(images(batch=3), st.lists(st.floats(0, 1), min_size=3, max_size=3), RECONSTRUCTIONS)
def test_one_gamma_per_image(image: Tensor, gammas: list[float], reconstruction: str) -> None:
    prior = prior_for(image)
    alone = [align(one[None], prior, g, reconstruction) for one, g in zip(image, gammas, strict=True)]
    together = align(image, prior, torch.tensor(gammas, dtype=torch.float64), reconstruction)
    assert torch.allclose(together, torch.cat(alone), atol=1e-12)


@given(images(), st.floats(0.1, 10), GAMMAS, RECONSTRUCTIONS)
def test_brightness_scales_through(image: Tensor, factor: float, gamma: float, reconstruction: str) -> None:
    prior = prior_for(image)
    scaled = align(factor * image, 7 * prior, gamma, reconstruction)
    assert torch.allclose(scaled, factor * align(image, prior, gamma, reconstruction), atol=1e-9)


@given(images(dtype=torch.float32), GAMMAS, RECONSTRUCTIONS)
def test_single_precision_agrees_with_double(image: Tensor, gamma: float, reconstruction: str) -> None:
    prior = prior_for(image)
    spread = torch.fft.rfft2(image.double(), norm="ortho").abs()
    assume(spread.min() > 1e-5)  # the phase of a frequency below rounding is anyone's guess
    double = align(image.double(), prior, gamma, reconstruction)
    single = align(image, prior, gamma, reconstruction)
    assert single.dtype == torch.float32
    assert torch.allclose(single.double(), double, atol=1e-3)


def test_ratio_keeps_the_direction_of_the_amplitude() -> None:
    stripes = (torch.arange(32) % 4 < 2).float().expand(1, 1, 32, 32).clone() + 0.01 * torch.rand(1, 1, 32, 32)
    prior = generic_profile(16)

    def anisotropy(image: Tensor) -> Tensor:
        plane = torch.fft.fft2(image)[0, 0].abs()
        return plane[0, 8] / plane[8, 0]

    assert anisotropy(align(stripes, prior, 0.05, "ratio")) == pytest.approx(float(anisotropy(stripes)), rel=1e-3)
    assert anisotropy(align(stripes, prior, 0.05, "radial")) == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("reconstruction", ["radial", "ratio"])
def test_convention_gamma_zero_is_the_identity(reconstruction: str) -> None:
    image = torch.rand(2, 3, 16, 16)
    assert align(image, generic_profile(8), 0.0, reconstruction) is image
    mixed = align(image, generic_profile(8), torch.tensor([0.0, 0.5]), reconstruction)
    assert torch.equal(mixed[0], image[0]) and not torch.equal(mixed[1], image[1])


def test_convention_a_tiny_gamma_is_not_the_identity_in_radial_but_is_in_ratio() -> None:
    image = torch.rand(1, 3, 32, 32)
    prior = generic_profile(16)
    assert (align(image, prior, 1e-9, "radial") - image).abs().mean() > 0.01
    assert torch.allclose(align(image, prior, 1e-9, "ratio"), image, atol=1e-5)


def test_convention_the_default_reconstruction_is_radial_at_gamma_005() -> None:
    image = torch.rand(1, 3, 16, 16)
    assert torch.equal(align(image, generic_profile(8)), align(image, generic_profile(8), 0.05, "radial"))


def test_convention_output_is_clamped_only_when_asked() -> None:
    image = (torch.rand(1, 3, 32, 32) > 0.5).float()
    free = align(image, generic_profile(16), 0.5)
    assert free.min() < 0 or free.max() > 1
    assert torch.equal(align(image, generic_profile(16), 0.5, clamp=True), free.clamp(0, 1))


def test_convention_each_channel_is_aligned_by_itself() -> None:
    image = torch.rand(1, 3, 16, 16)
    alone = [align(image[:, c : c + 1], generic_profile(8)) for c in range(3)]
    assert torch.allclose(align(image, generic_profile(8)), torch.cat(alone, 1), atol=1e-6)


def test_convention_zero_amplitude_has_phase_zero() -> None:
    constant = torch.full((1, 1, 16, 16), 0.25, dtype=torch.float64)  # all but the zero frequency are exactly zero
    prior = generic_profile(8).double()
    expected = naive.align(constant[0, 0].numpy(), prior.numpy(), 0.3, "radial")
    for reconstruction in ("radial", "ratio"):
        assert np.allclose(align(constant, prior, 0.3, reconstruction)[0, 0], expected, atol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("reconstruction", ["radial", "ratio"])
def test_constant_images_stay_finite(value: float, reconstruction: str) -> None:
    aligned = align(torch.full((1, 3, 33, 32), value), generic_profile(16), 0.05, reconstruction)
    assert torch.isfinite(aligned).all()
    assert torch.allclose(profile_of(aligned).sum(-1), profile_of(torch.full((1, 3, 33, 32), value)).sum(-1), atol=1e-4)


def test_a_prior_serves_another_size() -> None:
    image = torch.rand(1, 3, 64, 48)
    learnt = generic_profile(128)
    expected = align(image, torch.tensor([1 / (1 + r * 128 / 24) for r in range(24)]), 0.5)
    assert torch.allclose(align(image, learnt, 0.5), expected, atol=2e-2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(dtype: torch.dtype) -> None:
    image = torch.rand(1, 3, 16, 16).to(dtype)
    aligned = align(image, generic_profile(8), 0.05)
    assert aligned.dtype == dtype
    assert torch.equal(aligned, align(image.float(), generic_profile(8), 0.05).to(dtype))


def test_autocast_changes_nothing() -> None:
    image, module = torch.rand(2, 3, 16, 16), SpectralAlignment(generic_profile(8))
    with torch.autocast("cpu", torch.bfloat16):
        inside = module(image)
    assert torch.equal(inside, module(image))


def test_align_is_differentiable() -> None:
    image = torch.rand(1, 1, 8, 9, dtype=torch.float64, requires_grad=True)
    prior = torch.rand(4, dtype=torch.float64, requires_grad=True)
    for reconstruction in ("radial", "ratio"):
        assert torch.autograd.gradcheck(lambda x, p, how=reconstruction: align(x, p, 0.3, how), (image, prior))


def test_equations_six_to_twelve_compose_to_align() -> None:
    image, prior = torch.rand(2, 3, 16, 20, dtype=torch.float64), torch.rand(8, dtype=torch.float64)
    own, plane = decompose(image)
    profile = radial_profile(own, 20)
    perturbed = rescale(interpolate(shape(profile), shape(prior), 0.2), energy(profile))
    rings = torch.fft.fftfreq(16, 1 / 16)[:, None].square() + torch.arange(11).square()
    gain = perturbed[..., rings.sqrt().long().clamp(max=7)] / own
    before = plane.clone()
    expected = align(image, prior, 0.2)
    assert torch.allclose(reconstruct(plane, gain, 20), expected) and torch.equal(plane, before)
    assert torch.allclose(reconstruct(plane, gain, 20, overwrite=True), expected)


class TestModule:
    def test_is_align_with_settings(self) -> None:
        image, prior = torch.rand(2, 3, 16, 16), generic_profile(8)
        module = SpectralAlignment(prior, 0.3, "ratio", clamp=True)
        assert torch.equal(module(image), align(image, prior, 0.3, "ratio", clamp=True))
        assert "gamma=0.3, reconstruction='ratio', clamp=True" in repr(module)

    def test_passes_images_unchanged_until_the_prior_has_learnt(self) -> None:
        image, prior = torch.rand(1, 3, 16, 16), FrequencyPrior()
        module = SpectralAlignment(prior)
        assert module(image) is image
        prior.update(image, disc(16, 16, 5)[None])
        assert torch.equal(module(image), align(image, prior.profile))

    def test_draws_one_gamma_per_image_from_a_range(self) -> None:
        image, module = torch.rand(4, 3, 16, 16), SpectralAlignment(generic_profile(8), (0.1, 0.4))
        drawn = module.draw(1000, torch.Generator().manual_seed(1))
        assert isinstance(drawn, Tensor) and 0.1 <= drawn.min() < 0.12 and 0.38 < drawn.max() <= 0.4
        first = module(image, torch.Generator().manual_seed(1))
        assert torch.equal(first, align(image, generic_profile(8), module.draw(4, torch.Generator().manual_seed(1))))
        assert not torch.equal(first, module(image, torch.Generator().manual_seed(2)))
        with pytest.raises(ValueError, match=r"pass a torch\.Generator"):
            module(image)

    def test_state_round_trips(self) -> None:
        prior = FrequencyPrior()
        prior.update(torch.rand(2, 3, 16, 16), disc(16, 16, 5).expand(2, -1, -1))
        image, module, other = torch.rand(1, 3, 16, 16), SpectralAlignment(prior), SpectralAlignment(FrequencyPrior())
        other.load_state_dict(module.state_dict())
        assert torch.equal(module(image), other(image))
        fixed = SpectralAlignment(generic_profile(8))
        fixed.load_state_dict(SpectralAlignment(torch.arange(8.0)).state_dict())
        assert torch.equal(fixed(image), align(image, torch.arange(8.0)))

    def test_compiles_without_a_graph_break(self) -> None:
        prior = FrequencyPrior()
        prior.update(torch.rand(2, 3, 16, 16), disc(16, 16, 5).expand(2, -1, -1))
        module, image = SpectralAlignment(prior, 0.3), torch.rand(2, 3, 16, 16)
        compiled = torch.compile(module, fullgraph=True, backend="aot_eager")  # the graph is ours, its code torch's
        assert torch.allclose(compiled(image), module(image), atol=1e-6)
        prior.update(torch.rand(2, 3, 16, 16), disc(16, 16, 3).expand(2, -1, -1))
        assert torch.allclose(compiled(image), module(image), atol=1e-6)

    def test_moves_with_its_device(self) -> None:
        module = SpectralAlignment(generic_profile(8)).to("meta")
        assert module.profile.device.type == "meta"


@pytest.mark.parametrize("gamma", [-0.1, 1.1, float("nan"), (0.2, 1.5), (-1, 0.5), (0.5, 0.2)])
def test_bad_gamma_is_explained(gamma: float | tuple[float, float]) -> None:
    with pytest.raises(ValueError, match=r"in \[0, 1\], got|swap the two"):
        SpectralAlignment(generic_profile(8), gamma)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image": torch.rand(3, 16, 16)}, r"\(B, C, H, W\)"),
        ({"image": torch.rand(1, 4, 16, 16)}, "channels on axis 1, got 4"),
        ({"gamma": 2.0}, r"in \[0, 1\], got 2.0"),
        ({"gamma": torch.tensor([0.1, 7.0])}, r"in \[0, 1\], got 7.0"),
        ({"gamma": torch.tensor([0.1, 0.2, 0.3])}, "one for each of 2 images"),
        ({"reconstruction": "polar"}, "'radial' or 'ratio', got 'polar'"),
        ({"prior_profile": torch.zeros(8)}, "positive sum"),
        ({"prior_profile": -torch.ones(8)}, "amplitudes >= 0"),
        ({"prior_profile": torch.full((8,), float("inf"))}, "finite"),
        ({"prior_profile": torch.full((8,), float("nan"))}, "finite"),
        ({"prior_profile": torch.ones(2, 8)}, r"shape \(R,\)"),
        ({"prior_profile": torch.ones(0)}, r"R >= 4, got \(0,\)"),
    ],
)
def test_bad_input_is_explained(change: dict[str, object], message: str) -> None:
    good = {"image": torch.rand(2, 3, 16, 16), "prior_profile": generic_profile(8), "gamma": 0.05}
    with pytest.raises(ValueError, match=message):
        align(**{**good, **change})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_an_image_with_a_bad_pixel_is_named(value: float) -> None:
    image = torch.rand(3, 3, 16, 16)
    image[1, 2, 3, 4] = value
    with pytest.raises(ValueError, match=r"images \[1\] of the batch hold NaN or infinite"):
        align(image, generic_profile(8))
