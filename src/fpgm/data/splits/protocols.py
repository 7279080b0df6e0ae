"""How a split is drawn: protocols ``paper``, ``strict`` and ``hospitals``, and published lists.

``paper`` divides every data set at random by the counts of Table 1. ``strict`` divides it by the same shares but keeps
images together that share a video or are near duplicates, and leaves out those that share either with unseen data.
``hospitals`` divides the data sets of all hospitals but one as ``strict`` does and keeps that one unseen, with all its
data sets, whichever data sets the paper holds out. A data set whose images are frames of another one that is trained
on (CVC-300 of CVC-ColonDB) is then in no part. All protocols divide a data set that is not in Table 1 by fractions.
The division of a data set depends on other data sets only if they share such groups. Images without a mask are used
only for training, unlabelled.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

import numpy as np

from fpgm.data.catalog import CATALOG, find
from fpgm.data.names import abbreviate
from fpgm.data.splits.duplicates import gather
from fpgm.data.splits.hospitals import find_hospital, folds, hospitals
from fpgm.data.splits.split import PARTS, Split, dataset_of
from fpgm.data.store import Store
from fpgm.files import read_file

Protocol = Literal["paper", "strict", "hospitals"]
Lists = dict[tuple[str, str], Path]


class Shares(NamedTuple):
    """Relative sizes of the parts of a data set: counts or fractions."""

    train: float
    validation: float
    test: float


FRACTIONS = Shares(0.7, 0.1, 0.2)


def draw(
    stores: Mapping[str, Store],
    protocol: Protocol,
    seed: int,
    *,
    fractions: Shares = FRACTIONS,
    unseen: Sequence[str] = (),
    leave_out: str | None = None,
) -> Split:
    """Draw a split.

    Args:
        stores: the data sets.
        protocol: ``paper``, ``strict`` or ``hospitals``.
        seed: 0 or more.
        fractions: shares of train, validation and test for data sets that Table 1 does not divide.
        unseen: data sets to hold out whole, besides those that the catalogue holds out; not with ``hospitals``.
        leave_out: name of a hospital, or of a data set of it, that ``hospitals`` keeps unseen.
    """
    _check(stores, seed, unseen)
    hospital, notes = "", list[str]()
    if protocol == "hospitals":
        hospital = _left_out_hospital(stores, leave_out, unseen)
        held_out = set(hospitals(stores)[hospital])
        stores, notes = _without_copies(stores, held_out)
    elif leave_out is not None:
        raise ValueError(f"--leave-out is for protocol hospitals; protocol {protocol} holds out data sets by --unseen")
    else:
        held_out = {name for name in stores if name in unseen or (name in CATALOG and CATALOG[name].role == "unseen")}
    masked = _masked(stores)
    parts: dict[str, list[str]] = {part: [] for part in PARTS}
    parts["unseen"] = [id_ for id_, has_mask in masked.items() if has_mask and dataset_of(id_) in held_out]
    for name, blocks in _blocks(_groups(stores, protocol), held_out).items():
        shares = _table1(name) or fractions
        divided = _divide(blocks, masked, shares, _generator(seed, name))
        notes += [f"{name}: {note}" for note in _deviations(divided, masked, shares)]
        for part, ids in divided.items():
            parts[part] += ids
    notes += _left_out(parts, masked, "they share a video or near duplicates with unseen data")
    return _finish(parts, protocol, seed, masked, notes, hospital)


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
    masked = _masked(stores)
    parts: dict[str, list[str]] = {part: [] for part in PARTS}
    parts["unseen"] = [id_ for id_, has_mask in masked.items() if has_mask and dataset_of(id_) in unseen]
    for (name, part), path in lists.items():
        ids = _read_list(stores[name], path)
        if part == "train" and fractions and (name, "validation") not in lists:
            shares = fractions._replace(test=0)
            divided = _divide([[id_] for id_ in ids], masked, shares, _generator(seed, name))
            parts["validation"] += divided["validation"]
            ids = divided["train"]
        parts[part] += ids
    return _finish(parts, "imported", seed, masked, _left_out(parts, masked, "they are in no list"))


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


def parse_fractions(values: Sequence[float]) -> Shares:
    """Check three fractions for train, validation and test."""
    if len(values) != 3 or min(values) < 0 or values[0] == 0 or not abs(sum(values) - 1) < 1e-6:
        raise ValueError(
            "fractions are three numbers for train, validation and test that add up to 1, such as 0.7 0.1 0.2; "
            f"got {' '.join(map(str, values))}"
        )
    return Shares(*values)


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


def _masked(stores: Mapping[str, Store]) -> dict[str, bool]:
    """List all images, in order, and whether they have a mask."""
    return {
        f"{name}/{id_}": bool(has_mask)
        for name, store in stores.items()
        for id_, has_mask in zip(store.ids, store.has_mask, strict=True)
    }


def _table1(name: str) -> Shares | None:
    """Return the counts of a data set that the paper divides."""
    counts = CATALOG[name].counts if name in CATALOG else None
    return Shares(*counts[1:]) if counts and counts.train else None


def _groups(stores: Mapping[str, Store], protocol: Protocol) -> list[list[str]]:
    """Gather the images that must stay together: each alone, or by video and near duplicates."""
    if protocol == "paper":
        return [[id_] for id_ in _masked(stores)]
    evidence = gather(stores)
    members: dict[int, list[str]] = defaultdict(list)
    for id_, group in zip(evidence.ids, evidence.groups(), strict=True):
        members[int(group)].append(id_)
    return list(members.values())


def _blocks(groups: Sequence[list[str]], held_out: set[str]) -> dict[str, list[list[str]]]:
    """Give each group that touches no unseen data to the data set most of its images are from."""
    blocks: dict[str, list[list[str]]] = defaultdict(list)
    for group in groups:
        datasets = Counter(map(dataset_of, group))
        if not datasets.keys() & held_out:
            blocks[datasets.most_common(1)[0][0]].append(group)
    return blocks


def _divide(
    blocks: Sequence[list[str]], masked: Mapping[str, bool], shares: Shares, generator: np.random.Generator
) -> dict[str, list[str]]:
    """Divide blocks at random into parts whose images with masks come as close to their shares as blocks allow."""
    rest = [blocks[k] for k in generator.permutation(len(blocks))]
    aims = _aims(sum(masked[id_] for block in blocks for id_ in block), shares)
    parts = {}
    for part in ("test", "validation"):
        taken = _pick([sum(masked[id_] for id_ in block) for block in rest], aims[part])
        parts[part] = [id_ for block, take in zip(rest, taken, strict=True) if take for id_ in block if masked[id_]]
        rest = [block for block, take in zip(rest, taken, strict=True) if not take]
    return parts | {"train": [id_ for block in rest for id_ in block]}


def _aims(total: int, shares: Shares) -> dict[str, int]:
    """Scale the shares to `total` images."""
    validation, test = (round(total * share / sum(shares)) for share in shares[1:])
    return {"train": total - validation - test, "validation": validation, "test": test}


def _pick(weights: Sequence[int], target: int) -> list[bool]:
    """Choose weights whose sum is nearest to the target, the smaller of two, and among equals early weights.

    Subset sums by dynamic programming; bit s of ``reach[k]`` is set where the first k weights can add up to s.
    Sums above twice the target are worse than taking nothing.
    """
    within = (1 << 2 * target + 1) - 1
    reach = [1]
    for weight in weights:
        reach.append((reach[-1] | reach[-1] << weight) & within)
    left = min((s for s in range(2 * target + 1) if reach[-1] >> s & 1), key=lambda s: (abs(s - target), s))
    taken = []
    for k in reversed(range(len(weights))):
        taken.append(not reach[k] >> left & 1)
        left -= weights[k] * taken[-1]
    return taken[::-1]


def _deviations(divided: Mapping[str, Sequence[str]], masked: Mapping[str, bool], shares: Shares) -> list[str]:
    """Say where the counts are not those of Table 1 or of the fractions."""
    counts = {part: sum(masked[id_] for id_ in ids) for part, ids in divided.items()}
    total = sum(counts.values())
    scaled = [f"Table 1's counts are scaled to {total} images"] if sum(shares) > 1.5 and sum(shares) != total else []
    aims = _aims(total, shares)
    return scaled + [
        f"{part} has {counts[part]} images instead of {aims[part]}: groups are not cut"
        for part in ("train", "validation", "test")
        if counts[part] != aims[part]
    ]


def _left_out(parts: Mapping[str, Sequence[str]], masked: Mapping[str, bool], reason: str) -> list[str]:
    """Count the images that are in no part."""
    gone = masked.keys() - {id_ for ids in parts.values() for id_ in ids}
    count = Counter((dataset_of(id_), masked[id_]) for id_ in gone)
    return [
        f"{name}: {n} images left out: {reason}" if has_mask else f"{name}: {n} images without a mask left out"
        for (name, has_mask), n in sorted(count.items())
    ]


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


def _finish(
    parts: Mapping[str, Sequence[str]],
    protocol: str,
    seed: int,
    masked: Mapping[str, bool],
    notes: Sequence[str],
    left_out: str = "",
) -> Split:
    """Put train in random order, images without a mask last, and the other parts in the order of the store."""
    if bare := [id_ for part in PARTS[1:] for id_ in parts[part] if not masked[id_]]:
        raise ValueError(
            f"{abbreviate(bare)}: without a mask, so not for validation, test or unseen; put them in train"
        )
    rank = {id_: k for k, id_ in enumerate(masked)}
    train = sorted(parts["train"])
    train = [train[k] for k in _generator(seed, "train").permutation(len(train))]
    train.sort(key=lambda id_: not masked[id_])
    without_mask = sum(not masked[id_] for id_ in train)
    if without_mask == len(train):
        raise ValueError(
            "no image with a mask is left to train on; hold out less, or add data with `fpgm data prepare`"
        )
    if not parts["validation"]:
        notes = [*notes, "no validation images, by which training would choose its best model"]
    others = {part: tuple(sorted(parts[part], key=rank.__getitem__)) for part in PARTS[1:]}
    return Split(
        tuple(train),
        **others,
        protocol=protocol,
        seed=seed,
        without_mask=without_mask,
        notes=tuple(notes),
        left_out=left_out,
    )


def _generator(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(name.encode())])
