"""``fpgm data prepare``: from raw pictures to a store."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from fpgm.cli.terminal import console, print_json, progress_bars, worker_count

if TYPE_CHECKING:
    from fpgm.data.raw.layouts import Found
    from fpgm.data.raw.prepare import Outcome

_SHOWN = 40  # problems per data set in the terminal; the manifest and --json have all


def prepare(
    *,
    out: Path,
    root: Path | None = None,
    images: Path | None = None,
    masks: Path | None = None,
    unlabeled: Path | None = None,
    name: str | None = None,
    datasets: list[str] | None = None,
    size: int = 256,
    workers: int | None = None,
    strict: bool = False,
    json: bool = False,
) -> int:
    """Turn downloaded data sets, or your own folders of images and masks, into a store.

    Give either --root, or --images with --masks, or --unlabeled, or the last three together. It first shows what it
    recognised, and at the end what it left out and why. A second run prepares only what has changed.

    Args:
        out: folder of the store to write.
        root: folder that holds downloaded data sets in any of the known layouts.
        images: folder of your own images.
        masks: folder of their masks, with the same names; 0/255 or 0/1.
        unlabeled: folder of your own images without masks.
        name: name of your own data.
        datasets: names of the data sets under --root to prepare; all if not given.
        size: side of the prepared images in pixels.
        workers: number of processes that decode; one for each processor if not given.
        strict: exit with 1 if anything was left out or a data set is incomplete.
        json: print JSON for programs.
    """
    from fpgm.data.parallel import Workers
    from fpgm.data.raw.prepare import prepare as prepare_dataset

    start = time.perf_counter()
    found = _find(root, images, masks, unlabeled, name, datasets)
    if not json:
        _show_found(found)
    with Workers(worker_count(workers)) as pool, progress_bars() as bar:
        outcomes = [prepare_dataset(entry, out, size, pool, bar(entry.name)) for entry in found]
    _show_outcomes(outcomes, found, out, time.perf_counter() - start, json)
    if useless := [outcome.name for outcome in outcomes if outcome.manifest is None]:
        raise ValueError(f"nothing usable in {', '.join(useless)}; nothing was written for it")
    return int(strict and any(outcome.problems for outcome in outcomes))


def _find(
    root: Path | None,
    images: Path | None,
    masks: Path | None,
    unlabeled: Path | None,
    name: str | None,
    datasets: list[str] | None,
) -> list[Found]:
    """Recognise what the user pointed at."""
    from fpgm.data.raw.layouts import own_folders, recognise

    own = images or masks or unlabeled
    if (root is None) == (own is None):
        raise ValueError("give either --root RAW, or your own folders: --images DIR --masks DIR [--unlabeled DIR]")
    if root:
        return recognise(root, datasets)
    if not name:
        raise ValueError("your own data needs a --name")
    return [own_folders(name, images, masks, unlabeled)]


def _show_found(found: Sequence[Found]) -> None:
    """Print what was recognised, before any work."""
    from fpgm.data.catalog import CATALOG

    base = found[0].bases[0][1]
    table = Table(title=f"Recognised in {base}", title_justify="left")
    table.add_column("data set", no_wrap=True)
    for column in ("layout", "folder"):
        table.add_column(column, overflow="fold")
    for column in ("pairs", "unlabelled", "expected", "left out"):
        table.add_column(column, justify="right")
    for entry in found:
        free = sum(pair.mask is None for pair in entry.pairs)
        counts = CATALOG[entry.name].counts if entry.name in CATALOG else None
        numbers = len(entry.pairs) - free, free, counts.total if counts else "any", len(entry.problems)
        table.add_row(entry.name, entry.layout, entry.relative(entry.folder), *map(str, numbers))
    output = console()
    output.print(table)
    for entry in found:
        if entry.note:
            output.print(f"{entry.name}: {entry.note}", highlight=False, markup=False)


def _show_outcomes(outcomes: Sequence[Outcome], found: Sequence[Found], out: Path, seconds: float, json: bool) -> None:
    """Print what was prepared and what was left out."""
    if json:
        rows = [_outcome_record(outcome, entry) for outcome, entry in zip(outcomes, found, strict=True)]
        return print_json(store=str(out), datasets=rows, seconds=round(seconds, 2))
    table = Table("data set", title=f"Prepared in {out}, {seconds:.1f} s", title_justify="left")
    for column in ("pairs", "unlabelled", "left out", "foreground"):
        table.add_column(column, justify="right")
    table.add_column("state")
    for outcome in outcomes:
        manifest = outcome.manifest
        numbers = (manifest.pairs, manifest.unlabeled) if manifest else (0, 0)
        left_out = sum(1 for problem in outcome.problems if problem.file)
        table.add_row(outcome.name, *map(str, (*numbers, left_out, _share(outcome))), outcome.status)
    output = console()
    output.print(table)
    for outcome, entry in zip(outcomes, found, strict=True):
        if 0 < outcome.decoded < len(entry.pairs):
            output.print(f"{outcome.name}: {outcome.decoded} images decoded, the others had not changed")
        if outcome.problems:
            output.print(_problem_table(outcome))


def _problem_table(outcome: Outcome) -> Table:
    table = Table("what", "file", "why", title=f"Left out of {outcome.name}", title_justify="left")
    for problem in outcome.problems[:_SHOWN]:
        table.add_row(problem.kind, problem.file, problem.reason)
    if more := len(outcome.problems[_SHOWN:]):
        where = "manifest.json lists all" if outcome.manifest else "--json lists all"
        table.add_row("…", f"and {more} more", where)
    return table


def _outcome_record(outcome: Outcome, found: Found) -> dict[str, Any]:
    """Return an outcome as JSON."""
    manifest = outcome.manifest
    counts = {"pairs": manifest.pairs if manifest else 0, "unlabeled": manifest.unlabeled if manifest else 0}
    state = {"name": outcome.name, "status": outcome.status, "layout": found.layout, "note": found.note}
    return {**state, **counts, "decoded": outcome.decoded, "problems": [asdict(p) for p in outcome.problems]}


def _share(outcome: Outcome) -> str:
    """Return the mean foreground share; 0 or 100 % would mean that masks were read wrongly."""
    rows = outcome.manifest.images if outcome.manifest else ()
    shares = [row.foreground for row in rows if row.foreground is not None]
    return f"{sum(shares) / len(shares):.1%}" if shares else "-"
