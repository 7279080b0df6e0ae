"""How a split is drawn: protocols ``paper``, ``strict``, ``hospitals``, ``given`` and ``pranet``, and published lists.

``paper`` divides every data set at random by the counts of Table 1. ``strict`` divides it by the same shares but keeps
images together that share a video or a group, such as a patient, or are near duplicates, and leaves out those that
share any of these with unseen data. ``hospitals`` divides the data sets of all hospitals but one as ``strict`` does and
keeps that one unseen, with all its data sets, whichever data sets the paper holds out. A data set whose images are
frames of another one that is trained on (CVC-300 of CVC-ColonDB) is then in no part. These three divide a data set that
is not in Table 1 by fractions. The division of a data set depends on other data sets only if they share such groups.
Images without a mask are used only for training, unlabelled. ``given`` and ``pranet`` have modules of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

from fpgm.data.catalog import CATALOG, find
from fpgm.data.names import abbreviate
from fpgm.data.splits.dividing import (
    FRACTIONS,
    Parts,
    Shares,
    by_dataset,
    describe_left_out,
    deviations,
    divide,
    draw_generator,
    finish,
    linked,
    masked_images,
)
from fpgm.data.splits.duplicates import gather
from fpgm.data.splits.given import describe_ignored, draw_given, has_groups, held_out_sets, is_divided
from fpgm.data.splits.hospitals import find_hospital, folds, hospitals
from fpgm.data.splits.pranet import draw_pranet
from fpgm.data.splits.split import PARTS, Split, dataset_of
from fpgm.data.store import Store
from fpgm.files import read_file

Protocol = Literal["paper", "strict", "hospitals", "given", "pranet"]
Lists = dict[tuple[str, str], Path]


def usual_protocol(stores: Mapping[str, Store], unseen: Sequence[str] = ()) -> Protocol:
    """Choose a protocol: the given parts if there are some; ``paper`` for its data sets without groups; ``strict``."""
    if is_divided(stores, unseen):
        return "given"
    return "strict" if any(map(has_groups, stores.values())) or not stores.keys() & CATALOG.keys() else "paper"


def draw(
    stores: Mapping[str, Store],
    protocol: Protocol,
    seed: int,
    *,
    fractions: Shares | None = None,
    unseen: Sequence[str] = (),
    leave_out: str | None = None,
) -> Split:
    """Draw a split.

    Args:
        stores: the data sets.
        protocol: ``paper``, ``strict``, ``hospitals``, ``given`` or ``pranet``.
        seed: 0 or more.
        fractions: shares of train, validation and test for data sets that Table 1 does not divide; `FRACTIONS` if not
            given. ``pranet`` takes validation images from train only if they are given.
        unseen: data sets to hold out whole, besides those that the catalogue holds out; not with ``hospitals`` and
            ``pranet``.
        leave_out: name of a hospital, or of a data set of it, that ``hospitals`` keeps unseen.
    """
    _check(stores, seed, unseen)
    if protocol != "hospitals" and leave_out is not None:
        raise ValueError(f"--leave-out is for protocol hospitals; protocol {protocol} holds out data sets by --unseen")
    if protocol == "given":
        return draw_given(stores, seed, fractions or FRACTIONS, unseen)
    if protocol == "pranet":
        if unseen:
            raise ValueError("protocol pranet has unseen data sets of its own: omit --unseen")
        return draw_pranet(stores, seed, fractions)
    return _draw_by_shares(stores, protocol, seed, fractions or FRACTIONS, unseen, leave_out)


def _draw_by_shares(
    stores: Mapping[str, Store],
    protocol: Protocol,
    seed: int,
    fractions: Shares,
    unseen: Sequence[str],
    leave_out: str | None,
) -> Split:
    """Divide each data set by the counts of Table 1 or by fractions."""
    hospital, notes = "", describe_ignored(stores, groups=protocol == "paper")
    if protocol == "hospitals":
        hospital = _left_out_hospital(stores, leave_out, unseen)
        held_out = set(hospitals(stores)[hospital])
        stores, copies = _without_copies(stores, held_out)
        notes += copies
    else:
        held_out = held_out_sets(stores, unseen)
    masked = masked_images(stores)
    parts: Parts = {part: [] for part in PARTS}
    parts["unseen"] = [id_ for id_, has_mask in masked.items() if has_mask and dataset_of(id_) in held_out]
    groups = [[id_] for id_ in masked] if protocol == "paper" else linked(gather(stores))
    usable = [group for group in groups if not set(map(dataset_of, group)) & held_out]
    for name, blocks in by_dataset(usable).items():
        shares = _table1(name) or fractions
        divided = divide(blocks, masked, shares, draw_generator(seed, name))
        notes += [f"{name}: {note}" for note in deviations(divided, masked, shares)]
        for part, ids in divided.items():
            parts[part] += ids
    notes += describe_left_out(parts, masked, "they share a video, a group or near duplicates with unseen data")
    return finish(parts, protocol, seed, masked, notes, hospital)


def import_lists(
    stores: Mapping[str, Store],
    lists: Lists,
    seed: int,
    *,
    fractions: Shares | None = None,
    unseen: Sequence[str] = (),
) -> Split:
    """Make a split of published lists of file stems; data sets without a list are left out or held out whole.

    Lists are kept as they are. Where a data set has no validation list it gets no validation images, unless fractions
    are given: then ``validation / (train + validation)`` of its train list, at random.

    Args:
        stores: the data sets.
        lists: a text file for each (data set, part), one stem per line.
        seed: seed of the order of train, 0 or more.
        fractions: shares of train, validation and test, for data sets without a validation list.
        unseen: data sets to hold out whole.
    """
    _check(stores, seed, [*unseen, *(name for name, _ in lists)])
    masked = masked_images(stores)
    parts: Parts = {part: [] for part in PARTS}
    parts["unseen"] = [id_ for id_, has_mask in masked.items() if has_mask and dataset_of(id_) in unseen]
    for (name, part), path in lists.items():
        ids = _read_list(stores[name], path)
        if part == "train" and fractions and (name, "validation") not in lists:
            shares = fractions._replace(test=0)
            divided = divide([[id_] for id_ in ids], masked, shares, draw_generator(seed, name))
            parts["validation"] += divided["validation"]
            ids = divided["train"]
        parts[part] += ids
    return finish(parts, "imported", seed, masked, describe_left_out(parts, masked, "they are in no list"))


def parse_lists(options: Sequence[str]) -> Lists:
    """Read ``DATASET/PART=FILE`` options, with names of data sets as in ``parse_names``."""
    lists: Lists = {}
    for option in options:
        place, _, file = option.partition("=")
        name, _, part = place.rpartition("/")
        if not name or part not in PARTS or not file:
            raise ValueError(
                f"a list is given as DATASET/PART=FILE with PART one of {', '.join(PARTS)}, such as "
                f"Kvasir-SEG/train=train.txt; got {option!r}"
            )
        key = parse_names([name])[0]
        if (key, part) in lists:
            raise ValueError(f"{place} is given two lists; join them into one file")
        lists[key, part] = Path(file)
    return lists


def parse_names(names: Sequence[str]) -> list[str]:
    """Return the catalogue's keys of data sets given by name or alias; other names stay."""
    return [known.key if (known := find(name)) else name for name in names]


