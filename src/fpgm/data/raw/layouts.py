"""From a folder to image/mask pairs: native layouts, common bundles, one HDF5 file per image, a user's own folders.

Layouts are recognised by structure (``readers.py``); of all files only DICOM ones are opened here, to count their
frames. A data set may lie in a folder inside a folder of the same name, as unpacking makes it. An image is known by its
place below the folder of images and its stem, such as ``p1/0001``; an image of a public data set by its stem alone.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from fpgm.data.catalog import CATALOG, Dataset, find
from fpgm.data.manifest import LeftOut
from fpgm.data.names import natural
from fpgm.data.pictures import readable
from fpgm.data.raw.pairs import Bases, Matched, Pair, join, masks_beside, match, match_unlabeled, relative
from fpgm.data.raw.parts import PARTS, assign_parts, name_parts
from fpgm.data.raw.readers import CENTRES, LAYOUTS, read_centres
from fpgm.data.raw.walk import Entry, Files, count_unread, expand, pictures_below, subfolders

BUNDLE = "TrainDataset/TestDataset"
_DEPTH = 3  # folders between the root and the folder that holds a data set
_WRAPPERS = frozenset({"png", "tif", "tiff", "h5", "data", "dataset"})  # folders that are named after no data set


@dataclass(frozen=True)
class Found:
    """A recognised data set: its pairs in natural order of their ids, and the files that are left out."""

    name: str
    layout: str
    folder: Path
    bases: Bases
    pairs: tuple[Pair, ...]
    problems: tuple[LeftOut, ...]
    note: str = ""
    centre: str = ""  # which of PolypGen's it is

    def relative(self, path: Path) -> str:
        """Write the name of one of its files as manifest and messages do."""
        return relative(path, self.bases)

    def parts(self) -> dict[str, int]:
        """Count the images of each part; empty if the data set is not divided."""
        count = Counter(pair.part for pair in self.pairs if pair.part)
        return {part: count[part] for part in dict.fromkeys(PARTS.values()) if count[part]}


def find_datasets(
    root: Path | None = None,
    images: Path | None = None,
    masks: Path | None = None,
    unlabeled: Path | None = None,
    name: str | None = None,
    datasets: Sequence[str] | None = None,
) -> list[Found]:
    """Find what a user pointed at: data sets under ``root``, or folders of one's own.

    Args:
        root: folder of data sets, see ``recognise``.
        images: folder of images, see ``own_folders``.
        masks: folder of their masks.
        unlabeled: folder of images without masks; goes with both.
        name: name of one's own data, or of the one data set under ``root``.
        datasets: names of the data sets under ``root``; all if not given.
    """
    pair = images or masks
    if (root and pair) or not (root or pair or unlabeled):
        raise ValueError("give either --root RAW, or your own folders: --images DIR --masks DIR [--unlabeled DIR]")
    if root is None:
        if not name:
            raise ValueError("your own data needs a --name")
        return [own_folders(name, images, masks, unlabeled)]
    found = recognise(root, datasets)
    if name:
        found = rename(found, name)
    if unlabeled is None:
        return found
    if len(found) > 1:
        names = ", ".join(entry.name for entry in found)
        raise ValueError(f"--unlabeled is for one data set, but there are {names}; choose one by --datasets")
    return [add_unlabeled(found[0], unlabeled)]


def recognise(root: Path, names: Sequence[str] | None = None) -> list[Found]:
    """Find the data sets under ``root``, or those of them that are asked for by name or alias."""
    if not root.is_dir():
        raise ValueError(f"{root} is not a folder; give the folder that holds the downloaded data sets")
    root = root.resolve()
    groups: dict[str, list[Found]] = defaultdict(list)
    for found in _search(root, root, _DEPTH):
        groups[found.name].append(found)
    if not groups:
        raise ValueError(_nothing(root))
    every = {name: _settle(group) for name, group in groups.items()}
    wanted = [known.key if (known := find(name)) else name for name in names or every]
    if missing := [name for name in wanted if name not in every]:
        raise ValueError(f"no {', '.join(missing)} under {root}; recognised there: {', '.join(every)}")
    order = {key: rank for rank, key in enumerate(CATALOG)}
    return [every[name] for name in sorted(set(wanted), key=lambda name: (order.get(name, len(order)), natural(name)))]


def own_folders(
    name: str, images: Path | None = None, masks: Path | None = None, unlabeled: Path | None = None
) -> Found:
    """Pair a user's folder of images with one of masks, and add a folder of images that have none.

    Folders below them are read too. Images and masks may be in one folder if the masks are called X_mask, X_seg ….
    """
    _check_name(name)
    if (images is None) != (masks is None) or (images is None and unlabeled is None):
        raise ValueError("give --images and --masks together, or --unlabeled, or all three; unlabelled needs no masks")
    given = {"images": images, "masks": masks, "unlabeled": unlabeled}
    bases = tuple((option, folder.resolve()) for option, folder in given.items() if folder is not None)
    files = {option: _own_pictures(option, folder, bases) for option, folder in bases}
    if images and masks and images.resolve() == masks.resolve():
        files["images"], files["masks"] = masks_beside(files["images"])
        bases = tuple(base for base in bases if base[0] != "masks")
    if len({folder for _, folder in bases}) < len(bases) or ("masks" in files and not files["masks"]):
        raise ValueError(
            "images, masks and unlabelled images must be in folders of their own, or masks be called X_mask beside X; "
            "two are the same"
        )
    labeled = _match((files.get("images", []), files.get("masks", [])), bases)
    free = match_unlabeled(expand(files.get("unlabeled", [])), labeled[0], bases)
    return Found(name, "own folders", bases[0][1], bases, *join((labeled, free), bases))


def rename(found: Sequence[Found], name: str) -> list[Found]:
    """Name the one data set that was found; the centres of PolypGen get the name and their own behind it."""
    _check_name(name)
    if len(found) > 1 and not all(one.centre for one in found):
        names = ", ".join(one.name for one in found)
        raise ValueError(f"--name {name} is for one data set, but there are {names}; choose one by --datasets")
    return [replace(one, name=f"{name}-{one.centre}" if one.centre else name) for one in found]


def add_unlabeled(found: Found, folder: Path) -> Found:
    """Add a folder of images without masks to a data set that was recognised."""
    bases = (*found.bases, ("unlabeled", folder.resolve()))
    entries = expand(_own_pictures("unlabeled", folder.resolve(), bases))
    free = match_unlabeled(entries, found.pairs, bases)
    taken = {found.relative(one.path) for one in entries if one.path.is_relative_to(found.bases[0][1])}
    problems = tuple(problem for problem in found.problems if problem.file not in taken)
    pairs, rest = join(((found.pairs, problems), free), bases)
    return replace(found, bases=bases, pairs=pairs, problems=rest)


def unread_files(found: Iterable[Found], everywhere: bool = True) -> dict[str, int]:
    """Count the files that are neither used nor left out with a reason, by suffix.

    Args:
        found: the data sets.
        everywhere: whether to look at all that was given, not at the folders of these data sets alone.
    """
    every = list(found)
    bases = tuple(dict.fromkeys(base for one in every for base in one.bases))
    known = {one.relative(path) for one in every for pair in one.pairs for path in pair[1:3] if path}
    known |= {problem.file for one in every for problem in one.problems}
    folders = [folder for _, folder in bases] if everywhere else [one.folder for one in every]
    return count_unread(folders, lambda path: relative(path, bases) in known)


def _check_name(name: str) -> None:
    if not re.fullmatch(r"\w[\w. -]*", name) or name == "splits":
        raise ValueError(f"{name!r} cannot name a data set; use letters, digits, - and _, and not the word splits")


def _own_pictures(option: str, folder: Path, bases: Bases) -> list[Entry]:
    if not folder.is_dir():
        raise ValueError(f"--{option} {folder} is not a folder")
    inside = [other for _, other in bases if other != folder and other.is_relative_to(folder)]
    files = pictures_below(folder, inside)
    if not files:
        raise ValueError(f"--{option}: no pictures ({' '.join(sorted(readable()))}) there. Found:\n{_contents(folder)}")
    return files


def _search(folder: Path, root: Path, depth: int) -> Iterator[Found]:
    """Yield what a folder holds; if it holds no data set itself, what its subfolders hold."""
    if centres := read_centres(folder):
        yield from (_centre(centre, folder, root, files) for centre, files in centres.items())
        return
    for layout, read in LAYOUTS.items():
        files = read(folder)
        if files[0]:
            yield from _identify(layout, folder, root, files)
            return
    if depth:
        for child in subfolders(folder).values():
            yield from _search(child, root, depth - 1)


def _centre(centre: str, folder: Path, root: Path, files: Files) -> Found:
    """Make a data set of a centre of PolypGen: each is a hospital of its own."""
    whole = folder.parent if re.fullmatch("data_?c[0-9]+", folder.name.casefold()) else folder
    name = "PolypGen" if "polypgen" in whole.name.casefold() else whole.name
    bases = (("", root),)
    return Found(f"{name}-{centre}", CENTRES, folder, bases, *_match(files, bases), centre=centre)


def _identify(layout: str, folder: Path, root: Path, files: Files) -> Iterator[Found]:
    """Name the data set: by the folder's name, else by a layout that only one data set has, else as the folder."""
    bases = (("", root),)
    if re.fullmatch("train_?dataset", folder.name.casefold()):
        for entry in (entry for entry in CATALOG.values() if entry.train_stems):
            images, masks = ([one for one in side if re.fullmatch(entry.train_stems, one.stem)] for side in files)
            if images:
                pairs, problems = _match_known((images, masks), bases)
                yield Found(entry.key, BUNDLE, folder, bases, _in_part("train", pairs), problems)
        return
    label = folder.parent.name if folder.name.casefold() in _WRAPPERS else folder.name
    known = find(label) or _native(layout)
    pairs, problems = _match_known(files, bases) if known else _match(files, bases)
    if re.fullmatch("test_?dataset", folder.parent.name.casefold()):
        layout, pairs = BUNDLE, _in_part("test", pairs)
    yield Found(known.key if known else label, layout, folder, bases, pairs, problems)


