"""Spectral alignment as a Kornia augmentation: `RandomSpectralAlignment` takes its place in `AugmentationSequential`.

    python examples/kornia_augmentation.py

Images are (B, C, H, W) in [0, 1], on any device; each gets a strength of its own. It is an intensity augmentation:
masks, boxes and keypoints pass unchanged, since the phase, which holds where things are, is kept.
"""

from __future__ import annotations

from typing import Any

import torch
from kornia.augmentation import AugmentationSequential, IntensityAugmentationBase2D, RandomHorizontalFlip
from kornia.augmentation.random_generator import PlainUniformGenerator
from torch import Tensor

from fpgm.data.synthetic import phantom
from fpgm.spectrum import FrequencyPrior, generic_profile
from fpgm.spectrum.align import Reconstruction, align


class RandomSpectralAlignment(IntensityAugmentationBase2D):
    """Align the spectrum of images to a prior, each by a strength drawn from `gamma`.

    Args:
        prior: a learnt prior, or a profile (R,).
        gamma: range of the guidance strength, in [0, 1].
        reconstruction: "radial" (the paper's) or "ratio".
        same_on_batch: draw one strength for all.
        p: probability of a change, per image.
        keepdim: give a single image back without a batch.
    """

    def __init__(
        self,
        prior: FrequencyPrior | Tensor,
        gamma: tuple[float, float] = (0.0, 0.1),
        reconstruction: Reconstruction = "radial",
        same_on_batch: bool = False,
        p: float = 0.5,
        keepdim: bool = False,
    ) -> None:
        super().__init__(p=p, same_on_batch=same_on_batch, keepdim=keepdim)
        self.register_buffer("profile", prior.profile if isinstance(prior, FrequencyPrior) else prior)
        self.reconstruction = reconstruction
        self._param_generator = PlainUniformGenerator((gamma, "gamma", None, None))

    def apply_transform(
        self, input: Tensor, params: dict[str, Tensor], flags: dict[str, Any], transform: Tensor | None = None
    ) -> Tensor:
        """Align the images that were chosen."""
        return align(input, self.profile, params["gamma"].to(input), self.reconstruction, clamp=True)


def pipeline(prior: FrequencyPrior | Tensor) -> AugmentationSequential:
    """Flip image and mask, align the image."""
    aligning = RandomSpectralAlignment(prior, gamma=(0.02, 0.1), reconstruction="ratio", p=1.0)
    return AugmentationSequential(RandomHorizontalFlip(), aligning, data_keys=["input", "mask"])


if __name__ == "__main__":
    torch.manual_seed(0)
    drawn = [phantom("phantom-a", index) for index in range(4)]
    images = torch.stack([torch.from_numpy(sample.image).permute(2, 0, 1) / 255 for sample in drawn])
    masks = torch.stack([torch.from_numpy(sample.mask)[None].float() for sample in drawn])
    view, same = pipeline(generic_profile(64))(images, masks)
    print(f"images {tuple(view.shape)}, masks of {same.unique().tolist()}")
