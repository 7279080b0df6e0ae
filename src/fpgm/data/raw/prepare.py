"""From recognised files to a store: hash, decode in parallel, write; a second run does only what has changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from fpgm.data.catalog import CATALOG
from fpgm.data.manifest import ImageRow, LeftOut, Manifest, versions
from fpgm.data.parallel import Progress, Workers, counted
from fpgm.data.pictures import RULES, check_size
from fpgm.data.raw.decoding import Input, decode
from fpgm.data.raw.layouts import Found
from fpgm.data.raw.pairs import Pair
from fpgm.data.store import Store, StoredImage, write_store

Decoder = Callable[[Input], StoredImage | LeftOut]
Key = tuple[str, str | None, str | None]


@dataclass(frozen=True)
class Outcome:
    """Result for one data set; ``manifest`` is None if none of its images could be used."""

    name: str
    status: Literal["written", "up to date", "nothing usable"]
    problems: tuple[LeftOut, ...]
    manifest: Manifest | None = None
    decoded: int = 0


def prepare(
    found: Found, out: Path, size: int = 256, workers: Workers | None = None, progress: Progress | None = None
) -> Outcome:
    """Prepare one data set into ``out/<name>``, decoding only what has changed since the last run.

    Args:
        found: data set that ``layouts.recognise`` or ``layouts.own_folders`` returned.
        out: the store's folder.
        size: side S of the prepared images.
        workers: processes that decode; if not given, this process does.
        progress: called after every file.
    """
    check_size(size)
    workers = workers or Workers()
    folder = out / found.name
    inputs = _hash_all(found, workers, progress)
    header: dict[str, Any] = {"name": found.name, "source": found.layout, "size": size, "rules": RULES}
    header["inputs"] = _digest(inputs, found.problems)
    old = _previous(folder)
    if old and old.manifest.model_dump(include=set(header)) == header:
        return Outcome(found.name, "up to date", old.manifest.problems, old.manifest)
    kept = _reusable(old, size)
    problems = list(found.problems)
    results = _results(inputs, old, kept, partial(decode, size=size), workers)
    records = _usable(counted(results, "prepare", len(inputs), progress), problems)
    first = next(records, None)
    if first is None:
        return Outcome(found.name, "nothing usable", tuple(problems))

    def describe(rows: tuple[ImageRow, ...]) -> Manifest:
        return Manifest.describe(rows, [*problems, *_miscount(found.name, rows)], **header)

    manifest = write_store(folder, chain([first], records), describe)
    decoded = sum(item.key not in kept for item in inputs)
    return Outcome(found.name, "written", manifest.problems, manifest, decoded)


def _hash_all(found: Found, workers: Workers, progress: Progress | None) -> list[Input]:
    """Read every file once: cheap beside decoding, and all a second run needs."""
    with ThreadPoolExecutor(workers.count) as pool:
        hashed = pool.map(partial(_hash_pair, found), found.pairs)
        return list(counted(hashed, "hash", len(found.pairs), progress))


def _hash_pair(found: Found, pair: Pair) -> Input:
    image = _sha256(pair.image)
    if pair.mask is None:
        return Input(pair, found.relative(pair.image), None, image, None)
    mask = image if pair.mask == pair.image else _sha256(pair.mask)
    return Input(pair, found.relative(pair.image), found.relative(pair.mask), image, mask)


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:  # said when it is decoded
        return ""


def _digest(inputs: Iterable[Input], problems: Iterable[LeftOut]) -> str:
    """Hash everything that decides the content of the store, except the rules."""
    rows = [[item.pair.id, *item[1:]] for item in inputs], [asdict(problem) for problem in problems]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def _previous(folder: Path) -> Store | None:
    """Return the store of an earlier run; None if there is no readable one."""
    try:
        store = Store.open(folder)
        return store if store.manifest else None
    except (OSError, ValueError):
        return None


def _reusable(old: Store | None, size: int) -> dict[Key, int]:
    """Find the rows of an earlier store that were made by these rules and releases."""
    if old is None or (old.manifest.size, old.manifest.rules, old.manifest.versions) != (size, RULES, versions()):
        return {}
    rows = enumerate(old.manifest.images)
    return {(row.id, row.image_sha256, row.mask_sha256): place for place, row in rows}


def _results(
    inputs: Sequence[Input], old: Store | None, kept: Mapping[Key, int], decode: Decoder, workers: Workers
) -> Iterator[StoredImage | LeftOut]:
    """Decode each input, or reuse it from the earlier store; in order."""
    decoded = workers.map(decode, [item for item in inputs if item.key not in kept])
    for item in inputs:
        place = kept.get(item.key)
        yield next(decoded) if old is None or place is None else _copy(old, place, item)


def _copy(old: Store, place: int, item: Input) -> StoredImage:
    row = old.manifest.images[place]._replace(image=item.image, mask=item.mask)
    mask = None if item.mask is None else old.masks([place])[0]
    return StoredImage(row, old.images([place])[0], mask, old.dhash[place])


def _usable(results: Iterable[StoredImage | LeftOut], problems: list[LeftOut]) -> Iterator[StoredImage]:
    """Pass the records on and collect the problems."""
    for result in results:
        if isinstance(result, LeftOut):
            problems.append(result)
        else:
            yield result


def _miscount(name: str, rows: Iterable[ImageRow]) -> Iterator[LeftOut]:
    """Compare with the catalogue."""
    counts = CATALOG[name].counts if name in CATALOG else None
    usable = sum(row.foreground is not None for row in rows)
    if counts and usable != counts.total:
        yield LeftOut("wrong count", "", f"{name}: expected {counts.total} pairs, found {usable} usable ones")
