"""The paper's equations as plain numpy loops, written apart from the package: the oracle of these tests."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def edge_band(mask: Array) -> Array:
    height, width = mask.shape
    padded = np.pad(mask.astype(float), 1)
    sobel_x = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    magnitude = np.zeros((height, width))
    for y in range(height):
        for x in range(width):
            window = padded[y : y + 3, x : x + 3]
            magnitude[y, x] = np.hypot((window * sobel_x).sum(), (window * sobel_x.T).sum())
    band = np.zeros((height, width), bool)
    for y in range(height):
        for x in range(width):
            band[y, x] = magnitude[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2].max() > 0.5
    return band


def centred_radius(height: int, width: int) -> Array:
    radius = np.zeros((height, width), int)
    for y in range(height):
        for x in range(width):
            radius[y, x] = int(np.floor(np.sqrt((y - height // 2) ** 2 + (x - width // 2) ** 2)))
    return radius


def profile(centred_amplitude: Array) -> Array:
    height, width = centred_amplitude.shape
    radius = centred_radius(height, width)
    return np.array([centred_amplitude[radius == r].mean() for r in range(min(height, width) // 2)])


def edge_profile(image: Array, mask: Array) -> Array:
    grey = image[0] if len(image) == 1 else 0.299 * image[0] + 0.587 * image[1] + 0.114 * image[2]
    return profile(np.fft.fftshift(np.abs(np.fft.fft2(grey * edge_band(mask), norm="ortho"))))


def align(channel: Array, prior: Array, gamma: float, reconstruction: str) -> Array:
    spectrum = np.fft.fftshift(np.fft.fft2(channel, norm="ortho"))
    amplitude, phase = np.abs(spectrum), np.angle(spectrum)
    own = profile(amplitude)
    energy = own.sum()
    perturbed = ((1 - gamma) * own / energy + gamma * prior / prior.sum()) * energy
    radius = np.minimum(centred_radius(*channel.shape), len(own) - 1)
    target = np.zeros_like(amplitude)
    for y, x in np.ndindex(*channel.shape):
        r = radius[y, x]
        target[y, x] = perturbed[r] if reconstruction == "radial" else amplitude[y, x] * perturbed[r] / own[r]
    return np.fft.ifft2(np.fft.ifftshift(target * np.exp(1j * phase)), norm="ortho").real
