"""Options of ``fpgm reproduce`` → the runs of tables or of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fpgm.data.splits.split import Split
    from fpgm.experiments.folds import Fold
    from fpgm.experiments.plan import Cell
    from fpgm.experiments.plan_file import Plan


@dataclass(frozen=True)
class Runs:
    """What is to be computed: the runs, their splits by name, and the plan if it is one's."""

    cells: list[Cell]
    splits: dict[str, Split]
    plan: Plan | None = None


def words(texts: Sequence[str] | None) -> list[str] | None:
    """Return the words of an option that takes commas as well as spaces, None for none."""
    return [word.strip() for text in texts or () for word in text.split(",") if word.strip()] or None


def runs_of_tables(
    table: str, data: Path, out: Path, given: Mapping[str, Any], settings: Sequence[str], *, save: bool
) -> Runs:
    """Return the runs of a table.

    Args:
        table: name of the table, or "all" for the paper's.
        data: the store.
        out: folder of the runs.
        given: the options preset, protocol, splits, draws, methods, labeled, seeds, iterations, as they were given.
        settings: `key=value` for all runs.
        save: whether splits that are missing are saved.
    """
    from fpgm.experiments.folds import find_split
    from fpgm.experiments.plan import PAPER, check, plan

    folds = _folds(table, data, given)
    steps, rows = _iterations(given["iterations"])
    cells = plan(
        PAPER if table == "all" else [table],  # type: ignore[list-item]  # the command line has checked it
        store=data,
        out=out,
        folds=folds,
        preset=given["preset"] or "paper",
        methods=words(given["methods"]),
        labeled=words(given["labeled"]),
        seeds=_seeds(given["seeds"]) or None,
        settings=[*settings, *steps],
        iterations=rows,
    )
    check(cells)
    splits = {fold.split: find_split(data, fold, save=save) for fold in folds}
    return _checked(Runs(cells, splits))


def runs_of_plan(file: Path, data: Path, out: Path, given: Mapping[str, Any], *, save: bool) -> Runs:
    """Return the runs of a plan; of the options only the methods may be others."""
    from fpgm.experiments.folds import find_split
    from fpgm.experiments.plan import check
    from fpgm.experiments.plan_file import PLAN, read_plan, write_plan

    if surplus := [name for name, value in given.items() if value and name != "methods"]:
        raise ValueError(f"the plan {file} says the {surplus[0]}: leave --{surplus[0]} out")
    plan = read_plan(file)
    splits = plan.check_store(data)
    cells = plan.cells(data, out, words(given["methods"]))
    check(cells)
    if save:
        for fold in plan.folds:
            find_split(data, fold, save=True)
        write_plan(out / PLAN, plan)
    return _checked(Runs(cells, splits, plan))


def save_plan(file: Path, table: str, data: Path, given: Mapping[str, Any], settings: Sequence[str]) -> Plan:
    """Write the plan that the options make, and return it."""
    from fpgm.experiments.plan import COMPARISONS, LABELED, SEEDS, rows_of
    from fpgm.experiments.plan_file import make_plan, write_plan

    if table not in COMPARISONS:
        raise ValueError(f"a plan compares methods: --save-plan goes with main and hospitals, not with {table}")
    steps, rows = _iterations(given["iterations"])
    folds = _folds(table, data, given)
    axes = {
        "preset": given["preset"] or "paper",
        "protocols": list(dict.fromkeys(fold.protocol for fold in folds)),
        "hospitals": list(dict.fromkeys(fold.left_out for fold in folds if fold.left_out)),
        "splits": list(dict.fromkeys(fold.seed for fold in folds)),
        "draws": list(dict.fromkeys(fold.draw for fold in folds)),
        "labeled": words(given["labeled"]) or LABELED[table],
        "seeds": _seeds(given["seeds"]) or SEEDS[table],
        "methods": words(given["methods"]) or [variant.name for variant in rows_of(table)],
        "iterations": rows,
        "settings": [*settings, *steps],
    }
    plan = make_plan(file.stem, data, axes)
    for cell in plan.cells(data, file.parent):
        cell.config()  # refuses what makes no run
    write_plan(file, plan)
    return plan


def _folds(table: str, store: Path, given: Mapping[str, Any]) -> list[Fold]:
    """Return the splits of a table."""
    from fpgm.experiments.folds import hospital_folds, make_folds

    if table != "hospitals":
        seeds, draws = _seeds(given["splits"]) or [0], _seeds(given["draws"]) or [0]
        return make_folds(given["protocol"] or ["paper"], seeds, draws)
    if wrong := [name for name in ("protocol", "splits", "draws") if given[name]]:
        raise ValueError(f"the table hospitals has splits of its own: leave --{wrong[0]} out")
    return hospital_folds(store)


def _checked(runs: Runs) -> Runs:
    for name, share in dict.fromkeys((cell.split, cell.labeled) for cell in runs.cells):
        runs.splits[name].labeled(share)  # refuses what it cannot give
    return runs


def _seeds(texts: Sequence[str] | None) -> list[int]:
    seeds = words(texts) or []
    if wrong := [word for word in seeds if not word.isdecimal()]:
        raise ValueError(f"a seed is a whole number, 0 or more, not {wrong[0]!r}")
    return list(dict.fromkeys(map(int, seeds)))


def _iterations(texts: Sequence[str] | None) -> tuple[list[str], dict[str, int]]:
    """Return the setting of all rows, if there is one, and the numbers of single rows."""
    settings, rows = [], dict[str, int]()
    for word in words(texts) or []:
        row, equals, number = word.rpartition("=")
        if not number.isdecimal() or int(number) < 1 or (equals and not row):
            raise ValueError(f"--iterations takes a number, or ROW=NUMBER for one row, not {word!r}")
        if equals:
            rows[row] = int(number)
        else:
            settings = [f"train.iterations={number}"]
    return settings, rows
