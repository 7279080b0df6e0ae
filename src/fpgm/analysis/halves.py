"""Dividing a data set in halves, and the likeness of halves and of sets averaged over many divisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fpgm.analysis.profiles import Floats, Likeness, measure_likeness

Kind = Literal["halves", "video halves", "sets"]
Indices = NDArray[np.intp]
Division = tuple[Indices, Indices]


@dataclass(frozen=True)
class Comparison:
    """Likeness of halves of one set, or of a half of one and a half of another: mean over divisions.

    Attributes:
        low, high: 5 and 95 % quantiles of the distance.
        times_halves: distance of two sets divided by the larger distance of their own halves; None for halves.
        times_video_halves: the same with video halves, for sets that have them; None if neither set has.
        outline_distance: distance of the bare outlines of two sets; None for halves.
    """

    kind: Kind
    first: str
    second: str
    likeness: Likeness
    low: float
    high: float
    times_halves: float | None = None
    times_video_halves: float | None = None
    outline_distance: float | None = None


def divide(count: int, rng: np.random.Generator) -> Division:
    """Draw two disjoint halves of ``count`` images, equal in size; if the number is odd, one image is left out."""
    order = rng.permutation(count)
    return order[: count // 2], order[count // 2 : count // 2 * 2]


def divide_videos(videos: Indices, rng: np.random.Generator) -> Division:
    """Draw whole videos, numbered for each image (N,), while they fit into one half; the rest is the other."""
    sizes = np.bincount(videos)
    chosen = np.zeros(len(sizes), bool)
    for video in rng.permutation(len(sizes)):
        chosen[video] = sizes[chosen].sum() + sizes[video] <= len(videos) // 2
    return np.flatnonzero(chosen[videos]), np.flatnonzero(~chosen[videos])


def half_means(profiles: Floats, divisions: Sequence[Division]) -> Floats:
    """Return the mean profiles of both sides of D divisions of profiles (N, R): (2, D, R)."""
    return np.array([[profiles[division[side]].mean(0) for division in divisions] for side in (0, 1)])


def compare_all(
    names: Sequence[str], halves: Mapping[str, Floats], apart: Mapping[str, Floats], outlines: Mapping[str, Floats]
) -> Iterator[Comparison]:
    """Compare the halves of each set, its halves without a common video, then each two of the named sets.

    Args:
        names: the sets to compare with each other.
        halves: mean profiles of the halves of each set, (2, D, R).
        apart: the same for halves without a common video, if a set has them.
        outlines: mean profile of the bare outlines of each set, (R,).
    """
    within = {name: _average("halves", name, name, both) for name, both in halves.items()}
    videos = {name: _average("video halves", name, name, both) for name, both in apart.items()}
    yield from within.values()
    yield from videos.values()
    for pair in combinations(names, 2):
        plain = _average("sets", *pair, np.stack([halves[name][0] for name in pair]))
        own = max(within[name].likeness.distance for name in pair)
        strict = max((videos if name in videos else within)[name].likeness.distance for name in pair)
        known = any(name in videos for name in pair)
        yield replace(
            plain,
            times_halves=plain.likeness.distance / own if own else None,
            times_video_halves=plain.likeness.distance / strict if known and strict else None,
            outline_distance=measure_likeness(*(outlines[name] for name in pair)).distance,
        )


def _average(kind: Kind, first: str, second: str, both: Floats) -> Comparison:
    """Average likeness over the divisions of profiles (2, D, R)."""
    alike = np.array([measure_likeness(a, b) for a, b in zip(*both, strict=True)])
    low, high = np.quantile(alike[:, 1], (0.05, 0.95)).tolist()
    return Comparison(kind, first, second, Likeness(*alike.mean(0).tolist()), low, high)
