"""``fpgm data list | prepare | synth``: from raw pictures, or from none, to a store."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.markup import escape
from rich.table import Table

from fpgm.cli.terminal import console, print_json, progress_bars

if TYPE_CHECKING:
    from fpgm.data.raw.layouts import Found
    from fpgm.data.raw.prepare import Outcome
    from fpgm.data.store import Store

_SHOWN = 40  # problems per data set in the terminal; the manifest and --json have all
_SHEET = 8  # phantoms per domain on the contact sheet


def list_(*, root: Path | None = None, store: Path | None = None, json: bool = False) -> None:
    """Show the known data sets, and which of them are in a folder.

    Args:
        root: folder of downloaded data sets to look into.
        store: folder of prepared data sets to look into.
        json: print JSON for programs.
    """
    from fpgm.data.catalog import CATALOG
    from fpgm.data.raw.layouts import recognise
    from fpgm.data.store import open_stores

    found = {entry.name: entry for entry in recognise(root)} if root else {}
    stores = open_stores(store) if store else {}
    if json:
        known = {name: asdict(entry) for name, entry in CATALOG.items()}
        here = {name: {"layout": entry.layout, "pairs": len(entry.pairs)} for name, entry in found.items()}
        ready = {name: _store_summary(entry) for name, entry in stores.items()}
        return print_json(catalog=known, found=here, prepared=ready)
    table = Table("data set", "role", title="Data sets (counts of Table 1)", title_justify="left")
    for column in ("images", "train", "val", "test"):
        table.add_column(column, justify="right")
    extra = [title for title, given in (("found", root), ("prepared", store)) if given]
    for column in extra:
        table.add_column(column, overflow="fold")
    for name in dict.fromkeys([*CATALOG, *found, *stores]):
        entry = CATALOG.get(name)
        counts = [str(count) for count in entry.counts] if entry and entry.counts else ["any", "", "", ""]
        cells = {"found": _found_cell(found.get(name)), "prepared": _store_cell(stores.get(name))}
        table.add_row(name, entry.role if entry else "your own", *counts, *(cells[title] for title in extra))
    output = console()
    output.print(table)
    for name, entry in CATALOG.items() if not extra else ():
        output.print(f"{name}: {entry.source}. {entry.licence}", highlight=False, markup=False, soft_wrap=True)


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

    Give either --root, or --images with --masks, or --unlabeled, or the last three together. What was recognised is
    shown first, what was left out and why at the end. A second run does only what has changed.

    Args:
        out: folder of the store to write.
        root: folder that holds downloaded data sets in any of the known layouts.
        images: folder of your own images.
        masks: folder of their masks, of the same names; 0/255 or 0/1.
        unlabeled: folder of your own images without masks.
        name: what to call your own data.
        datasets: names of the data sets under --root to prepare; all if not given.
        size: side of the prepared images in pixels.
        workers: processes that decode; as many as there are processors if not given.
        strict: exit with 1 if anything was left out or a data set is not complete.
        json: print JSON for programs.
    """
    from fpgm.data.parallel import Workers
    from fpgm.data.raw.prepare import prepare as prepare_dataset

    start = time.perf_counter()
    found = _find(root, images, masks, unlabeled, name, datasets)
    if not json:
        _show_found(found)
    with Workers(_count(workers)) as pool, progress_bars() as bar:
        outcomes = [prepare_dataset(entry, out, size, pool, bar(entry.name)) for entry in found]
    _show_outcomes(outcomes, found, out, time.perf_counter() - start, json)
    if useless := [outcome.name for outcome in outcomes if outcome.manifest is None]:
        raise ValueError(f"nothing usable in {', '.join(useless)}; nothing was written for it")
    return int(strict and any(outcome.problems for outcome in outcomes))


def synth(
    *,
    out: Path,
    count: int = 100,
    size: int = 128,
    seed: int = 0,
    variety: Literal["wide", "plain"] = "wide",
    domains: list[str] | None = None,
    workers: int | None = None,
    json: bool = False,
) -> None:
    """Draw the phantom: imaginary colonoscopy in six domains, needs no files.

    Writes a store like that of ``fpgm data prepare`` and phantoms.png, a contact sheet with the outlines of the masks.

    Args:
        out: folder of the store to write.
        count: images per domain.
        size: side of the images in pixels.
        seed: of the drawing; the same seed gives the same bytes.
        variety: wide, polyps of all sizes, forms and colours among bulges and bubbles that are none; or plain, polyps
            that resemble each other.
        domains: names of the domains, phantom-a to phantom-f; all if not given.
        workers: processes that draw; as many as there are processors if not given.
        json: print JSON for programs.
    """
    from fpgm.data.parallel import Workers
    from fpgm.data.store import open_stores
    from fpgm.data.synthetic import DOMAINS
    from fpgm.data.synthetic_store import build_phantom

    start, names = time.perf_counter(), list(dict.fromkeys(domains or DOMAINS))
    if unknown := [name for name in names if name not in DOMAINS]:
        raise ValueError(f"no phantom domain {', '.join(unknown)}; there are {', '.join(DOMAINS)}")
    with Workers(_count(workers)) as pool, progress_bars() as bar:
        for name in names:
            build_phantom(name, out, count, size, seed, pool, bar(name), variety)
    stores = open_stores(out, names)
    _sheet(stores, out / "phantoms.png")
    seconds = time.perf_counter() - start
    if json:
        ready = {name: _store_summary(entry) for name, entry in stores.items()}
        return print_json(store=str(out), seed=seed, prepared=ready, sheet=str(out / "phantoms.png"), seconds=seconds)
    text = f"{len(names)} x {count} phantoms of {size} x {size} written to {out} in {seconds:.1f} s"
    console().print(f"{text}; look at {out / 'phantoms.png'}", highlight=False, soft_wrap=True)


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


def _sheet(stores: dict[str, Store], path: Path) -> None:
    """Draw the first phantoms of each domain, one row each."""
    from fpgm.report.plots.contact_sheet import contact_sheet

    columns = min(_SHEET, *map(len, stores.values()))
    rows = [(store.images(range(columns)), store.masks(range(columns))) for store in stores.values()]
    images, masks = ([picture for row in rows for picture in row[side]] for side in (0, 1))
    captions = [name if column == 0 else "" for name in stores for column in range(columns)]
    contact_sheet(images, masks, path, columns, captions)


def _count(workers: int | None) -> int:
    return workers if workers is not None else os.cpu_count() or 1


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
        table.add_row(problem.kind, escape(problem.file), escape(problem.reason))
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
    """Return the mean foreground share: 0 or 100 % would tell of masks read wrongly."""
    rows = outcome.manifest.images if outcome.manifest else ()
    shares = [row.foreground for row in rows if row.foreground is not None]
    return f"{sum(shares) / len(shares):.1%}" if shares else "-"


def _found_cell(entry: Found | None) -> str:
    return f"{len(entry.pairs)}, {entry.layout}" if entry else "-"


def _store_cell(entry: Store | None) -> str:
    return "{pairs} pairs, {unlabeled} unlabelled, {size} px".format(**_store_summary(entry)) if entry else "-"


def _store_summary(entry: Store) -> dict[str, int]:
    pairs = int(entry.has_mask.sum())
    return {"pairs": pairs, "unlabeled": len(entry) - pairs, "size": entry.size}
