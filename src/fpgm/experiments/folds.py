"""Folds: the splits of a store that a plan trains on, and the draws of their labelled images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fpgm.data.catalog import hospital_of
from fpgm.data.names import abbreviate
from fpgm.data.splits import hospitals
from fpgm.data.splits.protocols import Protocol, draw
from fpgm.data.splits.split import Split, slug, split_name
from fpgm.data.store import open_stores


@dataclass(frozen=True)
class Fold:
    """A split of the store and a draw of its labelled images.

    Attributes:
        protocol: protocol of the split.
        left_out: hospital that protocol `hospitals` leaves out.
        seed: seed of the split.
        draw: number of the draw of the labelled images; the parts of the split are the same for all draws.
    """

    protocol: Protocol
    left_out: str = ""
    seed: int = 0
    draw: int = 0

    @property
    def split(self) -> str:
        """Name of the split in the store."""
        return split_name(self.protocol, self.seed, self.left_out, self.draw)

    @property
    def folder(self) -> str:
        """Name of the folder of its cells."""
        parts = [self.protocol, *([slug(self.left_out)] if self.left_out else [])]
        parts += [f"split-{self.seed}"] if self.seed else []
        return "-".join([*parts, f"draw-{self.draw}"] if self.draw else parts)


def make_folds(
    protocols: Sequence[Protocol], seeds: Sequence[int], draws: Sequence[int], hospitals: Sequence[str] = ()
) -> list[Fold]:
    """Return a fold for each protocol, hospital left out, seed of the split, and draw of the labelled images."""
    return [
        Fold(protocol, hospital, seed, draw)
        for protocol in protocols
        for hospital in (hospitals if protocol == "hospitals" else [""])
        for seed in seeds
        for draw in draws
    ]


def hospital_folds(store: Path) -> list[Fold]:
    """Return a fold for each hospital of a store."""
    return make_folds(["hospitals"], [0], [0], hospitals.folds(open_stores(store)))


def find_split(store: Path, fold: Fold, *, save: bool) -> Split:
    """Return the split of a fold; where the store has none it is drawn and, if asked, saved."""
    folder = store / "splits" / fold.split
    if (folder / "split.json").is_file():
        split = Split.load(folder)
        if (split.protocol, split.seed, split.left_out, split.draw) != (
            fold.protocol,
            fold.seed,
            fold.left_out,
            fold.draw,
        ):
            raise ValueError(f"{folder} holds a split {split.name}: rename that folder")
        if fold.left_out:
            _check_complete(folder, split, store)
        return split
    split = _draw(store, fold)
    if save:
        split.save(folder)
    return split


def _draw(store: Path, fold: Fold) -> Split:
    """Draw a split; another draw of labelled images is of the same parts as the first, also of one that is saved."""
    first = replace(fold, draw=0)
    if fold.draw:
        return find_split(store, first, save=False).redrawn(fold.draw)
    return draw(open_stores(store), fold.protocol, fold.seed, leave_out=fold.left_out or None)


def _check_complete(folder: Path, split: Split, store: Path) -> None:
    """Refuse a fold that was drawn before a hospital came into the store: the others would be trained on it."""
    known = {hospital_of(name) for name in split.counts()}
    if late := [hospital for hospital in hospitals.hospitals(open_stores(store)) if hospital not in known]:
        raise ValueError(
            f"{folder} was drawn without {abbreviate(late)}, which is in the store now: remove that folder"
        )
