"""Alignment of one frame: the pictures and profiles of the page's second tab.

S x S is what the model sees.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from fpgm.data.pictures import prepare_image
from fpgm.runs.folder import RunFolder
from fpgm.serving.web.messages import Prior, Reconstruction
from fpgm.spectrum import FrequencyPrior, align, amplitude, generic_profile, low_pass, radial_profile, resample

Pixels = NDArray[np.uint8]

_REACHES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # ends of the difference's colour scale; few, so that it seldom jumps
_COOL, _NEUTRAL, _WARM = np.array([(33, 102, 172), (247, 247, 247), (178, 24, 43)], np.float32)


class View(NamedTuple):
    """One frame before and after: (S, S, 3) each; shapes of radial profiles, (S // 2,) each, None for a filter.

    The colours of `difference` run from blue, darker by `reach`, over white to red, brighter by it; `change` is the
    mean absolute difference of the values in [0, 1].
    """

    original: Pixels
    aligned: Pixels
    difference: Pixels
    reach: float
    change: float
    profile: list[float]
    aligned_profile: list[float]
    prior_profile: list[float] | None


class Aligner:
    """Aligns frames to the learnt prior of a run, if there is one, to the generic one, or filters them.

    Args:
        size: S.
        learned: the run's prior.
    """

    def __init__(self, size: int, learned: FrequencyPrior | None = None) -> None:
        self.size = size
        self._profiles = {"generic": generic_profile(size // 2)}
        if learned is not None:
            self._profiles["learned"] = resample(learned.profile, size // 2)

    @classmethod
    def of_run(cls, run: Path, size: int) -> Aligner:
        """Take the prior of a run folder, if it has one."""
        path = RunFolder(run).prior
        return cls(size, FrequencyPrior.load(path) if path.is_file() else None)

    @property
    def priors(self) -> tuple[Prior, ...]:
        """What can be chosen, the default first."""
        return (*(("learned",) if "learned" in self._profiles else ()), "generic", "low-pass")

    @torch.inference_mode()
    def look(
        self, picture: Image.Image, prior: Prior, gamma: float, reconstruction: Reconstruction, cutoff: float
    ) -> View:
        """Prepare a picture as in training and align it; low-pass takes `cutoff`, the other priors take the rest."""
        pixels = prepare_image(picture, self.size)
        image = torch.from_numpy(pixels).permute(2, 0, 1)[None] / 255
        target = self._profiles.get(prior)
        if target is None and prior != "low-pass":
            raise ValueError(f"this model has no {prior} prior; there are {', '.join(self.priors)}")
        aligned = low_pass(image, cutoff) if target is None else align(image, target, gamma, reconstruction)
        difference = aligned - image
        reach = _reach(difference)
        return View(
            pixels,
            _pixels(aligned),
            _colours((difference.mean(1)[0] / reach).numpy()),
            reach,
            float(difference.abs().mean()),
            _shape(image),
            _shape(aligned),
            None if target is None else (target / target.sum()).tolist(),
        )


def _pixels(image: Tensor) -> Pixels:
    """Round (1, 3, S, S) to 8 bits: (S, S, 3)."""
    values: Pixels = (image[0].permute(1, 2, 0).clamp(0, 1) * 255).round().byte().numpy()
    return values


def _shape(image: Tensor) -> list[float]:
    """Return the radial profile of (1, 3, S, S), mean over channels, divided by its sum."""
    profile = radial_profile(amplitude(image), image.shape[-1]).mean((0, 1))
    return (profile / profile.sum().clamp(min=torch.finfo(profile.dtype).tiny)).tolist()


def _reach(difference: Tensor) -> float:
    """Return the least end of a colour scale that holds 99 % of the pixels."""
    most = float(np.quantile(difference.mean(1).abs().numpy(), 0.99))
    return next((reach for reach in _REACHES if reach >= most), _REACHES[-1])


def _colours(values: NDArray[np.float32]) -> Pixels:
    """Colour (S, S) in [-1, 1]: blue, white, red."""
    share = np.clip(values, -1, 1)[..., None]
    mixed = _NEUTRAL + np.abs(share) * (np.where(share < 0, _COOL, _WARM) - _NEUTRAL)
    return np.rint(mixed).astype(np.uint8)
