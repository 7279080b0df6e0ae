"""Amplitudes of other images: an image takes the radial profile of a partner, in part, and keeps its phase.

Not in the paper, whose target is one prior for all images. The radial profiles of the channels hold the mean colour, at
radius 0, and the sharpness, in which scanners differ.
"""

from __future__ import annotations

from torch import Tensor

from fpgm.spectrum.align import check_energy, check_gamma, check_gammas, decompose, energy, reconstruct
from fpgm.spectrum.edges import check_image
from fpgm.spectrum.radial import broadcast, radial_profile

MOST_GAIN = 3.0  # more would amplify the noise of a blurred image whose partner is sharp


def exchange(image: Tensor, partner: Tensor, gamma: float | Tensor, *, clamp: bool = False) -> Tensor:
    """Give images the radial profiles of their partners, in part: own^(1 - gamma) partner^gamma, channel by channel.

    The amplitude of each ring is scaled by new / own profile, at most by a factor of 3 either way. Its dependence on
    direction and the phase stay, and so does the picture's content.

    Args:
        image: (B, C, H, W), C = 1 or 3, in [0, 1].
        partner: (B, C, H, W), the images whose profiles are taken.
        gamma: strength in [0, 1], one number or one per image, (B,).
        clamp: clamp the result to [0, 1].

    Returns:
        (B, C, H, W) in the dtype of ``image`` (computed in float32 at least).

    Examples:
        >>> import torch
        >>> image, partner = torch.rand(2, 2, 3, 64, 64)
        >>> exchange(image, partner, gamma=0.5).shape
        torch.Size([2, 3, 64, 64])
    """
    check_image(image)
    check_image(partner)
    if image.shape != partner.shape:
        raise ValueError(
            f"images are {tuple(image.shape)}, partners {tuple(partner.shape)}: give each image one of its own size"
        )
    strength = check_gammas(gamma, image) if isinstance(gamma, Tensor) else check_gamma(gamma)
    height, width = image.shape[-2:]
    own, plane = decompose(image)
    before, after = radial_profile(own, width), radial_profile(decompose(partner)[0], width)
    for profile in (before, after):
        check_energy(energy(profile))
    gain = (after / before).clamp(1 / MOST_GAIN, MOST_GAIN) ** strength
    made = reconstruct(plane, broadcast(gain, height, width, half=True), width).to(image.dtype)
    return made.clamp(0, 1) if clamp else made