def _native(layout: str) -> Dataset | None:
    return next((entry for entry in CATALOG.values() if entry.native == layout), None)


def _in_part(part: str, pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    return tuple(pair._replace(part=part) for pair in pairs)


def _match(files: Files, bases: Bases) -> Matched:
    """Match, and take the part of each image from its folder if they are divided."""
    (images, masks), divided = name_parts(files)
    pairs, problems = match(expand(images), expand(masks), bases)
    return (assign_parts(pairs), problems) if divided else (pairs, problems)


def _match_known(files: Files, bases: Bases) -> Matched:
    """Match the files of a public data set, whose images are known by their stems; folders beside files are not its."""
    outer = [[one for one in side if not one.place] or side for side in files]
    pairs, problems = _match((outer[0], outer[1]), bases)
    stems = tuple(pair._replace(id=PurePosixPath(pair.id).name) for pair in pairs)
    return join([(stems, problems)], bases)


def _settle(group: list[Found]) -> Found:
    """Merge several finds of one data set: join the parts of the bundle, else take the one with most pairs."""
    best = max(group, key=lambda found: len(found.pairs))
    parts = [found for found in group if found.layout == BUNDLE] if best.layout == BUNDLE else [best]
    rest = [found.relative(found.folder) for found in group if found not in parts]
    note = f"also found in {', '.join(rest)}, which is not used" if rest else ""
    if len(parts) == 1:
        return replace(best, note=note)
    pairs, problems = join([(found.pairs, found.problems) for found in parts], best.bases)
    return replace(best, folder=best.bases[0][1], pairs=pairs, problems=problems, note=note)


def _nothing(root: Path) -> str:
    """Describe a folder in which no data set was recognised, and the layouts that are recognised."""
    return (
        f"no data set recognised under {root}. Found:\n{_contents(root)}\n"
        f"Expected a folder of one of these layouts: {'; '.join((*LAYOUTS, CENTRES, BUNDLE))}.\n"
        "For other folders say --images DIR --masks DIR --name NAME; for unlabelled images --unlabeled DIR."
    )


def _contents(root: Path) -> str:
    lines = []
    for folder in [root, *subfolders(root).values()][:12]:
        suffixes = Counter(path.suffix or "without suffix" for path in folder.iterdir() if path.is_file())
        files = ", ".join(f"{count} {suffix}" for suffix, count in suffixes.most_common(4)) or "no files"
        lines.append(
            f"  {folder.relative_to(root.parent)}: {files}; folders: {', '.join(subfolders(folder)) or 'none'}"
        )
    return "\n".join(lines)
