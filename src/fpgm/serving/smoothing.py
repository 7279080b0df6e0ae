"""Smoothing of probabilities over the frames of a film, of the past alone. H x W is a frame."""

from __future__ import annotations

import numpy as np

from fpgm.serving.findings import Plane


def past_share(seconds: float, half_life: float) -> float:
    """Return the weight of all that was seen up to `seconds` ago, of which half is left after `half_life` seconds."""
    return float(0.5 ** (seconds / half_life)) if half_life > 0 else 0.0


class Smoother:
    """An exponential moving average of probabilities by the time between frames, so that the frame rate is no matter.

    It begins with the first frame, and anew where the size of the frames changes.

    Args:
        half_life: seconds after which a frame counts half; 0 for no smoothing.

    Examples:
        >>> smooth = Smoother(half_life=1.0)
        >>> [float(smooth(np.full((1, 1), p, np.float32), time)[0, 0]) for time, p in enumerate((0.0, 1.0, 1.0))]
        [0.0, 0.5, 0.75]
    """

    def __init__(self, half_life: float) -> None:
        check_half_life(half_life)
        self.half_life = half_life
        self._mean: Plane | None = None
        self._time = 0.0

    def __call__(self, probability: Plane, time: float) -> Plane:
        """Return the smoothed probabilities (H, W) of the next frame, which is shown at `time` in seconds."""
        share = past_share(max(time - self._time, 0.0), self.half_life)
        if self._mean is not None and self._mean.shape == probability.shape and share:
            probability = np.float32(share) * self._mean + np.float32(1 - share) * probability
        self._mean, self._time = probability, time
        return probability


def check_half_life(seconds: float) -> None:
    """Raise ``ValueError`` unless a film can be smoothed so."""
    if not 0 <= seconds <= 60:
        raise ValueError(f"smoothing is {seconds}: give the seconds after which a frame counts half, from 0 to 60")
