"""Perturbed images and features."""

from __future__ import annotations

import pytest
import torch

from fpgm.methods.parts.perturbations import channel_dropout, noisy


def test_noise_is_cut_off_and_the_image_is_not() -> None:
    image = torch.ones(2, 3, 64, 64)
    noise = noisy(image, torch.Generator().manual_seed(0)) - image
    assert float(noise.max()) == pytest.approx(0.2) and float(noise.min()) == pytest.approx(-0.2)
    assert float(noise.std()) == pytest.approx(0.0959, abs=1e-3)  # of a normal with σ = 0.1 put to ± 2 σ beyond
    assert not torch.equal(noise[:, 0], noise[:, 1]) and not torch.equal(noise[0], noise[1])
    assert torch.equal(noisy(image, torch.Generator().manual_seed(0), sigma=0), image)


def test_channel_dropout_drops_whole_channels_and_keeps_the_mean() -> None:
    dropped = channel_dropout(torch.ones(64, 64, 2, 2), torch.Generator().manual_seed(0))
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(dropped.amin((2, 3)), dropped.amax((2, 3)))
    assert dropped.mean() == pytest.approx(1, abs=0.05)
