"""Spectral shape alignment: pull an image's radial profile towards a prior, keep its phase (Eq. 6 to 10, 12)."""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from fpgm.spectrum.edges import check_image
from fpgm.spectrum.priors import FrequencyPrior
from fpgm.spectrum.radial import FFT_NORM, bins, broadcast, magnitude, radial_profile, resample, spectrum

Reconstruction = Literal["radial", "ratio"]


def decompose(image: Tensor) -> tuple[Tensor, Tensor]:
    """Return amplitude and spectrum of real images; their quotient is the phase factor e^(i phi) (Eq. 6).

    The smallest number whose square is normal is added to every real part. It is far below rounding, and gives a
    frequency of zero amplitude the phase 0, as ``torch.angle`` does, without a branch.

    Shape:
        image: (..., H, W). Returns real and complex (..., H, W // 2 + 1).
    """
    plane = spectrum(image)
    plane = plane.add_(torch.finfo(plane.dtype).tiny ** 0.5)
    return magnitude(plane), plane


def energy(profile: Tensor) -> Tensor:
    """Return the total energy, the sum of a profile over its radii (Eq. 7).

    Shape:
        profile: (..., R). Returns (..., 1).
    """
    return profile.sum(-1, keepdim=True)


def shape(profile: Tensor) -> Tensor:
    """Return the profile divided by its energy, a distribution over radii (Eq. 8).

    The paper's epsilon is the smallest normal number, so that energy is kept to rounding at any brightness.

    Shape:
        profile: (..., R). Returns (..., R).
    """
    return profile / (energy(profile) + torch.finfo(profile.dtype).tiny)


def interpolate(own: Tensor, prior: Tensor, gamma: float | Tensor) -> Tensor:
    """Guide a shape towards the prior's: (1 - gamma) own + gamma prior (Eq. 9).

    Shape:
        own: (..., R); prior: (R,); gamma: a number or broadcastable to ``own``. Returns (..., R).
    """
    return (1 - gamma) * own + gamma * prior


def rescale(perturbed: Tensor, total: Tensor) -> Tensor:
    """Give a shape the energy ``total`` (Eq. 10).

    Shape:
        perturbed: (..., R); total: (..., 1). Returns (..., R).
    """
    return perturbed * total


def reconstruct(plane: Tensor, gain: Tensor, width: int, *, overwrite: bool = False) -> Tensor:
    """Return the image whose amplitude is ``gain`` times that of ``plane`` and whose phase is the same (Eq. 12).

    With gain = A_pert / A_u, plane * gain is the paper's A_pert e^(i phi), without a sine or a cosine. The inverse is
    taken along the columns, then the rows, because that needs less memory than ``irfft2`` and is as fast.

    Shape:
        plane: complex (..., H, W // 2 + 1); gain: real, same shape. Returns (..., H, W).
        overwrite: use the memory of ``plane`` for the work; not for tensors that need a gradient.
    """
    scaled = torch.mul(plane, gain, out=plane if overwrite else None)
    columns = torch.fft.ifft(scaled, dim=-2, norm=FFT_NORM, out=scaled if overwrite else None)
    return torch.fft.irfft(columns, n=width, norm=FFT_NORM)


def align(
    image: Tensor,
    prior_profile: Tensor,
    gamma: float | Tensor = 0.05,
    reconstruction: Reconstruction = "radial",
    *,
    clamp: bool = False,
) -> Tensor:
    """Align the amplitude spectrum of images to a prior, channel by channel (Stage II of the paper).

    ``"radial"`` replaces the amplitude by its perturbed radial profile, as the paper writes it: even a small gamma
    makes the spectrum isotropic. ``"ratio"`` scales the amplitude by perturbed / own profile and keeps its direction.
    Both give the same radial profile; gamma = 0 returns the input in both.

    Args:
        image: (B, C, H, W), C = 1 or 3, in [0, 1].
        prior_profile: (R',), resampled if the images have another number of radii.
        gamma: guidance strength in [0, 1], one number or one per image, (B,).
        reconstruction: ``"radial"`` or ``"ratio"``.
        clamp: clamp the result to [0, 1]; the paper does not.

    Returns:
        (B, C, H, W) in the dtype of ``image`` (computed in float32 at least).

    Examples:
        >>> image = torch.rand(2, 3, 64, 64)
        >>> view = align(image, torch.linspace(1, 0, 32), gamma=0.1, reconstruction="ratio")
        >>> view.shape, torch.equal(align(image, torch.linspace(1, 0, 32), gamma=0), image)
        (torch.Size([2, 3, 64, 64]), True)
    """
    check_image(image)
    check_reconstruction(reconstruction)
    if isinstance(gamma, Tensor):
        gamma = check_gammas(gamma, image)
    elif check_gamma(gamma) == 0:
        return image
    height, width = image.shape[-2:]
    own, plane = decompose(image)
    profile = radial_profile(own, width)
    prior = shape(_check_prior(prior_profile.to(profile), bins(height, width)))
    total = check_energy(energy(profile))
    # Eq. 8 to 10 in one: E ((1 - gamma) own / E + gamma prior) = (1 - gamma) own + gamma E prior
    perturbed = interpolate(profile, rescale(prior, total), gamma)
    overwrite = not perturbed.requires_grad
    if reconstruction == "radial":
        target = broadcast(perturbed, height, width, half=True)
        gain = torch.div(target, own, out=target if overwrite else None)
    else:
        gain = broadcast(perturbed / profile, height, width, half=True)
    del own  # its memory is needed below
    aligned = reconstruct(plane, gain, width, overwrite=overwrite).to(image.dtype)
    if clamp:
        aligned = aligned.clamp(0, 1)
    return torch.where(gamma[..., None] == 0, image, aligned) if isinstance(gamma, Tensor) else aligned


