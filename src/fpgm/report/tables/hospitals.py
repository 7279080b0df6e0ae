"""Unseen hospitals: each was left out of the training once, and methods are compared on the one they never saw.

A fold is a group of runs whose split leaves one hospital out; folds that share all other settings make one table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fpgm.report.reading.groups import Group, Row, Setting, labels, rank
from fpgm.report.reading.paper import COPIES, DATASETS
from fpgm.report.reading.studies import Study
from fpgm.report.tables.formats import Cell, Line, Table, join
from fpgm.report.tables.score_table import (
    ABSENT,
    CHOICE,
    INTERVALS,
    NAMES,
    Figure,
    dice_summary,
    interval,
    is_best,
    missed_of_all,
    notice,
    summed_up,
)
from fpgm.report.tables.significance import READING as TESTS
from fpgm.report.tables.significance import comparison, comparison_table, corrected
from fpgm.runs.scores import Scores, false_alarms, missed, pooled, without_polyp

BySeed = Mapping[int, Scores]
MEAN, SEEN = "mean over unseen hospitals", "seen hospitals, test images"
READING = (
    "Each hospital was left out of training and validation once and scored with all its images. Dice is in percent, by "
    "`penalise`, over the images of all its data sets together.",
    f"`{MEAN}` is the mean of these columns, so that hospitals weigh equally, and then of the seeds; `a ± b` is mean "
    "and standard deviation over seeds, there of the mean over hospitals. `a (b)` is mean and standard deviation over "
    "images, in a row of one seed. The best is bold.",
    INTERVALS,
    f"`{SEEN}`: the test images of the hospitals that were trained on, averaged over folds and seeds in the same way.",
    "`missed` counts images in which nothing was found although there is a polyp, `false alarms` images without a "
    "polyp in which one was found, all seeds together, and below the mean all hospitals together.",
    CHOICE,
)
POOLED = (
    "The test takes the images of all unseen hospitals together, so that a hospital weighs by its number of images."
)


@dataclass(frozen=True, eq=False)
class HospitalRow:
    """A variant of a method, and its runs by the hospital that they left out."""

    label: str
    rows: Mapping[str, Row]

    @property
    def method(self) -> str:
        """Name of the method."""
        return next(iter(self.rows.values())).method

    def scores(self, fold: Group, *, unseen: bool) -> dict[int, Scores]:
        """Return the scores by seed on the hospital that a fold left out, or on the test images of the others."""
        row = self.rows.get(fold.left_out)
        return row.pooled_scores(counted(fold, unseen=unseen)) if row else {}


@dataclass(frozen=True)
class HospitalStudy:
    """Folds that differ in the hospital alone, in the paper's order, and the rows that any of them has."""

    folds: tuple[Group, ...]
    rows: tuple[HospitalRow, ...]
    reference: HospitalRow  # the row that the others are tested against
    notes: tuple[str, ...]

    @property
    def setting(self) -> Setting:
        """What all folds share; a star stands for the hospital in the name of the split."""
        one = self.folds[0].setting
        return one._replace(split=f"{one.protocol}-*-{one.split_seed}")

    def scores(self, row: HospitalRow, *, unseen: bool) -> list[dict[int, Scores]]:
        """Return the scores of a row by seed, in each fold."""
        return [row.scores(fold, unseen=unseen) for fold in self.folds]


class Column(NamedTuple):
    """What one row has in one column: scores by seed, and the Dice that they sum up to."""

    place: str
    unseen: bool
    scores: BySeed
    dice: Figure


def counted(fold: Group, *, unseen: bool) -> list[str]:
    """Return the data sets of a fold without those whose images are frames of another one that is there."""
    datasets = fold.datasets(unseen=unseen, later=False)
    return [name for name in datasets if COPIES.get(name) not in datasets]


def hospital_studies(groups: Sequence[Group], studies: Sequence[Sequence[Study]]) -> list[HospitalStudy]:
    """Put the folds together that differ in the hospital alone.

    Args:
        groups: all groups of a report.
        studies: studies of each group; the rows and the reference of the first, which compares methods, are taken.
    """
    families: dict[Setting, dict[str, tuple[Group, Study]]] = {}
    notes: dict[Setting, list[str]] = {}
    for group, (main, *_) in zip(groups, studies, strict=True):
        if not group.left_out:
            continue
        shared = group.setting._replace(split="")
        twin, _ = families.setdefault(shared, {}).setdefault(group.left_out, (group, main))
        if twin is not group:
            told = f"Split {group.setting.split} leaves out {group.left_out} as {twin.setting.split} does"
            notes.setdefault(shared, []).append(f"{told}, and is not in this table.")
    return [_study(list(folds.values()), notes.get(shared, [])) for shared, folds in families.items()]


