"""Predictions as files of annotation tools, and masks from the files that the tools export."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

import numpy as np
from scipy import ndimage

from fpgm.data.pictures import read_picture
from fpgm.files import atomic_path, parse_json, read_file, sole_writer, write_text
from fpgm.labeling.annotations import AnnotatedImage, Annotations, Polyp
from fpgm.labeling.coco import read_coco, write_coco
from fpgm.labeling.cvat import read_cvat, write_cvat
from fpgm.labeling.label_studio import CONFIG, read_label_studio, write_label_studio
from fpgm.regions import TOUCHING
from fpgm.serving.folders.record import Entry, PredictionRecord
from fpgm.serving.pictures import mask_picture, place

Format = Literal["coco", "label-studio", "cvat"]
FORMATS: tuple[Format, ...] = get_args(Format)
FOLDER = "annotations"


def write_annotations(out: Path, formats: Iterable[Format], settings: dict[str, Any]) -> list[Path]:
    """Write the masks of a folder of predictions as OUT/annotations/<format>, and return the files.

    Films are not in them: an annotation tool wants their frames as pictures.

    Args:
        out: folder that `fpgm predict` wrote masks to.
        formats: names of the formats.
        settings: settings of the predictions to take, as the record has them.
    """
    with sole_writer(out):
        entries = PredictionRecord(out).entries.values()
        taken = sorted((one for one in entries if one.sha256 and not one.moving and one.settings == settings), key=_key)
        images = [_image(out, entry) for entry in taken]
        written = []
        for name in (one for one in FORMATS if one in set(formats)):
            for file, text in _texts(name, images, str(settings["model"])).items():
                write_text(out / FOLDER / file, text)
                written.append(out / FOLDER / file)
    return written


def _key(entry: Entry) -> str:
    return entry.image


def _image(out: Path, entry: Entry) -> AnnotatedImage:
    """Read a mask, and cut out its polyps."""
    mask = np.asarray(read_picture(read_file(place(out, "masks", entry.name), out)).convert("L")) > 0
    scores = {found.box: found.confidence for found in entry.frames[0].findings}
    labels, _ = ndimage.label(mask, TOUCHING)
    polyps = []
    for number, (rows, columns) in enumerate(ndimage.find_objects(labels), start=1):
        inside = labels[rows, columns] == number
        box = columns.start, rows.start, inside.shape[1], inside.shape[0]
        polyps.append(Polyp(columns.start, rows.start, inside, scores.get(box, 1.0)))
    file = f"{entry.name}{PurePosixPath(entry.image).suffix}"
    return AnnotatedImage(file, mask.shape[1], mask.shape[0], tuple(polyps))


def _texts(name: Format, images: Sequence[AnnotatedImage], model: str) -> dict[str, str]:
    if name == "coco":
        return {"coco.json": json.dumps(write_coco(images)) + "\n"}
    if name == "label-studio":
        return {"label-studio.json": json.dumps(write_label_studio(images, model)) + "\n", "label-studio.xml": CONFIG}
    return {"cvat.xml": write_cvat(images)}


def read_annotations(path: Path, label: str | None = None) -> Annotations:
    """Read a file of COCO, Label Studio or CVAT; what it is, its content says.

    Args:
        path: the file.
        label: label of the regions to take; the only one if not given.
    """
    text = read_file(path).decode("utf-8-sig", errors="replace")
    try:
        found = _read(text)
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        told = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(
            f"{path} cannot be used: {told}; expected COCO, Label Studio's JSON or CVAT for images"
        ) from None
    labels = sorted({polyp.label for image in found.images for polyp in image.polyps})
    if label is None and len(labels) > 1:
        raise ValueError(f"{path} has regions of several labels, choose one with --label: {', '.join(labels)}")
    if label is not None and label not in labels:
        raise ValueError(f"{path} has no region labelled {label!r}, only {', '.join(labels) or 'none'}")
    images = tuple(
        AnnotatedImage(
            image.file,
            image.width,
            image.height,
            tuple(polyp for polyp in image.polyps if label in (None, polyp.label)),
        )
        for image in found.images
    )
    return Annotations(images, found.left_out)


def _read(text: str) -> Annotations:
    if text.lstrip().startswith("<"):
        return read_cvat(text)
    content = parse_json(text)
    return read_label_studio(content) if isinstance(content, list) else read_coco(content)


def save_masks(annotations: Annotations, out: Path) -> list[Path]:
    """Write OUT/<name>.png, 255 where a polyp is, of each image; a folder that holds files already is refused."""
    if out.exists() and any(out.iterdir()):
        raise ValueError(f"{out} holds files already: give another --out, so that no mask is overwritten")
    names = [image.name for image in annotations.images]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{sorted(twice)[0]} is annotated twice, and would have one mask: take one of them out")
    written = []
    with sole_writer(out):
        for image in annotations.images:
            with atomic_path(out / f"{image.name}.png") as draft:
                mask_picture(image.mask()).save(draft, "PNG")
            written.append(out / f"{image.name}.png")
    return written
