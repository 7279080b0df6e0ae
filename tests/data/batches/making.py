"""Streams over stores of noise."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fpgm.data.batches.batch import Batch, Strength, Views
from fpgm.data.batches.pool import Pool
from fpgm.data.batches.streams import Stream

SUPERVISED = Views(unlabeled=False)
PAPER = Views(strong=1)
RELEASED = Views(strong=2, cutmix=True, mix=True)
ABD = Views(strong=1, strong_labeled=True, strength=Strength(jitter=1, blur=0, cutout=0.5))
PLAIN = Strength(jitter=0, blur=0)


@dataclass
class FakeStore:
    """Noise, the mask being what is bright in red; `broken` names what must not be read."""

    name: str
    count: int = 20
    size: int = 16
    broken: str = ""

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.count)
        self.ids = tuple(f"{i:03d}" for i in range(self.count))
        self.has_mask = np.ones(self.count, bool)
        self.pictures = rng.integers(0, 256, (self.count, self.size, self.size, 3), np.uint8)

    def images(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        if "images" in self.broken:
            raise OSError("images of this store must not be read")
        return self.pictures[indices]

    def masks(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        if "masks" in self.broken:
            raise OSError("masks of this store must not be read")
        return (self.pictures[indices][..., 0] > 127).astype(np.uint8)


def pool(*stores: FakeStore) -> Pool:
    ids = [f"{store.name}/{entry}" for store in stores for entry in store.ids]
    return Pool({store.name: store for store in stores}, ids)  # type: ignore[dict-item]  # a stand-in


def stream(views: Views = PAPER, labeled: int = 10, unlabeled: int = 20, **options: Any) -> Stream:
    options = {"seed": 1, "batch_labeled": 4, "batch_unlabeled": 4} | options
    return Stream(pool(FakeStore("a", labeled)), pool(FakeStore("b", unlabeled, broken="masks")), views, **options)


def tensors(batch: Batch) -> list[Tensor]:
    values = [getattr(batch, entry.name) for entry in fields(batch)]
    flat = [item for value in values for item in (value if isinstance(value, tuple) else (value,))]
    return [item for item in flat if isinstance(item, Tensor)]


def same(a: Batch, b: Batch) -> bool:
    ids = (a.index, a.id_l, a.id_u, a.id_m) == (b.index, b.id_l, b.id_u, b.id_m)
    return ids and all(torch.equal(x, y) for x, y in zip(tensors(a), tensors(b), strict=True))
