"""Agreement with the released recipe, step by step at 256x256, on drawn and on real images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from fpgm.spectrum import FrequencyPrior, SpectralAlignment
from tests.spectrum.strategies import disc

SIZE, RADII, EPSILON = 256, 128, 1e-6


def rings() -> Tensor:
    y, x = torch.meshgrid(torch.arange(SIZE) - 128, torch.arange(SIZE) - 128, indexing="ij")
    return (y.double() ** 2 + x.double() ** 2).sqrt().floor().long()


def profile(plane: Tensor) -> Tensor:
    ring = rings()
    return torch.stack([plane[..., ring == r].mean(-1) for r in range(RADII)], -1)


def edge_profile(image: Tensor, mask: Tensor) -> Tensor:
    kernel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    gradients = F.conv2d(mask[:, None].float(), torch.stack([kernel, kernel.T])[:, None], padding=1)
    edge = F.max_pool2d(gradients.square().sum(1, True).sqrt(), 3, 1, 1)[:, 0] > 0.5
    grey = 0.299 * image[:, 0] + 0.587 * image[:, 1] + 0.114 * image[:, 2]
    return profile(torch.fft.fftshift(torch.fft.fft2(grey * edge, norm="ortho").abs(), dim=(-2, -1))).mean(0)


def perturb(image: Tensor, prior: Tensor, gamma: float) -> Tensor:
    spectrum = torch.fft.fft2(image, norm="ortho")
    own = profile(torch.fft.fftshift(spectrum.abs(), dim=(-2, -1)))
    energy = own.sum(-1, keepdim=True)
    shape = (1 - gamma) * own / (energy + EPSILON) + gamma * prior / (prior.sum() + EPSILON)
    plane = torch.fft.ifftshift((shape * energy)[..., rings().clamp(max=RADII - 1)], dim=(-2, -1))
    return torch.fft.ifft2(torch.polar(plane, spectrum.angle()), norm="ortho").real


def check(image: Tensor, mask: Tensor, gamma: float) -> None:
    learnt = FrequencyPrior()
    learnt.update(image[:2], mask[:2])
    learnt.update(image[2:], mask[2:])
    expected = 0.999 * edge_profile(image[:2], mask[:2]) + 0.001 * edge_profile(image[2:], mask[2:])
    assert torch.allclose(learnt.profile, expected, atol=1e-5)
    aligned = SpectralAlignment(learnt, gamma)(image)
    assert torch.allclose(aligned, perturb(image, expected, gamma), atol=1e-5)


@pytest.mark.parametrize("gamma", [1e-9, 0.05, 0.1, 1.0])
def test_agrees_on_drawn_images(gamma: float) -> None:
    mask = torch.stack([disc(SIZE, SIZE, radius) for radius in (20, 40, 60, 80)])
    generator = torch.Generator().manual_seed(0)
    colour = torch.tensor([0.6, 0.35, 0.25]).view(1, 3, 1, 1)
    check(colour * (0.7 + 0.3 * mask[:, None]) + 0.1 * torch.rand(4, 3, SIZE, SIZE, generator=generator), mask, gamma)


@pytest.mark.parametrize("name", ["Kvasir-SEG", "CVC-ClinicDB", "CVC-ColonDB", "ETIS-LaribPolypDB"])
def test_agrees_on_real_images(real_data: Path, name: str) -> None:
    files = sorted((real_data / name / "images").glob("*.jpg"))[:4]

    def read(path: Path) -> Tensor:
        return torch.from_numpy(np.array(Image.open(path).resize((SIZE, SIZE))))

    image = torch.stack([read(path).permute(2, 0, 1) / 255 for path in files])
    mask = torch.stack([read(real_data / name / "masks" / f"{path.stem}.png") for path in files])
    check(image, mask, 0.05)
