"""Small stores for tests: real files from a few pictures, or the public data sets as fingerprints alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import numpy as np
from PIL import Image

from fpgm.data.fingerprint import dhash, reference
from fpgm.data.manifest import ImageRow, Manifest
from fpgm.data.names import natural
from fpgm.data.store import Store, StoredImage, write_store

EMPTY: Mapping[str, str] = MappingProxyType({})


def make_store(
    root: Path,
    name: str,
    pictures: Mapping[str, np.ndarray],
    bare: Collection[str] = (),
    *,
    groups: Mapping[str, str] = EMPTY,
    parts: Mapping[str, str] = EMPTY,
) -> Store:
    """Write pictures, uint8 (S, S, 3) by id, as a data set; a centred square is the mask of all but the bare ones."""
    size = next(iter(pictures.values())).shape[0]
    mask = np.zeros((size, size), np.uint8)
    mask[size // 4 : size // 2, size // 4 : size // 2] = 1
    records = []
    for id_ in sorted(pictures, key=natural):
        answer = None if id_ in bare else mask
        share = None if answer is None else float(mask.mean())
        row = ImageRow(id_, id_, None, None, None, size, size, share, groups.get(id_), parts.get(id_))
        records.append(StoredImage(row, pictures[id_], answer, dhash(Image.fromarray(pictures[id_]))))
    header = {"name": name, "source": "drawn", "size": size, "rules": {}, "inputs": ""}
    write_store(root / name, records, lambda rows: Manifest.describe(rows, **header))
    return Store.open(root / name)


def real_store(root: Path, data: Path, name: str, size: int = 64) -> Store:
    """Prepare a data set of the shared folder, small and without its own masks."""
    pictures, hashes = {}, {}
    for path in (data / name / "images").iterdir():
        with Image.open(path) as file:
            hashes[path.stem] = dhash(file)
            pictures[path.stem] = np.asarray(file.convert("RGB").resize((size, size), Image.Resampling.BOX))
    store = make_store(root, name, pictures)
    store.dhash = tuple(hashes[id_] for id_ in store.ids)  # of the source, not of the small picture
    return store


def scene(rng: np.random.Generator, size: int = 64) -> np.ndarray:
    """A smooth random picture (S, S, 3), far from any other."""
    coarse = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((size, size), Image.Resampling.BICUBIC))


class Listed:
    """A data set known by ids and fingerprints alone, with one picture for all: what is near is then exact."""

    def __init__(self, name: str, ids: Sequence[str], hashes: Sequence[str], bare: Collection[str] = ()) -> None:
        self.name, self.ids, self.dhash = name, tuple(ids), tuple(hashes)
        self.has_mask = np.array([id_ not in bare for id_ in ids])
        self.groups: dict[str, str] = {}
        self.parts: dict[str, str] = {}

    @property
    def manifest(self) -> SimpleNamespace:
        rows = [
            ImageRow(id_, None, None, None, None, 4, 4, None, self.groups.get(id_), self.parts.get(id_))
            for id_ in self.ids
        ]
        return SimpleNamespace(images=rows)

    def __len__(self) -> int:
        return len(self.ids)

    def images(self, indices: Sequence[int]) -> np.ndarray:
        return np.zeros((len(indices), 4, 4, 3), np.uint8)


def public(*names: str) -> dict[str, Listed]:
    """The public data sets, from the reference fingerprints."""
    rows = {name: [row for row in reference() if row.dataset == name] for name in names}
    return {name: Listed(name, [r.id for r in of], [r.dhash for r in of]) for name, of in rows.items()}


def own(name: str, count: int, bare: Collection[str] = (), seed: int = 0) -> Listed:
    """A user's data set of ``count`` images 0, 1, …, all different."""
    rng = np.random.default_rng(seed)
    return Listed(name, [str(k) for k in range(count)], [rng.bytes(32).hex() for _ in range(count)], bare)
