"""Targets of the alignment: the learnt frequency prior (Eq. 5), the generic prior, and the low-pass filter."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from fpgm._version import __version__
from fpgm.files import parse_json, read_file, write_text
from fpgm.spectrum.edges import check_image, edge_region
from fpgm.spectrum.radial import FFT_NORM, amplitude, bins, radial_profile, radius_grid, spectrum

CUTOFF_RADII = 128  # number of radii of the images that a cutoff refers to
CONVENTIONS = {
    "fft": FFT_NORM,
    "radius": "floor of the distance in index units, r < min(H, W) // 2",
    "grey": "0.299 R + 0.587 G + 0.114 B",
    "edge": "Sobel with zero padding, 3x3 dilation, > 0.5",
}


def edge_profiles(image: Tensor, mask: Tensor) -> Tensor:
    """Return the radial profile of the edge content of each image (Eq. 1 to 4).

    Shape:
        image: (B, C, H, W) in [0, 1]; mask: (B, H, W) or (B, 1, H, W). Returns (B, R); zeros for an empty mask.

    Examples:
        >>> mask = torch.zeros(2, 64, 64)
        >>> mask[:, 20:40, 20:40] = 1
        >>> edge_profiles(torch.rand(2, 3, 64, 64), mask).shape
        torch.Size([2, 32])
    """
    return radial_profile(amplitude(edge_region(image, mask)), image.shape[-1])


def generic_profile(count: int) -> Tensor:
    """Return the natural-image prior 1 / (r + 1) for r = 0 … count - 1.

    Examples:
        >>> generic_profile(4)
        tensor([1.0000, 0.5000, 0.3333, 0.2500])
    """
    if count < 4:
        raise ValueError(f"expected at least 4 radii, got {count}; an image of H x W pixels has min(H, W) // 2")
    return 1 / torch.arange(1, count + 1, dtype=torch.float32)


def low_pass(image: Tensor, cutoff: float = 16) -> Tensor:
    """Keep the frequencies up to a cutoff radius, suppress the others.

    The radius is that of an image with 128 radii, the paper's 256 x 256 pixels. Images of another size are cut at the
    same normalised frequency r / R, by which ``resample`` converts a prior.

    Shape:
        image: (B, C, H, W). Returns (B, C, H, W) in the same dtype.

    Examples:
        >>> image = torch.rand(1, 3, 64, 64)
        >>> torch.allclose(low_pass(image, 0), image.mean((2, 3), keepdim=True).expand_as(image))  # the mean is left
        True
    """
    check_image(image)
    if not cutoff >= 0:
        raise ValueError(f"expected a cutoff radius >= 0, got {cutoff}; the paper uses 16")
    height, width = image.shape[-2:]
    radius = radius_grid(height, width, half=True, device=image.device)
    keep = radius * CUTOFF_RADII <= cutoff * bins(height, width)
    return torch.fft.irfft2(spectrum(image) * keep, s=(height, width), norm=FFT_NORM).to(image.dtype)


def sum_over_ranks(values: Tensor) -> Tensor:
    """Return the sum of ``values`` over all ranks of ``torch.distributed``, or ``values`` where none is set up.

    Examples:
        >>> sum_over_ranks(torch.tensor([1, 2]))  # a single process
        tensor([1, 2])
    """
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        values = values.clone()
        dist.all_reduce(values)
    return values


class FrequencyPrior(nn.Module):
    """The exponential moving average of edge profiles over labelled batches (Eq. 5).

    Literally (``debias=False``) the average starts at the first batch's profile, so with momentum 0.999 that batch
    still weighs 93 % after 70 further ones. With ``debias=True`` the weights are normalised as in Adam: early on, the
    prior is close to the plain mean of what it has seen.

    All state is in buffers: ``profile`` (R,) (empty until the first update), ``size`` (H, W), and the counts
    ``updates``, ``samples`` and ``skipped`` (images with an empty mask, which do not change the prior).

    Examples:
        >>> mask = torch.zeros(4, 64, 64)
        >>> mask[:, 20:40, 20:40] = 1
        >>> prior = FrequencyPrior()
        >>> prior.update(torch.rand(4, 3, 64, 64), mask)
        >>> prior.profile.shape, int(prior.samples)
        (torch.Size([32]), 4)
    """

    profile: Tensor
    size: Tensor
    updates: Tensor
    samples: Tensor
    skipped: Tensor

    def __init__(self, momentum: float = 0.999, debias: bool = False) -> None:
        super().__init__()
        if not 0 <= momentum <= 1:
            raise ValueError(f"expected a momentum in [0, 1], got {momentum}; the paper uses 0.999")
        self.momentum = momentum
        self.debias = debias
        self.register_buffer("profile", torch.zeros(0))
        self.register_buffer("size", torch.zeros(2, dtype=torch.long))
        for name in ("updates", "samples", "skipped"):
            self.register_buffer(name, torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def update(self, image: Tensor, mask: Tensor) -> None:
        """Update the prior with one labelled batch; in a distributed run, all ranks must call this together.

        Args:
            image: (B, C, H, W) in [0, 1], all updates of the same H and W.
            mask: (B, H, W) or (B, 1, H, W) in [0, 1].
        """
        profiles = self._check(edge_profiles(image, mask), image)
        used = (profiles.sum(1) > 0).sum()
        totals = sum_over_ranks(torch.cat([profiles.sum(0), torch.stack([used, used.new_tensor(len(image))])]))
        samples, seen = int(totals[-2]), int(totals[-1])
        if samples:
            current = totals[:-2] / samples
            if not self.learnt:
                self.profile = current.to(self.profile)
                self.size = self.size.new_tensor(image.shape[-2:])
            self.profile = torch.lerp(self.profile, current.to(self.profile), self._weight())
            self.updates += 1
        self.samples += samples
        self.skipped += seen - samples

    @property
    def learnt(self) -> bool:
        """Whether there has been an update with a visible edge."""
        return self.profile.numel() > 0

    def _weight(self) -> float:
        """Return the weight of the next batch: 1 - mu, normalised if debiased (the limit 1 / step for mu = 1)."""
        step = int(self.updates) + 1
        if not self.debias:
            return 1 - self.momentum
        return 1 / step if self.momentum == 1 else (1 - self.momentum) / (1 - self.momentum**step)

    def _check(self, profiles: Tensor, image: Tensor) -> Tensor:
        """Refuse a batch that would spoil the prior."""
        if self.learnt and tuple(image.shape[-2:]) != tuple(self.size.tolist()):
            learnt = "x".join(map(str, self.size.tolist()))
            raise ValueError(
                f"this prior was learnt at {learnt} pixels and cannot be updated with images of "
                f"{image.shape[-2]}x{image.shape[-1]}; resize them, or start a new FrequencyPrior"
            )
        finite = torch.isfinite(profiles).all(1)
        if not torch.compiler.is_compiling() and not bool(finite.all()):
            bad = (~finite).nonzero().flatten().tolist()
            raise ValueError(f"images {bad} of the batch hold NaN or infinite values; the prior is unchanged")
        return profiles

    def extra_repr(self) -> str:
        """Show the settings in ``print(module)``."""
        return f"momentum={self.momentum}, debias={self.debias}"

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        """Take the number of radii from the state, since it is unknown before the first update."""
        stored = state_dict.get(f"{prefix}profile")
        if isinstance(stored, Tensor) and stored.ndim == 1:
            self.profile = torch.zeros_like(stored, device=self.profile.device)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the prior as a JSON file that a person can read."""
        if not self.learnt:
            raise ValueError("this prior has learnt nothing yet; call update(image, mask) before save")
        record = {
            "format": "fpgm-prior",
            "package_version": __version__,
            "conventions": CONVENTIONS,
            "momentum": self.momentum,
            "debias": self.debias,
            "size": self.size.tolist(),
            **{name: int(getattr(self, name)) for name in ("updates", "samples", "skipped")},
            "profile": self.profile.tolist(),
        }
        write_text(path, json.dumps(record, indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FrequencyPrior:
        """Read a prior written by ``save``; a file that is not one is refused with the reason."""
        try:
            record = parse_json(read_file(Path(path), Path(path).resolve().parent))
        except ValueError as error:
            raise ValueError(f"{path} is not a prior file: no readable JSON ({error})") from None
        problem = _problem(record)
        if problem:
            raise ValueError(f"{path} is not a usable prior file: {problem}. Write it with FrequencyPrior.save")
        prior = cls(record["momentum"], record["debias"])
        prior.profile = torch.tensor(record["profile"], dtype=torch.float32)
        prior.size = torch.tensor(record["size"])
        for name in ("updates", "samples", "skipped"):
            setattr(prior, name, torch.tensor(record[name]))
        return prior


def _problem(record: object) -> str | None:
    """Return what is wrong with the content of a prior file, if anything is."""
    if not isinstance(record, dict) or record.get("format") != "fpgm-prior":
        return 'it does not say "format": "fpgm-prior"'
    if record.get("conventions") != CONVENTIONS:
        return f"its conventions {record.get('conventions')} are not ours, {CONVENTIONS}"
    if not _is_number(record.get("momentum")) or not 0 <= record["momentum"] <= 1:
        return f"momentum must be a number in [0, 1], not {record.get('momentum')!r}"
    if not isinstance(record.get("debias"), bool):
        return f"debias must be true or false, not {record.get('debias')!r}"
    for name in ("updates", "samples", "skipped"):
        if not _is_count(record.get(name)) or (name != "skipped" and record[name] == 0):
            return f"{name} must be a count, not {record.get(name)!r}"
    size, profile = record.get("size"), record.get("profile")
    if not (isinstance(size, list) and len(size) == 2 and all(_is_count(n) and 8 <= n <= 2**16 for n in size)):
        return f"size must be [height, width] in pixels, not {size!r}"
    if not isinstance(profile, list) or len(profile) != bins(*size):
        return f"profile must be a list of {bins(*size)} amplitudes for size {size}"
    if not all(_is_number(value) and 0 <= value < torch.finfo(torch.float32).max for value in profile):
        return "profile holds something that is not a finite amplitude >= 0"
    total = float(torch.tensor(profile, dtype=torch.float32).sum())
    return None if 0 < total < math.inf else f"profile sums up to {total}: it is zero everywhere, or too large"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -math.inf < value < math.inf


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