def hospital_table(study: HospitalStudy) -> Table:
    """Make the table: rows by hospitals, their mean, and the test images of hospitals that were seen."""
    made = {row.label: _columns(study, row) for row in study.rows}
    alarms = any(_without_polyp(column.scores) for columns in made.values() for column in columns if column.unseen)
    names = [NAMES["dice"], "missed", *(["false alarms"] if alarms else [])]
    heads = [(fold.left_out, len(names)) for fold in study.folds] + [(MEAN, len(names)), (SEEN, 1)]
    lines = []
    for label, columns in made.items():
        cells = [Cell(label, f"· {_seeds(columns)}")]
        for place, column in enumerate(columns):
            best = is_best(column.dice, [others[place].dice for others in made.values()], "dice")
            told = interval(dice_summary(column.scores)) if place < len(study.folds) else ""
            cells.append(Cell(column.dice.text, column.dice.spread, best, told))
            counts = [missed_of_all(column.scores), _alarms_of_all(column.scores)][: len(names) - 1]
            cells += map(Cell, counts if column.unseen else ())
        lines.append(Line(tuple(cells)))
    return Table(
        name=f"hospitals_{study.setting.slug}",
        title=f"Unseen hospitals, each left out of the training once, {study.setting.labeled} labelled",
        header=("", *names * (len(study.folds) + 1), NAMES["dice"]),
        lines=tuple(lines),
        facts=tuple(_facts(study, made, alarms)),
        reading=(*notice(study.folds[0]), *READING),
        heads=(("", 1), *heads),
        records=tuple(_record(study, row, column) for row in study.rows for column in made[row.label]),
    )


def hospital_significance(study: HospitalStudy) -> Table | None:
    """Test the reference against each other row, image by image over all folds; None where nothing can be tested."""
    reference = study.reference
    ours = _together(study.scores(reference, unseen=True))
    others = [row for row in study.rows if row is not reference]
    found = {
        row.label: comparison("all unseen hospitals", row.label, ours, _together(study.scores(row, unseen=True)))
        for row in others
    }
    comparisons = corrected(found.values())
    if not comparisons:
        return None
    untested = [f"{label}: no seed that both have in all folds" for label, one in found.items() if not one]
    return comparison_table(
        comparisons,
        reference.label,
        study.setting,
        name="hospitals",
        where="unseen hospitals",
        facts=[f"Missing: {join(untested)}."] if untested else [],
        reading=(*notice(study.folds[0]), POOLED, *TESTS),
    )


def _study(folds: Sequence[tuple[Group, Study]], notes: Sequence[str]) -> HospitalStudy:
    ordered = sorted(folds, key=lambda pair: (min(_ranks(pair[0])), pair[0].left_out))
    rows: dict[str, dict[str, Row]] = {}
    for group, main in ordered:
        for entry in main.entries:
            rows.setdefault(entry.row.key, {})[group.left_out] = entry.row
    made = sorted(rows.values(), key=lambda by_hospital: next(iter(by_hospital.values())).order)
    names = labels([next(iter(by_hospital.values())) for by_hospital in made])
    hospital_rows = [HospitalRow(label, by_hospital) for label, by_hospital in zip(names, made, strict=True)]
    tested = {main.reference.row for _, main in ordered if main.reference}
    reference = next((row for row in hospital_rows if tested & {*row.rows.values()}), hospital_rows[0])
    return HospitalStudy(tuple(group for group, _ in ordered), tuple(hospital_rows), reference, tuple(notes))


def _ranks(fold: Group) -> list[int]:
    """Places of the unseen data sets in the paper's order."""
    return [rank(name, DATASETS) for name in fold.datasets(unseen=True, later=False)] or [len(DATASETS)]


def _columns(study: HospitalStudy, row: HospitalRow) -> list[Column]:
    """Each hospital that was left out, their mean, and the test images of hospitals that were seen."""
    unseen, seen = study.scores(row, unseen=True), study.scores(row, unseen=False)
    return [
        *(
            Column(fold.left_out, True, one, summed_up(one, "dice"))
            for fold, one in zip(study.folds, unseen, strict=True)
        ),
        Column(MEAN, True, _together(unseen), _across(unseen)),
        Column(SEEN, False, _together(seen), _across(seen)),
    ]


def _common_seeds(by_fold: Sequence[BySeed]) -> list[int]:
    """The seeds that were scored in all folds."""
    return [seed for seed in by_fold[0] if all(seed in one for one in by_fold)]


