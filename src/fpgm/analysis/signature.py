"""The frequency signature of polyp edges within and between data sets (the paper's Figs. 1 and 2).

As in the paper, two disjoint random halves of each set are compared, and two of the mixture of all sets that are not
kept unseen. We add numbers, averaged over many divisions; the distances between sets; halves without a common video,
because the frames of one video show the same polyp; the distances between bare outlines, which are the edge bands
without texture; and the generic prior 1 / (r + 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fpgm.analysis.halves import Comparison, Division, Indices, compare_all, divide, divide_videos, half_means
from fpgm.analysis.profiles import (
    Advance,
    Curve,
    Floats,
    Likeness,
    chunks,
    curve,
    generator,
    measure_likeness,
    outline,
    profiles_of,
    seen,
)
from fpgm.data.batches.pool import Pool
from fpgm.data.catalog import sequence
from fpgm.data.splits.split import dataset_of
from fpgm.spectrum import edge_mask, generic_profile, to_grey
from fpgm.spectrum.radial import bins

DIVISIONS = 100  # over which likeness is averaged; figures show the first
MIN_VIDEOS = 10  # with fewer, halves without a common video are too unequal to be compared
MIXTURE = "mixture"


@dataclass(frozen=True)
class SetSummary:
    """One data set, or the mixture.

    Attributes:
        skipped: number of images without a visible edge, left out as the prior leaves them out.
        videos: number of videos the images come from; None if the video of any image is unknown.
        edge_pixels: mean size of the edge band.
        spread: root mean square distance of the images' shapes from the shape of their mean, relative to it.
        generic: likeness of the mean to 1 / (r + 1); its amplitude distance has no meaning.
        curve: mean profile of the edges.
        outline: mean profile of the bare outlines.
        halves: mean profiles of the edges of both halves of the first division.
    """

    skipped: int
    videos: int | None
    edge_pixels: float
    spread: float
    generic: Likeness
    curve: Curve
    outline: Curve
    halves: tuple[Curve, Curve]


@dataclass(frozen=True)
class Signature:
    """Sets by name in the order of the pool; the mixture among them, last, if it is of two or more."""

    size: int
    seed: int
    mixture: tuple[str, ...]
    sets: dict[str, SetSummary]
    comparisons: tuple[Comparison, ...]


class _Edges(NamedTuple):
    """Profiles of edges and outlines (N, R), numbers of edge pixels (N,) and videos (N,), -1 if unknown; N images."""

    profiles: Floats
    outlines: Floats
    pixels: Floats
    videos: Indices

    def take(self, rows: Indices) -> _Edges:
        """Choose images."""
        return _Edges(self.profiles[rows], self.outlines[rows], self.pixels[rows], self.videos[rows])


def signature(pool: Pool, *, seed: int = 0, advance: Advance = lambda done, total: None) -> Signature:
    """Measure the edge profiles of a pool's images, all with masks, and compare its data sets.

    Args:
        pool: images of one or more data sets.
        seed: seed of the divisions in halves.
        advance: called with the number of images read and the number of all images.
    """
    edges, rng = _measure(pool, advance), generator(seed, 1)
    visible = edges.profiles.sum(1) > 0
    sets, halves, apart = {}, {}, {}
    for name, rows in _members(pool.ids).items():
        own = edges.take(rows[visible[rows]])
        if len(own.profiles) < 2:
            raise ValueError(f"{name} has {len(own.profiles)} images with a visible edge: two halves need 2 or more")
        divisions = [divide(len(own.profiles), rng) for _ in range(DIVISIONS)]
        halves[name] = half_means(own.profiles, divisions)
        sets[name] = summary = _summary(own, len(rows), divisions[0])
        if name != MIXTURE and (summary.videos or 0) >= MIN_VIDEOS:
            videos = np.unique(own.videos, return_inverse=True)[1]
            apart[name] = half_means(own.profiles, [divide_videos(videos, rng) for _ in range(DIVISIONS)])
    names = [name for name in sets if name != MIXTURE]
    outlines = {name: entry.outline.mean for name, entry in sets.items()}
    comparisons = tuple(compare_all(names, halves, apart, outlines))
    return Signature(pool.size, seed, tuple(seen(names)), sets, comparisons)


def _measure(pool: Pool, advance: Advance) -> _Edges:
    radii = bins(pool.size, pool.size)
    profiles, outlines, pixels = np.empty((len(pool), radii)), np.empty((len(pool), radii)), np.empty(len(pool))
    for part, image, mask in chunks(pool, advance):
        grey, band = to_grey(image), edge_mask(mask)
        profiles[part] = profiles_of(grey * band)
        outlines[part] = profiles_of(outline(grey, band))
        pixels[part] = band.flatten(1).sum(1)
    known: dict[str | None, int] = {None: -1}
    videos = np.array([known.setdefault(sequence(entry), len(known)) for entry in pool.ids])
    return _Edges(profiles, outlines, pixels, videos)


def _members(ids: Sequence[str]) -> dict[str, Indices]:
    """Return the rows of each data set, and of the mixture if it is of two or more."""
    names = np.array([dataset_of(entry) for entry in ids])
    found = list(dict.fromkeys(names.tolist()))
    members = {name: np.flatnonzero(names == name) for name in found}
    if len(mixture := seen(found)) > 1:
        members[MIXTURE] = np.flatnonzero(np.isin(names, mixture))
    return members


def _summary(own: _Edges, total: int, division: Division) -> SetSummary:
    whole = curve(own.profiles)
    shape = whole.mean / whole.mean.sum()
    strays = np.linalg.norm(own.profiles / own.profiles.sum(1, keepdims=True) - shape, axis=1)
    first, second = (curve(own.profiles[side]) for side in division)
    return SetSummary(
        skipped=total - whole.images,
        videos=None if (own.videos < 0).any() else len(np.unique(own.videos)),
        edge_pixels=float(own.pixels.mean()),
        spread=float(np.sqrt((strays**2).mean()) / np.linalg.norm(shape)),
        generic=measure_likeness(whole.mean, generic_profile(len(shape)).double().numpy()),
        curve=whole,
        outline=curve(own.outlines),
        halves=(first, second),
    )
