"""Amplitude spectra, their radial profiles, and profiles written back to the plane (Eq. 3, 4, 11).

Planes are in the order of ``torch.fft``: the zero frequency at index (0, 0). A half plane is what ``rfft2`` gives,
(H, W // 2 + 1); since it does not tell W, functions that take one also take ``width``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from fpgm.spectrum.edges import check_size

FFT_NORM = "ortho"


def spectrum(image: Tensor) -> Tensor:
    """Return the half-plane Fourier spectrum of real images, computed in float32 at least.

    Shape:
        image: (..., H, W). Returns complex (..., H, W // 2 + 1).
    """
    return torch.fft.rfft2(image if image.dtype == torch.float64 else image.float(), norm=FFT_NORM)


def magnitude(plane: Tensor) -> Tensor:
    """Return ``|plane|`` of a complex tensor; three times faster than ``abs``, which guards against overflow."""
    real, imaginary = torch.view_as_real(plane).square().unbind(-1)
    return (real + imaginary).sqrt_()


def amplitude(image: Tensor) -> Tensor:
    """Return the half-plane amplitude spectrum of real images (Eq. 3).

    Shape:
        image: (..., H, W). Returns (..., H, W // 2 + 1).

    Examples:
        >>> amplitude(torch.ones(1, 8, 8))[0, 0]
        tensor([8., 0., 0., 0., 0.])
    """
    return magnitude(spectrum(image))


def radius_grid(height: int, width: int, *, half: bool = False, device: torch.device | None = None) -> Tensor:
    """Return the Euclidean distance of every frequency from the zero frequency, in index units.

    Shape:
        Returns float64 (H, W), or (H, W // 2 + 1) for the half plane.

    Examples:
        >>> radius_grid(4, 4, half=True)[:2]
        tensor([[0.0000, 1.0000, 2.0000],
                [1.0000, 1.4142, 2.2361]], dtype=torch.float64)
    """
    rows = torch.fft.fftfreq(height, 1 / height, dtype=torch.float64, device=device)
    frequencies = torch.fft.rfftfreq if half else torch.fft.fftfreq
    columns = frequencies(width, 1 / width, dtype=torch.float64, device=device)
    return (rows[:, None].square() + columns.square()).sqrt()


def bins(height: int, width: int) -> int:
    """Return R, the number of radii in a profile."""
    return min(height, width) // 2


class _Rings(NamedTuple):
    """Tables of a plane of one size.

    Attributes:
        nearest: the ring of every frequency, the last one of the profile for all beyond it.
        parts: the part of the sums that every frequency is added to: its ring, R for all beyond the profile. In a half
            plane R + 1 and on are the rings of frequencies without a mirror image.
        sizes: how many frequencies of the whole plane each ring has, as float32, which holds these numbers exactly.
    """

    nearest: Tensor
    parts: Tensor
    sizes: Tensor


def _rings(height: int, width: int, half: bool, device: torch.device) -> _Rings:
    """Return ``_make_rings`` from a cache; a graph being compiled cannot use the cache and makes its own."""
    make = _make_rings.__wrapped__ if torch.compiler.is_compiling() else _make_rings
    return make(height, width, half, device)


@lru_cache(maxsize=32)
def _make_rings(height: int, width: int, half: bool, device: torch.device) -> _Rings:
    count = bins(height, width)
    with torch.inference_mode(False):  # a table made in inference mode could not serve in training
        whole = radius_grid(height, width, device=device).long().clamp_(max=count)
        sizes = torch.bincount(whole.flatten(), minlength=count + 1)[:count].float()
        rings = radius_grid(height, width, half=half, device=device).long().clamp_(max=count)
        parts = rings.clone()
        if half:  # a column stands for its mirror image too, but for the first and, if W is even, the last
            parts[:, 0] += count + 1
            if width % 2 == 0:
                parts[:, -1] += count + 1
        return _Rings(rings.clamp(max=count - 1).flatten(), parts.flatten(), sizes)


def radial_profile(amplitude: Tensor, width: int | None = None) -> Tensor:
    """Return the mean amplitude at each radius r = 0 … R - 1 (Eq. 4).

    A frequency belongs to the ring floor(distance from the zero frequency); those at R and beyond are left out.

    Shape:
        amplitude: (..., H, W) in the order of ``fft2``; or (..., H, width // 2 + 1), the half plane of ``rfft2``, when
        ``width`` is given. Returns (..., R).

    Examples:
        >>> radial_profile(amplitude(torch.ones(1, 8, 8)), width=8)
        tensor([[8., 0., 0., 0.]])
    """
    height, columns = amplitude.shape[-2:]
    half = width is not None
    if width is not None and columns != width // 2 + 1:
        raise ValueError(f"expected {width // 2 + 1} columns in the half plane of width {width}, got {columns}")
    width = width if width is not None else columns
    check_size(height, width)
    rings = _rings(height, width, half, amplitude.device)
    flat, count = amplitude.reshape(-1, height * columns), len(rings.sizes)
    sums = flat.new_zeros(len(flat), (2 if half else 1) * (count + 1)).index_add_(1, rings.parts, flat)
    total = sums[:, :count]
    if half:
        total = torch.add(sums[:, count + 1 : -1], total, alpha=2)
    return (total / rings.sizes).view(*amplitude.shape[:-2], count)


def broadcast(profile: Tensor, height: int, width: int, *, half: bool = False) -> Tensor:
    """Write a profile to the plane: each frequency takes the value of its radius (Eq. 11), the last one beyond R.

    Shape:
        profile: (..., R). Returns (..., H, W), or (..., H, W // 2 + 1) for the half plane.

    Examples:
        >>> broadcast(torch.tensor([4.0, 3.0, 2.0, 1.0]), 8, 8)[0]  # beyond the last radius, the last value
        tensor([4., 3., 2., 1., 1., 1., 2., 3.])
    """
    count = bins(height, width)
    if profile.shape[-1] != count:
        raise ValueError(
            f"a profile of {profile.shape[-1]} radii does not fit {height}x{width} images, which have {count}; "
            "use resample(profile, bins) first"
        )
    plane = profile.reshape(-1, count).index_select(1, _rings(height, width, half, profile.device).nearest)
    return plane.view(*profile.shape[:-1], height, -1)


def resample(profile: Tensor, count: int) -> Tensor:
    """Interpolate a profile linearly in normalised frequency r / R, for images of another size.

    Shape:
        profile: (..., R). Returns (..., count).

    Examples:
        >>> resample(torch.tensor([4.0, 3.0, 2.0, 1.0]), 8)
        tensor([4.0000, 3.5000, 3.0000, 2.5000, 2.0000, 1.5000, 1.0000, 1.0000])
    """
    old = profile.shape[-1]
    if old == count:
        return profile
    position = torch.arange(count, device=profile.device, dtype=torch.float64) * (old / count)
    lower = position.floor().long().clamp_(max=old - 1)
    upper = (lower + 1).clamp_(max=old - 1)
    return torch.lerp(profile[..., lower], profile[..., upper], (position - lower).to(profile.dtype))


def likeness(first: Tensor, second: Tensor) -> tuple[float, float]:
    """Compare the shapes of two profiles: their correlation, and |a - b| / |a| of the vectors.

    Shape:
        first: (R,); second: (R',), resampled to the radii of the first.

    Examples:
        >>> first = torch.tensor([4.0, 3.0, 2.0, 1.0])
        >>> likeness(first, 2 * first)  # the same shape
        (1.0, 0.0)
    """
    a = first.double() / first.double().sum()
    b = resample(second.double(), len(first))
    b = b / b.sum()
    correlation = torch.corrcoef(torch.stack([a, b]))[0, 1]
    return float(correlation), float((a - b).norm() / a.norm())
