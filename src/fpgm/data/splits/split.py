"""A split: the train, validation, test and unseen images as a folder of lists, and the labelled part of train.

``train.txt``, ``validation.txt``, ``test.txt`` and ``unseen.txt`` hold global ids, ``<data set>/<id>``, one per line;
``split.json`` says where they come from. ``protocols.py`` draws splits.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from fpgm._version import __version__
from fpgm.data.catalog import CATALOG
from fpgm.data.names import abbreviate
from fpgm.files import check_name, read_file, write_text

PARTS = ("train", "validation", "test", "unseen")

# The paper calls 70, 140 and 280 of its 1,430 training images 5, 10 and 20 %; they are that of 1,400.
_PAPER_POOL = 1430
_PAPER_LABELED = {Fraction(5): 70, Fraction(10): 140, Fraction(20): 280}


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

    def __post_init__(self) -> None:
        count = Counter(id_ for part in self.parts().values() for id_ in part)
        if twice := [id_ for id_ in count if count[id_] > 1]:
            raise ValueError(f"{abbreviate(twice)}: twice in the lists; an image belongs to one part, once")
        if not 0 <= self.without_mask <= len(self.train):
            raise ValueError(f"{self.without_mask} images without a mask cannot be: train has {len(self.train)} images")

    @property
    def name(self) -> str:
        """What its folder in a store is called."""
        return split_name(self.protocol, self.seed, self.left_out)

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

    def labeled(self, spec: str | int) -> list[str]:
        """Return the labelled set: ``"70"`` images or ``"5%"`` of the train images that have masks.

        Larger sets contain smaller ones. Percentages are rounded down, apart from the paper's own three.
        """
        return list(self.train[: self._labeled_count(str(spec).strip())])

    def unlabeled(self, spec: str | int) -> list[str]:
        """Return the rest of train."""
        return list(self.train[len(self.labeled(spec)) :])

    def _labeled_count(self, spec: str) -> int:
        percent = re.fullmatch(r"([0-9]+(\.[0-9]+)?)%", spec)
        if not (percent and Fraction(percent[1]) <= 100) and not re.fullmatch("[0-9]+", spec):
            raise ValueError(f"labelled images are given as a number or a percentage such as 70 or 5%, not {spec!r}")
        pool = len(self.train) - self.without_mask
        if percent:
            count = Fraction(percent[1]) * pool // 100
            if pool == _PAPER_POOL:
                count = _PAPER_LABELED.get(Fraction(percent[1]), count)
        else:
            count = int(spec)
        if not 1 <= count <= pool:
            raise ValueError(f"{spec} labelled images are {count}, but train has {pool} with masks; give 1 to {pool}")
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
        )
        if (folder / "split.json").exists() and _read_card(folder).sha256 != card.sha256:
            raise ValueError(f"{folder} holds another split; choose another --out, or delete that folder")
        for name, text in texts.items():
            write_text(folder / name, text)
        write_text(folder / "split.json", card.model_dump_json(indent=2) + "\n")

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
        )


def split_name(protocol: str, seed: int, left_out: str = "") -> str:
    """Return the name of a split's folder: ``strict-0``, or ``hospitals-etis-0`` where hospital ETIS is left out."""
    return "-".join([protocol, *([slug(left_out)] if left_out else []), str(seed)])


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
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise ValueError(f"{path}: {where}: {first['msg']}; make the split again with `fpgm data split`") from None


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
