"""The images a training, validation or test draws from: ids of one or more prepared data sets."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from fpgm.data.store import Store

Array = npt.NDArray[Any]


class Pool:
    """Images of one or more prepared data sets, read when they are asked for.

    Args:
        stores: data sets by name, those of the pool all of one size.
        ids: "<data set>/<id>", each once.
    """

    def __init__(self, stores: Mapping[str, Store], ids: Sequence[str]) -> None:
        if not ids:
            raise ValueError("the pool is empty: give at least one image id")
        twice, count = Counter(ids).most_common(1)[0]
        if count > 1:
            raise ValueError(f"{twice} is listed {count} times in a pool: list each image once")
        names = sorted({entry.partition("/")[0] for entry in ids})
        if missing := [name for name in names if name not in stores]:
            raise ValueError(
                f"the data set {missing[0]!r} is not among the prepared ones ({', '.join(sorted(stores)) or 'none'}): "
                "prepare it with `fpgm data prepare`, or make a split of what is there with `fpgm data split`"
            )
        sizes = {name: stores[name].size for name in names}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"the data sets differ in size ({sizes}): run `fpgm data prepare` with one --size for all")
        self.ids, self.size = tuple(ids), sizes[names[0]]
        self._stores = [stores[name] for name in names]
        self._places = self._locate(names)

    def _locate(self, names: list[str]) -> Array:
        """Which data set, and which row of it, each id is: (N, 2)."""
        places = {
            f"{name}/{entry}": (number, row)
            for number, name in enumerate(names)
            for row, entry in enumerate(self._stores[number].ids)
        }
        if unknown := [entry for entry in self.ids if entry not in places]:
            raise ValueError(
                f"{len(unknown)} of {len(self)} images are not in the store, {unknown[0]} for one: "
                "the list is of another store; make a split of this one with `fpgm data split`"
            )
        return np.array([places[entry] for entry in self.ids])

    def __len__(self) -> int:
        return len(self.ids)

    def images(self, indices: Array) -> Array:
        """Images as uint8 (n, S, S, 3)."""
        return self._gather(indices, lambda store, lines: store.images(lines))

    def masks(self, indices: Array) -> Array:
        """Masks as uint8 (n, S, S) in {0, 1}."""
        return self._gather(indices, lambda store, lines: store.masks(lines))

    def located(self) -> list[tuple[Store, int]]:
        """The data set of each image, and its row there."""
        return [(self._stores[store], int(row)) for store, row in self._places]

    def sha256(self) -> str:
        """Hash of the stored facts about the images, without pixels; other images of the same ids have another hash."""
        lines = [
            f"{entry} {self._stores[store].dhash[row]} {self._stores[store].foreground[row]}"
            for entry, (store, row) in zip(self.ids, self._places, strict=True)
        ]
        return hashlib.sha256("\n".join([str(self.size), *lines]).encode()).hexdigest()

    def unmasked(self) -> list[str]:
        """Ids of the images without a mask."""
        masked = self._gather(np.arange(len(self)), lambda store, lines: store.has_mask[lines])
        return [self.ids[i] for i in np.flatnonzero(~masked)]

    def _gather(self, indices: Array, read: Callable[[Store, Array], Array]) -> Array:
        """Read from each data set, and put the results in the order of the indices."""
        numbers, lines = self._places[indices].T
        held = [np.flatnonzero(numbers == number) for number in range(len(self._stores))]
        found = [read(store, lines[chosen]) for store, chosen in zip(self._stores, held, strict=True) if len(chosen)]
        return np.concatenate(found)[np.argsort(np.concatenate(held))]
