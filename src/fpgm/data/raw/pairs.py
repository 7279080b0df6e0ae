"""Which mask belongs to which image: matching files by their stems, and a note of every file that is left out."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from fpgm.data.manifest import LeftOut
from fpgm.data.names import natural, printable

Bases = tuple[tuple[str, Path], ...]  # file names are written relative to these folders, behind these prefixes
_MASK_STEM = re.compile("p(.+)|(.+)[_-](?:masks?|seg|segmentation|gt|label)")


class Pair(NamedTuple):
    """An image and its mask, None if it is unlabelled; an HDF5 file can be both."""

    id: str
    image: Path
    mask: Path | None


Matched = tuple[tuple[Pair, ...], tuple[LeftOut, ...]]


def relative(path: Path, bases: Bases) -> str:
    """Write a path relative to the innermost base that holds it, behind that base's prefix."""
    prefix, base = max((b for b in bases if path.is_relative_to(b[1])), key=lambda b: len(b[1].parts))
    return printable((Path(prefix) / path.relative_to(base)).as_posix())


def match(images: Iterable[Path], masks: Iterable[Path], bases: Bases) -> Matched:
    """Pair images and masks of equal stems; a mask may have p before its stem or _mask, _seg, _gt … behind it."""
    pictures, answers = _by_stem(images), defaultdict(list)
    for mask in masks:
        answers[_image_stem(mask, pictures)].append(mask)
    pairs, problems = [], []
    for stem, files in pictures.items():
        own = answers.pop(stem, [])
        if len(files) > 1 or len(own) > 1:
            problems += duplicates((*files, *own), bases)
        elif not own:
            reason = f"no mask of stem {printable(stem)}; if it has none, give its folder by --unlabeled"
            problems.append(LeftOut("missing mask", relative(files[0], bases), reason))
        else:
            pairs.append(Pair(files[0].stem, files[0], own[0]))
    lonely = [relative(path, bases) for rest in answers.values() for path in rest]
    problems += [LeftOut("missing image", file, "a mask without an image of its stem") for file in lonely]
    return finish(pairs, problems, bases)


def match_unlabeled(images: Iterable[Path], labeled: Iterable[Pair], bases: Bases) -> Matched:
    """Take images that have no masks; a stem that is labelled already is left out."""
    taken = {pair.id.casefold() for pair in labeled}
    pairs, problems = [], []
    for stem, files in _by_stem(images).items():
        if len(files) > 1 or stem in taken:
            problems += duplicates(files, bases)
        else:
            pairs.append(Pair(files[0].stem, files[0], None))
    return finish(pairs, problems, bases)


def join(parts: Iterable[Matched], bases: Bases) -> Matched:
    """Make one list of several; a stem that occurs in two of them is left out."""
    groups: dict[str, list[Pair]] = defaultdict(list)
    problems: list[LeftOut] = []
    for pairs, more in parts:
        problems += more
        for pair in pairs:
            groups[pair.id.casefold()].append(pair)
    for group in groups.values():
        if len(group) > 1:
            problems += duplicates([pair.image for pair in group], bases)
    return finish([group[0] for group in groups.values() if len(group) == 1], problems, bases)


def duplicates(files: Iterable[Path], bases: Bases) -> list[LeftOut]:
    """Say of each of several files that their stems are equal."""
    reason = "several files have the stem {}; keep one"
    return [LeftOut("duplicate stem", relative(path, bases), reason.format(printable(path.stem))) for path in files]


def finish(pairs: Iterable[Pair], problems: Iterable[LeftOut], bases: Bases) -> Matched:
    """Sort; leave out ids that could not stand on a line of a text file."""
    kept, rest = [], list(problems)
    for pair in pairs:
        if pair.id.isprintable() and pair.id == pair.id.strip():
            kept.append(pair)
        else:
            rest.append(LeftOut("file name", relative(pair.image, bases), "not plain text; rename the file"))
    by_file = sorted(rest, key=lambda problem: natural(problem.file))
    return tuple(sorted(kept, key=lambda pair: natural(pair.id))), tuple(by_file)


def _by_stem(files: Iterable[Path]) -> dict[str, list[Path]]:
    groups: dict[str, list[Path]] = defaultdict(list)
    for path in files:
        groups[path.stem.casefold()].append(path)
    return groups


def _image_stem(mask: Path, pictures: dict[str, list[Path]]) -> str:
    """Return the stem of the image a mask is named after, or its own."""
    stem = mask.stem.casefold()
    found = _MASK_STEM.fullmatch(stem)
    named = (found[1] or found[2]) if found else stem
    return named if stem not in pictures and named in pictures else stem
