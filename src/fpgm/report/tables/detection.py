"""Missed polyps and false alarms by size, false alarms per frame, and calibration: polyp by polyp, set by set."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from fpgm.report.reading.groups import Group
from fpgm.report.reading.studies import Entry, Study
from fpgm.report.tables.formats import Cell, Line, Table, bracketed
from fpgm.report.tables.score_table import ABSENT, notice, table_name
from fpgm.runs.details import (
    NOT_MEASURABLE,
    SIZE_RULE,
    SIZES,
    EmptyFrames,
    SizeCount,
    count_by_size,
    count_empty_frames,
    expected_calibration_error,
)
from fpgm.runs.scores import Scores
from fpgm.runs.summary import share_interval

READING = (
    f"Polyps are connected parts of the true mask, pixels that touch at a corner included; {SIZE_RULE}. A polyp is "
    "`missed` if no pixel of it was found. A false alarm is a connected part of the prediction that touches no polyp; "
    "its size is its own.",
    "`[a, b] %` is the 95 % interval of the share that was missed, by Wilson, as if polyps were independent; those of "
    "one video, and one polyp by several seeds, are not, so that the true uncertainty is larger.",
    f"False alarms per frame are those on frames without a polyp; `{NOT_MEASURABLE}` where every frame has one.",
    "The calibration error is the expected calibration error of the foreground probability over all pixels, in 15 "
    "bins, in percent. Most pixels are certain background, so that even a poor calibration gives a small figure.",
)


def detection_table(group: Group, study: Study, *, unseen: bool) -> Table | None:
    """Make the table of a study, all seeds together; None where no run has details."""
    rows = [
        (entry, name, scores)
        for entry in study.entries
        for name in group.datasets(unseen=unseen)
        if (scores := [one for one in entry.row.scores(name).values() if one.details])
    ]
    if not rows:
        return None
    where = "unseen data sets" if unseen else "test sets"
    sizes = tuple(f"{size} ones missed" for size in SIZES) + tuple(f"{size} false alarms" for size in SIZES)
    return Table(
        name=f"polyps-{table_name(study, unseen)}_{group.setting.slug}",
        title=f"Polyp by polyp: {where}, {group.setting.labeled} labelled",
        header=("", "data set", *sizes, "false alarms per frame without a polyp", "calibration error %"),
        lines=tuple(_line(*row) for row in rows),
        facts=(f"{group.setting.sentence}; all seeds together.",),
        reading=(*notice(group), *READING),
        left=2,
        records=tuple({**group.setting._asdict(), **_record(*row)} for row in rows),
    )


def _counts(scores: Sequence[Scores]) -> tuple[dict[str, SizeCount], EmptyFrames, float]:
    """Counts by size and on frames without a polyp, of all seeds, and the calibration error averaged over seeds."""
    sizes = [count_by_size(one.details) for one in scores]
    empty = [count_empty_frames(one.details) for one in scores]
    return (
        {size: SizeCount(*map(sum, zip(*(one[size] for one in sizes), strict=True))) for size in SIZES},
        EmptyFrames(*map(sum, zip(*empty, strict=True))),
        fmean(expected_calibration_error(one.details) for one in scores),
    )


def _line(entry: Entry, name: str, scores: Sequence[Scores]) -> Line:
    sizes, empty, error = _counts(scores)
    missed = [_missed(one) for one in sizes.values()]
    alarms = [Cell(str(one.alarms)) for one in sizes.values()]
    rate = Cell(NOT_MEASURABLE) if empty.rate is None else Cell(f"{empty.rate:.2f}", f"of {empty.frames}")
    return Line((Cell(entry.label), Cell(scores[0].label(name)), *missed, *alarms, rate, Cell(f"{100 * error:.2f}")))


def _missed(one: SizeCount) -> Cell:
    """Missed polyps of all, with the interval of their share in percent."""
    if not one.polyps:
        return Cell(ABSENT)
    low, high = share_interval(one.missed, one.polyps)
    return Cell(f"{one.missed}/{one.polyps}", interval=f"{bracketed(100 * low, 100 * high)} %")


def _record(entry: Entry, name: str, scores: Sequence[Scores]) -> dict[str, Any]:
    """A row for programs; what cannot be measured is empty."""
    sizes, empty, error = _counts(scores)
    counts = {f"{size}_{key}": value for size, one in sizes.items() for key, value in one._asdict().items()}
    return {
        "row": entry.label,
        "method": entry.row.method,
        "dataset": name,
        "after_training": scores[0].after_training,
        "seeds": len(scores),
        **counts,
        "frames_without_polyp": empty.frames,
        "false_alarms_per_frame": "" if empty.rate is None else empty.rate,
        "calibration_error": error,
    }