class SpectralAlignment(nn.Module):
    """``align`` with its settings, for use in a training loop or a transform pipeline.

    Args:
        prior: a learnt ``FrequencyPrior`` (which may still be learning; images pass unchanged until its first
            update) or a fixed profile (R,), e.g. ``generic_profile(128)``.
        gamma: guidance strength, or a range (low, high) from which one is drawn per image.
        reconstruction: ``"radial"`` (the paper) or ``"ratio"``.
        clamp: clamp the result to [0, 1].

    Examples:
        >>> transform = SpectralAlignment(torch.linspace(1, 0, 32), gamma=(0.0, 0.2), clamp=True)
        >>> view = transform(torch.rand(2, 3, 64, 64), torch.Generator().manual_seed(0))
        >>> view.shape
        torch.Size([2, 3, 64, 64])
    """

    def __init__(
        self,
        prior: FrequencyPrior | Tensor,
        gamma: float | tuple[float, float] = 0.05,
        reconstruction: Reconstruction = "radial",
        *,
        clamp: bool = False,
    ) -> None:
        super().__init__()
        low, high = (gamma, gamma) if isinstance(gamma, int | float) else gamma
        if check_gamma(low) > check_gamma(high):
            raise ValueError(f"expected a gamma range (low, high), got ({low}, {high}); swap the two")
        check_reconstruction(reconstruction)
        if isinstance(prior, FrequencyPrior):
            self.prior = prior
        else:
            self.register_buffer("fixed_profile", _check_prior(prior.detach(), prior.shape[-1]))
        self.gamma = gamma
        self.reconstruction: Reconstruction = reconstruction
        self.clamp = clamp

    @property
    def profile(self) -> Tensor:
        """The prior's profile, (R,); (0,) before a learnt prior's first update."""
        source = self.prior.profile if hasattr(self, "prior") else self.fixed_profile
        assert isinstance(source, Tensor)
        return source

    def draw(self, count: int, generator: torch.Generator | None = None) -> float | Tensor:
        """Return gamma, or ``count`` values drawn evenly from its range (on the generator's device)."""
        if isinstance(self.gamma, int | float):
            return self.gamma
        if generator is None:
            raise ValueError("gamma is a range, so it is drawn at random: pass a torch.Generator as generator=")
        low, high = self.gamma
        return low + (high - low) * torch.rand(count, generator=generator, device=generator.device)

    def forward(self, image: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Align (B, C, H, W) images in [0, 1]; ``generator`` is needed when gamma is a range."""
        profile = self.profile
        if not profile.numel():
            check_image(image)
            return image
        gamma = self.draw(len(image), generator)
        return align(image, profile, gamma, self.reconstruction, clamp=self.clamp)

    def extra_repr(self) -> str:
        """Show the settings in ``print(module)``."""
        return f"gamma={self.gamma}, reconstruction={self.reconstruction!r}, clamp={self.clamp}"


def check_gamma(gamma: float) -> float:
    """Return gamma, refusing what is not in [0, 1]."""
    if not 0 <= gamma <= 1:
        raise ValueError(f"expected gamma, the guidance strength, in [0, 1], got {gamma}; the paper uses 0.05")
    return gamma


def check_reconstruction(reconstruction: str) -> None:
    """Refuse names that are not a reconstruction."""
    if reconstruction not in get_args(Reconstruction):
        raise ValueError(f"expected reconstruction 'radial' or 'ratio', got {reconstruction!r}")


def check_gammas(gamma: Tensor, image: Tensor) -> Tensor:
    """Return gammas (B,), or a single one, with two more axes, refusing what is not in [0, 1]."""
    if gamma.numel() not in (1, len(image)):
        raise ValueError(f"expected one gamma or one for each of {len(image)} images, got {tuple(gamma.shape)}")
    if not torch.compiler.is_compiling():
        for bound in torch.aminmax(gamma):
            check_gamma(float(bound))
    return gamma.to(image).reshape(-1, 1, 1)


def _check_prior(profile: Tensor, count: int) -> Tensor:
    """Return the prior on ``count`` radii, refusing what cannot be a profile."""
    if profile.ndim != 1 or len(profile) < 4:
        raise ValueError(f"expected a prior profile of shape (R,) with R >= 4, got {tuple(profile.shape)}")
    if not torch.compiler.is_compiling() and not _is_profile(profile.detach()):
        raise ValueError(
            "expected a prior profile of finite amplitudes >= 0 with a positive sum; "
            "learn it with FrequencyPrior.update or take generic_profile(R)"
        )
    return resample(profile, count)


def _is_profile(profile: Tensor) -> bool:
    """Whether all amplitudes are finite and at least 0, and their sum is above 0 and finite; NaN is none of these."""
    low, high = map(float, torch.aminmax(profile))
    return low >= 0 and 0 < high < torch.finfo(profile.dtype).max / len(profile)


def check_energy(total: Tensor) -> Tensor:
    """Refuse images with NaN or Inf: either reaches every frequency, so the energies show it."""
    if not torch.compiler.is_compiling() and not math.isfinite(total.detach().sum()):
        bad = (~torch.isfinite(total).flatten(1).all(1)).nonzero().flatten().tolist()
        raise ValueError(f"images {bad} of the batch hold NaN or infinite values; mend or leave them out")
    return total
