"""Spectral alignment as a MONAI transform: `RandSpectralAlignmentd` takes its place in any `Compose`.

    python examples/monai_transform.py        (needs monai)

Images are channel first, (C, H, W), in [0, 1]: scale them before. Masks are not touched: the phase, which holds where
things are, is kept.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import torch
from monai.config import KeysCollection
from monai.transforms import Compose, MapTransform, RandFlipd, RandomizableTransform, ScaleIntensityRanged

from fpgm.data.synthetic import phantom
from fpgm.spectrum import FrequencyPrior, generic_profile
from fpgm.spectrum.align import Reconstruction, align


class RandSpectralAlignmentd(RandomizableTransform, MapTransform):
    """With probability `prob`, align the spectrum of images to a prior by a strength drawn from `gamma`.

    Args:
        keys: of the images.
        prior: a learnt prior, or a profile (R,).
        gamma: range of the guidance strength, in [0, 1].
        reconstruction: "radial" (the paper's) or "ratio".
        prob: of a change.
        allow_missing_keys: do not mind images that are not there.
    """

    def __init__(
        self,
        keys: KeysCollection,
        prior: FrequencyPrior | torch.Tensor,
        gamma: tuple[float, float] = (0.0, 0.1),
        reconstruction: Reconstruction = "radial",
        prob: float = 0.5,
        allow_missing_keys: bool = False,
    ) -> None:
        MapTransform.__init__(self, keys, allow_missing_keys)
        RandomizableTransform.__init__(self, prob)
        self.profile = prior.profile if isinstance(prior, FrequencyPrior) else prior
        self.gamma, self.reconstruction = gamma, reconstruction

    def randomize(self, data: Any = None) -> None:
        """Draw whether, and how strongly."""
        super().randomize(data)
        self.strength = float(self.R.uniform(*self.gamma))

    def __call__(self, data: Mapping[Hashable, torch.Tensor]) -> dict[Hashable, torch.Tensor]:
        """Align the images (C, H, W) of one sample, all by the same strength."""
        sample = dict(data)
        self.randomize()
        if self._do_transform:
            for key in self.key_iterator(sample):
                image = torch.as_tensor(sample[key])
                sample[key] = align(image[None], self.profile, self.strength, self.reconstruction, clamp=True)[0]
        return sample


def pipeline(prior: FrequencyPrior | torch.Tensor, seed: int = 0) -> Compose:
    """Scale, flip image and mask, align the image."""
    steps = [
        ScaleIntensityRanged("image", 0, 255, 0, 1),
        RandFlipd(["image", "mask"], prob=0.5, spatial_axis=1),
        RandSpectralAlignmentd("image", prior, gamma=(0.02, 0.1), reconstruction="ratio", prob=1.0),
    ]
    return Compose(steps).set_random_state(seed)


if __name__ == "__main__":
    drawn = phantom("phantom-a", 0)
    sample = {"image": drawn.image.transpose(2, 0, 1).astype("float32"), "mask": drawn.mask[None]}
    view = pipeline(generic_profile(64))(sample)
    print(
        f"image {tuple(view['image'].shape)}, from {float(view['image'].min()):.2f} to {float(view['image'].max()):.2f}"
    )
