"""From a labelled and an unlabelled pool to batches: batch t is a pure function of (seed, t, rank, world size).

An epoch of a pool is a permutation drawn from (seed, epoch), and a step takes the next slice of it: no image comes
twice within an epoch or a step, on any number of processes. The last images of an epoch, fewer than a batch, are left
out; each epoch leaves out others. A pool smaller than a batch is repeated until the batch is full. Augmentation is
drawn for an image's place in the global batch, so all ranks together see the batch of a single process. Strong views
are rounded to 8 bits, as in the code of the compared methods.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fpgm.data.batches.batch import Batch, Geometry, Strength, Views
from fpgm.data.batches.pool import Pool
from fpgm.data.batches.prefetch import prefetch
from fpgm.data.batches.views import (
    WEAK,
    StrongParams,
    apply_geometry,
    apply_strong,
    apply_weak,
    draw_boxes,
    draw_geometry,
    draw_strong,
    draw_weak,
    inside,
    rows,
)

Array = npt.NDArray[Any]
_ROLES = ("labelled", "unlabelled", "partner")


class _Part(NamedTuple):
    """The labelled images, the unlabelled ones, or their mix partners; `batch` is the number on all processes."""

    role: int
    pool: Pool
    batch: int
    strong: int
    boxes: bool = False
    masks: bool = False


class _Raw(NamedTuple):
    """A part of a step in 8 bits, weak view first: pixels (n, 3, S, S), masks (n, S, S); boxes (n, 4)."""

    pixels: list[Array]
    masks: list[Array]
    boxes: list[Array]
    ids: tuple[str, ...]


class Stream:
    """Batches of labelled and unlabelled images, with random access by step.

    Args:
        labeled: images with masks.
        unlabeled: images whose masks are never read, also the mix partners; may be None if `views` needs none.
        views: views that the method declares.
        batch_labeled: number of labelled images in a step, on all processes together.
        batch_unlabeled: number of unlabelled images in a step, on all processes together.
        seed: seed of all random numbers.
        rank: number of this process, from 0.
        world_size: number of processes.
        weak: probability of each flip and of a quarter turn.
        geometry: further moves of the weak views, before any strong view is made of them.
        strong_labeled: share of the labelled images whose strong view, of the paper's strength, takes the place of the
            weak one; the same for all methods.
    """

    def __init__(
        self,
        labeled: Pool,
        unlabeled: Pool | None,
        views: Views,
        *,
        seed: int,
        batch_labeled: int = 8,
        batch_unlabeled: int = 8,
        rank: int = 0,
        world_size: int = 1,
        weak: float = WEAK,
        geometry: Geometry | None = None,
        strong_labeled: float = 0.0,
    ) -> None:
        self.views, self.seed, self.rank, self.world_size = views, seed, rank, world_size
        self.weak, self.geometry, self.strong_labeled = weak, geometry or Geometry(), strong_labeled
        self._parts = [_Part(_ROLES.index("labelled"), labeled, batch_labeled, int(views.strong_labeled), masks=True)]
        if views.unlabeled:
            if unlabeled is None:
                raise ValueError("the method wants unlabelled images: give a pool of them")
            self._parts.append(
                _Part(_ROLES.index("unlabelled"), unlabeled, batch_unlabeled, views.strong, boxes=views.cutmix)
            )
            if views.mix:
                self._parts.append(_Part(_ROLES.index("partner"), unlabeled, batch_unlabeled, views.strong))
        self._check()

    def _check(self) -> None:
        assert 0 <= self.rank < self.world_size
        if self.seed < 0:
            raise ValueError(f"the seed is {self.seed}: give 0 or more")
        for part in self._parts:
            if part.batch < 1 or part.batch % self.world_size:
                raise ValueError(f"{part.batch} images in a step for {self.world_size} processes: give each its share")
            if part.pool.size != self._parts[0].pool.size:
                raise ValueError(
                    f"labelled images are of size {self._parts[0].pool.size}, unlabelled ones {part.pool.size}: "
                    "run `fpgm data prepare` with one --size for all"
                )
        if unmasked := self._parts[0].pool.unmasked():
            raise ValueError(
                f"{len(unmasked)} labelled images have no mask, {unmasked[0]} for one: list them as unlabelled"
            )

    def batch(self, t: int) -> Batch:
        """The batch of step t, counted from 0."""
        return self._finish(t, self._prepare(t))

    def loop(self, start: int, stop: int, workers: int = 1) -> Generator[Batch, None, None]:
        """The batches of steps start … stop − 1, prefetched by worker processes; with 0 workers, made on demand."""
        return prefetch(self._prepare, self._finish, range(start, stop), workers)

    def _prepare(self, t: int) -> list[_Raw]:
        return [self._render(part, t) for part in self._parts]

    def _render(self, part: _Part, t: int) -> _Raw:
        """Draw parameters for all processes, then make the views of this process."""
        share = part.batch // self.world_size
        mine = slice(self.rank * share, (self.rank + 1) * share)
        drawn = part.batch, part.pool.size, _generator(self.seed, part.role, t)
        weak = rows(draw_weak(part.batch, drawn[-1], self.weak), mine)
        strong = [rows(draw_strong(*drawn, self.views.strength), mine) for _ in range(part.strong)]
        boxes = [draw_boxes(*drawn)[mine] for _ in range(part.strong * part.boxes)]
        recipe = part.batch, part.pool.size, _generator(self.seed, len(_ROLES) + part.role, t)
        geometry = rows(draw_geometry(part.batch, recipe[-1], self.geometry), mine)
        chosen = self._choose(part, t)[mine]
        image = torch.from_numpy(part.pool.images(chosen)).permute(0, 3, 1, 2)
        pixels = [apply_geometry(apply_weak(image, weak).contiguous(), geometry)]
        pixels += [_strong(pixels[0], params) for params in strong]
        masks = []
        if part.masks:
            masks = [apply_geometry(apply_weak(torch.from_numpy(part.pool.masks(chosen)), weak), geometry)]
            masks += [masks[0] * ~inside(params.box, part.pool.size) for params in strong]
            replaced = torch.rand(part.batch, generator=recipe[-1])[mine] < self.strong_labeled
            if replaced.any():
                params = rows(rows(draw_strong(*recipe, Strength()), mine), replaced)
                pixels[0][replaced] = _strong(pixels[0][replaced], params)
                masks[0][replaced] *= ~inside(params.box, part.pool.size)
        return _Raw(
            pixels=[tensor.numpy() for tensor in pixels],
            masks=[tensor.numpy() for tensor in masks],
            boxes=[tensor.numpy() for tensor in boxes],
            ids=tuple(part.pool.ids[i] for i in chosen),
        )

    def _choose(self, part: _Part, t: int) -> Array:
        """Places in the pool of the images of step t, on all processes."""
        epoch, step = divmod(t, max(1, len(part.pool) // part.batch))
        order = _permutation(self.seed, part.role, epoch, len(part.pool))
        return order.take(np.arange(step * part.batch, (step + 1) * part.batch), mode="wrap")

    def _finish(self, t: int, raws: list[_Raw]) -> Batch:
        """Scale to [0, 1]; done in the receiving process, because floats are four times as much to send."""
        size = self._parts[0].pool.size
        nothing = _Raw([np.empty((0, 3, size, size), np.uint8)], [], [], ())
        labeled, unlabeled, mix = [*raws, nothing, nothing][:3]
        image_l, *strong_l = map(_scale, labeled.pixels)
        weak_u, *strong_u = map(_scale, unlabeled.pixels)
        weak_m, *strong_m = map(_scale, mix.pixels)
        mask_l, *strong_mask_l = (torch.from_numpy(mask).long() for mask in labeled.masks)
        return Batch(
            index=t,
            image_l=image_l,
            mask_l=mask_l,
            strong_l=tuple(strong_l),
            strong_mask_l=tuple(strong_mask_l),
            weak_u=weak_u,
            strong_u=tuple(strong_u),
            boxes_u=tuple(inside(torch.from_numpy(boxes), size) for boxes in unlabeled.boxes),
            weak_m=weak_m,
            strong_m=tuple(strong_m),
            id_l=labeled.ids,
            id_u=unlabeled.ids,
            id_m=mix.ids,
        )


def _strong(pixels: Tensor, params: StrongParams) -> Tensor:
    return apply_strong(pixels / 255, params).mul_(255).round_().byte()


def _scale(pixels: Array) -> Tensor:
    return torch.from_numpy(pixels).float().div_(255)


def _generator(seed: int, role: int, t: int) -> torch.Generator:
    """Separate generator for each role and step, so that a method's views do not change its labelled images."""
    state = np.random.SeedSequence((seed, role, t)).generate_state(1)
    return torch.Generator().manual_seed(int(state[0]))


@lru_cache(maxsize=8)
def _permutation(seed: int, role: int, epoch: int, count: int) -> Array:
    """The order of a pool in one epoch, kept because a hundred thousand images take milliseconds to shuffle."""
    return np.random.default_rng((seed, role, epoch)).permutation(count)
