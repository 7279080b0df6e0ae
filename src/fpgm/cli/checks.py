"""``fpgm data split | audit | verify``: who is in which part, and whether that can be trusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.table import Table

from fpgm.cli.terminal import console, print_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fpgm.data.fingerprint import Finding as Difference
    from fpgm.data.splits.audit import Finding
    from fpgm.data.splits.duplicates import Evidence
    from fpgm.data.splits.split import Split
    from fpgm.data.store import Store
    from fpgm.report.pages.audit import Section

_COLOURS = {"ok": "green", "repeats": "yellow", "LEAK": "bold red", "differs": "bold red", "absent": "dim"}
_AUDIT_HEADER = ("between", "and", "exact pairs", "near pairs", "images", "shared sequences", "verdict")
_SHOWN = 8  # differences per data set in the terminal
_PROBLEMS = ("missing", "altered", "renamed", "foreign", "unknown")


def split(
    *,
    data: Path,
    protocol: Literal["paper", "strict", "hospitals"] = "paper",
    leave_out: str | None = None,
    seed: int = 0,
    out: Path | None = None,
    datasets: list[str] | None = None,
    unseen: list[str] | None = None,
    fractions: list[float] | None = None,
    lists: list[str] | None = None,
    labeled: list[str] | None = None,
    json: bool = False,
) -> None:
    """Divide prepared data sets into train, validation, test and unseen images.

    The first N images of the train list are the labelled set of size N, so that larger ones contain smaller ones.

    Args:
        data: folder of prepared data sets.
        protocol: paper (Table 1, at random), strict (videos and near duplicates stay on one side) or hospitals (like
            strict, with one hospital unseen).
        leave_out: hospital that protocol hospitals keeps unseen with all its data sets, such as CVC; a data set of it
            will do. A data set that is not of the paper is a hospital of its own.
        seed: of the random draw.
        out: folder to write; STORE/splits/PROTOCOL-SEED if not given, or STORE/splits/hospitals-HOSPITAL-SEED.
        datasets: names of the data sets to divide; all if not given.
        unseen: names of data sets to hold out whole, besides CVC-300, BKAI-IGH and the last two phantoms; not with
            protocol hospitals.
        fractions: of train, validation and test, for data sets that Table 1 does not divide; 0.7 0.1 0.2 if not given.
        lists: published lists of file stems instead of a protocol, each as DATASET/PART=FILE with PART one of train,
            validation, test, unseen. Without a validation list there is no validation part, unless --fractions are
            given; then its share is taken from the train list.
        labeled: sizes of labelled sets to show, each a number or a percentage of train; 5% 10% 20% if not given.
        json: print JSON for programs.
    """
    from fpgm.data.splits import protocols
    from fpgm.data.store import open_stores

    stores = open_stores(data, datasets)
    shares = protocols.parse_fractions(fractions) if fractions else None
    held_out = protocols.parse_names(unseen or [])
    if lists:
        if leave_out is not None:
            raise ValueError("--lists are taken instead of a protocol: leave --leave-out out, or hold out by --unseen")
        drawn = protocols.import_lists(stores, protocols.parse_lists(lists), seed, fractions=shares, unseen=held_out)
    else:
        shares = shares or protocols.FRACTIONS
        drawn = protocols.draw(stores, protocol, seed, fractions=shares, unseen=held_out, leave_out=leave_out)
    pool = len(drawn.train) - drawn.without_mask
    specs = labeled or [f"{percent}%" for percent in (5, 10, 20) if percent * pool >= 100]
    sizes = {spec: drawn.labeled(spec) for spec in specs}
    folder = out or data / "splits" / drawn.name
    drawn.save(folder)
    _show_split(drawn, sizes, folder, json)


def audit(*, data: Path, split: Path | None = None, out: Path | None = None, json: bool = False) -> int:
    """Look for duplicates and shared videos between data sets, or between the parts of a split.

    The exit code is 1 if there is a leak.

    Args:
        data: folder of prepared data sets.
        split: folder of a split to audit; if not given, whole data sets are compared.
        out: folder for pairs.csv, sequences.csv and index.html; if not given, "audit" within that of the split or data.
        json: print JSON for programs.
    """
    from fpgm.data.splits import audit as auditing
    from fpgm.data.splits.duplicates import gather
    from fpgm.data.store import open_stores
    from fpgm.files import write_text
    from fpgm.report.pages.audit import render

    stores = open_stores(data)
    parts = {name: [f"{name}/{id_}" for id_ in store.ids] for name, store in stores.items()}
    if split:
        stores, parts = _split_parts(stores, split)
    evidence = gather(stores)
    findings = auditing.judge(evidence, parts)
    strangers = auditing.strangers(stores, {id_ for ids in parts.values() for id_ in ids})
    folder = out or (split or data) / "audit"
    title = f"Audit of {(split or data).resolve().name}: {sum(map(len, parts.values()))} images"
    auditing.write_pairs(folder / "pairs.csv", evidence, findings)
    auditing.write_sequences(folder / "sequences.csv", findings)
    rows, sections = [_cells(finding) for finding in findings], list(_sections(evidence, findings))
    sentences = auditing.summary(findings, strangers)
    write_text(folder / "index.html", render(title, sentences, _AUDIT_HEADER, rows, sections, _pictures(stores)))
    leak = any(finding.verdict == "LEAK" for finding in findings)
    if json:
        records = {"findings": list(map(_record, findings)), "strangers": list(map(asdict, strangers))}
        print_json(leak=leak, summary=sentences, **records, folder=str(folder))
    else:
        _show_audit(title, rows, [*sentences, f"pairs and pictures: {folder / 'index.html'}"])
    return int(leak)


def verify(*, data: Path, datasets: list[str] | None = None, json: bool = False) -> int:
    """Compare prepared data sets with the fingerprints of the public ones.

    Says which images are missing, altered, renamed, or belong to another data set. The exit code is 1 if any are.

    Args:
        data: folder of prepared data sets.
        datasets: names of the data sets to verify; all if not given.
        json: print JSON for programs.
    """
    from fpgm.data import fingerprint
    from fpgm.data.store import open_stores

    stores = open_stores(data, datasets)
    found = {
        name: fingerprint.compare(name, store.ids, store.dhash, store.foreground.tolist())
        for name, store in stores.items()
    }
    _show_verify(found, {name: len(store) for name, store in stores.items()}, json)
    return int(any(found.values()))


def _show_split(split: Split, labeled: Mapping[str, list[str]], folder: Path, json: bool) -> None:
    """Print the counts of each data set, its share of the labelled sets, and the notes."""
    from fpgm.data.splits.split import PARTS, dataset_of

    counts = split.counts()
    shown = {spec: Counter(map(dataset_of, ids)) for spec, ids in labeled.items()}
    if json:
        sizes = {spec: dict(count) for spec, count in shown.items()}
        summary = {"protocol": split.protocol, "left_out": split.left_out, "seed": split.seed}
        summary |= {"counts": counts, "labeled": sizes}
        return print_json(**summary, without_mask=split.without_mask, notes=split.notes, folder=str(folder))
    left_out = f", hospital {split.left_out} unseen" if split.left_out else ""
    table = Table("data set", title=f"Split {split.protocol}{left_out}, seed {split.seed}", title_justify="left")
    for name in (*PARTS, *(f"labelled {spec}" for spec in shown)):
        table.add_column(name, justify="right")
    for name, parts in counts.items():
        table.add_row(name, *map(str, parts.values()), *(str(count[name]) for count in shown.values()))
    table.add_section()
    totals = [len(ids) for ids in (*split.parts().values(), *labeled.values())]
    table.add_row("all", *map(str, totals))
    output = console()
    output.print(table)
    for note in split.notes:
        output.print(f"note: {note}", highlight=False)
    output.print(f"written to {folder}", highlight=False)


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


def _cells(finding: Finding) -> tuple[str, ...]:
    """Return the row of the verdict table."""
    sides = (finding.first, finding.second) if finding.first != finding.second else (finding.first,)
    images = " + ".join(f"{len(side.images)} of {side.size}" for side in sides) if len(finding.pairs) else "0"
    shared = len(finding.shared)
    sequences = " + ".join(f"{shared} of {side.sequences}" for side in sides) if shared else "0"
    counts = str(finding.exact), str(finding.near), images, sequences
    return str(finding.first.place), str(finding.second.place), *counts, finding.verdict


def _record(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON, without its pairs: they are in the CSV file."""
    sides = {"first": finding.first, "second": finding.second}
    places = {
        name: {"place": str(side.place), "size": side.size, "duplicated": len(side.images), "sequences": side.sequences}
        for name, side in sides.items()
    }
    counts = {"exact": finding.exact, "near": finding.near}
    return {**places, **counts, "shared": [video.sequence for video in finding.shared], "verdict": finding.verdict}


