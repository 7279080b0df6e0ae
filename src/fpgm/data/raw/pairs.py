"""Which mask belongs to which image: matching files by their stems, and a note of every file that is left out."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from fpgm.data.manifest import LeftOut
from fpgm.data.names import natural, printable
from fpgm.data.raw.walk import Entry, Files, entry

Bases = tuple[tuple[str, Path], ...]  # file names are written relative to these folders, behind these prefixes
Key = tuple[str, str]  # place and stem of an image, in lower case
Sources = Iterable[Path | Entry]  # a path is a file of the folder that was given, not of one below it
_MASK_STEM = re.compile("p(.+)|(?:mask|seg|gt)[_-](.+)|(.+)[_-](?:masks?|seg|segmentation|gt|groundtruth|labels?)")


class Pair(NamedTuple):
    """An image and its mask, None if it is unlabelled; an HDF5 file can be both.

    The frames are numbers from 0 in files of several. `place` is the image's folder below the one that was given.
    """

    id: str
    image: Path
    mask: Path | None
    frame: int | None = None
    mask_frame: int | None = None
    part: str | None = None
    group: str | None = None
    place: str = ""


Matched = tuple[tuple[Pair, ...], tuple[LeftOut, ...]]


def relative(path: Path, bases: Bases) -> str:
    """Write a path relative to the innermost base that holds it, behind that base's prefix."""
    prefix, base = max((b for b in bases if path.is_relative_to(b[1])), key=lambda b: len(b[1].parts))
    return printable((Path(prefix) / path.relative_to(base)).as_posix())


def match(images: Sources, masks: Sources, bases: Bases) -> Matched:
    """Pair images and masks of equal stems; a mask may have p before its stem or _mask, _seg, _gt … behind it.

    A mask belongs to the image in the folder of the same name; failing that, to the only image of its stem, if it is
    the only mask of it.
    """
    pictures, answers = _by_key(images), _assign(_entries(masks), _by_key(images))
    pairs, problems = [], []
    for key, files in pictures.items():
        own = answers.pop(key, [])
        if len(files) > 1 or len(own) > 1:
            problems += duplicates((*files, *own), bases)
        elif not own:
            reason = f"no mask of stem {printable(files[0].stem)}; if it has none, give its folder by --unlabeled"
            problems.append(LeftOut("missing mask", relative(files[0].path, bases), reason))
        else:
            pairs.append(_pair(files[0], own[0]))
    stems = {stem for _, stem in pictures}
    for place, stem in answers:
        elsewhere = f"no image of its stem in a folder {place}, and several elsewhere" if stem in stems else ""
        reason = elsewhere or "a mask without an image of its stem"
        problems += [LeftOut("missing image", relative(one.path, bases), reason) for one in answers[place, stem]]
    return finish(pairs, problems, bases)


def match_unlabeled(images: Sources, labeled: Iterable[Pair], bases: Bases) -> Matched:
    """Take images that have no masks; an id that is labelled already is left out."""
    taken = {pair.id.casefold() for pair in labeled}
    pairs, problems = [], []
    for files in _by_key(images).values():
        if len(files) > 1 or files[0].id.casefold() in taken:
            problems += duplicates(files, bases)
        else:
            pairs.append(_pair(files[0]))
    return finish(pairs, problems, bases)


def masks_beside(entries: Sequence[Entry]) -> Files:
    """Divide the pictures of folders that hold images X and masks X_mask, X_seg or X_gt."""
    stems = _stems(_by_key(entries))
    masks = {one for one in entries if _named_after(one.stem.casefold(), stems[_place(one)])}
    return [one for one in entries if one not in masks], [one for one in entries if one in masks]


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
            problems += duplicates([entry(pair.image) for pair in group], bases)
    return finish([group[0] for group in groups.values() if len(group) == 1], problems, bases)


def duplicates(files: Iterable[Entry], bases: Bases) -> list[LeftOut]:
    """Say of each of several files that their stems are equal."""
    reason = "several files have the stem {}; keep one"
    return [LeftOut("duplicate stem", relative(one.path, bases), reason.format(printable(one.stem))) for one in files]


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


def _entries(sources: Sources) -> list[Entry]:
    return [one if isinstance(one, Entry) else entry(one) for one in sources]


def _pair(image: Entry, mask: Entry | None = None) -> Pair:
    path, frame = (mask.path, mask.frame) if mask else (None, None)
    video = None if image.frame is None else image.id.rpartition("-")[0]  # frames of one file stay together
    return Pair(image.id, image.path, path, image.frame, frame, group=video, place=image.place)


def _place(one: Entry) -> str:
    return one.place.casefold()


def _by_key(sources: Sources) -> dict[Key, list[Entry]]:
    groups: dict[Key, list[Entry]] = defaultdict(list)
    for one in _entries(sources):
        groups[_place(one), one.stem.casefold()].append(one)
    return groups


def _stems(pictures: Iterable[Key]) -> dict[str, set[str]]:
    """Return the stems in each place."""
    found: dict[str, set[str]] = defaultdict(set)
    for place, stem in pictures:
        found[place].add(stem)
    return found


def _assign(masks: Sequence[Entry], pictures: Iterable[Key]) -> dict[Key, list[Entry]]:
    """Return the masks of each image by its key; a mask without an image has a key of its own."""
    stems, places = _stems(pictures), defaultdict[str, list[str]](list)
    for place, found in stems.items():
        for stem in found:
            places[stem].append(place)
    near = [_image_stem(mask.stem.casefold(), stems[_place(mask)]) for mask in masks]
    named = [own or _image_stem(mask.stem.casefold(), places) for own, mask in zip(near, masks, strict=True)]
    claims = Counter(named)
    answers: dict[Key, list[Entry]] = defaultdict(list)
    for mask, own, other in zip(masks, near, named, strict=True):
        alone = other is not None and not own and len(places[other]) == 1 and claims[other] == 1
        place = places[other][0] if other and alone else _place(mask)
        answers[place, other or mask.stem.casefold()].append(mask)
    return answers


def _image_stem(stem: str, known: Container[str]) -> str | None:
    """Return the stem of the image that a mask is named after: its own, if there is such an image."""
    return stem if stem in known else _named_after(stem, known)


def _named_after(stem: str, known: Container[str]) -> str | None:
    found = _MASK_STEM.fullmatch(stem)
    named = next(filter(None, found.groups())) if found else None
    return named if named in known else None
