"""Groups of runs that may be compared, and their rows: runs that differ in the seed alone."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from fpgm.report.reading.paper import DATASETS, METHODS
from fpgm.runs.config import flatten
from fpgm.runs.results import Result
from fpgm.runs.scores import Scores, pooled

# Settings that say where, how often or under which seed, or that a group shares anyway: they make no other row.
_NO_VARIANT = {
    "version",
    "departs",
    "preset",
    "method",
    "data.store",
    "data.split",
    "data.labeled",
    "data.workers",
    "train.seed",
    "train.save_every",
    "train.log_every",
    "train.pictures_every",
}


class Setting(NamedTuple):
    """What all runs of a table share; runs that differ in any of it stand in different tables."""

    phantom: bool
    protocol: str
    split: str
    split_seed: int
    preset: str
    iterations: int | None  # None: any, each row names its own
    size: int
    labeled: str
    image_set: int  # 1, or more where equal settings were scored on different images

    def __str__(self) -> str:
        seed = "" if self.split.endswith(f"-{self.split_seed}") else f" of seed {self.split_seed}"
        parts = [
            f"{self.labeled} labelled",
            f"protocol {self.protocol} (split {self.split}{seed})",
            f"preset {self.preset}, {self.steps}",
            f"{self.size} × {self.size} pixels",
        ]
        parts += ["phantom images"] if self.phantom else []
        return ", ".join([*parts, f"image set {self.image_set}"] if self.image_set > 1 else parts)

    @property
    def steps(self) -> str:
        """The number of iterations in words."""
        return "iterations by row" if self.iterations is None else f"{self.iterations:,} iterations"

    @property
    def sentence(self) -> str:
        """The same with a capital, without the stop."""
        return str(self)[:1].upper() + str(self)[1:]

    @property
    def slug(self) -> str:
        """A name for files."""
        split = self.split if self.split.startswith(self.protocol) else f"{self.protocol}-{self.split}"
        split = split.replace("*", "all")  # of a table over several splits
        parts = [self.labeled.replace("%", "pct"), split, self.preset, str(self.iterations or "any"), str(self.size)]
        parts += ["phantom"] if self.phantom else []
        return "_".join([*parts, f"images{self.image_set}"] if self.image_set > 1 else parts)


@dataclass(frozen=True, eq=False)
class Row:
    """Runs that differ in their seed alone, in its order."""

    results: tuple[Result, ...]

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.results[0].method

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the method."""
        return dict(self.results[0].config.get("arguments") or {})

    @property
    def seeds(self) -> list[int]:
        """Seeds of the runs."""
        return [result.seed for result in self.results]

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All settings that make this row another than its neighbours, with dotted names."""
        return variant_settings(self.results[0])

    @cached_property
    def key(self) -> str:
        """What its runs have in common; the same in all groups."""
        return _key(self.results[0])

    @property
    def order(self) -> tuple[Any, ...]:
        """Its place in a table: methods in the paper's order, plain FPGM before its variants."""
        return rank(self.method, METHODS), self.method, bool(self.departures)

    @property
    def departures(self) -> list[str]:
        """The keys of the method's arguments that depart from the preset's."""
        return [key for key in self.results[0].config["departs"] if key.startswith("arguments.")]

    def scores(self, dataset: str) -> dict[int, Scores]:
        """Return the scores by seed of the runs that were evaluated on a data set."""
        return {result.seed: result.scores[dataset] for result in self.results if dataset in result.scores}

    def pooled_scores(self, datasets: Sequence[str]) -> dict[int, Scores]:
        """Return the scores by seed on all images of some data sets, of the runs that were evaluated on each."""
        return {
            result.seed: pooled([result.scores[name] for name in datasets])
            for result in self.results
            if datasets and all(name in result.scores for name in datasets)
        }


