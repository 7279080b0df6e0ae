"""A split: the train, validation, test and unseen images as a folder of lists, and the labelled part of train.

``train.txt``, ``validation.txt``, ``test.txt`` and ``unseen.txt`` hold global ids, ``<data set>/<id>``, one per line;
``split.json`` says where they come from. ``protocols.py`` draws splits.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from fpgm._version import __version__
from fpgm.data.catalog import CATALOG
from fpgm.data.names import abbreviate
from fpgm.files import check_name, first_fault, read_file, write_text

PARTS = ("train", "validation", "test", "unseen")

# The paper calls 70, 140 and 280 of its 1,430 training images 5, 10 and 20 %; they are that of 1,400.
_PAPER_POOL = 1430
_PAPER_LABELED = {Fraction(5): 70, Fraction(10): 140, Fraction(20): 280}


ALL, AUTO = "all", "auto"  # every mask of train; the usual share, by `Split.usual_labeled`
_PAPER_SHARE = "5%"


class Labels(NamedTuple):
    """What a training may learn from: numbers of labelled and unlabelled images, and of masks that are not used."""

    labeled: int
    unlabeled: int
    unused: int

    def describe(self, spec: str) -> str:
        """Write the numbers in a line: ``5 labelled, 83 unlabelled; --labeled 20%: 23 masks are not used``."""
        told = f"; --labeled {spec}: {self.unused} masks are not used" if self.unused else ""
        return f"{self.labeled} labelled, {self.unlabeled} unlabelled{told}"


class Card(BaseModel):
    """``split.json``: where the lists come from."""

    model_config = ConfigDict(extra="forbid")

    protocol: str
    seed: int
    counts: dict[str, dict[str, int]]
    without_mask: int
    notes: list[str]
    version: str
    sha256: dict[str, str]
    left_out: str = ""
    draw: int = 0


@dataclass(frozen=True)
class Split:
    """Lists of global ids. Train is in random order: its first N images are the labelled set of size N."""

    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]
    unseen: tuple[str, ...]
    protocol: str
    seed: int
    without_mask: int = 0  # number of images at the end of train that can never be labelled
    notes: tuple[str, ...] = ()
    left_out: str = ""  # the hospital that protocol `hospitals` keeps unseen
    draw: int = 0  # number of the order of train, see `redrawn`

    def __post_init__(self) -> None:
        count = Counter(id_ for part in self.parts().values() for id_ in part)
        if twice := [id_ for id_ in count if count[id_] > 1]:
            raise ValueError(f"{abbreviate(twice)}: twice in the lists; an image belongs to one part, once")
        if not 0 <= self.without_mask <= len(self.train):
            raise ValueError(f"{self.without_mask} images without a mask cannot be: train has {len(self.train)} images")

    @property
    def name(self) -> str:
        """What its folder in a store is called."""
        return split_name(self.protocol, self.seed, self.left_out, self.draw)

    def redrawn(self, draw: int) -> Split:
        """Return the same parts with another draw of the labelled images: train in another random order; 0 is this."""
        if draw == self.draw:
            return self
        pool = len(self.train) - self.without_mask
        order = np.random.default_rng([self.seed, draw]).permutation(pool)
        first = sorted(self.train[:pool])
        return replace(self, train=(*(first[k] for k in order), *self.train[pool:]), draw=draw)

    def parts(self) -> dict[str, tuple[str, ...]]:
        """Return the four lists by name."""
        return {part: getattr(self, part) for part in PARTS}

    def counts(self) -> dict[str, dict[str, int]]:
        """Count the images of each part by data set, in the catalogue's order."""
        count = {part: Counter(map(dataset_of, ids)) for part, ids in self.parts().items()}
        found = {name for part in count.values() for name in part}
        names = [name for name in CATALOG if name in found] + sorted(found - CATALOG.keys())
        return {name: {part: count[part][name] for part in PARTS} for name in names}

    def train_sha256(self) -> str:
        """Return a hash of the train list, by which a model knows the split it was trained with."""
        return _sha256("\n".join(self.train))

    @property
    def usual_labeled(self) -> str:
        """Return how many masks are used if nobody says: the paper's share of its data sets and of the phantom's.

        Of one's own data all masks are used.
        """
        return _PAPER_SHARE if any(dataset_of(id_) in CATALOG for id_ in self.train) else ALL

    def labeled(self, spec: str | int) -> list[str]:
        """Return the labelled set: ``"70"`` images, ``"5%"`` or ``"all"`` of the train images that have masks.

        Larger sets contain smaller ones. Percentages are rounded down, apart from the paper's own three. ``"auto"`` is
        `usual_labeled`.
        """
        return list(self.train[: self._labeled_count(str(spec).strip())])

    def unlabeled(self, spec: str | int) -> list[str]:
        """Return the rest of train."""
        return list(self.train[len(self.labeled(spec)) :])

    def labels(self, spec: str | int) -> Labels:
        """Count what a training with this labelled set learns from."""
        labeled = len(self.labeled(spec))
        return Labels(labeled, len(self.train) - labeled, len(self.train) - self.without_mask - labeled)

    def _labeled_count(self, spec: str) -> int:
        spec = self.usual_labeled if spec == AUTO else spec
        pool = len(self.train) - self.without_mask
        percent = re.fullmatch(r"([0-9]+(\.[0-9]+)?)%", spec)
        if spec == ALL:
            count = pool
        elif percent and Fraction(percent[1]) <= 100:
            count = Fraction(percent[1]) * pool // 100
            if pool == _PAPER_POOL:
                count = _PAPER_LABELED.get(Fraction(percent[1]), count)
        elif re.fullmatch("[0-9]+", spec):
            count = int(spec)
        else:
            raise ValueError(f"--labeled takes a number, a percentage or all, such as 70, 5% or all, not {spec!r}")
        if not 1 <= count <= pool:
            few, many = (
                f"that is none of the {pool} train images with masks",
                f"train has only {pool} images with masks",
            )
            raise ValueError(f"--labeled {spec}: {few if count < 1 else many}; give 1 to {pool}, or all")
        return count

    def save(self, folder: Path) -> None:
        """Write the lists, then ``split.json``; a folder that holds another split is refused."""
        texts = {f"{part}.txt": "".join(f"{id_}\n" for id_ in ids) for part, ids in self.parts().items()}
        card = Card(
            protocol=self.protocol,
            seed=self.seed,
            counts=self.counts(),
            without_mask=self.without_mask,
            notes=list(self.notes),
            version=__version__,
            sha256={name: _sha256(text) for name, text in texts.items()},
            left_out=self.left_out,
            draw=self.draw,
        )
        if (folder / "split.json").exists() and _read_card(folder).sha256 != card.sha256:
            raise ValueError(f"{folder} holds another split; choose another --out, or delete that folder")
        for name, text in texts.items():
            write_text(folder / name, text)
        drawn = set() if self.draw else {"draw"}  # earlier releases do not know it
        write_text(folder / "split.json", card.model_dump_json(indent=2, exclude=drawn) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Split:
        """Read a split back and check that its lists are unchanged."""
        card = _read_card(folder)
        lists = {}
        for part in PARTS:
            text = read_file(folder / f"{part}.txt").decode("utf-8", errors="replace")
            if _sha256(text) != card.sha256.get(f"{part}.txt"):
                raise ValueError(
                    f"{folder / part}.txt was changed after it was written; make the split again with "
                    "`fpgm data split`, whose --lists takes lists of your own"
                )
            lists[part] = tuple(text.split("\n")[:-1])
        check_name(card.protocol, f"the protocol in {folder / 'split.json'}")
        for name in {dataset_of(id_) for ids in lists.values() for id_ in ids}:
            check_name(name, f"a data set in the lists of {folder}")
        return cls(
            **lists,
            protocol=card.protocol,
            seed=card.seed,
            without_mask=card.without_mask,
            notes=tuple(card.notes),
            left_out=card.left_out,
            draw=card.draw,
        )


def split_folder(store: Path, given: str | Path | None = None) -> Path:
    """Return the folder of a split: of the name or path that a user gave, or of the only split of the store.

    Args:
        store: folder of prepared data sets.
        given: name of a folder under STORE/splits, or the path of a split's folder; None for the only one.
    """
    if not store.is_dir():
        raise FileNotFoundError(
            f"there is no store {store}: make it with `fpgm data prepare --root RAW --out {store}`, "
            f"or with drawn images with `fpgm data synth --out {store}`"
        )
    names = sorted(path.parent.name for path in (store / "splits").glob("*/split.json"))
    if given is None:
        if len(names) > 1:
            raise ValueError(f"{store} has several splits, choose one with --split: {', '.join(names)}")
        given = names[0] if names else None
    for folder in (store / "splits" / given, Path(given)) if given is not None else ():
        if (folder / "split.json").is_file():
            return folder
    if not names:
        told = "no split yet" if given is None else f"no split {given}, nor any other"
        raise FileNotFoundError(f"{store} has {told}: make one with `fpgm data split --data {store}`")
    near = get_close_matches(Path(given or "").name, names, n=1)
    raise FileNotFoundError(
        f"there is no split {given}: --split takes a folder with a split.json, or one of "
        f"{', '.join(names)}{f'; {near[0]} is near' if near else ''}"
    )


def split_setting(store: Path, folder: Path) -> str:
    """Return how the settings of a run name a split: by its name in the store, or by its whole path elsewhere."""
    folder = folder.resolve()
    return folder.name if folder.parent == (store / "splits").resolve() else str(folder)


def split_name(protocol: str, seed: int, left_out: str = "", draw: int = 0) -> str:
    """Return the name of a split's folder: ``strict-0``, or ``hospitals-etis-0`` where hospital ETIS is left out.

    Another draw of the labelled images is named behind: ``strict-0-draw-1``.
    """
    drawn = ["draw", str(draw)] if draw else []
    return "-".join([protocol, *([slug(left_out)] if left_out else []), str(seed), *drawn])


def slug(name: str) -> str:
    """Return a name as a part of file names: lower case, with hyphens for blanks and punctuation."""
    return re.sub(r"\W+", "-", name.casefold()).strip("-")


def dataset_of(global_id: str) -> str:
    """Return the data set of an image."""
    return global_id.partition("/")[0]


def _read_card(folder: Path) -> Card:
    path = folder / "split.json"
    if not path.is_file():
        raise FileNotFoundError(f"{folder} holds no split; make one with `fpgm data split --data STORE --out {folder}`")
    try:
        return Card.model_validate_json(read_file(path))
    except ValidationError as error:
        raise ValueError(f"{path}: {first_fault(error)}; make the split again with `fpgm data split`") from None


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