def _together(by_fold: Sequence[BySeed]) -> dict[int, Scores]:
    """The images of all folds, of the seeds that were scored in each."""
    return {seed: pooled([one[seed] for one in by_fold]) for seed in _common_seeds(by_fold)}


def _across(by_fold: Sequence[BySeed]) -> Figure:
    """Mean Dice over folds and seeds, and its deviation over seeds, of the seeds that were scored in all folds."""
    seeds = _common_seeds(by_fold)
    if not seeds:
        return Figure(np.nan, np.nan, "seeds")
    means = 100 * np.array([[one[seed].values["dice"].mean() for one in by_fold] for seed in seeds]).mean(1)
    return Figure(float(means.mean()), float(means.std(ddof=1)) if len(seeds) > 1 else np.nan, "seeds")


def _without_polyp(by_seed: BySeed) -> int:
    return sum(map(without_polyp, by_seed.values()))


def _alarms(by_seed: BySeed) -> int | None:
    """Count false alarms of all seeds together; None where every image has a polyp."""
    known = [count for one in by_seed.values() if (count := false_alarms(one)) is not None]
    return sum(known) if known else None


def _alarms_of_all(by_seed: BySeed) -> str:
    """Write false alarms / images without a polyp, of all seeds together."""
    alarms = _alarms(by_seed)
    return ABSENT if alarms is None else f"{alarms}/{_without_polyp(by_seed)}"


def _seeds(columns: Sequence[Column]) -> str:
    seeds = sorted({seed for column in columns for seed in column.scores})
    return f"seed{'s' if len(seeds) > 1 else ''} {join(seeds)}"


def _images(study: HospitalStudy, fold: Group, dataset: str) -> int:
    """Count the images of a data set, which are the same in all rows."""
    every = (one for row in study.rows if (own := row.rows.get(fold.left_out)) for one in own.scores(dataset).values())
    return len(next(every).ids)


def _facts(study: HospitalStudy, made: Mapping[str, Sequence[Column]], alarms: bool) -> list[str]:
    images, copies = [], []
    for fold in study.folds:
        names = counted(fold, unseen=True)
        told = join([f"{name} {_images(study, fold, name)}" for name in names])
        images.append(told if names == [fold.left_out] else f"{fold.left_out} ({told})")
        copies += [name for name in fold.datasets(unseen=True, later=False) if name not in names]
    return [
        f"{study.setting.sentence}.",
        f"Unseen images: {join(images)}.",
        *(f"{name} is not counted here: its images are frames of {COPIES[name]}." for name in copies),
        _missing(study, made),
        *study.notes,
        *([] if alarms else ["Every image has a polyp: false alarms are not measurable."]),
    ]


def _missing(study: HospitalStudy, made: Mapping[str, Sequence[Column]]) -> str:
    """Say which folds, rows and seeds are not there."""
    seen = dict.fromkeys(name for fold in study.folds for name in fold.datasets(unseen=False))
    unseen = {name for fold in study.folds for name in fold.datasets(unseen=True, later=False)}
    absent = [name for name in seen if name not in unseen]
    parts = [f"no run that leaves out the hospital of {join(absent)}"] if absent else []
    seeds = sorted({seed for columns in made.values() for column in columns for seed in column.scores})
    lacking: dict[str, list[str]] = {}
    for label, columns in made.items():
        for column in columns[: len(study.folds)]:
            if rest := [seed for seed in seeds if seed not in column.scores]:
                lacking.setdefault(f"seed {join(rest)} of {label}", []).append(column.place)
    parts += [f"{what} on {join(hospitals)}" for what, hospitals in lacking.items()]
    return f"Missing: {'; '.join(parts)}." if parts else "No cell is missing."


def _record(study: HospitalStudy, row: HospitalRow, column: Column) -> dict[str, Any]:
    """A cell for programs."""
    every = column.scores.values()
    return {
        "table": "hospitals",
        **study.setting._asdict(),
        "row": row.label,
        "method": row.method,
        "place": column.place,
        "unseen": column.unseen,
        "images": len(next(iter(every)).ids) if every else 0,
        "seeds": " ".join(map(str, column.scores)),
        "metric": "dice",
        "on_empty": "penalise",
        "mean": column.dice.mean,
        "sd": column.dice.sd,
        "sd_over": column.dice.over,
        "missed": sum(map(missed, every)),
        "false_alarms": _alarms(column.scores),
        "without_polyp": _without_polyp(column.scores),
    }
