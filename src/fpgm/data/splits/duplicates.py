"""Which images belong together: exact and near duplicates over all data sets, frames of one video, and given groups.

Letters: N images over all data sets, P pairs. A pair of near duplicates has fingerprints at most ``NEAR`` bits apart
and passes a pixel check on the stored pictures; of an exact one every stored pixel is the same. Crops, flips and turns
of a picture are not found.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from fpgm.data import catalog, fingerprint
from fpgm.data.store import Store

LIKENESS = 0.95  # least correlation of two grey pictures at 32 x 32; near pairs of the public sets have 0.976 or more
_THUMB = 32
_CHUNK = 64

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Evidence:
    """What is known about N images: their videos and given groups, and P pairs of duplicates as rows of ``ids``."""

    ids: tuple[str, ...]
    sequences: tuple[str | None, ...]
    first: Indices
    second: Indices
    distance: Indices
    exact: NDArray[np.bool_]
    given: tuple[str | None, ...] = ()  # groups such as patients, by the manifests; () if there are none

    def names(self) -> list[list[str]]:
        """Return what each image (N,) is a part of: its video and its given group, of those that are known."""
        both = zip(self.sequences, self.given or [None] * len(self.ids), strict=True)
        return [[name for name in pair if name] for pair in both]

    def groups(self) -> Indices:
        """Number the images (N,) so that those linked by a name or by duplicates, however far, share a number."""
        rows = defaultdict(list)
        for row, names in enumerate(self.names()):
            for name in names:
                rows[name].append(row)
        chains = [(a, b) for members in rows.values() for a, b in pairwise(members)]
        links = np.concatenate([np.stack([self.first, self.second], 1), np.array(chains, np.int64).reshape(-1, 2)])
        size = len(self.ids)
        graph = coo_array((np.ones(len(links), bool), (links[:, 0], links[:, 1])), shape=(size, size))
        return np.asarray(connected_components(graph, directed=False)[1], np.int64)


def gather(stores: Mapping[str, Store]) -> Evidence:
    """Look for duplicates, videos and given groups in some data sets; each picture is read once at most."""
    ids = tuple(f"{name}/{id_}" for name, store in stores.items() for id_ in store.ids)
    hashes = [hash_ for store in stores.values() for hash_ in store.dhash]
    first, second, distance = fingerprint.close_pairs(fingerprint.pack(hashes))
    used, position = np.unique(np.concatenate([first, second]), return_inverse=True)
    digests, thumbs = _look(stores, used)
    i, j = position[: len(first)], position[len(first) :]
    exact = (digests[i] == digests[j]).all(axis=1)
    keep = exact.copy()
    keep[~exact] = _likeness(thumbs, i[~exact], j[~exact]) >= LIKENESS
    pairs = first[keep], second[keep], distance[keep], exact[keep]
    return Evidence(ids, _sequences(ids, hashes), *pairs, given=_given_groups(stores))


def _look(stores: Mapping[str, Store], rows: Indices) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Read the pictures at these rows: digests of all pixels (n, 16) and grey thumbnails (n, 1024)."""
    digests = np.zeros((len(rows), 16), np.uint8)
    thumbs = np.zeros((len(rows), _THUMB * _THUMB), np.uint8)
    start = 0
    for store in stores.values():
        (here,) = np.nonzero((rows >= start) & (rows < start + len(store)))
        for chunk in np.split(here, range(_CHUNK, len(here), _CHUNK)):
            for k, image in zip(chunk, store.images(rows[chunk] - start), strict=True):
                digests[k] = np.frombuffer(hashlib.blake2b(image.tobytes(), digest_size=16).digest(), np.uint8)
                grey = Image.fromarray(image).convert("L").resize((_THUMB, _THUMB), Image.Resampling.BOX)
                thumbs[k] = np.asarray(grey).ravel()
        start += len(store)
    return digests, thumbs


def _likeness(thumbs: NDArray[np.uint8], i: Indices, j: Indices) -> NDArray[np.float32]:
    """Return the correlation of each pair of thumbnails (P,); that of one without contrast is 0."""
    values = np.zeros(len(i), np.float32)
    for at in range(0, len(i), _CHUNK):
        here = slice(at, at + _CHUNK)
        values[here] = np.einsum("pk,pk->p", _standard(thumbs[i[here]]), _standard(thumbs[j[here]]))
    return values


def _standard(thumbs: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Give each row mean 0 and norm 1, or 0 throughout."""
    values = thumbs.astype(np.float32)
    values -= values.mean(axis=1, keepdims=True)
    return values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1)


def _sequences(ids: Sequence[str], hashes: Sequence[str]) -> tuple[str | None, ...]:
    """Name each image's video: by the catalogue, and in other data sets by the public picture it turns out to be."""
    unknown = [row for row, id_ in enumerate(ids) if id_.partition("/")[0] not in catalog.CATALOG]
    names = dict(zip(unknown, fingerprint.recognise([hashes[row] for row in unknown]), strict=True))
    known = (names.get(row) for row in range(len(ids)))
    return tuple(
        catalog.sequence(f"{public.dataset}/{public.id}" if public else id_)
        for id_, public in zip(ids, known, strict=True)
    )


def _given_groups(stores: Mapping[str, Store]) -> tuple[str | None, ...]:
    """Name each image's group in its manifest, such as a patient; groups of two data sets are never the same."""
    return tuple(
        None if row.group is None else f"{name} group {row.group}"
        for name, store in stores.items()
        for row in store.manifest.images
    )
