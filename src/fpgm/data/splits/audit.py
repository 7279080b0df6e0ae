"""Leaks: duplicates and groups on both sides of a boundary between data sets, or between the parts of a split.

A group is a video of the catalogue, or what the manifests give as one, such as a patient.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from fpgm.data import fingerprint
from fpgm.data.names import abbreviate
from fpgm.data.splits.duplicates import Evidence, Indices
from fpgm.data.splits.split import dataset_of
from fpgm.data.store import Store
from fpgm.files import atomic_path

Verdict = Literal["ok", "repeats", "LEAK"]
_NONE = np.zeros((0, 4), np.int64)


class Place(NamedTuple):
    """Place of an image: a part of a split (without a split, the data set again), and its data set."""

    part: str
    dataset: str

    def __str__(self) -> str:
        return " ".join(dict.fromkeys(name for name in self if name))


class Shared(NamedTuple):
    """A video or a given group, such as a patient, and an image of it on either side."""

    sequence: str
    first: str
    second: str


@dataclass(frozen=True)
class Side:
    """One side of a comparison: its images with a duplicate on the other side, its number of images and of groups."""

    place: Place
    images: tuple[str, ...] = ()
    size: int = 0
    sequences: int = 0


@dataclass(frozen=True, eq=False)
class Overlap:
    """One place against another: the duplicates, exact ones and then the closest first, and the groups found in both.

    ``pairs`` (n, 4) has the rows of both images in the evidence, how many of 256 bits differ, and 1 if no pixel does.
    """

    first: Side
    second: Side
    pairs: Indices
    shared: tuple[Shared, ...] = ()

    @property
    def exact(self) -> int:
        """How many pairs are equal in every pixel."""
        return int(self.pairs[:, 3].sum())

    @property
    def near(self) -> int:
        """How many pairs are not."""
        return len(self.pairs) - self.exact

    @property
    def verdict(self) -> Verdict:
        """Within one part duplicates are repeats; between two, they and groups are a leak."""
        if not len(self.pairs) and not self.shared:
            return "ok"
        return "LEAK" if self.first.place.part != self.second.place.part else "repeats"


@dataclass(frozen=True)
class Stranger:
    """Images of a data set that are pictures of a public one which is not in the store."""

    dataset: str
    belongs_to: str
    ids: tuple[str, ...]


def judge(evidence: Evidence, parts: Mapping[str, Sequence[str]]) -> list[Overlap]:
    """Compare every part with itself and with every other.

    Args:
        evidence: duplicates, videos and given groups among all images.
        parts: the global ids of each part of a split, or of each data set. Images in no part are left out.

    Returns:
        For each pair of parts, one overlap per pair of data sets that share something; if none do, one for all.
    """
    part_of = {id_: part for part, members in parts.items() for id_ in members}
    names = [Place(part_of[id_], dataset_of(id_)) if id_ in part_of else None for id_ in evidence.ids]
    rank = {part: k for k, part in enumerate(parts)}
    places = sorted({place: None for place in names if place}, key=lambda place: rank[place.part])
    codes = {place: code for code, place in enumerate(places)}
    where = np.array([codes[place] if place else -1 for place in names], np.int64)
    belongs = evidence.names()
    pairs, shared = _pairs(evidence, where), _shared(evidence, belongs, where, places)
    overlaps = []
    for a, b in sorted(pairs.keys() | shared.keys()):
        found = pairs.get((a, b), _NONE)
        ends = np.unique(found[:, :2])
        sides = (_side(evidence, belongs, ends, where, places, code) for code in (a, b))
        overlaps.append(Overlap(next(sides), next(sides), found, tuple(shared.get((a, b), ()))))
    return _with_quiet(overlaps, rank)


def strangers(stores: Mapping[str, Store], among: Collection[str]) -> list[Stranger]:
    """Find images, among these global ids, whose fingerprints are of public data sets not in the store."""
    rows = [row for row in fingerprint.reference() if row.dataset not in stores]
    theirs = fingerprint.pack([row.dhash for row in rows])
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, store in stores.items():
        mine, other, _ = fingerprint.close_pairs(fingerprint.pack(store.dhash), theirs)
        for i, owner in dict.fromkeys((int(i), rows[j].dataset) for i, j in zip(mine, other, strict=True)):
            if f"{name}/{store.ids[i]}" in among:
                found[name, owner].append(store.ids[i])
    return [Stranger(name, owner, tuple(ids)) for (name, owner), ids in found.items()]


def summary(overlaps: Sequence[Overlap], strangers: Sequence[Stranger]) -> list[str]:
    """Describe the findings in sentences."""
    leaks = [overlap for overlap in overlaps if overlap.verdict == "LEAK"]
    lines = [f"LEAK across {len(leaks)} of these boundaries" if leaks else "clean: nothing crosses a boundary"]
    lines += [sentence for leak in leaks for sentence in _wholes(leak)]
    return lines + [
        f"warning: {len(group.ids)} images of {group.dataset} belong to {group.belongs_to}, which is not among these "
        f"data sets; a model trained on them has seen it: {_runs(group.ids)}"
        for group in strangers
    ]


def describe_leaks(overlaps: Sequence[Overlap]) -> list[str]:
    """Name what two parts, or two data sets of one part, share: a sentence each, for the notes of a split."""
    lines = []
    for found in overlaps:
        if found.verdict != "ok" and found.first.place != found.second.place:
            lines += list(_wholes(found)) or [f"{found.first.place} and {found.second.place} share {_count(found)}"]
    return lines


def write_pairs(path: Path, evidence: Evidence, overlaps: Sequence[Overlap]) -> None:
    """Write the duplicates as CSV, a row per pair."""
    with atomic_path(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["first", "second", "bits", "kind", "first_place", "second_place", "verdict"])
        for found in overlaps:
            for i, j, bits, exact in found.pairs:
                kind = "exact" if exact else "near"
                places = found.first.place, found.second.place
                table.writerow([evidence.ids[i], evidence.ids[j], bits, kind, *places, found.verdict])


def write_sequences(path: Path, overlaps: Sequence[Overlap]) -> None:
    """Write the groups on both sides of a boundary as CSV, a row per group and boundary."""
    with atomic_path(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["sequence", "first_place", "second_place"])
        table.writerows(
            [shared.sequence, found.first.place, found.second.place] for found in overlaps for shared in found.shared
        )


def _pairs(evidence: Evidence, where: Indices) -> dict[tuple[int, int], Indices]:
    """Sort the duplicates by where (N,) their images stand, the earlier place first."""
    ends = np.stack([evidence.first, evidence.second], axis=1)
    ends = np.take_along_axis(ends, np.argsort(where[ends], axis=1, kind="stable"), axis=1)
    table = np.column_stack([ends, evidence.distance, evidence.exact]).astype(np.int64)
    a, b = where[ends].T
    order = np.lexsort((table[:, 2], -table[:, 3], b, a))
    order = order[a[order] >= 0]
    keys, starts = np.unique(np.stack([a[order], b[order]], axis=1), axis=0, return_index=True)
    tables = np.split(table[order], starts[1:])
    return {(int(a), int(b)): rows for (a, b), rows in zip(keys, tables, strict=False)}  # no key: one empty table


def _shared(
    evidence: Evidence, belongs: Sequence[Sequence[str]], where: Indices, places: Sequence[Place]
) -> dict[tuple[int, int], list[Shared]]:
    """List the groups that are found in two different parts; ``belongs`` (N,) has the groups of each image."""
    homes: dict[str, dict[int, str]] = defaultdict(dict)
    for id_, names, code in zip(evidence.ids, belongs, where.tolist(), strict=True):
        if code >= 0:
            for name in names:
                homes[name].setdefault(code, id_)
    found: dict[tuple[int, int], list[Shared]] = defaultdict(list)
    for name, images in homes.items():
        for a, b in combinations(sorted(images), 2):
            if places[a].part != places[b].part:
                found[a, b].append(Shared(name, images[a], images[b]))
    return found


def _side(
    evidence: Evidence,
    belongs: Sequence[Sequence[str]],
    ends: Indices,
    where: Indices,
    places: Sequence[Place],
    code: int,
) -> Side:
    """Count what stands on one side, where ``ends`` are the rows of all images that have a duplicate."""
    here = np.nonzero(where == code)[0].tolist()
    images = tuple(evidence.ids[row] for row in ends[where[ends] == code])
    return Side(places[code], images, len(here), len({name for row in here for name in belongs[row]}))


def _with_quiet(overlaps: Sequence[Overlap], rank: Mapping[str, int]) -> list[Overlap]:
    """Add the pairs of parts of which there is nothing to say; first comes what is within a part."""
    quiet = {(part, part) for part in rank} | set(combinations(rank, 2))
    quiet -= {(overlap.first.place.part, overlap.second.place.part) for overlap in overlaps}
    silent = [Overlap(Side(Place(a, "")), Side(Place(b, "")), _NONE) for a, b in quiet]

    def key(overlap: Overlap) -> tuple[bool, int, int]:
        first, second = rank[overlap.first.place.part], rank[overlap.second.place.part]
        return first != second, first, second

    return sorted([*overlaps, *silent], key=key)


def _wholes(overlap: Overlap) -> Iterator[str]:
    """Say where all images or all groups of one side are on the other too."""
    for side, other in ((overlap.first, overlap.second), (overlap.second, overlap.first)):
        if len(side.images) == side.size:
            yield f"all {side.size} images of {side.place} are in {other.place} too: {_runs(other.images)}"
    if 0 < overlap.second.sequences == len(overlap.shared):
        example = overlap.shared[0].sequence
        yield (
            f"all {overlap.second.sequences} groups of {overlap.second.place} are in {overlap.first.place} too, "
            f"such as {example}"
        )


def _count(overlap: Overlap) -> str:
    """Count what two places share: ``2 groups and 3 pairs of near duplicates``."""
    counts = {"groups": len(overlap.shared), "exact duplicates": overlap.exact, "near duplicates": overlap.near}
    return " and ".join(f"{count} {what}" for what, count in counts.items() if count)


def _runs(ids: Sequence[str]) -> str:
    """Write ids briefly: numbers as runs such as 149–208, others as the first three."""
    stems = [id_.rpartition("/")[2] for id_ in ids]
    if not all(stem.isdecimal() for stem in stems):
        return abbreviate(stems)
    runs: list[list[int]] = []
    for number in sorted(map(int, stems)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return abbreviate("–".join(map(str, run)) for run in runs)
