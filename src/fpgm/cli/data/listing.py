"""``fpgm data list``: the known data sets, and which of them are here."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from fpgm.cli.terminal import console, print_json

if TYPE_CHECKING:
    from fpgm.data.raw.layouts import Found
    from fpgm.data.store import Store


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
        ready = {name: store_summary(entry) for name, entry in stores.items()}
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


def _found_cell(entry: Found | None) -> str:
    return f"{len(entry.pairs)}, {entry.layout}" if entry else "-"


def _store_cell(entry: Store | None) -> str:
    return "{pairs} pairs, {unlabeled} unlabelled, {size} px".format(**store_summary(entry)) if entry else "-"


def store_summary(entry: Store) -> dict[str, int]:
    """Count the images of a prepared data set."""
    pairs = int(entry.has_mask.sum())
    return {"pairs": pairs, "unlabeled": len(entry) - pairs, "size": entry.size}
