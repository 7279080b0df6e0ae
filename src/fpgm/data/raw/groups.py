"""Groups of images that must stay together, such as those of a patient or a video: from a table, or by folder."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath

from fpgm.data.names import abbreviate
from fpgm.data.raw.layouts import Found
from fpgm.data.raw.pairs import Pair
from fpgm.files import read_file

BY_FOLDER = "folder"
COLUMNS = ("name", "group")


@dataclass(frozen=True)
class Grouping:
    """How the images of data sets were grouped."""

    groups: int
    grouped: int
    without: tuple[str, ...]  # ids of images that have no group, with their data set
    unknown: tuple[str, ...]  # names in the table that no image has

    def sentence(self) -> str:
        """Say it for a person."""
        text = f"{self.grouped} images are in {self.groups} groups"
        if self.without:
            text += f"; {len(self.without)} are in none ({abbreviate(self.without)})"
        if self.unknown:
            text += f"; {len(self.unknown)} names of the table are no image's ({abbreviate(self.unknown)})"
        return text


def set_groups(found: Sequence[Found], source: str) -> tuple[list[Found], Grouping]:
    """Give each image its group.

    Args:
        found: the data sets.
        source: ``folder``, by which an image's group is the first folder of its place; or a CSV file with the columns
            name and group. A name is an image's id, file name or stem, with folders or without.
    """
    if source == BY_FOLDER:
        grouped = [_by_folder(one) for one in found]
        unknown: tuple[str, ...] = ()
    else:
        grouped, unknown = _by_table(found, _read_table(Path(source)), source)
    pairs = [(one.name, pair) for one in grouped for pair in one.pairs]
    names = {(name, pair.group) for name, pair in pairs if pair.group}
    if not names:
        raise ValueError(_nobody(source))
    without = tuple(f"{name}/{pair.id}" for name, pair in pairs if not pair.group)
    return grouped, Grouping(len(names), len(pairs) - len(without), without, unknown)


def _by_folder(found: Found) -> Found:
    return _with_groups(found, lambda pair: pair.place.partition("/")[0])


def _with_groups(found: Found, group: Callable[[Pair], str | None]) -> Found:
    """Give each image the group that a function says, or leave that which it has."""
    return replace(found, pairs=tuple(pair._replace(group=group(pair) or pair.group) for pair in found.pairs))


def _nobody(source: str) -> str:
    if source == BY_FOLDER:
        return "--groups folder: no image is in a folder below the folder of images; give a table name,group instead"
    return f"--groups {source}: no image has a name of this table; a name is an image's id, file name or stem"


def _by_table(found: Sequence[Found], table: Mapping[str, str], source: str) -> tuple[list[Found], tuple[str, ...]]:
    images: dict[str, set[Path]] = defaultdict(set)
    for one in found:
        for pair in one.pairs:
            for name in _names(one, pair):
                images[name].add(pair.image)
    for name in table:
        if len(images.get(name, ())) > 1:
            paths = abbreviate(sorted(path.as_posix() for path in images[name]))
            raise ValueError(f"{source}: {name} is the name of several images ({paths}); write it with its folder")

    def group(one: Found, pair: Pair) -> str | None:
        return next((table[name] for name in _names(one, pair) if name in table), None)

    grouped = [_with_groups(one, partial(group, one)) for one in found]
    return grouped, tuple(name for name in table if name not in images)


def _names(found: Found, pair: Pair) -> Iterator[str]:
    """Yield what an image may be called in a table, in lower case, most exact name first."""
    file = PurePosixPath(found.relative(pair.image))
    ids = pair.id, _file_id(pair)
    paths = file.as_posix(), file.with_suffix("").as_posix(), file.name, file.stem
    for name in (*(f"{found.name}/{id_}" for id_ in ids), *ids, *paths, PurePosixPath(pair.id).name):
        yield name.casefold()


def _file_id(pair: Pair) -> str:
    """Return the id without the number of the frame."""
    return pair.id if pair.frame is None else pair.id.rpartition("-")[0]


def _read_table(path: Path) -> dict[str, str]:
    """Read groups by name in lower case; an empty group is none."""
    if not path.is_file():
        raise ValueError(
            f"--groups {path} is not a file; give a CSV file with the columns name,group, or the word folder"
        )
    text = read_file(path, path.resolve().parent).decode("utf-8-sig", errors="replace")
    delimiter = ";" if ";" in text.partition("\n")[0] else ","
    rows = csv.DictReader(io.StringIO(text), delimiter=delimiter, restval="")
    rows.fieldnames = [name.strip().casefold() for name in rows.fieldnames or ()]
    if not set(COLUMNS) <= set(rows.fieldnames):
        raise ValueError(f"{path} has the columns {', '.join(rows.fieldnames)}; the first line must be name,group")
    table: dict[str, str] = {}
    for row in rows:
        name, group = row["name"].strip().casefold(), row["group"].strip()
        if not name or not group:
            continue
        if not group.isprintable() or table.setdefault(name, group) != group:
            raise ValueError(f"{path}: {name} has a group that is not plain text, or two groups; give it one")
    return table
