"""``fpgm data prepare``: from raw pictures to a store."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from fpgm.cli.terminal import console, print_json, progress_bars, worker_count

if TYPE_CHECKING:
    from fpgm.data.manifest import Manifest
    from fpgm.data.raw.groups import Grouping
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
    groups: str | None = None,
    size: int = 256,
    keep_empty: bool = False,
    no_keep_empty: bool = False,
    replace: bool = False,
    workers: int | None = None,
    strict: bool = False,
    json: bool = False,
) -> int:
    """Turn downloaded data sets, or your own folders of images and masks, into a store.

    Give either --root, or --images with --masks, or --unlabeled, or the last three together; --unlabeled also goes
    with a --root that holds one data set. Folders below folders are read, and folders train, val and test are kept as
    the split. It first shows what it recognised, and at the end what it left out and why. A second run prepares only
    what has changed.

    Args:
        out: folder of the store to write.
        root: folder that holds downloaded data sets in any of the known layouts.
        images: folder of your own images.
        masks: folder of their masks, with the same names; 0/255 or 0/1. It may be that of the images if masks are
            called X_mask.
        unlabeled: folder of your own images without masks.
        name: name of your own data, or of the one data set under --root.
        datasets: names of the data sets under --root to prepare; all if not given.
        groups: CSV file with the columns name and group, such as patients or videos, whose images a split keeps
            together; or the word folder, by which each folder of images is a group.
        size: side of the prepared images in pixels.
        keep_empty: keep frames whose masks are empty, as frames without polyps, also in public data sets.
        no_keep_empty: leave frames out whose masks are empty, also in your own data.
        replace: prepare anew what is in the store, even if images vanish or change.
        workers: number of processes that decode; one for each processor if not given.
        strict: exit with 1 if anything was left out or a data set is incomplete.
        json: print JSON for programs.
    """
    from fpgm.data.parallel import Workers
    from fpgm.data.raw.layouts import find_datasets, unread_files
    from fpgm.data.raw.prepare import prepare as prepare_dataset

    start = time.perf_counter()
    if keep_empty and no_keep_empty:
        raise ValueError("give --keep-empty or --no-keep-empty, not both")
    keep = True if keep_empty else False if no_keep_empty else None
    found, grouping = _group(find_datasets(root, images, masks, unlabeled, name, datasets), groups)
    unread = unread_files(found, everywhere=datasets is None)
    if not json:
        _show_found(found, unread, grouping)
    with Workers(worker_count(workers)) as pool, progress_bars() as bar:
        outcomes = [
            prepare_dataset(entry, out, size, pool, bar(entry.name), keep_empty=keep, replace=replace)
            for entry in found
        ]
    _show_outcomes(outcomes, found, out, time.perf_counter() - start, unread if json else None)
    if useless := [outcome for outcome in outcomes if outcome.manifest is None]:
        hints = "".join(f"; {hint}" for outcome in useless for hint in outcome.hints)
        names = ", ".join(outcome.name for outcome in useless)
        raise ValueError(f"nothing usable in {names}; nothing was written for it{hints}")
    return int(strict and any(outcome.problems for outcome in outcomes))


def _group(found: Sequence[Found], groups: str | None) -> tuple[list[Found], Grouping | None]:
    """Give the images their groups."""
    from fpgm.data.raw.groups import set_groups

    return set_groups(found, groups) if groups else (list(found), None)


def _show_found(found: Sequence[Found], unread: Mapping[str, int], grouping: Grouping | None) -> None:
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
        if parts := entry.parts():
            shown = ", ".join(f"{count} {part}" for part, count in parts.items())
            output.print(f"{entry.name} has a split of its own: {shown}", highlight=False, markup=False)
    if grouping:
        output.print(f"groups: {grouping.sentence()}", highlight=False, markup=False, soft_wrap=True)
    if unread:
        output.print(f"not read: {_unread(unread)}", highlight=False, markup=False, soft_wrap=True)


def _unread(unread: Mapping[str, int]) -> str:
    """Write how many files of which kinds were not read, and what would help."""
    from fpgm.data.pictures import DICOM, readable

    missing = DICOM - readable()
    kinds = [
        f"{count} {kind} (of no data set above)" if kind in readable() else f"{count} {kind}"
        for kind, count in unread.items()
    ]
    return ", ".join(kinds) + ("; DICOM needs pip install 'fpgm[dicom]'" if missing & unread.keys() else "")


def _show_outcomes(
    outcomes: Sequence[Outcome],
    found: Sequence[Found],
    out: Path,
    seconds: float,
    unread: Mapping[str, int] | None,
) -> None:
    """Print what was prepared and what was left out; as JSON if the count of unread files is given."""
    if unread is not None:
        rows = [_outcome_record(outcome, entry) for outcome, entry in zip(outcomes, found, strict=True)]
        return print_json(store=str(out), datasets=rows, unread=unread, seconds=round(seconds, 2))
    table = Table("data set", title=f"Prepared in {out}, {seconds:.1f} s", title_justify="left")
    for column in ("pairs", "without polyp", "unlabelled", "left out", "foreground"):
        table.add_column(column, justify="right")
    table.add_column("state")
    for outcome in outcomes:
        manifest = outcome.manifest
        numbers = (manifest.pairs, _empty(manifest), manifest.unlabeled) if manifest else (0, 0, 0)
        left_out = sum(1 for problem in outcome.problems if problem.file)
        table.add_row(outcome.name, *map(str, (*numbers, left_out, _share(outcome))), outcome.status)
    output = console()
    output.print(table)
    for outcome, entry in zip(outcomes, found, strict=True):
        if 0 < outcome.decoded < len(entry.pairs):
            output.print(f"{outcome.name}: {outcome.decoded} images decoded, the others had not changed")
        if outcome.problems:
            output.print(_problem_table(outcome))
        for hint in outcome.hints if outcome.manifest else ():
            output.print(f"check {outcome.name}: {hint}", highlight=False, soft_wrap=True)


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
    counts["empty"] = _empty(manifest) if manifest else 0
    state = {"name": outcome.name, "status": outcome.status, "layout": found.layout, "note": found.note}
    groups = len({pair.group for pair in found.pairs if pair.group})
    more = {"parts": found.parts(), "groups": groups, "hints": outcome.hints, "decoded": outcome.decoded}
    return {**state, **counts, **more, "problems": [asdict(p) for p in outcome.problems]}


def _empty(manifest: Manifest) -> int:
    """Count the frames without polyps."""
    return sum(row.foreground == 0 for row in manifest.images)


def _share(outcome: Outcome) -> str:
    """Return the mean foreground share; 0 or 100 % would mean that masks were read wrongly."""
    rows = outcome.manifest.images if outcome.manifest else ()
    shares = [row.foreground for row in rows if row.foreground is not None]
    return f"{sum(shares) / len(shares):.1%}" if shares else "-"