@dataclass(frozen=True)
class Group:
    """The rows that may be compared, in the paper's order, and what was left out."""

    setting: Setting
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    @property
    def left_out(self) -> str:
        """The hospital that protocol `hospitals` kept unseen; none in other protocols."""
        return self.rows[0].results[0].left_out

    @property
    def is_papers(self) -> bool:
        """Whether the paper has such runs: of its data sets, with no hospital left out."""
        return not self.left_out and bool({*self.datasets(unseen=False), *self.datasets(unseen=True)} & DATASETS.keys())

    def datasets(self, *, unseen: bool, later: bool = True) -> list[str]:
        """Return the data sets that some row was scored on, in the paper's order.

        Args:
            unseen: the unseen ones, or those with test images.
            later: also those that came after the training.
        """
        found = {
            name
            for row in self.rows
            for result in row.results
            for name, scores in result.scores.items()
            if scores.unseen == unseen and (later or not scores.after_training)
        }
        return sorted(found, key=lambda name: (rank(name, DATASETS), name))


def grouped(results: Iterable[Result], *, any_iterations: bool = False) -> list[Group]:
    """Put runs together that may be compared: equal settings, and the same images of each data set.

    Args:
        results: evaluated runs.
        any_iterations: whether those of different numbers of iterations may, as at equal time.
    """
    members: dict[Setting, list[Result]] = {}
    images: dict[Setting, dict[str, frozenset[str]]] = {}
    for result in results:
        own = {name: frozenset(scores.ids) for name, scores in result.scores.items()}
        for number in itertools.count(1):
            setting = _setting(result, number, any_iterations)
            known = images.setdefault(setting, {})
            if all(known.get(name, ids) == ids for name, ids in own.items()):
                known.update(own)
                members.setdefault(setting, []).append(result)
                break
    return [_group(setting, members[setting]) for setting in sorted(members, key=_order)]


def labels(rows: Sequence[Row]) -> list[str]:
    """Name rows by method and whatever tells them apart.

    Of FPGM, the arguments that depart from the preset's; of another method, those in which its rows differ; of the
    settings around the method, those in which any rows differ.
    """
    around = _differing(rows, arguments=False)
    names = []
    for row in rows:
        alike = [other for other in rows if other.method == row.method]
        shown = row.departures if row.method == "fpgm" else _differing(alike, arguments=True)
        told = ", ".join(f"{key.removeprefix('arguments.')}={row.settings.get(key)}" for key in [*shown, *around])
        name = METHODS.get(row.method, row.method)
        names.append(f"{name} ({told})" if told else name)
    return names


def variant_settings(result: Result) -> dict[str, Any]:
    """Flatten a configuration to the settings that make a row another one."""
    flat = flatten(result.config)
    return {key: value for key, value in flat.items() if key not in _NO_VARIANT}


def rank(name: str, order: Mapping[str, str]) -> int:
    """Return the place in the paper's order; what the paper does not know comes last."""
    return list(order).index(name) if name in order else len(order)


def _key(result: Result) -> str:
    return json.dumps([result.method, variant_settings(result)], sort_keys=True)


def _setting(result: Result, image_set: int, any_iterations: bool) -> Setting:
    return Setting(
        phantom=any(name.startswith("phantom") for name in result.scores),
        protocol=result.protocol,
        split=result.split,
        split_seed=result.split_seed,
        preset=result.preset,
        iterations=None if any_iterations else result.iterations,
        size=result.size,
        labeled=result.labeled,
        image_set=image_set,
    )


def _order(setting: Setting) -> tuple[Any, ...]:
    """Real images before phantoms; 5 % before 10 %."""
    share = re.match(r"[0-9.]+", setting.labeled)
    return (
        *setting[:5],
        setting.iterations or 0,
        setting.size,
        float(share[0]) if share else 0.0,
        setting.labeled,
        setting.image_set,
    )


def _group(setting: Setting, results: Sequence[Result]) -> Group:
    rows: dict[str, dict[int, Result]] = {}
    notes = []
    for result in results:
        row = rows.setdefault(_key(result), {})
        if result.seed in row:
            notes.append(f"{result.folder} has the settings and the seed of {row[result.seed].folder} and was left out")
        else:
            row[result.seed] = result
    made = [Row(tuple(row[seed] for seed in sorted(row))) for _, row in sorted(rows.items())]
    made.sort(key=lambda row: row.order)
    return Group(setting, tuple(made), tuple(notes))


def _differing(rows: Sequence[Row], *, arguments: bool) -> list[str]:
    keys = dict.fromkeys(key for row in rows for key in row.settings if key.startswith("arguments.") == arguments)
    return [key for key in keys if any(row.settings.get(key) != rows[0].settings.get(key) for row in rows)]
