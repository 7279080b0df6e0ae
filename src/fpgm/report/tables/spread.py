"""How much a score varies: over seeds of the training, draws of the labelled images, and splits, each by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fpgm.report.reading.groups import Group, Row, Setting, labels, rank
from fpgm.report.reading.paper import DATASETS
from fpgm.report.tables.formats import Cell, Line, Table, join
from fpgm.report.tables.score_table import ABSENT, NOTICE
from fpgm.runs.results import Result

READING = (
    "Dice in percent, by `penalise`. The mean is over seeds, then over draws, then over splits.",
    "`seeds`: standard deviation over seeds of the training, same split, same labelled images. `draws`: over draws of "
    "the labelled images of one split, each the mean of its seeds. `splits`: over splits, each the mean of its draws. "
    "The first and the second are averaged as variances over draws and splits. Each holds what is left of the one "
    "before: few seeds make draws look wider.",
    f"{ABSENT}: there are not two of them. Below the number of runs: splits × draws × seeds.",
)
_KINDS = ("seeds", "draws", "splits")


class Place(NamedTuple):
    """Which split, which draw of its labelled images, and which seed of the training."""

    split: int
    draw: int
    seed: int


@dataclass(frozen=True)
class Spread:
    """A mean, and standard deviations over seeds, draws and splits; NaN where there are not two."""

    mean: float
    seeds: float
    draws: float
    splits: float


def spread(values: Mapping[Place, float]) -> Spread:
    """Take the mean of nested values and their standard deviation at each level."""
    runs: dict[tuple[int, int], list[float]] = {}
    for place, value in values.items():
        runs.setdefault((place.split, place.draw), []).append(value)
    draws: dict[int, list[float]] = {}
    for (split, _), own in runs.items():
        draws.setdefault(split, []).append(float(np.mean(own)))
    splits = [float(np.mean(own)) for own in draws.values()]
    mean = float(np.mean(splits)) if splits else np.nan
    return Spread(mean, _deviation(runs.values()), _deviation(draws.values()), _deviation([splits]))


def spread_tables(groups: Sequence[Group]) -> list[Table]:
    """Make a table for each setting that was computed on several splits, draws or protocols."""
    families: dict[Setting, list[Group]] = {}
    for group in groups:
        if not group.left_out:
            shared = group.setting._replace(protocol="", split="", split_seed=0, image_set=1)
            families.setdefault(shared, []).append(group)
    tables = []
    for setting, family in families.items():
        if len(family) > 1:
            results = [result for group in family for row in group.rows for result in row.results]
            name = "_".join(["spread", *setting.slug.split("_")[:1], *setting.slug.split("_")[2:]])
            share = f"{setting.labeled} labelled, {setting.steps}"
            facts = [f"Preset {setting.preset}, {setting.size} × {setting.size} pixels."]
            tables.append(spread_table(name, f"Spread over seeds, draws and splits, {share}", results, facts))
    return tables


def spread_table(
    name: str, title: str, results: Iterable[Result], facts: Sequence[str] = (), *, ranked: bool = False
) -> Table:
    """Make the table of some runs: a line for each row and protocol.

    Args:
        name: name of its files.
        title: title.
        results: evaluated runs of one share of labels.
        facts: what is to be known of them.
        ranked: put the highest mean first, and take the method alone for the name of a row.
    """
    rows: dict[str, list[Result]] = {}
    for result in results:
        rows.setdefault(result.method if ranked else Row((result,)).key, []).append(result)
    names = list(rows) if ranked else labels([Row(tuple(own)) for own in rows.values()])
    every = [result for own in rows.values() for result in own]
    datasets = sorted({name for one in every for name in one.scores}, key=lambda one: (rank(one, DATASETS), one))
    lines = [
        _measure(label, protocol, [one for one in own if one.protocol == protocol], datasets)
        for label, own in zip(names, rows.values(), strict=True)
        for protocol in dict.fromkeys(one.protocol for one in own)
    ]
    if ranked:
        lines.sort(key=lambda line: -np.nan_to_num(line.mean.mean, nan=-1.0))
    columns = ("Dice ↑", *_KINDS)
    seen = {name: next(one.scores[name] for one in every if name in one.scores).label(name) for name in datasets}
    return Table(
        name=name,
        title=title,
        header=("", "protocol", *columns, "runs", *columns * len(datasets)),
        lines=tuple(line.cells() for line in lines),
        facts=tuple(facts),
        reading=(*([NOTICE] if any(one.startswith("phantom") for one in datasets) else []), *READING),
        heads=(("", 2), ("mean over data sets", 5), *((seen[name], 4) for name in datasets)),
        left=2,
        records=tuple(record for line in lines for record in line.records()),
    )


class _Measured(NamedTuple):
    """The figures of a line."""

    label: str
    protocol: str
    runs: list[Result]
    mean: Spread
    sets: dict[str, Spread]

    def cells(self) -> Line:
        """Write the line."""
        count = len(self.runs)
        seeds, draws, splits = (len({getattr(_place(one), part) for one in self.runs}) for part in _PARTS)
        runs = Cell(str(count), f"= {splits} × {draws} × {seeds}" if count == splits * draws * seeds else "")
        figures = [cell for one in self.sets.values() for cell in _cells(one)]
        return Line((Cell(self.label), Cell(self.protocol), *_cells(self.mean), runs, *figures))

    def records(self) -> list[dict[str, object]]:
        """Return the lines of the CSV file."""
        return [
            {"row": self.label, "protocol": self.protocol, "dataset": name, "runs": len(self.runs)} | vars(one)
            for name, one in {"all": self.mean, **self.sets}.items()
        ]


_PARTS = ("seed", "draw", "split")


def _measure(label: str, protocol: str, runs: list[Result], datasets: Sequence[str]) -> _Measured:
    """Compute the figures of a row under a protocol; the mean over data sets needs all of them."""
    dice = {
        name: {_place(one): 100 * float(np.mean(one.scores[name].values["dice"])) for one in runs if name in one.scores}
        for name in datasets
    }
    whole = [place for place in map(_place, runs) if all(place in own for own in dice.values())]
    means = {place: float(np.mean([own[place] for own in dice.values()])) for place in whole}
    return _Measured(label, protocol, runs, spread(means), {name: spread(own) for name, own in dice.items()})


def _place(result: Result) -> Place:
    return Place(result.split_seed, result.draw, result.seed)


def _cells(own: Spread) -> list[Cell]:
    figures = (own.mean, *(getattr(own, kind) for kind in _KINDS))
    return [Cell(ABSENT if np.isnan(value) else f"{value:.2f}") for value in figures]


def _deviation(families: Iterable[Sequence[float]]) -> float:
    """Standard deviation within families of values: root of the mean of their variances."""
    variances = [np.var(own, ddof=1) for own in families if len(own) > 1]
    return float(np.sqrt(np.mean(variances))) if variances else np.nan


def describe_axes(results: Sequence[Result]) -> str:
    """Say which splits, draws and seeds runs have."""
    places = [_place(one) for one in results]
    parts = {name: sorted({getattr(place, name) for place in places}) for name in ("split", "draw", "seed")}
    return "; ".join(f"{name}s {join(numbers)}" for name, numbers in parts.items())
