"""Files below a folder: pictures with their place in it, and a count of the files that are not read."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from fpgm.data.manifest import MANIFEST
from fpgm.data.names import natural
from fpgm.data.pictures import DICOM, Refused, count_dicom_frames, read_picture_file, readable

HDF5 = frozenset({".h5", ".hdf5"})
_SYSTEM = frozenset({"thumbs.db", "desktop.ini", "__macosx"})  # files and folders that systems leave behind


class Entry(NamedTuple):
    """A picture: its file, its folder below the one that was given, its stem, and its frame if the file has several."""

    path: Path
    place: str
    stem: str
    frame: int | None = None

    @property
    def id(self) -> str:
        """Its place and stem, by which it is known in its data set."""
        return f"{self.place}/{self.stem}" if self.place else self.stem


Files = tuple[list[Entry], list[Entry]]  # images, masks


def entry(path: Path, place: str = "") -> Entry:
    """Return a file as an entry."""
    return Entry(path, place, path.stem)


def subfolders(folder: Path) -> dict[str, Path]:
    """Return the visible subfolders by lower-case name, in natural order."""
    return {name.casefold(): folder / name for name in _names(folder, os.DirEntry.is_dir)}


def pictures_in(folder: Path, suffixes: frozenset[str] | None = None) -> list[Entry]:
    """Return the visible pictures of a folder, not of those below it, in natural order."""
    wanted = suffixes or readable()
    names = _names(folder, lambda item: not item.is_dir())
    return [entry(folder / name) for name in names if Path(name).suffix.casefold() in wanted]


def pictures_below(folder: Path | None, without: Collection[Path] = ()) -> list[Entry]:
    """Return the visible pictures of a folder and of all folders below it.

    Args:
        folder: where to look; nothing is found in None.
        without: folders to pass over.
    """
    if folder is None:
        return []
    while not pictures_in(folder) and list(subfolders(folder)) == [folder.name.casefold()]:
        folder /= next(iter(subfolders(folder).values())).name  # as unpacking makes it
    found = []
    for below in _folders_below(folder, without):
        place = below.relative_to(folder).as_posix()
        found += [one._replace(place="" if place == "." else place) for one in pictures_in(below)]
    return found


def expand(entries: Iterable[Entry]) -> list[Entry]:
    """Replace each DICOM file of several frames by its frames, called stem-0001 and so on."""
    found: list[Entry] = []
    for one in entries:
        count = _frames(one.path) if one.path.suffix.casefold() in DICOM else 1
        if count == 1:
            found.append(one)
        else:
            found += [one._replace(stem=f"{one.stem}-{frame + 1:04d}", frame=frame) for frame in range(count)]
    return found


def count_unread(folders: Iterable[Path], is_read: Callable[[Path], bool]) -> dict[str, int]:
    """Count the visible files below folders that are not read, by suffix, most first.

    Prepared stores are passed over, and files that systems leave behind.
    """
    rest: set[Path] = set()
    for folder in folders:
        for below in _folders_below(folder):
            if not (below / MANIFEST).is_file():
                rest |= {below / name for name in _names(below, lambda item: not item.is_dir())}
    kinds = Counter(path.suffix.casefold() or "without suffix" for path in rest if not is_read(path))
    return dict(sorted(kinds.items(), key=lambda kind: (-kind[1], kind[0])))


def _frames(path: Path) -> int:
    """Count the frames of a DICOM file; whatever is wrong with it is said when it is decoded."""
    try:
        return count_dicom_frames(read_picture_file(path))
    except (OSError, Refused):
        return 1


def _folders_below(folder: Path, without: Collection[Path] = ()) -> Iterator[Path]:
    """Yield a folder and those below it, each once, whatever links there are."""
    seen = {path.resolve() for path in without}
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        if (real := here.resolve()) in seen:
            continue
        seen.add(real)
        yield here
        waiting += reversed(subfolders(here).values())


def _names(folder: Path, choose: Callable[[os.DirEntry[str]], bool]) -> list[str]:
    with os.scandir(folder) as entries:
        names = [item.name for item in entries if not item.name.startswith(".") and choose(item)]
    return sorted((name for name in names if name.casefold() not in _SYSTEM), key=natural)
