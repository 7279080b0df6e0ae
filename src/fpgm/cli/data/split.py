"""``fpgm data split``: train, validation, test and unseen images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.table import Table

from fpgm.cli.terminal import console, print_json

if TYPE_CHECKING:
    from fpgm.data.splits.split import Split


def split(
    *,
    data: Path,
    protocol: Literal["paper", "strict", "hospitals", "given", "pranet"] | None = None,
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

    The labelled set of size N is the first N images of the train list, so a larger set contains the smaller ones.

    Args:
        data: store, the folder of prepared data sets.
        protocol: paper (Table 1, at random), strict (videos, patients and near duplicates stay on one side), hospitals
            (like strict, with one hospital unseen), given (the parts that the raw folders had) or pranet (PraNet's
            benchmark). If not given: given where all data sets with masks have parts, else paper where data sets of the
            paper or the phantom are without further groups such as patients, else strict.
        leave_out: hospital that protocol hospitals keeps unseen with all its data sets, such as CVC, or one of its data
            sets. A data set that is not of the paper is a hospital of its own.
        seed: seed of the random draw.
        out: folder to write; STORE/splits/PROTOCOL-SEED if not given, or STORE/splits/hospitals-HOSPITAL-SEED.
        datasets: names of the data sets to divide; all if not given.
        unseen: names of data sets to hold out whole, besides CVC-300, BKAI-IGH and the last two phantoms; not with
            protocols hospitals and pranet.
        fractions: shares of train, validation and test, for data sets that Table 1 does not divide; 0.7 0.1 0.2 if not
            given. Protocols given and pranet take validation / (train + validation) of train, the first where there
            are no validation images, the second only if fractions are given.
        lists: published lists of file stems instead of a protocol, each as DATASET/PART=FILE with PART one of train,
            validation, test, unseen. Without a validation list there is no validation part, unless --fractions are
            given: then that share of the train list is used.
        labeled: sizes of labelled sets to show, each a number, a percentage of train or all; if not given, 5% 10% 20%
            of the paper's data sets and the phantom, and all of one's own.
        json: print JSON for programs.
    """
    from fpgm.data.splits import protocols
    from fpgm.data.splits.dividing import parse_fractions
    from fpgm.data.store import open_stores

    stores = open_stores(data, datasets)
    shares = parse_fractions(fractions) if fractions else None
    held_out = protocols.parse_names(unseen or [])
    if lists:
        if leave_out is not None:
            raise ValueError("--lists are taken instead of a protocol: leave --leave-out out, or hold out by --unseen")
        drawn = protocols.import_lists(stores, protocols.parse_lists(lists), seed, fractions=shares, unseen=held_out)
    else:
        protocol = protocol or protocols.usual_protocol(stores, held_out)
        drawn = protocols.draw(stores, protocol, seed, fractions=shares, unseen=held_out, leave_out=leave_out)
    specs = labeled or _usual_sizes(drawn)
    sizes = {spec: drawn.labeled(spec) for spec in specs}
    folder = out or data / "splits" / drawn.name
    drawn.save(folder)
    _show_split(drawn, sizes, folder, json)


def _usual_sizes(split: Split) -> list[str]:
    """Return the sizes of labelled sets to show: the paper's shares that are not empty, or what is usual."""
    from fpgm.data.splits.split import ALL

    if split.usual_labeled == ALL:
        return [ALL]
    pool = len(split.train) - split.without_mask
    return [f"{percent}%" for percent in (5, 10, 20) if percent * pool >= 100]


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
