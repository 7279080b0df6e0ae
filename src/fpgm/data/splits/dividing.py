"""Divide images by shares, whole groups at a time, and make a split of the parts; all protocols use it.

A block is a list of images that stay on one side. The counts of train, validation and test are those of the shares,
rounded; from ``ENOUGH`` images with masks on, a part whose share is not 0 gets one image at least, and one block if
there are enough of them.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fpgm.data.names import abbreviate
from fpgm.data.splits.duplicates import Evidence
from fpgm.data.splits.split import PARTS, Split, dataset_of
from fpgm.data.store import Store

ENOUGH = 10  # images with masks from which on no part with a share is left empty
Parts = dict[str, list[str]]


class Shares(NamedTuple):
    """Relative sizes of the parts of a data set: counts or fractions."""

    train: float
    validation: float
    test: float


FRACTIONS = Shares(0.7, 0.1, 0.2)


def parse_fractions(values: Sequence[float]) -> Shares:
    """Check three fractions for train, validation and test."""
    if len(values) != 3 or min(values) < 0 or values[0] == 0 or not abs(sum(values) - 1) < 1e-6:
        raise ValueError(
            "fractions are three numbers for train, validation and test that add up to 1, such as 0.7 0.1 0.2; "
            f"got {' '.join(map(str, values))}"
        )
    return Shares(*values)


def masked_images(stores: Mapping[str, Store]) -> dict[str, bool]:
    """List all images, in order, and whether they have a mask."""
    return {
        f"{name}/{id_}": bool(has_mask)
        for name, store in stores.items()
        for id_, has_mask in zip(store.ids, store.has_mask, strict=True)
    }


def linked(evidence: Evidence) -> list[list[str]]:
    """Gather the images that must stay together by videos, given groups and near duplicates."""
    members: dict[int, list[str]] = defaultdict(list)
    for id_, group in zip(evidence.ids, evidence.groups(), strict=True):
        members[int(group)].append(id_)
    return list(members.values())


def by_dataset(groups: Sequence[list[str]]) -> defaultdict[str, list[list[str]]]:
    """Give each group to the data set most of its images are from."""
    blocks: defaultdict[str, list[list[str]]] = defaultdict(list)
    for group in groups:
        blocks[Counter(map(dataset_of, group)).most_common(1)[0][0]].append(group)
    return blocks


def divide(
    blocks: Sequence[list[str]], masked: Mapping[str, bool], shares: Shares, generator: np.random.Generator
) -> Parts:
    """Divide blocks at random into parts whose images with masks come as close to their shares as blocks allow."""
    rest = [blocks[k] for k in generator.permutation(len(blocks))]
    total = _count(blocks, masked)
    wanted = aims(total, shares)
    parts = {}
    for part in ("test", "validation"):
        weights = [sum(masked[id_] for id_ in block) for block in rest]
        taken = pick(weights, wanted[part])
        if wanted[part] and total >= ENOUGH and not any(taken):
            taken = _smallest(weights)
        parts[part] = [id_ for block, take in zip(rest, taken, strict=True) if take for id_ in block if masked[id_]]
        rest = [block for block, take in zip(rest, taken, strict=True) if not take]
    return parts | {"train": [id_ for block in rest for id_ in block]}


def aims(total: int, shares: Shares) -> dict[str, int]:
    """Scale the shares to `total` images."""
    least = int(total >= ENOUGH)
    validation, test = (max(round(total * share / sum(shares)), least * (share > 0)) for share in shares[1:])
    return {"train": total - validation - test, "validation": validation, "test": test}


def pick(weights: Sequence[int], target: int) -> list[bool]:
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


def _count(blocks: Iterable[list[str]], masked: Mapping[str, bool]) -> int:
    """Count the images with masks."""
    return sum(masked[id_] for block in blocks for id_ in block)


def _smallest(weights: Sequence[int]) -> list[bool]:
    """Choose the first of the smallest weights above 0; none if no other would be left."""
    used = [k for k, weight in enumerate(weights) if weight]
    chosen = min(used, key=weights.__getitem__) if len(used) > 1 else -1
    return [k == chosen for k in range(len(weights))]


def deviations(divided: Mapping[str, Sequence[str]], masked: Mapping[str, bool], shares: Shares) -> list[str]:
    """Say where the counts are not those of Table 1 or of the fractions."""
    counts = {part: sum(masked[id_] for id_ in ids) for part, ids in divided.items()}
    total = sum(counts.values())
    scaled = [f"Table 1's counts are scaled to {total} images"] if sum(shares) > 1.5 and sum(shares) != total else []
    wanted = aims(total, shares)
    return scaled + [
        f"{part} has {counts[part]} images instead of {wanted[part]}: groups are not cut"
        for part in ("train", "validation", "test")
        if counts[part] != wanted[part]
    ]


def carve(
    parts: Parts, datasets: set[str], groups: Sequence[list[str]], masked: Mapping[str, bool], shares: Shares, seed: int
) -> list[str]:
    """Move validation images out of the train images of some data sets, whole groups at a time, and say how many.

    Args:
        parts: the parts, which are changed. Images without a mask that are linked to validation images leave train.
        datasets: the data sets to take from; groups with a train image of another one are left alone, and so are groups
            with images in other parts, as long as the rest has half of the masks or more.
        groups: the images that stay together.
        masked: whether an image has a mask.
        shares: of which ``validation / (train + validation)`` is taken.
        seed: seed of the draw.
    """
    train, notes = set(parts["train"]), []
    for name, blocks in _train_blocks(parts, datasets, groups, masked).items():
        divided = divide(blocks, masked, shares._replace(test=0), draw_generator(seed, name))
        if divided["validation"]:
            train -= {id_ for block in blocks for id_ in block} - set(divided["train"])
            parts["validation"] += divided["validation"]
            notes.append(f"{name}: {len(divided['validation'])} train images are taken for validation")
    parts["train"] = [id_ for id_ in parts["train"] if id_ in train]
    return notes


def _train_blocks(
    parts: Parts, datasets: set[str], groups: Sequence[list[str]], masked: Mapping[str, bool]
) -> dict[str, list[list[str]]]:
    """Return the blocks of train images that validation images may be taken from, by data set."""
    train, elsewhere = set(parts["train"]), {id_ for part in PARTS[1:] for id_ in parts[part]}
    apart, shared = list[list[str]](), list[list[str]]()
    for group in groups:
        block = [id_ for id_ in group if id_ in train]
        if block and {dataset_of(id_) for id_ in block} <= datasets:
            (shared if elsewhere & set(group) else apart).append(block)
    usable, others = by_dataset(apart), by_dataset(shared)
    for name, blocks in others.items():
        if _count(usable[name], masked) < _count(blocks, masked):
            usable[name] += blocks
    return usable


def describe_left_out(parts: Mapping[str, Sequence[str]], masked: Mapping[str, bool], reason: str) -> list[str]:
    """Count the images that are in no part."""
    gone = masked.keys() - {id_ for ids in parts.values() for id_ in ids}
    count = Counter((dataset_of(id_), masked[id_]) for id_ in gone)
    return [
        f"{name}: {n} images left out: {reason}" if has_mask else f"{name}: {n} images without a mask left out"
        for (name, has_mask), n in sorted(count.items())
    ]


def finish(
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
    train = [train[k] for k in draw_generator(seed, "train").permutation(len(train))]
    train.sort(key=lambda id_: not masked[id_])
    without_mask = sum(not masked[id_] for id_ in train)
    if without_mask == len(train):
        raise ValueError(
            "no image with a mask is left to train on; hold out less, or add data with `fpgm data prepare`"
        )
    if not parts["validation"]:
        notes = [*notes, "no validation images: training keeps its last weights"]
    if not parts["test"]:
        nothing = "" if parts["unseen"] else ": `fpgm evaluate` has nothing to score"
        notes = [*notes, f"no test images{nothing}"]
    others = {part: tuple(sorted(parts[part], key=rank.__getitem__)) for part in PARTS[1:]}
    return Split(
        tuple(train),
        others["validation"],
        others["test"],
        others["unseen"],
        protocol=protocol,
        seed=seed,
        without_mask=without_mask,
        notes=tuple(notes),
        left_out=left_out,
    )


def draw_generator(seed: int, name: str) -> np.random.Generator:
    """Return the generator of one data set, so that no other changes how it is divided."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])
