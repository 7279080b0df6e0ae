"""A plan as a file that others run unchanged: which methods on which splits, draws and seeds, and of which data.

The file is YAML. What it says is data: it names methods, but imports none (see `fpgm.plugins`). Its hash names the
plan; the folder of its runs has a copy, ``plan.yaml``, and is with it an entry of a leaderboard.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fpgm.config import Preset
from fpgm.data.batches.pool import Pool
from fpgm.data.names import abbreviate
from fpgm.data.splits.split import Split
from fpgm.data.store import open_stores
from fpgm.experiments.folds import Fold, find_split, make_folds
from fpgm.experiments.plan import Cell, plan
from fpgm.files import check_name
from fpgm.methods.arguments import explain
from fpgm.plugins import is_reference
from fpgm.runs.config import load_yaml, write_config

PLAN = "plan.yaml"
Numbers = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1, max_length=1000)]
Texts = Annotated[tuple[str, ...], Field(min_length=1, max_length=1000)]


class Plan(BaseModel):
    """``plan.yaml``: a comparison of methods.

    Attributes:
        name: name of the plan.
        preset: source of the defaults of all runs.
        protocols: protocols of the splits.
        hospitals: hospitals that protocol `hospitals` leaves out, one at a time.
        splits: seeds of the splits.
        draws: numbers of the draws of the labelled images of each split.
        labeled: numbers or percentages of the training images whose masks are used.
        seeds: seeds of the training.
        methods: rows of the comparison, by name.
        iterations: number of steps by row; a row that is not here has that of the settings.
        settings: `key=value` for all runs.
        size: side of the images in pixels.
        data: hash of each data set, see `Pool.sha256`.
        lists: hash of the lists of each split.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["fpgm-plan-1"] = "fpgm-plan-1"
    name: str
    preset: Preset
    protocols: Annotated[tuple[Literal["paper", "strict", "hospitals"], ...], Field(min_length=1)]
    hospitals: tuple[str, ...] = ()
    splits: Numbers
    draws: Numbers
    labeled: Texts
    seeds: Numbers
    methods: Texts
    iterations: dict[str, Annotated[int, Field(ge=1)]] = {}
    settings: tuple[str, ...] = ()
    size: int
    data: dict[str, str]
    lists: dict[str, str]

    @property
    def sha256(self) -> str:
        """Hash of what the plan says, however the file is written."""
        record = self.model_dump(mode="json", exclude=None if self.hospitals else {"hospitals"})  # old plans lack it
        text = json.dumps(record, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def folds(self) -> list[Fold]:
        """The splits and draws."""
        return make_folds(self.protocols, self.splits, self.draws, self.hospitals)

    def cells(self, store: Path, out: Path, methods: Sequence[str] | None = None) -> list[Cell]:
        """Return the runs of the plan.

        Args:
            store: the prepared data.
            out: folder of all runs.
            methods: other rows than those of the plan, as a user names them; all else is as the plan says.
        """
        return plan(
            ["main"],
            store=store,
            out=out,
            folds=self.folds,
            preset=self.preset,
            methods=methods or self.methods,
            labeled=self.labeled,
            seeds=self.seeds,
            settings=self.settings,
            iterations={row: count for row, count in self.iterations.items() if methods is None or row in methods},
        )

    def check_store(self, store: Path) -> dict[str, Split]:
        """Return the splits of the plan by name; refuse a store with other images, and lists that differ."""
        known, here = self.data, data_hashes(store)
        if other := sorted(name for name in known.keys() | here.keys() if known.get(name) != here.get(name)):
            raise ValueError(
                f"{store} does not hold the data of the plan {self.name}: {abbreviate(other)} differ; it needs "
                f"{', '.join(known)} prepared with --size {self.size}"
            )
        splits = {fold.split: find_split(store, fold, save=False) for fold in self.folds}
        if other := [name for name, split in splits.items() if lists_sha256(split) != self.lists.get(name)]:
            raise ValueError(
                f"the split {other[0]} of {store} is not that of the plan {self.name}: remove {store / 'splits'}, "
                "and it is drawn anew"
            )
        return splits


def make_plan(name: str, store: Path, axes: Mapping[str, object]) -> Plan:
    """Return the plan of a store.

    Args:
        name: name of the plan.
        store: the prepared data.
        axes: the other fields of `Plan`, but for size, data and lists.
    """
    stores = open_stores(store)
    record = {**axes, "name": name, "size": next(iter(stores.values())).size, "data": data_hashes(store), "lists": {}}
    made = _check(record, "the options")
    lists = {fold.split: lists_sha256(find_split(store, fold, save=False)) for fold in made.folds}
    return made.model_copy(update={"lists": lists})


def write_plan(path: Path, made: Plan) -> None:
    """Write a plan; a folder's plan that is another is refused."""
    if path.is_file() and read_plan(path).sha256 != made.sha256:
        raise ValueError(f"{path} is of another plan: give another --out")
    write_config(path, made.model_dump(mode="json"))


def read_plan(path: Path) -> Plan:
    """Read a plan that may have come from others."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no plan {path}; `fpgm reproduce … --save-plan FILE` writes one")
    return _check(load_yaml(path), str(path))


def data_hashes(store: Path) -> dict[str, str]:
    """Return a hash of the images of each data set of a store."""
    stores = open_stores(store)
    return {name: Pool(stores, [f"{name}/{one}" for one in found.ids]).sha256() for name, found in stores.items()}


def lists_sha256(split: Split) -> str:
    """Return a hash of the four lists of a split."""
    return hashlib.sha256(json.dumps(split.parts()).encode()).hexdigest()


def _check(record: object, source: str) -> Plan:
    try:
        made = Plan.model_validate(record)
    except ValidationError as error:
        raise ValueError(f"{source} do not make a plan: {explain(error)}") from None
    check_name(made.name, f"the name in {source}")
    if modules := [name for name in made.methods if is_reference(name)]:
        raise ValueError(
            f"{source}: a plan names methods, not modules, so that it imports no code: install the package of "
            f"{modules[0]}, or run the plan with --methods {modules[0]}"
        )
    if ("hospitals" in made.protocols) != bool(made.hospitals):
        raise ValueError(f"{source}: protocol hospitals and the hospitals to leave out go together; give both or none")
    if strange := [row for row in made.iterations if row not in made.methods]:
        raise ValueError(f"{source}: iterations of {abbreviate(strange)}, which is none of the methods")
    return made
