"""``fpgm data verify``: prepared data sets against the fingerprints of the public ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from fpgm.cli.terminal import console, print_json

if TYPE_CHECKING:
    from fpgm.data.fingerprint import Difference

_COLOURS = {"ok": "green", "differs": "bold red", "absent": "dim"}
_SHOWN = 8  # differences per data set in the terminal
_PROBLEMS = ("missing", "altered", "renamed", "foreign", "unknown")


def verify(*, data: Path, datasets: list[str] | None = None, json: bool = False) -> int:
    """Compare prepared data sets with the fingerprints of the public ones.

    Says which images are missing, altered, renamed, or belong to another data set, and whether data.h5 is as it was
    written. The exit code is 1 if any are, or if it is not.

    Args:
        data: folder of prepared data sets.
        datasets: names of the data sets to verify; all if not given.
        json: print JSON for programs.
    """
    from fpgm.data.fingerprint import find_differences
    from fpgm.data.store import open_stores

    stores = open_stores(data, datasets)
    found = {
        name: find_differences(name, store.ids, store.dhash, store.foreground.tolist())
        for name, store in stores.items()
    }
    changed = [name for name, store in stores.items() if store.is_changed()]
    _show_verify(found, {name: len(store) for name, store in stores.items()}, changed, json)
    return int(any(found.values()) or bool(changed))


def _show_verify(
    found: Mapping[str, Sequence[Difference]], sizes: Mapping[str, int], changed: Sequence[str], json: bool
) -> None:
    """Print a row per data set, then the first differences of each."""
    from fpgm.data.fingerprint import reference

    public = Counter(row.dataset for row in reference())
    if json:
        rows = {name: list(map(asdict, differences)) for name, differences in found.items()}
        ok, absent = not (any(found.values()) or changed), [name for name in public if name not in found]
        return print_json(ok=ok, differences=rows, changed=changed, absent=absent)
    table = Table("data set", title="Compared with the public data sets", title_justify="left")
    for column in ("images", "public", *_PROBLEMS):
        table.add_column(column, justify="right")
    table.add_column("verdict")
    for name in dict.fromkeys([*found, *public]):
        count = Counter[str](difference.problem for difference in found.get(name, ()))
        verdict = "absent" if name not in found else "differs" if count or name in changed else "ok"
        numbers = (sizes.get(name, 0), public.get(name, 0), *(count[problem] for problem in _PROBLEMS))
        table.add_row(name, *map(str, numbers), Text(verdict, _COLOURS[verdict]))
    output = console()
    output.print(table)
    for name in changed:
        output.print(f"{name}: data.h5 is not as it was written; prepare it again", highlight=False)
    for differences in found.values():
        for difference in differences[:_SHOWN]:
            name = f"{difference.dataset}/{difference.id}"
            output.print(f"{name}: {difference.problem}: {difference.detail}", highlight=False, markup=False)
        if more := len(differences[_SHOWN:]):
            output.print(f"… and {more} more; --json lists all", highlight=False)
