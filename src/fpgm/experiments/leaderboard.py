"""Entries of a leaderboard: folders of runs of one plan, whose scores are computed again from the masks submitted.

An entry needs no weights and no code of others. Of each run it has ``config.yaml``, ``model/model.json``,
``metrics.csv`` and ``evaluation/``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fpgm.config import resolve
from fpgm.data.batches.pool import Pool
from fpgm.data.names import abbreviate
from fpgm.data.splits.split import Split
from fpgm.data.store import Store, open_stores
from fpgm.evaluation.run import held_out
from fpgm.evaluation.scoring import score
from fpgm.experiments.folds import Fold
from fpgm.experiments.plan_file import PLAN, Plan, read_plan
from fpgm.files import check_inside, check_name
from fpgm.runs.card import read_card
from fpgm.runs.config import flatten
from fpgm.runs.evaluation import read_masks
from fpgm.runs.results import Result, read_result
from fpgm.runs.scores import COLUMNS, Row, Scores

CLOSE = 1e-6  # what a score may differ by from the one computed again
_FREE = ("version", "method", "departs", "data.store", "data.workers", "train.iterations", "train.precision")
Advance = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Entry:
    """A folder with a plan: the runs that hold, with scores of our own, and a sentence for each that does not."""

    folder: Path
    plan: Plan
    results: tuple[Result, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class _Expected:
    """A run that the plan asks for."""

    folder: Path
    row: str
    fold: Fold
    labeled: str
    seed: int


def check_entry(folder: Path, store: Path, advance: Advance = lambda row, done, total: None) -> Entry:
    """Check all runs of an entry against the plan and the store.

    Args:
        folder: folder that `fpgm reproduce --plan` wrote.
        store: one's own store of the plan's data, whose masks are the truth.
        advance: called with the folder, the number of runs that are checked, and of all.
    """
    plan = read_plan(folder / PLAN)
    splits, stores = plan.check_store(store), open_stores(store)
    expected = list(_expected(folder, plan))
    if not expected:
        raise ValueError(f"{folder} holds no run of its plan {plan.name}")
    results, problems = [], []
    for number, one in enumerate(expected):
        advance(folder.name, number, len(expected))
        try:
            results.append(_check_run(one, plan, splits[one.fold.split], stores))
        except (ValueError, OSError) as error:
            problems.append(f"{one.folder.relative_to(folder)}: {error}")
    complete = {row for row in {one.row for one in expected} if _runs_of(row, results) == _count(plan)}
    dropped = sorted({one.row for one in expected} - complete)
    if dropped:
        problems.append(f"{abbreviate(dropped)}: not all of the plan's {_count(plan)} runs hold, so it has no place")
    kept = tuple(replace(one, config={**one.config, "method": _row(one)}) for one in results if _row(one) in complete)
    return Entry(folder, plan, kept, tuple(problems))


def _expected(folder: Path, plan: Plan) -> Iterator[_Expected]:
    """Yield the runs that the plan asks for, of each row that the folder has."""
    places = [
        (fold, share, folder / fold.folder / plan.preset / share.replace("%", "pct"))
        for fold in plan.folds
        for share in plan.labeled
    ]
    rows = sorted({path.name for _, _, place in places for path in place.glob("*") if path.is_dir()})
    for row in rows:
        check_name(row, f"a row of {folder}")
        for fold, share, place in places:
            for seed in plan.seeds:
                yield _Expected(place / row / f"seed-{seed}", row, fold, share, seed)


def _check_run(one: _Expected, plan: Plan, split: Split, stores: Mapping[str, Store]) -> Result:
    """Return a run with scores of our own, or say why it does not hold."""
    check_inside(one.folder, one.folder.parents[4])
    result = read_result(one.folder)
    _check_settings(result, one, plan)
    if read_card(one.folder / "model").training.get("train_sha256") != split.train_sha256():
        raise ValueError("it was trained on other images than those of the plan's split")
    sets = held_out(split)
    if missing := sets.keys() - result.scores.keys():
        raise ValueError(f"it has no scores of {abbreviate(sorted(missing))}")
    scores = {}
    for name, held in sets.items():
        if result.scores[name].ids != held.ids:
            raise ValueError(f"its images of {name} are not those of the plan's split")
        scores[name] = _scored_again(one.folder, name, Pool(stores, held.ids), result.scores[name])
    return replace(result, scores=scores)


def _check_settings(result: Result, one: _Expected, plan: Plan) -> None:
    """Refuse a run whose settings around the method are not the plan's; its method and arguments are its own."""
    data = {"store": Path(), "split": one.fold.split, "labeled": one.labeled}
    usual = [setting for setting in plan.settings if not setting.startswith("method.")]
    wanted = resolve(plan.preset, "supervised", data, [*usual, f"train.seed={one.seed}"])
    steps = plan.iterations.get(one.row, wanted.train.iterations)
    expected = flatten(wanted.model_dump(mode="json", exclude={"arguments"}))
    own = flatten({key: value for key, value in result.config.items() if key != "arguments"})
    changed = [
        f"{key} is {own.get(key)!r}, not {expected.get(key)!r}"
        for key in sorted(expected.keys() | own.keys())
        if key not in _FREE and own.get(key) != expected.get(key)
    ]
    changed += [f"train.iterations is {result.iterations}, not {steps}"] if result.iterations != steps else []
    if changed:
        raise ValueError(f"its settings are not the plan's: {abbreviate(changed)}")


def _scored_again(run: Path, name: str, pool: Pool, theirs: Scores) -> Scores:
    """Score the masks of a data set, and refuse them if the scores submitted are others."""
    masks = read_masks(run, name, pool.size, len(pool))
    if len(masks) != len(pool):
        raise ValueError(f"it has {len(masks)} masks of {name}, which has {len(pool)} images")
    rows: list[Row] = []
    for index, (id_, mask) in enumerate(zip(pool.ids, masks, strict=True)):
        rows.append(score((id_, mask, pool.masks(np.array([index]))[0])).row)
    values = {column: np.array([getattr(row, column) for row in rows]) for column in COLUMNS[1:]}
    for column, own in values.items():
        wrong = np.flatnonzero(~np.isclose(own, theirs.values[column], rtol=0, atol=CLOSE, equal_nan=True))
        if len(wrong):
            raise ValueError(
                f"its scores are not those of its masks: {column} of {pool.ids[wrong[0]]} is "
                f"{own[wrong[0]]:.6g}, and it says {theirs.values[column][wrong[0]]:.6g}"
            )
    return Scores(pool.ids, values, theirs.unseen)


def _row(result: Result) -> str:
    """Return the row of a run, which the folder above its seed is called by."""
    return result.folder.parent.name


def _runs_of(row: str, results: list[Result]) -> int:
    return sum(_row(one) == row for one in results)


def _count(plan: Plan) -> int:
    return len(plan.folds) * len(plan.labeled) * len(plan.seeds)
