"""From a folder to image/mask pairs: native layouts, common bundles, one HDF5 file per image, a user's own folders.

Layouts are recognised by structure; no picture is opened here. Case does not matter, hidden files and files that are
not pictures are skipped, and a data set may lie in a folder inside a folder of the same name, as unpacking makes it.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fpgm.data.catalog import CATALOG, find
from fpgm.data.manifest import LeftOut
from fpgm.data.names import natural
from fpgm.data.raw.pairs import Bases, Pair, join, match, match_unlabeled, relative

PICTURES = frozenset({".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".webp", ".gif"})
HDF5 = frozenset({".h5", ".hdf5"})
BUNDLE = "TrainDataset/TestDataset"
_DEPTH = 3  # folders between the root and the folder that holds a data set
_WRAPPERS = frozenset({"png", "tif", "tiff", "h5", "data", "dataset"})  # folders that are named after no data set
_TRUTH = ("ground truth", "groundtruth", "ground_truth")

Files = tuple[list[Path], list[Path]]  # images, masks


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

    def relative(self, path: Path) -> str:
        """Write the name of one of its files as manifest and messages do."""
        return relative(path, self.bases)


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
    """Pair a user's folder of images with one of masks, and add a folder of images that have none."""
    if not re.fullmatch(r"\w[\w. -]*", name) or name == "splits":
        raise ValueError(f"{name!r} cannot name a data set; use letters, digits, - and _, and not the word splits")
    if (images is None) != (masks is None) or (images is None and unlabeled is None):
        raise ValueError("give --images and --masks together, or --unlabeled, or all three; unlabelled needs no masks")
    given = {"images": images, "masks": masks, "unlabeled": unlabeled}
    bases = tuple((option, folder.resolve()) for option, folder in given.items() if folder is not None)
    if len({folder for _, folder in bases}) < len(bases):
        raise ValueError("images, masks and unlabelled images must be in folders of their own; two are the same")
    files = {option: _own_pictures(option, folder) for option, folder in bases}
    labeled = match(files.get("images", []), files.get("masks", []), bases)
    free = match_unlabeled(files.get("unlabeled", []), labeled[0], bases)
    return Found(name, "own folders", bases[0][1], bases, *join((labeled, free), bases))


def _own_pictures(option: str, folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise ValueError(f"--{option} {folder} is not a folder")
    files = _pictures(folder)
    if not files:
        raise ValueError(f"--{option}: no pictures ({' '.join(sorted(PICTURES))}) there. Found:\n{_contents(folder)}")
    return files


def _search(folder: Path, root: Path, depth: int) -> Iterator[Found]:
    """Yield what a folder holds; if it holds no data set itself, what its subfolders hold."""
    for layout, read in LAYOUTS.items():
        images, masks = read(folder)
        if images:
            yield from _identify(layout, folder, root, (images, masks))
            return
    if depth:
        for child in _folders(folder).values():
            yield from _search(child, root, depth - 1)


def _identify(layout: str, folder: Path, root: Path, files: Files) -> Iterator[Found]:
    """Name the data set: by the folder's name, else by a layout that only one data set has, else as the folder."""
    bases = (("", root),)
    if re.fullmatch("train_?dataset", folder.name.casefold()):
        for entry in (entry for entry in CATALOG.values() if entry.train_stems):
            images, masks = ([p for p in part if re.fullmatch(entry.train_stems, p.stem)] for part in files)
            if images:
                yield Found(entry.key, BUNDLE, folder, bases, *match(images, masks, bases))
        return
    label = folder.parent.name if folder.name.casefold() in _WRAPPERS else folder.name
    known = find(label) or next((entry for entry in CATALOG.values() if entry.native == layout), None)
    if re.fullmatch("test_?dataset", folder.parent.name.casefold()):
        layout = BUNDLE
    yield Found(known.key if known else label, layout, folder, bases, *match(*files, bases))


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


def _folders(folder: Path) -> dict[str, Path]:
    """Return the visible subfolders by lower-case name, in natural order."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    return {name.casefold(): folder / name for name in sorted(names, key=natural)}


def _files(folder: Path, suffixes: frozenset[str] = PICTURES) -> list[Path]:
    """Return the visible files of a folder that have one of the suffixes, in natural order."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if not entry.name.startswith(".") and not entry.is_dir()]
    return [folder / name for name in sorted(names, key=natural) if Path(name).suffix.casefold() in suffixes]


def _pictures(folder: Path | None) -> list[Path]:
    """Return the pictures of a folder or, if all it holds is one folder, of that one."""
    if folder is None:
        return []
    files, children = _files(folder), list(_folders(folder).values())
    return _files(children[0]) if not files and len(children) == 1 else files


def _side_by_side(image_names: Sequence[str], mask_names: Sequence[str]) -> Callable[[Path], Files]:
    """Make a reader of two folders, given what each may be called."""

    def read(folder: Path) -> Files:
        children = _folders(folder)
        images = next((children[name] for name in image_names if name in children), None)
        masks = next((children[name] for name in mask_names if name in children), None)
        return (_pictures(images), _pictures(masks)) if images and masks else ([], [])

    return read


def _truth_inside(folder: Path) -> Files:
    """Images beside a folder of masks; ETIS also comes with its images in a folder of their own."""
    children = _folders(folder)
    truth = next((children[name] for name in _TRUTH if name in children), None)
    images = _files(folder) or _pictures(children.get("etis-laribpolypdb"))
    return (images, _pictures(truth)) if truth else ([], [])


def _together(folder: Path) -> Files:
    """Images N with masks pN; CVC-ColonDB's outlines cN and regions sN are passed over."""
    files = _files(folder)
    stems = {path.stem.casefold() for path in files}
    kinds = {path: path.stem[0].casefold() for path in files if path.stem[1:].casefold() in stems}
    masks = [path for path in files if kinds.get(path) == "p"]
    return ([path for path in files if kinds.get(path) not in ("p", "c", "s")], masks) if masks else ([], [])


def _one_each(folder: Path) -> Files:
    """One HDF5 file per image with ``image`` and ``label``, as the released code reads it; no store of ours."""
    files = [path for path in _files(folder, HDF5) if path.name != "data.h5"]
    return files, files


LAYOUTS: dict[str, Callable[[Path], Files]] = {
    "images/masks": _side_by_side(("images", "image"), ("masks", "mask")),
    "Original/Ground Truth": _side_by_side(("original",), _TRUTH),
    "train/train_gt": _side_by_side(("train",), ("train_gt",)),
    "N with Ground Truth/pN": _truth_inside,
    "N with pN": _together,
    "one HDF5 file per image": _one_each,
}


def _nothing(root: Path) -> str:
    """Describe a folder in which no data set was recognised, and the layouts that are recognised."""
    return (
        f"no data set recognised under {root}. Found:\n{_contents(root)}\n"
        f"Expected a folder of one of these layouts: {'; '.join((*LAYOUTS, BUNDLE))}.\n"
        "For other folders say --images DIR --masks DIR --name NAME; for unlabelled images --unlabeled DIR."
    )


def _contents(root: Path) -> str:
    lines = []
    for folder in [root, *_folders(root).values()][:12]:
        suffixes = Counter(path.suffix or "without suffix" for path in folder.iterdir() if path.is_file())
        files = ", ".join(f"{count} {suffix}" for suffix, count in suffixes.most_common(4)) or "no files"
        lines.append(f"  {folder.relative_to(root.parent)}: {files}; folders: {', '.join(_folders(folder)) or 'none'}")
    return "\n".join(lines)
