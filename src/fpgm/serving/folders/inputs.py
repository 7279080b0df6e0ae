"""Inputs of a prediction: files, folders, patterns and videos, with a name for the results of each.

Moving pictures are animated GIF, WebP and PNG files and TIFF files of several pages, which Pillow reads, DICOM files of
several frames, for which pydicom must be installed, and films, for which PyAV must be.
"""

from __future__ import annotations

import glob
from collections.abc import Container, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from PIL import Image

from fpgm.data.names import printable
from fpgm.data.pictures import DICOM, count_dicom_frames, read_dicom, read_frames, read_picture_file, readable
from fpgm.data.videos import read_video

VIDEOS = frozenset({".mp4", ".avi", ".mov", ".mkv", ".m4v", ".mpg", ".mpeg", ".wmv", ".webm"})


class Source(NamedTuple):
    """A file, and the name under which its results are to be found: a path with ``/`` and without suffix."""

    path: Path
    name: str


class Frames(NamedTuple):
    """The pictures of a file, one after the other; `moving` if it can have several."""

    moving: bool
    pictures: Iterator[Image.Image]


def find_sources(given: Sequence[str], without: Sequence[Path] = ()) -> list[Source]:
    """Return each file once, in the order given, folders and patterns sorted.

    Args:
        given: files of any name; folders, of which every picture and video below is taken; patterns as a shell has
            them, ``**`` for any folders. Names that begin with a dot are left out.
        without: folders whose files are left out: those that will be written to.
    """
    barred = [folder.resolve() for folder in without]
    found: dict[Path, Source] = {}
    for text in given:
        usable = {source.path.resolve(): source for source in _expand(text)}
        usable = {path: one for path, one in usable.items() if not any(path.is_relative_to(bar) for bar in barred)}
        if not usable:
            kinds = " ".join(sorted(readable() | VIDEOS))
            raise FileNotFoundError(f"{text} holds no picture and no video: no file with one of {kinds}")
        for path, source in usable.items():
            found.setdefault(path, source)
    return list(found.values())


def _expand(text: str) -> list[Source]:
    path = Path(text)
    if path.is_dir():
        return _below(path, path.rglob("*"))
    if path.exists():
        if not path.is_file():
            raise ValueError(f"{text} is not a regular file: give picture or video files, folders or patterns")
        return [Source(path, path.stem)]
    if not glob.has_magic(text):
        raise FileNotFoundError(f"there is no file or folder {text}")
    if not (matches := sorted(map(Path, glob.glob(text, recursive=True)))):  # noqa: PTH207 (the pattern may be absolute)
        raise FileNotFoundError(f"nothing matches {text}")
    fixed = Path(*_until_magic(path.parts))
    return _below(fixed, (one for match in matches for one in (match.rglob("*") if match.is_dir() else [match])))


def _until_magic(parts: Sequence[str]) -> list[str]:
    """Return the folders of a pattern before the first that is a pattern itself."""
    first = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    return list(parts[:first])


def _below(folder: Path, paths: Iterator[Path]) -> list[Source]:
    """Return the pictures and videos among paths below a folder, named by their place in it."""
    sources, wanted = [], readable() | VIDEOS
    for path in sorted(set(paths)):
        place = path.relative_to(folder)
        shown = not any(part.startswith(".") for part in place.parts)
        if shown and path.suffix.casefold() in wanted and path.is_file():
            sources.append(Source(path, place.with_suffix("").as_posix()))
    return sources


def distinct(source: Source, taken: Container[str]) -> str:
    """Return the source's name, or one near it, that shares no file with names taken before.

    Taken are names in lower case and, with ``/`` at the end, the folders they are in: a moving picture fills a folder
    of its name. Tried are the name, the name with its suffix, and then, outside of folders, numbers.
    """
    stem, suffix = printable(source.name), printable(source.path.suffix)

    def free(name: str) -> bool:
        low = PurePosixPath(name.casefold())
        folders = [str(folder) for folder in low.parents]
        return str(low) not in taken and f"{low}/" not in taken and not any(one in taken for one in folders)

    if free(stem):
        return stem
    if free(stem + suffix):
        return stem + suffix
    flat, number = stem.replace("/", "_"), 2
    while not free(f"{flat}-{number}"):
        number += 1
    return f"{flat}-{number}"


def claims(name: str) -> set[str]:
    """Return what a name takes, as `distinct` asks for it."""
    low = PurePosixPath(name.casefold())
    return {str(low), *(f"{folder}/" for folder in low.parents if str(folder) != ".")}


def is_film(path: Path) -> bool:
    """Whether a file is a film by its name."""
    return path.suffix.casefold() in VIDEOS


def open_frames(path: Path) -> Frames:
    """Open a picture or film; raise ``Refused`` here or later if it is damaged."""
    if is_film(path):
        return Frames(True, read_video(path))
    data = read_picture_file(path)
    if path.suffix.casefold() in DICOM:
        count = count_dicom_frames(data)
        return Frames(count > 1, (picture.convert("RGB") for picture in read_dicom(data, range(count))))
    count, pictures = read_frames(data)
    return Frames(count > 1, pictures)
