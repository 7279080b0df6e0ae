"""Amplitude spectra, their radial profiles, and profiles written back to the plane (Eq. 3, 4, 11).

Planes are in the order of ``torch.fft``: the zero frequency at index (0, 0). A half plane is what ``rfft2`` gives,
(H, W // 2 + 1); since it does not tell W, functions that take one also take ``width``.
"""

from __future__ import annotations

from functools import lru_cache

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
    real, imaginary = torch.view_as_real(plane).unbind(-1)
    return (real * real).addcmul_(imaginary, imaginary).sqrt_()


def amplitude(image: Tensor) -> Tensor:
    """Return the half-plane amplitude spectrum of real images (Eq. 3).

    Shape:
        image: (..., H, W). Returns (..., H, W // 2 + 1).
    """
    return magnitude(spectrum(image))


def radius_grid(height: int, width: int, *, half: bool = False, device: torch.device | None = None) -> Tensor:
    """Return the Euclidean distance of every frequency from the zero frequency, in index units.

    Shape:
        Returns float64 (H, W), or (H, W // 2 + 1) for the half plane.
    """
    rows = torch.fft.fftfreq(height, 1 / height, dtype=torch.float64, device=device)
    frequencies = torch.fft.rfftfreq if half else torch.fft.fftfreq
    columns = frequencies(width, 1 / width, dtype=torch.float64, device=device)
    return (rows[:, None].square() + columns.square()).sqrt()


def bins(height: int, width: int) -> int:
    """Return R, the number of radii in a profile."""
    return min(height, width) // 2


def _rings(height: int, width: int, half: bool, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return ``_make_rings`` from a cache; a graph being compiled cannot use the cache and makes its own."""
    make = _make_rings.__wrapped__ if torch.compiler.is_compiling() else _make_rings
    return make(height, width, half, device)


@lru_cache(maxsize=32)
def _make_rings(height: int, width: int, half: bool, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the ring of every frequency, R standing for all beyond the profile, and the size of each ring."""
    count = bins(height, width)
    with torch.inference_mode(False):  # a table made in inference mode could not serve in training
        full = radius_grid(height, width, device=device).long().clamp_(max=count).flatten()
        sizes = torch.bincount(full, minlength=count + 1)[:count]
        if half:
            full = radius_grid(height, width, half=True, device=device).long().clamp_(max=count).flatten()
    return full, sizes


def radial_profile(amplitude: Tensor, width: int | None = None) -> Tensor:
    """Return the mean amplitude at each radius r = 0 … R - 1 (Eq. 4).

    A frequency belongs to the ring floor(distance from the zero frequency); those at R and beyond are left out.

    Shape:
        amplitude: (..., H, W) in the order of ``fft2``; or (..., H, width // 2 + 1), the half plane of ``rfft2``, when
        ``width`` is given. Returns (..., R).
    """
    height, columns = amplitude.shape[-2:]
    half = width is not None
    if width is not None and columns != width // 2 + 1:
        raise ValueError(f"expected {width // 2 + 1} columns in the half plane of width {width}, got {columns}")
    width = width if width is not None else columns
    check_size(height, width)
    rings, sizes = _rings(height, width, half, amplitude.device)
    flat = amplitude.reshape(-1, height * columns)
    total = flat.new_zeros(flat.shape[0], len(sizes) + 1).index_add_(1, rings, flat)
    if half:  # every column stands for its mirror image too, but for the first and, if W is even, the last
        once = slice(None, None, columns - 1) if width % 2 == 0 else slice(0, 1)
        unpaired = flat.view(-1, height, columns)[..., once].flatten(1)
        total = total.mul_(2).index_add_(1, rings.view(height, columns)[:, once].flatten(), unpaired, alpha=-1)
    return (total[:, :-1] / sizes).view(*amplitude.shape[:-2], len(sizes))


def broadcast(profile: Tensor, height: int, width: int, *, half: bool = False) -> Tensor:
    """Write a profile to the plane: each frequency takes the value of its radius (Eq. 11), the last one beyond R.

    Shape:
        profile: (..., R). Returns (..., H, W), or (..., H, W // 2 + 1) for the half plane.
    """
    count = bins(height, width)
    if profile.shape[-1] != count:
        raise ValueError(
            f"a profile of {profile.shape[-1]} radii does not fit {height}x{width} images, which have {count}; "
            "use resample(profile, bins) first"
        )
    rings, _ = _rings(height, width, half, profile.device)
    flat = profile.reshape(-1, count)
    plane = torch.cat([flat, flat[:, -1:]], 1).index_select(1, rings)
    return plane.view(*profile.shape[:-1], height, -1)


def resample(profile: Tensor, count: int) -> Tensor:
    """Interpolate a profile linearly in normalised frequency r / R, for images of another size.

    Shape:
        profile: (..., R). Returns (..., count).
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
    """
    a = first.double() / first.double().sum()
    b = resample(second.double(), len(first))
    b = b / b.sum()
    correlation = torch.corrcoef(torch.stack([a, b]))[0, 1]
    return float(correlation), float((a - b).norm() / a.norm())