def _show_audit(title: str, rows: Sequence[Sequence[str]], sentences: Sequence[str]) -> None:
    """Print the verdict table and what follows from it."""
    table = Table(*_AUDIT_HEADER, title=title, title_justify="left")
    for column in table.columns[2:6]:
        column.justify = "right"
    for *values, verdict in rows:
        table.add_row(*values, f"[{_COLOURS[verdict]}]{verdict}[/]")
    output = console()
    output.print(table)
    for text in sentences:
        output.print(text, highlight=False, markup=False, soft_wrap=True)


def _sections(evidence: Evidence, findings: Sequence[Finding]) -> Iterator[Section]:
    """Choose what to show of each two places, leaks first: duplicates, and shared videos with an image of each side."""
    from fpgm.report.pages.audit import Section, spread

    for finding in sorted(findings, key=lambda finding: finding.verdict != "LEAK"):
        between = " and ".join(dict.fromkeys([str(finding.first.place), str(finding.second.place)]))
        if total := len(finding.pairs):
            rows = finding.pairs[spread(total)].tolist()
            notes = ["exact" if exact else f"{bits} of 256 bits apart" for _, _, bits, exact in rows]
            pairs = [(evidence.ids[i], evidence.ids[j], note) for (i, j, *_), note in zip(rows, notes, strict=True)]
            yield Section(f"Duplicates: {between}", pairs, total)
        if total := len(finding.shared):
            videos = [finding.shared[k] for k in spread(total)]
            frames = [(video.first, video.second, video.sequence) for video in videos]
            yield Section(f"Shared sequences: {between}", frames, total)


