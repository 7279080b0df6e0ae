"""A pool of pictures held in memory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

Pairs = Mapping[str, tuple[np.ndarray, np.ndarray]]


class Pictures:
    """What the analyses need of a Pool: images (S, S, 3) and masks (S, S), both uint8, by "<data set>/<id>"."""

    def __init__(self, pairs: Pairs) -> None:
        self.ids = tuple(pairs)
        self._images, self._masks = (np.stack(side) for side in zip(*pairs.values(), strict=True))
        self.size = self._masks.shape[-1]
        self.read: list[int] = []

    def __len__(self) -> int:
        return len(self.ids)

    def images(self, rows: np.ndarray) -> np.ndarray:
        self.read.append(len(rows))
        return self._images[rows]

    def masks(self, rows: np.ndarray) -> np.ndarray:
        return self._masks[rows]


def square(side: int, size: int = 32, top: int = 5, left: int = 6) -> np.ndarray:
    """A mask with one square."""
    mask = np.zeros((size, size), np.uint8)
    mask[top : top + side, left : left + side] = 1
    return mask


def flat(grey: int, size: int = 32) -> np.ndarray:
    """An image of one grey."""
    return np.full((size, size, 3), grey, np.uint8)


def noise(rng: np.random.Generator, size: int = 32) -> np.ndarray:
    """An image of independent pixels, none of them black."""
    return rng.integers(1, 256, (size, size, 3), dtype=np.uint8)


def clinics(count: int = 12, seed: int = 0) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Two data sets of noisy images: large polyps in the first, small ones in the second."""
    rng = np.random.default_rng(seed)
    sides = {"large": (14, 17), "small": (5, 8)}
    return {
        f"{name}/{k}": (noise(rng), square(int(rng.integers(*side)), top=int(rng.integers(3, 10))))
        for name, side in sides.items()
        for k in range(count)
    }
