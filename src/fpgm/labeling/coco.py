"""COCO: one JSON file of images, annotations and categories; masks are counts of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fpgm.labeling.annotations import (
    LABEL,
    AnnotatedImage,
    Annotations,
    Mask,
    Polyp,
    check_file,
    check_sides,
    from_polygon,
)
from fpgm.labeling.rle import from_coco, to_coco


def write_coco(images: Sequence[AnnotatedImage]) -> dict[str, Any]:
    """Return the content of the file; each polyp is an annotation with its box, area, counts and score."""
    marks: list[dict[str, Any]] = []
    for number, image in enumerate(images, start=1):
        for polyp in image.polyps:
            alone = AnnotatedImage(image.file, image.width, image.height, (polyp,)).mask()
            height, width = polyp.mask.shape
            marks.append(
                {
                    "id": len(marks) + 1,
                    "image_id": number,
                    "category_id": 1,
                    "iscrowd": 1,  # by which readers know runs from polygons
                    "bbox": [polyp.left, polyp.top, width, height],
                    "area": int(polyp.mask.sum()),
                    "segmentation": {"size": [image.height, image.width], "counts": to_coco(alone)},
                    "score": round(polyp.score, 4),
                }
            )
    return {
        "images": [
            {"id": number, "file_name": image.file, "width": image.width, "height": image.height}
            for number, image in enumerate(images, start=1)
        ],
        "categories": [{"id": 1, "name": LABEL}],
        "annotations": marks,
    }


def read_coco(content: dict[str, Any]) -> Annotations:
    """Read images and polyps; an image without annotations has no polyp."""
    sides = {one["id"]: (check_file(one["file_name"]), *check_sides(one)) for one in content["images"]}
    labels = {one["id"]: str(one["name"]) for one in content["categories"]}
    polyps: dict[Any, list[Polyp]] = {key: [] for key in sides}
    for mark in content["annotations"]:
        if mark["image_id"] not in sides:
            raise ValueError(f"an annotation is of image {mark['image_id']!r}, which is not listed")
        _, width, height = sides[mark["image_id"]]
        mask = _mask(mark["segmentation"], height, width)
        polyps[mark["image_id"]].append(Polyp(0, 0, mask, float(mark.get("score", 1)), labels[mark["category_id"]]))
    return Annotations(tuple(AnnotatedImage(*sides[key], tuple(found)) for key, found in polyps.items()))


def _mask(segmentation: Any, height: int, width: int) -> Mask:
    if isinstance(segmentation, dict):
        if list(segmentation["size"]) != [height, width]:
            raise ValueError(f"a mask is of {segmentation['size']}, its image has height and width {[height, width]}")
        return from_coco(segmentation["counts"], height, width)
    parts = [from_polygon(zip(part[::2], part[1::2], strict=True), width, height) for part in segmentation]
    if not parts:
        raise ValueError("an annotation has neither runs nor polygons")
    whole = parts[0]
    for part in parts[1:]:
        whole = whole | part
    return whole