def _pictures(stores: Mapping[str, Store]) -> Callable[[str], NDArray[np.uint8]]:
    """Return a function that reads the image of a global id."""
    place = {f"{name}/{id_}": (store, row) for name, store in stores.items() for row, id_ in enumerate(store.ids)}

    def picture(global_id: str) -> NDArray[np.uint8]:
        store, row = place[global_id]
        return store.images([row])[0]

    return picture


def _show_verify(found: Mapping[str, Sequence[Difference]], sizes: Mapping[str, int], json: bool) -> None:
    """Print a row per data set, then the first differences of each."""
    from fpgm.data.fingerprint import reference

    public = Counter(row.dataset for row in reference())
    if json:
        rows = {name: list(map(asdict, differences)) for name, differences in found.items()}
        return print_json(ok=not any(found.values()), differences=rows, absent=[n for n in public if n not in found])
    table = Table("data set", title="Compared with the public data sets", title_justify="left")
    for column in ("images", "public", *_PROBLEMS):
        table.add_column(column, justify="right")
    table.add_column("verdict")
    for name in dict.fromkeys([*found, *public]):
        count = Counter[str](difference.problem for difference in found.get(name, ()))
        verdict = "absent" if name not in found else "differs" if count else "ok"
        numbers = (sizes.get(name, 0), public.get(name, 0), *(count[problem] for problem in _PROBLEMS))
        table.add_row(name, *map(str, numbers), f"[{_COLOURS[verdict]}]{verdict}[/]")
    output = console()
    output.print(table)
    for differences in found.values():
        for difference in differences[:_SHOWN]:
            name = f"{difference.dataset}/{difference.id}"
            output.print(f"{name}: {difference.problem}: {difference.detail}", highlight=False, markup=False)
        if more := len(differences[_SHOWN:]):
            output.print(f"… and {more} more; --json lists all", highlight=False)
