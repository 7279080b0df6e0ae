"""``fpgm data audit``: duplicates, shared videos and patients between data sets, or between the parts of a split."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from fpgm.cli.terminal import console, print_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fpgm.data.splits.audit import Overlap
    from fpgm.data.splits.duplicates import Evidence
    from fpgm.data.store import Store
    from fpgm.report.pages.audit import Section

_COLOURS = {"ok": "green", "repeats": "yellow", "LEAK": "bold red"}
_HEADER = ("between", "and", "exact pairs", "near pairs", "images", "shared groups", "verdict")


def audit(*, data: Path, split: str | None = None, out: Path | None = None, json: bool = False) -> int:
    """Look for duplicates and shared groups, such as videos and patients, between data sets or the parts of a split.

    The exit code is 1 if there is a leak.

    Args:
        data: folder of prepared data sets.
        split: split to audit, by its name under STORE/splits or its path; if not given, whole data sets are compared.
        out: folder for pairs.csv, sequences.csv and index.html; if not given, "audit" in that of the split or data.
        json: print JSON for programs.
    """
    from fpgm.data.splits import audit as auditing
    from fpgm.data.splits.duplicates import gather
    from fpgm.data.splits.split import split_folder
    from fpgm.data.store import open_stores
    from fpgm.files import write_text
    from fpgm.report.pages.audit import render

    stores = open_stores(data)
    parts = {name: [f"{name}/{id_}" for id_ in store.ids] for name, store in stores.items()}
    audited = data if split is None else split_folder(data, split)
    if split is not None:
        stores, parts = _split_parts(stores, audited)
    evidence = gather(stores)
    overlaps = auditing.judge(evidence, parts)
    strangers = auditing.strangers(stores, {id_ for ids in parts.values() for id_ in ids})
    folder = out or audited / "audit"
    title = f"Audit of {audited.resolve().name}: {sum(map(len, parts.values()))} images"
    auditing.write_pairs(folder / "pairs.csv", evidence, overlaps)
    auditing.write_sequences(folder / "sequences.csv", overlaps)
    rows, sections = [_cells(overlap) for overlap in overlaps], list(_sections(evidence, overlaps))
    sentences = auditing.summary(overlaps, strangers)
    write_text(folder / "index.html", render(title, sentences, _HEADER, rows, sections, _pictures(stores)))
    leak = any(overlap.verdict == "LEAK" for overlap in overlaps)
    if json:
        records = {"findings": list(map(_record, overlaps)), "strangers": list(map(asdict, strangers))}
        print_json(leak=leak, summary=sentences, **records, folder=str(folder))
    else:
        _show_audit(title, rows, [*sentences, f"pairs and pictures: {folder / 'index.html'}"])
    return int(leak)


def _split_parts(stores: dict[str, Store], folder: Path) -> tuple[dict[str, Store], dict[str, list[str]]]:
    """Return the data sets of a split and the images of its parts, all of which must be there."""
    from fpgm.data.names import abbreviate
    from fpgm.data.splits.split import Split, dataset_of

    parts = {part: list(ids) for part, ids in Split.load(folder).parts().items() if ids}
    known = {f"{name}/{id_}" for name, store in stores.items() for id_ in store.ids}
    wanted = [id_ for ids in parts.values() for id_ in ids]
    if lost := [id_ for id_ in wanted if id_ not in known]:
        raise ValueError(f"{folder} names images that are not prepared: {abbreviate(lost)}; see `fpgm data prepare`")
    names = set(map(dataset_of, wanted))
    return {name: store for name, store in stores.items() if name in names}, parts


def _cells(overlap: Overlap) -> tuple[str, ...]:
    """Return the row of the verdict table."""
    sides = (overlap.first, overlap.second) if overlap.first != overlap.second else (overlap.first,)
    images = " + ".join(f"{len(side.images)} of {side.size}" for side in sides) if len(overlap.pairs) else "0"
    shared = len(overlap.shared)
    sequences = " + ".join(f"{shared} of {side.sequences}" for side in sides) if shared else "0"
    counts = str(overlap.exact), str(overlap.near), images, sequences
    return str(overlap.first.place), str(overlap.second.place), *counts, overlap.verdict


def _record(overlap: Overlap) -> dict[str, Any]:
    """Return an overlap as JSON, without its pairs: they are in the CSV file."""
    sides = {"first": overlap.first, "second": overlap.second}
    places = {
        name: {"place": str(side.place), "size": side.size, "duplicated": len(side.images), "sequences": side.sequences}
        for name, side in sides.items()
    }
    counts = {"exact": overlap.exact, "near": overlap.near}
    return {**places, **counts, "shared": [video.sequence for video in overlap.shared], "verdict": overlap.verdict}


def _show_audit(title: str, rows: Sequence[Sequence[str]], sentences: Sequence[str]) -> None:
    """Print the verdict table and what follows from it."""
    table = Table(*_HEADER, title=title, title_justify="left")
    for column in table.columns[2:6]:
        column.justify = "right"
    for *values, verdict in rows:
        table.add_row(*values, Text(verdict, _COLOURS[verdict]))
    output = console()
    output.print(table)
    for text in sentences:
        output.print(text, highlight=False, markup=False, soft_wrap=True)


def _sections(evidence: Evidence, overlaps: Sequence[Overlap]) -> Iterator[Section]:
    """Choose what to show of each two places, leaks first: duplicates, and shared videos with an image of each side."""
    from fpgm.report.pages.audit import Section, spread

    for overlap in sorted(overlaps, key=lambda overlap: overlap.verdict != "LEAK"):
        between = " and ".join(dict.fromkeys([str(overlap.first.place), str(overlap.second.place)]))
        if total := len(overlap.pairs):
            rows = overlap.pairs[spread(total)].tolist()
            notes = ["exact" if exact else f"{bits} of 256 bits apart" for _, _, bits, exact in rows]
            pairs = [(evidence.ids[i], evidence.ids[j], note) for (i, j, *_), note in zip(rows, notes, strict=True)]
            yield Section(f"Duplicates: {between}", pairs, total)
        if total := len(overlap.shared):
            videos = [overlap.shared[k] for k in spread(total)]
            frames = [(video.first, video.second, video.sequence) for video in videos]
            yield Section(f"Shared groups: {between}", frames, total)


def _pictures(stores: Mapping[str, Store]) -> Callable[[str], NDArray[np.uint8]]:
    """Return a function that reads the image of a global id."""
    place = {f"{name}/{id_}": (store, row) for name, store in stores.items() for row, id_ in enumerate(store.ids)}

    def picture(global_id: str) -> NDArray[np.uint8]:
        store, row = place[global_id]
        return store.images([row])[0]

    return picture
