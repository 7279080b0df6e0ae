"""All runs side by side, whatever their settings: a row each, what differs in columns, Dice with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fpgm.report.reading.groups import Group, Row, rank
from fpgm.report.reading.paper import DATASETS, METHODS
from fpgm.report.tables.formats import Cell, Line, Table
from fpgm.report.tables.score_table import ABSENT, INTERVALS, dice_summary, interval
from fpgm.runs.scores import Scores

_NAMES = {
    "labeled": "labelled",
    "preset": "preset",
    "size": "pixels",
    "split": "split",
}  # of the settings that groups differ in
OTHER = "*"
READING = (
    "Dice in percent, mean over the images.",
    INTERVALS,
    f"`{OTHER}`: scored on other images of the set than the first row that has it, for instance by another split; "
    "such figures are not to be compared.",
)


def overview_table(groups: Sequence[Group]) -> Table | None:
    """Return the table of all rows of all groups; None of a single row."""
    rows = [(group, row) for group in groups for row in group.rows]
    if len(rows) < 2:
        return None
    settings = [_settings(group, row) for group, row in rows]
    shown = [key for key in dict.fromkeys(key for one in settings for key in one) if _differs(settings, key)]
    shown = [key for key in shown if key != "method"]
    sets = sorted({name for _, row in rows for name in _sets(row)}, key=lambda name: (rank(name, DATASETS), name))
    first: dict[str, tuple[str, ...]] = {}
    lines, records = [], []
    for (_, row), own in zip(rows, settings, strict=True):
        cells = [Cell(str(own["method"])), *(Cell(_plain(own.get(key))) for key in shown)]
        cells.append(Cell(", ".join(map(str, row.seeds))))
        for name in sets:
            scores = row.scores(name)
            cells.append(_cell(scores, first, name))
            records += _record(own, shown, row, name, scores)
        lines.append(Line(tuple(cells)))
    header = (
        "method",
        *(_NAMES.get(key, key.removeprefix("arguments.").removeprefix("train.")) for key in shown),
        "seeds",
        *sets,
    )
    left = 2 + len(shown)
    return Table("overview", "All runs side by side", header, tuple(lines), (), READING, (), left, tuple(records))


def _settings(group: Group, row: Row) -> dict[str, Any]:
    """Return the name of the method, and all settings that can tell rows apart."""
    around = {key: getattr(group.setting, key) for key in _NAMES}
    return {"method": METHODS.get(row.method, row.method), **around, **row.settings}


def _differs(settings: Sequence[Mapping[str, Any]], key: str) -> bool:
    """Whether a setting tells rows apart; an argument of a method does so among the rows of that method alone."""
    of = [one for one in settings if key in one]
    alike = of if key.startswith("arguments.") else settings
    return any(one.get(key) != alike[0].get(key) for one in alike)


def _sets(row: Row) -> set[str]:
    return {name for result in row.results for name in result.scores}


def _cell(scores: Mapping[int, Scores], first: dict[str, tuple[str, ...]], name: str) -> Cell:
    if not scores:
        return Cell(ABSENT)
    ids = next(iter(scores.values())).ids
    other = OTHER if set(first.setdefault(name, ids)) != set(ids) else ""
    found = dice_summary(scores)
    return Cell(f"{100 * found.mean:.1f}{other}", interval=interval(found))


def _record(
    own: Mapping[str, Any], shown: Sequence[str], row: Row, name: str, scores: Mapping[int, Scores]
) -> list[dict[str, Any]]:
    if not scores:
        return []
    found = dice_summary(scores)
    figures = {"dice": found.mean, "low": found.low, "high": found.high, "images": found.count}
    settings = {key: _plain(own.get(key)) for key in shown}
    seeds = " ".join(map(str, row.seeds))
    return [{"method": own["method"], **settings, "seeds": seeds, "dataset": name, **figures}]


def _plain(value: Any) -> str:
    return ABSENT if value is None else str(value)
