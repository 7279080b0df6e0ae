"""Mean, spread and interval of per-image scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

INTERVAL = (
    "bootstrap 95 % interval of the mean: over patients or videos where the number of groups is given, else over images"
)


@dataclass(frozen=True)
class Summary:
    """Mean, standard deviation (n - 1), bootstrap 95 % interval of the mean, and how many values entered.

    `groups` is the number of groups that were resampled for the interval; None where values were.
    """

    mean: float
    sd: float
    low: float
    high: float
    count: int
    groups: int | None = None


def summarise(values: ArrayLike, seed: int = 0, groups: Sequence[str | None] | None = None) -> Summary:
    """Sum up those values that are numbers; what too few values do not give is NaN.

    Args:
        values: (N,), NaN where a value does not exist.
        seed: seed of the 9,999 resamples of the percentile bootstrap.
        groups: group of each value, such as its patient or video; a value of the group None is one by itself. Whole
            groups are then resampled, because values of one group are alike. One group alone has no interval.
    """
    given = np.asarray(values, np.float64)
    return _summarise(given.tobytes(), seed, None if groups is None else tuple(groups))


@lru_cache(maxsize=1024)  # tables of one report ask for the same figures
def _summarise(numbers: bytes, seed: int, groups: tuple[str | None, ...] | None) -> Summary:
    given = np.frombuffer(numbers, np.float64)
    there = ~np.isnan(given)
    known = given[there]
    if not len(known):
        return Summary(math.nan, math.nan, math.nan, math.nan, 0)
    mean = float(known.mean())
    sd = float(known.std(ddof=1)) if len(known) > 1 else math.nan
    places = _numbered(groups, there)
    clusters = int(places.max()) + 1
    told = None if clusters == len(known) else clusters
    if told == 1:
        return Summary(mean, sd, math.nan, math.nan, len(known), told)
    if known.min() == known.max():  # nor do resamples differ
        return Summary(mean, sd, mean, mean, len(known), told)
    low, high = _interval(known, seed) if told is None else _clustered_interval(known, places, seed)
    return Summary(mean, sd, low, high, len(known), told)


def _numbered(groups: Sequence[str | None] | None, there: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Number the groups of the values that are there (n,), from 0; a value without a group has a number of its own."""
    places = np.flatnonzero(there).tolist()
    names: list[object] = [i if groups is None or groups[i] is None else groups[i] for i in places]
    order: dict[object, int] = {}
    return np.array([order.setdefault(name, len(order)) for name in names], np.int64)


def _interval(known: NDArray[np.float64], seed: int) -> tuple[float, float]:
    """Resample values."""
    from scipy.stats import bootstrap  # takes a second to import; a training makes no summary

    drawn = bootstrap((known,), np.mean, batch=500, method="percentile", random_state=np.random.default_rng(seed))
    low, high = map(float, drawn.confidence_interval)
    return low, high


def _clustered_interval(known: NDArray[np.float64], numbers: NDArray[np.int64], seed: int) -> tuple[float, float]:
    """Resample groups: as many as there are, each with all its values."""
    from scipy.stats import bootstrap

    sums, counts = np.bincount(numbers, known), np.bincount(numbers).astype(np.float64)

    def mean(total: NDArray[np.float64], count: NDArray[np.float64], axis: int) -> Any:
        return total.sum(axis) / count.sum(axis)

    rng = np.random.default_rng(seed)
    drawn = bootstrap((sums, counts), mean, paired=True, batch=500, method="percentile", random_state=rng)
    low, high = map(float, drawn.confidence_interval)
    return low, high


def share_interval(count: int, total: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of the share `count` / `total`; NaN of none."""
    if not total:
        return math.nan, math.nan
    z, share = 1.959964, count / total
    middle, reach = share + z * z / (2 * total), z * math.sqrt(share * (1 - share) / total + (z / (2 * total)) ** 2)
    scale = 1 + z * z / total
    return max((middle - reach) / scale, 0.0), min((middle + reach) / scale, 1.0)


def told_images(count: int, groups: int | None) -> str:
    """Say how many images there are, and in how many groups where these were resampled."""
    return f"{count}" if groups is None else f"{count} in {groups} group{'s' if groups > 1 else ''}"