def _check(stores: Mapping[str, Store], seed: int, names: Sequence[str]) -> None:
    if seed < 0:
        raise ValueError(f"a seed is 0 or more, not {seed}")
    if strange := sorted(set(names) - stores.keys()):
        raise ValueError(
            f"{abbreviate(strange)}: not in the store, which holds {', '.join(stores)}; see `fpgm data prepare`"
        )


def _left_out_hospital(stores: Mapping[str, Store], leave_out: str | None, unseen: Sequence[str]) -> str:
    """Return the hospital that protocol ``hospitals`` keeps unseen, and refuse what does not go with it."""
    if leave_out is None:
        raise ValueError(
            f"protocol hospitals keeps one hospital unseen: name it with --leave-out, one of {', '.join(folds(stores))}"
        )
    if unseen:
        raise ValueError("protocol hospitals keeps the hospital of --leave-out unseen and nothing else: omit --unseen")
    return find_hospital(leave_out, stores)


def _without_copies(stores: Mapping[str, Store], held_out: set[str]) -> tuple[dict[str, Store], list[str]]:
    """Take out the data sets whose images are frames of another one that is trained on, and say so."""
    copies = {
        name: CATALOG[name].videos
        for name in stores
        if name not in held_out and name in CATALOG and CATALOG[name].videos in stores
    }
    notes = [
        f"{name}: {len(stores[name])} images left out: they are frames of {original}"
        for name, original in copies.items()
    ]
    return {name: store for name, store in stores.items() if name not in copies}, notes


def _table1(name: str) -> Shares | None:
    """Return the counts of a data set that the paper divides."""
    counts = CATALOG[name].counts if name in CATALOG else None
    return Shares(*counts[1:]) if counts and counts.train else None


def _read_list(store: Store, path: Path) -> list[str]:
    """Read file stems, or file names, of a data set as global ids."""
    known = set(store.ids)
    lines = [
        line.strip()
        for line in read_file(path, path.resolve().parent).decode("utf-8", errors="replace").splitlines()
        if line.strip()
    ]
    ids = [line if line in known else PurePosixPath(line).stem for line in lines]
    if unknown := [line for line, id_ in zip(lines, ids, strict=True) if id_ not in known]:
        raise ValueError(
            f"{path}: {abbreviate(unknown)}: not in {store.name}, whose ids look like {store.ids[0]}; "
            "a list holds one file stem per line"
        )
    return [f"{store.name}/{id_}" for id_ in ids]
