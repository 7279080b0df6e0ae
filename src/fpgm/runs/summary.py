"""Mean, spread and interval of per-image scores."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import bootstrap


@dataclass(frozen=True)
class Summary:
    """Mean, standard deviation (n - 1), bootstrap 95 % interval of the mean, and how many values entered."""

    mean: float
    sd: float
    low: float
    high: float
    count: int


def summarise(values: ArrayLike, seed: int = 0) -> Summary:
    """Sum up those values that are numbers; what too few values do not give is NaN.

    Args:
        values: (N,), NaN where a value does not exist.
        seed: seed of the 9,999 resamples of the percentile bootstrap.
    """
    given = np.asarray(values, np.float64)
    known = given[~np.isnan(given)]
    if not len(known):
        return Summary(math.nan, math.nan, math.nan, math.nan, 0)
    mean = float(known.mean())
    sd = float(known.std(ddof=1)) if len(known) > 1 else math.nan
    if known.min() == known.max():  # nor do resamples differ
        return Summary(mean, sd, mean, mean, len(known))
    drawn = bootstrap((known,), np.mean, batch=500, method="percentile", random_state=np.random.default_rng(seed))
    low, high = map(float, drawn.confidence_interval)
    return Summary(mean, sd, low, high, len(known))
