"""Studies: the rows of a group that answer one question of the paper."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fpgm.report.reading.groups import Group, Row, labels
from fpgm.report.reading.paper import LOSSES, METHODS, PRIORS

REFERENCE = "fpgm"
_TERMS = ("unsup", "feature", "freq")


@dataclass(frozen=True)
class Entry:
    """A row under the name it has in this study; `theirs` is the paper's name for it."""

    label: str
    theirs: str
    row: Row


@dataclass(frozen=True)
class Study:
    """A question and its rows."""

    name: str
    title: str
    entries: tuple[Entry, ...]
    expected: tuple[str, ...]  # names of all rows that the paper, or another group, has
    reference: Entry | None = None  # the row that the others are tested against

    def missing(self) -> list[str]:
        """Return the names of the rows that are not here."""
        here = {entry.label for entry in self.entries} | {entry.theirs for entry in self.entries}
        return [name for name in self.expected if name not in here]


def studies(groups: Sequence[Group], reference: str = REFERENCE) -> list[list[Study]]:
    """Return the studies of each group; a row that one group has is expected of the others of its kind.

    Args:
        groups: groups of runs.
        reference: the method whose row the others are tested against where methods are compared.
    """
    made = [_studies(group, reference) for group in groups]
    for group, own in zip(groups, made, strict=True):
        for place, study in enumerate(own):
            others = [
                entry.label
                for other, theirs in zip(groups, made, strict=True)
                if (other.setting.phantom, bool(other.left_out)) == (group.setting.phantom, bool(group.left_out))
                for twin in theirs
                if twin.name == study.name
                for entry in twin.entries
            ]
            own[place] = replace(study, expected=tuple(dict.fromkeys([*study.expected, *others])))
    return made


def _studies(group: Group, reference: str) -> list[Study]:
    rows = [row for row in group.rows if row.method == "fpgm"]
    families = _families(list(filter(_is_loss_row, rows)), _TERMS)
    loss = [_loss(family, _supervised(group.rows, family)) for family in families]
    prior = [_prior(family) for family in _families(rows, ("prior",))]
    sweeps = [row for row in rows if isinstance(row.arguments.get("gamma"), int | float) and row.arguments["freq"]]
    gamma = [_gamma(family) for family in _families(sweeps, ("gamma",))]
    aside = [
        entry.row
        for study in (*loss, *prior, *gamma)
        for entry in study.entries
        if study.reference and entry is not study.reference and entry.row.method == "fpgm"
    ]
    numbered = []
    for family in (loss, prior, gamma):
        numbered += [replace(study, name=f"{study.name}-{n}") if n > 1 else study for n, study in enumerate(family, 1)]
    return [_main([row for row in group.rows if row not in aside], group, reference), *numbered]


def _main(rows: Sequence[Row], group: Group, reference: str) -> Study:
    """Compare methods; the paper's figures of FPGM belong to the released recipe where a row has it."""
    released = [row for row in rows if row.method == "fpgm" and row.departures == ["arguments.recipe"]]
    entries = []
    for label, row in zip(labels(rows), rows, strict=True):
        theirs = METHODS.get(row.method, label)
        other = bool(released) and row.method == "fpgm" and row not in released
        entries.append(Entry(label, "" if other else theirs, row))
    expected = METHODS.values() if group.is_papers else ()
    tested = next((entry for entry in entries if entry.row.method == reference), None)
    return Study("main", "Methods", tuple(entries), tuple(expected), tested)


def _loss(family: Sequence[Row], supervised: Row | None) -> Study:
    entries = {LOSSES[0]: Entry(LOSSES[0], LOSSES[0], supervised)} if supervised else {}
    for row in family:
        terms = [f"L_{name}" for name in ("unsup", "freq") if row.arguments[name]]
        name = " + ".join(["L_sup", *terms])
        entries[name] = Entry(name, name, row)
    ordered = tuple(entries[name] for name in LOSSES if name in entries)
    title = "Loss terms of FPGM" + _beside(family, _TERMS)
    return Study("ablation-loss", title, ordered, LOSSES, entries.get(LOSSES[-1]))


def _prior(family: Sequence[Row]) -> Study:
    entries = {row.arguments["prior"]: row for row in family}
    ordered = [Entry(name, name, entries[key]) for key, name in PRIORS.items() if key in entries]
    reference = ordered[-1] if "learned" in entries else None
    title = "Prior of FPGM" + _beside(family, ("prior",))
    return Study("ablation-prior", title, tuple(ordered), tuple(PRIORS.values()), reference)


def _gamma(family: Sequence[Row]) -> Study:
    rows = sorted(family, key=lambda row: float(row.arguments["gamma"]))
    entries = tuple(Entry(f"γ = {row.arguments['gamma']}", "", row) for row in rows)
    reference = next((entry for entry in entries if "arguments.gamma" not in entry.row.departures), None)
    return Study("gamma", "Guidance strength γ of FPGM" + _beside(family, ("gamma",)), entries, (), reference)


def _is_loss_row(row: Row) -> bool:
    """Whether each term has the preset's weight or none; other weights are variants like any other.

    The feature term of the released recipe is part of its L_unsup: both are there or neither.
    """
    tied = row.arguments.get("recipe") != "released" or bool(row.arguments["feature"]) == bool(row.arguments["unsup"])
    return tied and all(row.arguments.get(name) == 0 or f"arguments.{name}" not in row.departures for name in _TERMS)


def _supervised(rows: Sequence[Row], family: Sequence[Row]) -> Row | None:
    """Return the supervised row with the settings of a family beside the method: L_sup alone, if there is one."""
    wanted = _around(family[0])
    return next((row for row in rows if row.method == "supervised" and _around(row) == wanted), None)


def _around(row: Row) -> dict[str, Any]:
    """Return the settings of a row that are not arguments of its method."""
    return {key: value for key, value in row.settings.items() if not key.startswith("arguments.")}


def _families(rows: Sequence[Row], axis: Collection[str]) -> list[list[Row]]:
    """Put rows together, two or more, that differ in these arguments alone."""
    varied = {f"arguments.{name}" for name in axis}
    families: dict[str, list[Row]] = {}
    for row in rows:
        rest = {key: value for key, value in row.settings.items() if key not in varied}
        families.setdefault(json.dumps(rest, sort_keys=True), []).append(row)
    return [family for family in families.values() if len(family) > 1]


def _beside(family: Sequence[Row], axis: Collection[str]) -> str:
    """Say in which other arguments a family departs from its preset's."""
    names = [key.removeprefix("arguments.") for key in family[0].departures]
    others = [f"{name}={family[0].arguments[name]}" for name in names if name not in axis]
    return f" ({', '.join(others)})" if others else ""
