"""Which images to label next, from numbers alone.

Letters: N candidates, K labelled images, D numbers that describe the look of an image.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

MOST_TARGETS = 2048  # candidates that stand for all; evenly spaced ones are taken if there are more
_BLOCK = 1024


def choose(
    looks: ArrayLike,
    count: int,
    *,
    groups: Sequence[int] | None = None,
    labeled: ArrayLike | None = None,
    labeled_groups: Sequence[int] = (),
    weights: ArrayLike | None = None,
) -> list[int]:
    """Return `count` candidates, the most useful first: together they are near to all others.

    Each next one is that which most reduces the weighted mean distance from a candidate to the nearest image that is
    labelled or chosen (greedy k-medoids). A group gives its second image only when all others have one.

    Args:
        looks: looks of the candidates (N, D).
        count: number of images to choose, from 1 to N.
        groups: group of each candidate (N,), such as its patient; near duplicates are of one group. Each its own if
            not given.
        labeled: looks of the images that are labelled already (K, D).
        labeled_groups: their groups (K,).
        weights: weight of each candidate (N,), e.g. how uncertain a model is about it; all alike if not given.
    """
    points = np.asarray(looks, np.float32)
    if not 1 <= count <= len(points):
        raise ValueError(f"{count} images cannot be chosen of {len(points)}: give a number from 1 to {len(points)}")
    own = np.arange(len(points)) if groups is None else np.asarray(groups)
    targets = np.linspace(0, len(points) - 1, min(len(points), MOST_TARGETS)).round().astype(int)
    weight = np.ones(len(targets)) if weights is None else np.asarray(weights, float)[targets]
    away = _distances(points[targets], points)
    nearest = np.full(len(targets), away.max(initial=0))
    if labeled is not None and len(known := np.asarray(labeled, np.float32)):
        nearest = _distances(points[targets], known).min(axis=1)
    taken = {group: list(labeled_groups).count(group) for group in {*own.tolist(), *labeled_groups}}
    free = np.ones(len(points), bool)
    chosen: list[int] = []
    while len(chosen) < count:
        rounds = np.array([taken[group] for group in own.tolist()])
        allowed = np.flatnonzero(free & (rounds == rounds[free].min()))
        best = int(allowed[np.argmax(_gains(away, allowed, nearest, weight))])
        nearest = np.minimum(nearest, away[:, best])
        free[best] = False
        taken[int(own[best])] += 1
        chosen.append(best)
    return chosen


def _gains(
    away: NDArray[np.float32], allowed: NDArray[np.int64], nearest: NDArray[np.float64], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """How much each of these candidates would reduce the weighted sum of distances."""
    blocks = np.split(allowed, range(_BLOCK, len(allowed), _BLOCK))
    return np.concatenate([weight @ np.maximum(nearest[:, None] - away[:, block], 0) for block in blocks])


def _distances(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float32]:
    return cdist(first, second).astype(np.float32)
