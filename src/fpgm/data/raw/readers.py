"""Readers of folders: each knows one layout and returns the images and masks of a folder that has it.

Layouts are recognised by structure. Case does not matter, and hidden files are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from fpgm.data.raw.pairs import masks_beside
from fpgm.data.raw.parts import PARTS, in_part
from fpgm.data.raw.walk import HDF5, Entry, Files, pictures_below, pictures_in, subfolders

Reader = Callable[[Path], Files]
_IMAGES = ("images", "image")
_TRUTH = ("ground truth", "groundtruth", "ground_truth")
_CHANNEL = re.compile("(.+)_([0-9]{4})")  # stem of nnU-Net's images: case and channel
_CENTRE = re.compile("images_(c[0-9]+)")


def _side_by_side(image_names: Sequence[str], mask_names: Sequence[str]) -> Reader:
    """Make a reader of two folders, given what each may be called."""

    def read(folder: Path) -> Files:
        children = subfolders(folder)
        images = next((children[name] for name in image_names if name in children), None)
        masks = next((children[name] for name in mask_names if name in children), None)
        return (pictures_below(images), pictures_below(masks)) if images and masks else ([], [])

    return read


def _truth_inside(folder: Path) -> Files:
    """Images beside a folder of masks; ETIS also comes with its images in a folder of their own."""
    children = subfolders(folder)
    truth = next((children[name] for name in _TRUTH if name in children), None)
    images = pictures_in(folder) or pictures_below(children.get("etis-laribpolypdb"))
    return (images, pictures_below(truth)) if truth else ([], [])


def _together(folder: Path) -> Files:
    """Images N with masks pN; CVC-ColonDB's outlines cN and regions sN are passed over."""
    files = pictures_in(folder)
    stems = {one.stem.casefold() for one in files}
    kinds = {one: one.stem[0].casefold() for one in files if one.stem[1:].casefold() in stems}
    masks = [one for one in files if kinds.get(one) == "p"]
    return ([one for one in files if kinds.get(one) not in ("p", "c", "s")], masks) if masks else ([], [])


def _beside(folder: Path) -> Files:
    """Images X with masks X_mask, X_seg, X_gt … in one folder."""
    images, masks = masks_beside(pictures_in(folder))
    return (images, masks) if masks else ([], [])


def _one_each(folder: Path) -> Files:
    """One HDF5 file per image with ``image`` and ``label``, as the released code reads it; no store of ours."""
    files = [one for one in pictures_in(folder, HDF5) if one.path.name != "data.h5"]
    return files, files


def _nnunet(folder: Path) -> Files:
    """nnU-Net's imagesTr and labelsTr; imagesTs, with or without labelsTs, makes them two parts."""
    children = subfolders(folder)
    if not {"imagestr", "labelstr"} <= children.keys():
        return [], []
    images, masks = _cases(pictures_below(children["imagestr"])), pictures_below(children["labelstr"])
    if held_out := _cases(pictures_below(children.get("imagests"))):
        answers = pictures_below(children.get("labelsts"))
        return in_part("train", images) + in_part("test", held_out), in_part("train", masks) + in_part("test", answers)
    return images, masks


def _cases(images: Sequence[Entry]) -> list[Entry]:
    """Name images by their case: without ``_0000``, the number of nnU-Net's first channel, if there is no second."""
    stems, found = {one.stem for one in images}, []
    for one in images:
        channel = _CHANNEL.fullmatch(one.stem)
        colour = channel and channel[2] == "0000" and f"{channel[1]}_0001" not in stems
        found.append(one._replace(stem=channel[1]) if channel and colour else one)
    return found


def _part_folders(folder: Path) -> Files:
    """Folders train, val and test, each with images and masks in one of the other layouts."""
    images: list[Entry] = []
    masks: list[Entry] = []
    parts = set()
    for name, child in subfolders(folder).items():
        if part := PARTS.get(name):
            own, answers = _read_first(child)
            images, masks = images + in_part(part, own), masks + in_part(part, answers)
            parts |= {part} if own else set()
    return (images, masks) if masks and len(parts) > 1 else ([], [])


def _read_first(folder: Path) -> Files:
    """Read a folder by the first layout that it has; without one, its pictures have no masks."""
    for layout, read in LAYOUTS.items():
        files = read(folder) if layout != PART_FOLDERS else ([], [])
        if files[0]:
            return files
    children = subfolders(folder)
    alone = next((children[name] for name in _IMAGES if name in children), None)
    return (pictures_below(alone) if alone else pictures_in(folder)), []


def read_centres(folder: Path) -> dict[str, Files]:
    """Return the images and masks of each centre of PolypGen: ``images_C1`` with ``masks_C1``, and so on."""
    children = subfolders(folder)
    centres = {name: found[1] for name in children if (found := _CENTRE.fullmatch(name))}
    return {
        centre.upper(): (pictures_below(children[name]), pictures_below(children[f"masks_{centre}"]))
        for name, centre in centres.items()
        if f"masks_{centre}" in children
    }


PART_FOLDERS = "train, val and test folders"
CENTRES = "images_C1/masks_C1 …"
LAYOUTS: dict[str, Reader] = {
    "images/masks": _side_by_side(_IMAGES, ("masks", "mask")),
    "images/labels": _side_by_side(_IMAGES, ("labels", "label")),
    "Original/Ground Truth": _side_by_side(("original",), _TRUTH),
    "train/train_gt": _side_by_side(("train",), ("train_gt",)),
    "imagesTr/labelsTr": _nnunet,
    "N with Ground Truth/pN": _truth_inside,
    "N with pN": _together,
    "X with X_mask": _beside,
    "one HDF5 file per image": _one_each,
    PART_FOLDERS: _part_folders,
}
