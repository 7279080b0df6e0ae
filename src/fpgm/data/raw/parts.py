"""A split that raw folders have already: which part of it an image is in, by the first folder of its place."""

from __future__ import annotations

from collections.abc import Iterable

from fpgm.data.raw.pairs import Pair
from fpgm.data.raw.walk import Entry, Files

PARTS = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
    "testing": "test",
}  # name of a folder -> part


def in_part(part: str, entries: Iterable[Entry]) -> list[Entry]:
    """Put entries into the folder of a part."""
    return [one._replace(place=f"{part}/{one.place}".rstrip("/")) for one in entries]


def name_parts(files: Files) -> tuple[Files, bool]:
    """Write the folders of parts alike, such as ``val`` and ``valid``; False if the images are not in such folders.

    A split has two parts at least, and no image outside of them.
    """
    images, masks = files
    parts = {_split(one.place)[0] for one in images}
    if None in parts or len(parts) < 2:
        return files, False
    return (list(map(_named, images)), list(map(_named, masks))), True


def assign_parts(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """Take the part of each pair from its place; where only one part has pairs there is no split, and it is None."""
    divided = []
    for pair in pairs:
        part, place = _split(pair.place)
        divided.append(pair._replace(part=part, place=place))
    if len({pair.part for pair in divided}) < 2:
        divided = [pair._replace(part=None) for pair in divided]
    return tuple(divided)


def _split(place: str) -> tuple[str | None, str]:
    """Return the part that the first folder of a place names, and the rest."""
    first, _, rest = place.partition("/")
    part = PARTS.get(first.casefold())
    return (part, rest) if part else (None, place)


def _named(one: Entry) -> Entry:
    part, rest = _split(one.place)
    return one._replace(place=f"{part}/{rest}".rstrip("/")) if part else one
