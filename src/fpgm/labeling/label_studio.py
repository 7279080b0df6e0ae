"""Label Studio: a JSON list of tasks, each with an image and predictions or annotations; masks are brushes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from fpgm.labeling.annotations import (
    LABEL,
    AnnotatedImage,
    Annotations,
    Polyp,
    check_file,
    check_sides,
    from_polygon,
)
from fpgm.labeling.rle import from_label_studio, to_label_studio

LOCAL = "/data/local-files/?d="  # how Label Studio names a file of its own machine
CONFIG = f"""<View>
  <Image name="image" value="$image"/>
  <BrushLabels name="tag" toName="image"><Label value="{LABEL}"/></BrushLabels>
</View>
"""


def write_label_studio(images: Sequence[AnnotatedImage], model: str) -> list[dict[str, Any]]:
    """Return the tasks, with the polyps as predictions of a model; `CONFIG` is the interface that shows them."""
    tasks = []
    for image in images:
        result = [_region(image, polyp, number) for number, polyp in enumerate(image.polyps)]
        score = min((polyp.score for polyp in image.polyps), default=1.0)
        prediction = {"model_version": model, "score": round(score, 4), "result": result}
        facts: dict[str, Any] = {"name": image.file, "width": image.width, "height": image.height}
        facts["image"] = f"{LOCAL}{image.file}"
        tasks.append({"data": facts, "predictions": [prediction]})
    return tasks


def _region(image: AnnotatedImage, polyp: Polyp, number: int) -> dict[str, Any]:
    alone = AnnotatedImage(image.file, image.width, image.height, (polyp,)).mask()
    return {
        "id": hashlib.sha256(f"{image.file} {number}".encode()).hexdigest()[:10],
        "from_name": "tag",
        "to_name": "image",
        "type": "brushlabels",
        "original_width": image.width,
        "original_height": image.height,
        "image_rotation": 0,
        "score": round(polyp.score, 4),
        "value": {"format": "rle", "rle": to_label_studio(alone), "brushlabels": [LABEL]},
    }


def read_label_studio(tasks: list[dict[str, Any]]) -> Annotations:
    """Read the last annotation of each task; tasks that nobody has annotated are left out."""
    images, left_out = [], []
    for task in tasks:
        file = check_file(task["data"].get("name") or _file(str(task["data"]["image"])))
        done = [one for one in task.get("annotations") or [] if not one.get("was_cancelled")]
        if not done:
            left_out.append(f"{file}: nobody has annotated it yet")
            continue
        regions = [one for one in done[-1]["result"] if "original_width" in one]
        if not regions and "width" not in task["data"]:
            left_out.append(f"{file}: it has no region, and so its size is not known; draw its empty mask yourself")
            continue
        names = ("original_width", "original_height") if regions else ("width", "height")
        width, height = check_sides(regions[0] if regions else task["data"], *names)
        images.append(AnnotatedImage(file, width, height, tuple(_polyp(one, width, height) for one in regions)))
    return Annotations(tuple(images), tuple(left_out))


def _file(address: str) -> str:
    """Return the path that an image's address ends with; files that were uploaded have eight letters in front."""
    parts = urlsplit(address)
    if "d" in (query := parse_qs(parts.query)):
        return query["d"][0].lstrip("/")
    name = unquote(parts.path).rsplit("/", 1)[-1]
    first, dash, rest = name.partition("-")
    return rest if dash and len(first) == 8 and parts.path.startswith("/data/upload/") else name


def _polyp(region: dict[str, Any], width: int, height: int) -> Polyp:
    if (int(region["original_width"]), int(region["original_height"])) != (width, height):
        raise ValueError("the regions of one image are of several sizes")
    if region.get("image_rotation"):
        raise ValueError("an image was rotated in Label Studio: rotate it back, so that masks fit the file")
    kind, value, score = region["type"], region["value"], float(region.get("score") or 1)
    if kind not in ("brushlabels", "polygonlabels"):
        raise ValueError(f"a region is of the kind {kind}: brushes and polygons make masks, this does not")
    if kind == "brushlabels":
        mask = from_label_studio(value["rle"], height, width)
    else:
        mask = from_polygon([(x * width / 100, y * height / 100) for x, y in value["points"]], width, height)
    return Polyp(0, 0, mask, score, str(value[kind][0]))
