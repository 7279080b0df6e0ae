"""Facts about the images of a pool besides their pixels: patient or video, and hashes that find them elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from fpgm.data import catalog, fingerprint

if TYPE_CHECKING:
    from fpgm.data.batches.pool import Pool


class ImageHash(NamedTuple):
    """Hashes of an image: of its source file ("" if not known), of its prepared pixels, and its fingerprint."""

    id: str
    source: str
    pixels: str
    dhash: str


@dataclass(frozen=True)
class Overlap:
    """Pairs of ids, the first of the new images, the second of the known ones.

    Attributes:
        exact: the same source file, or the same prepared pixels.
        near: fingerprints at most ``fingerprint.NEAR`` bits apart, of images that have no exact pair.
    """

    exact: tuple[tuple[str, str], ...]
    near: tuple[tuple[str, str], ...]


def groups_of(pool: Pool) -> list[str | None]:
    """Return the patient or video of each image: by the store, or else by the catalogue; None where neither knows."""
    located = zip(pool.ids, pool.located(), strict=True)
    return [store.manifest.images[row].group or catalog.sequence(id_) for id_, (store, row) in located]


def image_hashes(pool: Pool) -> list[ImageHash]:
    """Return the hashes of each image; its pixels are read."""
    hashes = []
    for id_, (store, row) in zip(pool.ids, pool.located(), strict=True):
        pixels = hashlib.blake2b(store.images([row])[0].tobytes(), digest_size=16).hexdigest()
        hashes.append(ImageHash(id_, store.manifest.images[row].image_sha256 or "", pixels, store.dhash[row]))
    return hashes


def find_overlap(new: Sequence[ImageHash], known: Sequence[ImageHash]) -> Overlap:
    """Find the new images that are known ones, or near duplicates of them; each with one partner."""
    sources = {one.source: one.id for one in known if one.source}
    pixels = {one.pixels: one.id for one in known}
    found = {one.id: sources.get(one.source) or pixels.get(one.pixels) for one in new}
    exact = {id_: other for id_, other in found.items() if other is not None}
    if not new or not known:
        return Overlap((), ())
    left = fingerprint.pack([one.dhash for one in new])
    first, second, _ = fingerprint.close_pairs(left, fingerprint.pack([one.dhash for one in known]))
    near = {new[i].id: known[j].id for i, j in zip(first, second, strict=True) if new[i].id not in exact}
    return Overlap(tuple(exact.items()), tuple(near.items()))
