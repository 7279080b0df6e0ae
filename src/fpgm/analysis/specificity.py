"""How specific the frequency prior is to polyp edges (the paper's comparison with the background).

Four contents of each image, of equally many pixels, zero elsewhere:

* ``edge``: the edge band, as the prior sees it (Eq. 1, 2);
* ``background``: the paper's comparison: pixels drawn at random, each by itself, outside the dilated polyp. The paper
  does not say how far it is dilated; here it is the mask and its edge band, two pixels more than the mask;
* ``moved``: our control: the edge band itself, shifted (around the frame, which leaves the spectrum of the band as it
  is) to a random one of the places where all of it is background;
* ``outline``: our other control: the edge band in place, painted in its mean grey, so without any texture.

Scattered pixels and a band have different spectra whatever they show; only ``moved`` isolates the texture.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fpgm.analysis.profiles import (
    LOW_RADII,
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
)
from fpgm.data.batches.pool import Pool
from fpgm.data.splits.split import dataset_of
from fpgm.spectrum import edge_mask, to_grey
from fpgm.spectrum.radial import bins, spectrum

EDGE = "edge"
SAMPLES = (EDGE, "background", "moved", "outline")


@dataclass(frozen=True)
class Sample:
    """The profiles of one kind of content.

    Attributes:
        pixels, grey: mean number of pixels and mean brightness.
        likeness: likeness of the edge's profile to this one, over the images that have both.
        tail: mean amplitude beyond radius 2, divided by that of the edge of the same images.
        exceeds_from: radius from which on its amplitude is above the edge's at every radius; None if there is none.
    """

    curve: Curve
    pixels: float
    grey: float
    likeness: Likeness
    tail: float
    exceeds_from: int | None


@dataclass(frozen=True)
class Specificity:
    """What was compared, by name; ``skipped`` images have no visible edge."""

    size: int
    seed: int
    images: dict[str, int]
    skipped: int
    samples: dict[str, Sample]


def specificity(pool: Pool, *, seed: int = 0, advance: Advance = lambda done, total: None) -> Specificity:
    """Compare the profile of the edges of a pool's images, all with masks, with those of other contents.

    Args:
        pool: images of one or more data sets.
        seed: seed of the background pixels and the shifts.
        advance: called with the number of images read and the number of all images.
    """
    pixel_generator, shift_generator = generator(seed, 1), generator(seed, 2)
    rows = {name: np.empty((len(pool), 2 + bins(pool.size, pool.size))) for name in SAMPLES}
    for part, image, mask in chunks(pool, advance):
        for name, (region, where) in _contents(to_grey(image), mask, pixel_generator, shift_generator).items():
            rows[name][part] = _measure(region, where)
    visible = rows[EDGE][:, 2:].sum(1) > 0
    if not visible.any():
        raise ValueError(f"none of the {len(pool)} images has a visible edge: their masks are empty or lie on black")
    samples = {name: _summary(part[visible], rows[EDGE][visible]) for name, part in rows.items()}
    counts = Counter(dataset_of(entry) for entry, kept in zip(pool.ids, visible, strict=True) if kept)
    return Specificity(pool.size, seed, dict(counts), int((~visible).sum()), samples)


def _contents(
    grey: Tensor, mask: Tensor, pixel_generator: np.random.Generator, shift_generator: np.random.Generator
) -> dict[str, tuple[Tensor, Tensor]]:
    """Return by name each content of grey images (B, S, S), zero elsewhere, and where it is."""
    band = edge_mask(mask)
    planes = list(zip(~(band | mask.bool()), band, strict=True))
    scattered = torch.stack([_scatter(*pair, pixel_generator) for pair in planes])
    moved = torch.stack([_move(*pair, shift_generator) for pair in planes])
    regions = [(grey * where, where) for where in (band, scattered, moved)]
    return dict(zip(SAMPLES, [*regions, (outline(grey, band), band)], strict=True))


def _scatter(background: Tensor, band: Tensor, rng: np.random.Generator) -> Tensor:
    """Choose as many pixels of the background (S, S) as the band has; none if the background has too few."""
    chosen = torch.zeros_like(band)
    free, wanted = np.flatnonzero(background.numpy()), int(band.sum())
    if len(free) >= wanted:
        chosen.view(-1)[torch.from_numpy(rng.choice(free, wanted, replace=False))] = True
    return chosen


def _move(background: Tensor, band: Tensor, rng: np.random.Generator) -> Tensor:
    """Shift the band (S, S) around the frame to a random place within the background; empty if it fits nowhere."""
    overlap = spectrum((~background).double()) * spectrum(band.double()).conj()
    conflicts = torch.fft.irfft2(overlap, s=band.shape, norm="forward")  # pixels outside the background, by shift
    places = (conflicts < 0.5).nonzero()
    if not len(places):
        return torch.zeros_like(band)
    return band.roll(places[rng.integers(len(places))].tolist(), (0, 1))


def _measure(region: Tensor, where: Tensor) -> Floats:
    """Return for each image number of pixels, sum of grey, and profile, (B, 2 + R)."""
    sums = torch.stack([plane.flatten(1).sum(1).double() for plane in (where, region)], 1)
    return np.concatenate([sums.numpy(), profiles_of(region)], 1)


def _summary(rows: NDArray[np.float64], edge: NDArray[np.float64]) -> Sample:
    """Summarise the images for which a sample could be drawn, beside the edges of the same images."""
    drawn = rows[:, 0] > 0
    if not drawn.any():
        raise ValueError("the polyps fill their images: no background to compare them with")
    (pixels, grey), profile = rows[drawn, :2].sum(0), curve(rows[drawn, 2:])
    reference = edge[drawn, 2:].mean(0)
    below = np.flatnonzero(profile.mean <= reference)
    first = int(below[-1]) + 1 if len(below) else 0
    return Sample(
        curve=profile,
        pixels=float(pixels / profile.images),
        grey=float(grey / pixels),
        likeness=measure_likeness(reference, profile.mean),
        tail=float(profile.mean[LOW_RADII:].mean() / reference[LOW_RADII:].mean()),
        exceeds_from=first if first < len(reference) else None,
    )
