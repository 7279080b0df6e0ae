"""Calibration of foreground probabilities: reliability by bins, expected calibration error, temperature.

Letters: P pixels, B bins. A probability is that of the foreground; its log-odds are log(p / (1 - p)).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit

BINS = 15  # of equal width, as in Guo et al. (2017)
COLDEST, HOTTEST = 0.1, 10.0  # temperatures; pixels that are all right or all wrong have no best one
_BELOW_HALF = np.nextafter(np.float32(0.5), np.float32(0))


class Reliability(NamedTuple):
    """By bin (B,): number of pixels, number of those that are foreground, and sum of their probabilities."""

    pixels: NDArray[np.int64]
    foreground: NDArray[np.int64]
    probability: NDArray[np.float64]

    @property
    def known(self) -> NDArray[np.bool_]:
        """The bins (B,) that have pixels."""
        return self.pixels > 0

    def shares(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean probability and the share of foreground of each bin that has pixels."""
        count = self.pixels[self.known]
        return self.probability[self.known] / count, self.foreground[self.known] / count


def reliability(probability: ArrayLike, truth: ArrayLike) -> Reliability:
    """Count pixels by their probability.

    Args:
        probability: foreground probabilities, of any shape; bin k holds those from k / B to below (k + 1) / B, the
            last also 1.
        truth: what is not 0 is foreground; of the same shape.
    """
    values = np.asarray(probability, np.float32).ravel()
    places = (values * np.float32(BINS)).astype(np.intp)
    sums: NDArray[np.float64] = _bins(np.bincount(places, values, minlength=BINS + 1)).astype(np.float64)
    places += (BINS + 1) * (np.asarray(truth).ravel() != 0)  # foreground has bins of its own
    counts = np.bincount(places, minlength=2 * (BINS + 1))
    background, foreground = map(_bins, np.split(counts, 2))
    return Reliability(background + foreground, foreground, sums)


def _bins(sums: NDArray[Any]) -> NDArray[Any]:
    """Add what has a probability of 1 to the last bin."""
    return np.append(sums[: BINS - 1], sums[BINS - 1 :].sum())


def calibration_error(counts: Reliability) -> float:
    """Return the expected calibration error: the mean over pixels of |mean probability - share| of their bin."""
    total = int(counts.pixels.sum())
    return float(np.abs(counts.probability - counts.foreground).sum() / total) if total else float("nan")


def fit_temperature(log_odds: ArrayLike, truth: ArrayLike) -> float:
    """Return the temperature T that gives log-odds / T the least negative log-likelihood.

    That is convex in 1 / T, so that T is where its derivative is 0, or the end of the range if that is nowhere.

    Args:
        log_odds: log-odds of the foreground (P,), as the network gives them.
        truth: what is not 0 is foreground (P,).
    """
    from scipy.optimize import brentq  # takes half a second to import, and every training imports this module

    odds, true = np.asarray(log_odds, np.float32).ravel(), np.asarray(truth).ravel() != 0

    def slope(inverse: float) -> float:
        return float(np.mean((expit(np.float32(inverse) * odds) - true) * odds, dtype=np.float64))

    low, high = 1 / HOTTEST, 1 / COLDEST
    if slope(low) >= 0:
        return HOTTEST
    if slope(high) <= 0:
        return COLDEST
    return float(1 / brentq(slope, low, high, xtol=1e-4))


def temper(probability: NDArray[np.float32], temperature: float) -> NDArray[np.float32]:
    """Divide the log-odds of probabilities by a temperature; what is below one half stays below it."""
    if temperature == 1:
        return probability
    with np.errstate(divide="ignore"):
        found: NDArray[Any] = expit(logit(probability) / np.float32(temperature))
    return np.where(probability < 0.5, np.minimum(found, _BELOW_HALF), np.maximum(found, np.float32(0.5)))


def expected_dice(mask: NDArray[np.bool_], probability: NDArray[np.float32]) -> float:
    """Return about the Dice that a mask has if its probabilities are right: 2 Σ p inside / (Σ p + pixels of the mask).

    Of an empty mask it is the probability that its most likely pixel is background, too.

    Args:
        mask: predicted mask (H, W).
        probability: foreground probabilities (H, W).
    """
    pixels = int(np.count_nonzero(mask))
    if not pixels:
        return float(1 - probability.max(initial=0))
    inside = float(probability[mask].sum(dtype=np.float64))
    return 2 * inside / (float(probability.sum(dtype=np.float64)) + pixels)
