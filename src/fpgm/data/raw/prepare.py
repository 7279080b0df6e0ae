"""From recognised files to a store: hash, decode in parallel, write; a second run does only what has changed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from fpgm.data.catalog import CATALOG
from fpgm.data.manifest import ImageRow, LeftOut, Manifest, versions
from fpgm.data.parallel import Progress, Workers, counted
from fpgm.data.pictures import check_size, rules
from fpgm.data.raw.changes import check_changes
from fpgm.data.raw.decoding import Input, decode_run, runs
from fpgm.data.raw.hints import find_hints
from fpgm.data.raw.layouts import Found
from fpgm.data.raw.pairs import Pair
from fpgm.data.store import Store, StoredImage, write_store
from fpgm.files import LOCK, check_name, file_sha256

Decoder = Callable[[list[Input]], list[StoredImage | LeftOut]]
Key = tuple[str, str | None, str | None]


@dataclass(frozen=True)
class Outcome:
    """Result for one data set; ``manifest`` is None if none of its images could be used."""

    name: str
    status: Literal["written", "up to date", "nothing usable"]
    problems: tuple[LeftOut, ...]
    manifest: Manifest | None = None
    decoded: int = 0
    hints: tuple[str, ...] = ()


def prepare(
    found: Found,
    out: Path,
    size: int = 256,
    workers: Workers | None = None,
    progress: Progress | None = None,
    *,
    keep_empty: bool | None = None,
    replace: bool = False,
) -> Outcome:
    """Prepare one data set into ``out/<name>``, decoding only what has changed since the last run.

    Args:
        found: data set that ``layouts.recognise`` or ``layouts.own_folders`` returned.
        out: the store's folder.
        size: side S of the prepared images.
        workers: processes that decode; if not given, this process does.
        progress: called after every file.
        keep_empty: whether an empty mask is that of a frame without polyps; if not given, it is one in data sets that
            are not in the catalogue.
        replace: whether images that are in the store already may vanish or change; else that is refused.
    """
    check_size(size)
    check_name(found.name, "the name of the data set, which --name can change,")
    workers = workers or Workers()
    keep = found.name not in CATALOG if keep_empty is None else keep_empty
    folder = out / found.name
    inputs = _hash_all(found, workers, progress)
    header: dict[str, Any] = {"name": found.name, "source": found.layout, "size": size, "rules": rules(keep)}
    header["inputs"] = _digest(inputs, found.problems)
    old = _previous(folder)
    if old and old.manifest.model_dump(include=set(header)) == header:
        hints = find_hints(found.pairs, old.manifest.problems, old)
        return Outcome(found.name, "up to date", old.manifest.problems, old.manifest, hints=hints)
    if old and not replace:
        check_changes(old.manifest, inputs, size, keep, found.layout)
    kept = _reusable(old, size, keep)
    decoder = partial(decode_run, size=size, keep_empty=keep)
    results = _results(inputs, old, kept, decoder, workers)
    outcome = _write(found, folder, counted(results, "prepare", len(inputs), progress), header)
    return dataclasses.replace(outcome, decoded=sum(item.key not in kept for item in inputs))


class NoPolyps(ValueError):
    """A data set in which no mask marks anything."""


def _write(found: Found, folder: Path, results: Iterable[StoredImage | LeftOut], header: Mapping[str, Any]) -> Outcome:
    """Write what could be decoded, if there is any, and say what could not."""
    problems = list(found.problems)
    records = _usable(results, problems)
    first = next(records, None)
    if first is None:
        return Outcome(found.name, "nothing usable", tuple(problems), hints=find_hints(found.pairs, problems, None))

    def describe(rows: tuple[ImageRow, ...]) -> Manifest:
        _check_polyps(found.name, rows)
        return Manifest.describe(rows, [*problems, *_miscount(found.name, rows)], **header)

    try:
        manifest = write_store(folder, chain([first], records), describe)
    except NoPolyps:
        _remove_empty(folder)
        raise
    hints = find_hints(found.pairs, manifest.problems, Store.open(folder))
    return Outcome(found.name, "written", manifest.problems, manifest, hints=hints)


def _remove_empty(folder: Path) -> None:
    """Remove the folder of a store in which nothing was written, and the one above it if it is empty."""
    with suppress(OSError):
        if [path.name for path in folder.iterdir()] == [LOCK]:
            (folder / LOCK).unlink()
            folder.rmdir()
            folder.parent.rmdir()


def _check_polyps(name: str, rows: Iterable[ImageRow]) -> None:
    """Refuse a data set in which no mask marks anything."""
    shares = [row.foreground for row in rows if row.foreground is not None]
    if shares and not any(shares):
        raise NoPolyps(
            f"{name}: all {len(shares)} masks are empty, every value in them is 0; masks are 0/1 or 0/255, so look "
            "whether they were saved wrongly, and whether the folder is the right one; nothing was written. Frames "
            "without polyps are used beside some that have one, or as --unlabeled"
        )


def _hash_all(found: Found, workers: Workers, progress: Progress | None) -> list[Input]:
    """Read every file once: cheap beside decoding, and all a second run needs."""
    with ThreadPoolExecutor(workers.count) as pool:
        hashed = pool.map(partial(_hash_pair, found, cache(_sha256)), found.pairs)
        return list(counted(hashed, "hash", len(found.pairs), progress))


def _hash_pair(found: Found, sha256: Callable[[Path], str], pair: Pair) -> Input:
    """Name and hash the files of a pair; a file of several frames is hashed once."""
    image = sha256(pair.image)
    if pair.mask is None:
        return Input(pair, found.relative(pair.image), None, image, None)
    mask = sha256(pair.mask)
    return Input(pair, found.relative(pair.image), found.relative(pair.mask), image, mask)


def _sha256(path: Path) -> str:
    try:
        return file_sha256(path)
    except (OSError, ValueError):  # said when it is decoded
        return ""


def _digest(inputs: Iterable[Input], problems: Iterable[LeftOut]) -> str:
    """Hash everything that decides the content of the store, except the rules."""
    known = [(item, [one for one in (item.pair.group, item.pair.part) if one]) for item in inputs]
    rows = [[item.pair.id, *item[1:], *more] for item, more in known], [asdict(problem) for problem in problems]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def _previous(folder: Path) -> Store | None:
    """Return the store of an earlier run; None if there is no readable one."""
    try:
        store = Store.open(folder)
        return store if store.manifest else None
    except (OSError, ValueError):
        return None


def _reusable(old: Store | None, size: int, keep_empty: bool) -> dict[Key, int]:
    """Find the rows of an earlier store that were made by these rules and releases, with empty masks or without."""
    if old is None or (old.manifest.size, old.manifest.versions) != (size, versions()):
        return {}
    if old.manifest.rules not in (rules(True), rules(False)):
        return {}
    rows = [(place, row) for place, row in enumerate(old.manifest.images) if keep_empty or row.foreground != 0]
    return {(row.id, row.image_sha256, row.mask_sha256): place for place, row in rows}


def _results(
    inputs: Sequence[Input], old: Store | None, kept: Mapping[Key, int], decode: Decoder, workers: Workers
) -> Iterator[StoredImage | LeftOut]:
    """Decode each input, or reuse it from the earlier store; in order."""
    new = runs(item for item in inputs if item.key not in kept)
    decoded = chain.from_iterable(workers.map(decode, new, waits=True))
    for item in inputs:
        place = kept.get(item.key)
        yield next(decoded) if old is None or place is None else _copy(old, place, item)


def _copy(old: Store, place: int, item: Input) -> StoredImage:
    row = old.manifest.images[place]._replace(image=item.image, mask=item.mask)
    row = row._replace(group=item.pair.group, part=item.pair.part)
    mask = None if item.mask is None else old.masks([place])[0]
    return StoredImage(row, old.images([place])[0], mask, old.dhash[place])


def _usable(results: Iterable[StoredImage | LeftOut], problems: list[LeftOut]) -> Iterator[StoredImage]:
    """Pass the records on and collect the problems, one for all frames of a file."""
    for result in results:
        if isinstance(result, LeftOut):
            problems += [result] if result not in problems[-1:] else []
        else:
            yield result


def _miscount(name: str, rows: Iterable[ImageRow]) -> Iterator[LeftOut]:
    """Compare with the catalogue."""
    counts = CATALOG[name].counts if name in CATALOG else None
    usable = sum(row.foreground is not None for row in rows)
    if counts and usable != counts.total:
        yield LeftOut("wrong count", "", f"{name}: expected {counts.total} pairs, found {usable} usable ones")
