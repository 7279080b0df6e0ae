"""What the analyses share: images in bounded chunks, curves, and how alike two profiles are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fpgm.data.batches.pool import Pool
from fpgm.data.catalog import find
from fpgm.data.store import Store
from fpgm.spectrum import amplitude, likeness, radial_profile

Floats = NDArray[np.float64]
Advance = Callable[[int, int], None]  # called with the number of images done and of all images
CHUNK_PIXELS = 2**20  # pixels held at a time, whatever the size of an image
LOW_RADII = 3  # r = 0, 1, 2; the paper says that the background is near zero beyond


class Curve(NamedTuple):
    """Mean and standard deviation (over N) of N radial profiles, each (R,)."""

    mean: Floats
    sd: Floats
    images: int


class Likeness(NamedTuple):
    """Two profiles a and b: correlation, |a - b| / |a| of their shapes (sum 1), and of the profiles as they are."""

    correlation: float
    distance: float
    amplitude_distance: float


def curve(profiles: Floats) -> Curve:
    """Summarise profiles (N, R)."""
    return Curve(profiles.mean(0), profiles.std(0), len(profiles))


def measure_likeness(first: Floats, second: Floats) -> Likeness:
    """Say how alike two profiles (R,) are; the distances are relative to the first."""
    alike = likeness(torch.from_numpy(first), torch.from_numpy(second))
    return Likeness(*alike, float(np.linalg.norm(first - second) / np.linalg.norm(first)))


def profiles_of(region: Tensor) -> Floats:
    """Return the radial profiles (B, R) of grey content (B, H, W)."""
    return radial_profile(amplitude(region), region.shape[-1]).double().numpy()


def outline(grey: Tensor, band: Tensor) -> Tensor:
    """Return the band (B, H, W) painted in the mean of the grey image (B, H, W) on it: the edge without its texture."""
    mean = (grey * band).flatten(1).sum(1) / band.flatten(1).sum(1).clamp(min=1)
    return mean[:, None, None] * band


def chunks(pool: Pool, advance: Advance) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Read a pool from its first image to its last.

    Copy results of a chunk into an array that was allocated before the loop. Small arrays kept from each chunk would
    lie in memory between the large ones that are freed, and memory would grow with every chunk.

    Yields:
        Which images of the pool, the images (B, 3, S, S) in [0, 1], and their masks (B, S, S) in {0, 1}.
    """
    step = max(1, CHUNK_PIXELS // pool.size**2)
    for start in range(0, len(pool), step):
        part = slice(start, min(start + step, len(pool)))
        rows = np.arange(part.start, part.stop)
        yield part, torch.from_numpy(pool.images(rows)).permute(0, 3, 1, 2) / 255, torch.from_numpy(pool.masks(rows))
        advance(part.stop, len(pool))


def labeled_ids(stores: Mapping[str, Store]) -> dict[str, list[str]]:
    """Return the global ids of the images with a mask, by data set."""
    ids = {
        name: [f"{name}/{store.ids[row]}" for row in np.flatnonzero(store.has_mask)] for name, store in stores.items()
    }
    if bare := [name for name, found in ids.items() if not found]:
        raise ValueError(f"{', '.join(bare)} has no image with a mask: name the other data sets with --datasets")
    return ids


def seen(names: list[str]) -> list[str]:
    """Return the data sets that the paper's mixture would hold: all but those kept unseen, or all if none is left."""
    kept = [name for name in names if (entry := find(name)) is None or entry.role != "unseen"]
    return kept or names


def choose(ids: list[str], count: int | None, rng: np.random.Generator) -> list[str]:
    """Draw at most ``count`` ids at random; all of them, as they stand, if it is None."""
    if count is None:
        return ids
    if count < 1:
        raise ValueError(f"expected a number of images of 1 or more, got {count}")
    return [ids[k] for k in np.sort(rng.permutation(len(ids))[:count])]


def generator(seed: int, stream: int) -> np.random.Generator:
    """Return a random generator that is independent of those for other purposes."""
    if seed < 0:
        raise ValueError(f"the seed is {seed}: give 0 or more")
    return np.random.default_rng((seed, stream))
