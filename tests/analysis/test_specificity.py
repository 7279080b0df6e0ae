"""Specificity: samples that cannot touch the polyp, and spectra known from theory."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fpgm.analysis import profiles
from fpgm.analysis.specificity import Specificity, _move, _scatter, _summary, specificity
from fpgm.spectrum import edge_mask
from tests.analysis.pictures import Pictures, clinics, flat, noise, square


def measure(pairs: dict[str, tuple[np.ndarray, np.ndarray]], seed: int = 0) -> Specificity:
    return specificity(Pictures(pairs), seed=seed)


def planes(mask: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Background and edge band of a mask."""
    band = edge_mask(torch.from_numpy(mask)[None])[0]
    return ~(band | torch.from_numpy(mask).bool()), band


masks = st.builds(square, st.integers(1, 14), st.just(20), st.integers(0, 19), st.integers(0, 19))


@given(masks, st.integers(0, 2**32))
def test_samples_are_as_large_as_the_band_and_outside_the_polyp(mask: np.ndarray, seed: int) -> None:
    background, band = planes(mask)
    for sample in (_scatter, _move):
        chosen = sample(background, band, np.random.default_rng(seed))
        assert not (chosen & ~background).any()
        assert int(chosen.sum()) in (0, int(band.sum()))


@given(masks)
def test_a_place_is_found_if_and_only_if_there_is_one(mask: np.ndarray) -> None:
    background, band = planes(mask)
    shifts = [(y, x) for y in range(20) for x in range(20)]
    possible = any(not (band.roll(shift, (0, 1)) & ~background).any() for shift in shifts)
    assert bool(_move(background, band, np.random.default_rng(0)).any()) == possible


def test_every_place_may_be_taken() -> None:
    background, band = planes(square(2, 16, 2, 2))
    legal = [(y, x) for y in range(16) for x in range(16) if not (band.roll((y, x), (0, 1)) & ~background).any()]
    rng = np.random.default_rng(0)
    drawn = {tuple(_move(background, band, rng).flatten().tolist()) for _ in range(20 * len(legal))}
    assert len(drawn) == len(legal)


def test_convention_the_dilated_polyp_is_the_mask_and_its_band() -> None:
    background, _ = planes(square(4, 16, 6, 6))
    expected = np.ones((16, 16), bool)
    expected[4:12, 4:12] = False  # two pixels more than the mask on each side
    assert (background.numpy() == expected).all()


def test_too_little_background_gives_no_sample() -> None:
    background, band = planes(square(14, 16, 1, 1))
    assert not background.any()
    assert not _scatter(background, band, np.random.default_rng(0)).any()
    assert not _move(background, band, np.random.default_rng(0)).any()


def test_on_a_flat_image_the_band_looks_the_same_anywhere() -> None:
    result = measure({f"a/{k}": (flat(120), square(5 + k)) for k in range(4)})
    edge = result.samples["edge"]
    for name in ("moved", "outline"):  # shifting leaves amplitudes as they are; there is no texture to lose
        np.testing.assert_allclose(result.samples[name].curve.mean, edge.curve.mean, rtol=1e-4, atol=1e-6)
        assert result.samples[name].likeness.correlation == pytest.approx(1)
        assert result.samples[name].tail == pytest.approx(1, rel=1e-4)
    assert edge.grey == pytest.approx(120 / 255)
    assert result.samples["background"].pixels == edge.pixels


def test_scattered_pixels_are_white_noise_even_without_texture() -> None:
    # n of N pixels of grey g at random: sum of n random phases, so amplitudes are Rayleigh distributed with mean
    # sqrt(pi / 4 * n (1 - n / N)) g / sqrt(N) at every radius above 0; at 0 it is n g / sqrt(N).
    size, grey = 64, 200 / 255
    result = measure({f"a/{k}": (flat(200, size), square(8, size, 28, 28)) for k in range(60)})
    sample = result.samples["background"]
    pixels = sample.pixels
    level = np.sqrt(np.pi / 4 * pixels * (1 - pixels / size**2)) * grey / size
    assert sample.curve.mean[0] == pytest.approx(pixels * grey / size, rel=1e-5)
    np.testing.assert_allclose(sample.curve.mean[8:], level, rtol=0.05)


def test_texture_shows_in_moved_and_not_in_outline() -> None:
    # The left half is flat, the right half is noise; the polyp is on the left, so its band can only move to the right.
    rng = np.random.default_rng(0)
    image = flat(128, 64)
    image[:, 24:] = noise(rng, 64)[:, 24:]
    mask = square(12, 64, 4, 3)
    mask[20:60, 3:15] = 1
    result = measure({f"a/{k}": (image, mask) for k in range(8)})
    assert result.samples["outline"].likeness.distance < 1e-4
    assert result.samples["moved"].likeness.distance > 0.05
    assert result.samples["moved"].curve.images == 8


def test_images_without_room_are_left_out_of_the_sample_and_compared_fairly() -> None:
    roomy, full = square(5), square(24, top=3, left=3)
    result = measure({"a/roomy": (flat(120), roomy), "a/full": (flat(120), full)})
    moved = result.samples["moved"]
    assert (moved.curve.images, result.samples["edge"].curve.images) == (1, 2)
    assert moved.likeness.distance == pytest.approx(0, abs=1e-5)  # against the edge of the roomy image alone
    with pytest.raises(ValueError, match="no background"):
        measure({"a/full": (flat(120), full)})


def test_summary_by_hand() -> None:
    # columns: pixels, sum of grey, then the profile
    edge = np.array([[10, 5, 4.0, 3, 2, 4, 2, 1]])
    other = np.array([[10, 2, 5.0, 1, 1, 1, 3, 2]])
    sample = _summary(other, edge)
    assert (sample.pixels, sample.grey) == (10, 0.2)
    assert sample.tail == pytest.approx(6 / 7)  # (1 + 3 + 2) / (4 + 2 + 1)
    assert sample.exceeds_from == 4  # radius 0 is above too, but 1 is not
    assert _summary(edge, edge).exceeds_from is None
    assert _summary(edge + 1, edge).exceeds_from == 0


def test_invisible_edges_are_skipped_and_counted() -> None:
    result = measure({"a/0": (flat(120), square(5)), "b/0": (flat(0), square(5)), "b/1": (flat(9), square(0))})
    assert (result.images, result.skipped) == ({"a": 1}, 2)
    with pytest.raises(ValueError, match="none of the 1 images has a visible edge"):
        measure({"b/0": (flat(0), square(5))})


def test_seed_decides_and_chunks_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = clinics(4)
    whole, other = measure(pairs), measure(pairs, seed=1)
    monkeypatch.setattr(profiles, "CHUNK_PIXELS", 3 * 32 * 32)
    parts = measure(pairs)
    for name in whole.samples:
        np.testing.assert_allclose(parts.samples[name].curve.mean, whole.samples[name].curve.mean, rtol=1e-5)
    for name in ("background", "moved"):
        assert not np.allclose(other.samples[name].curve.mean, whole.samples[name].curve.mean, rtol=1e-5)
