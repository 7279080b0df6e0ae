"""CVAT: "CVAT for images 1.1", an XML file of images with masks and polygons."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from fpgm.labeling.annotations import (
    LABEL,
    AnnotatedImage,
    Annotations,
    Polyp,
    check_file,
    check_sides,
    from_polygon,
)
from fpgm.labeling.rle import from_cvat, to_cvat


def write_cvat(images: Sequence[AnnotatedImage]) -> str:
    """Return the content of the file, of masks in their boxes."""
    root = Element("annotations")
    ElementTree.SubElement(root, "version").text = "1.1"
    for number, image in enumerate(images):
        facts = {"id": number, "name": image.file, "width": image.width, "height": image.height}
        entry = ElementTree.SubElement(root, "image", {name: str(value) for name, value in facts.items()})
        for left, top, mask, *_ in image.polyps:
            box = {"left": left, "top": top, "width": mask.shape[1], "height": mask.shape[0]}
            counts = ", ".join(map(str, to_cvat(mask)))
            fixed = {"label": LABEL, "source": "semi-auto", "occluded": "0", "rle": counts, "z_order": "0"}
            ElementTree.SubElement(entry, "mask", fixed | {name: str(value) for name, value in box.items()})
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def read_cvat(text: str) -> Annotations:
    """Read the masks and polygons of each image; an image without any has no polyp."""
    if "<!" in text:
        raise ValueError("it declares entities or comments, which files of CVAT do not have")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"it is not XML ({error})") from None
    images, left_out = [], []
    for entry in root.iter("image"):
        file, (width, height) = check_file(entry.attrib["name"]), check_sides(entry.attrib)
        polyps = []
        for shape in entry:
            if shape.tag == "mask":
                polyps.append(_mask(shape))
            elif shape.tag == "polygon":
                pairs = (pair.split(",") for pair in shape.attrib["points"].split(";"))
                mask = from_polygon([(float(x), float(y)) for x, y in pairs], width, height)
                polyps.append(Polyp(0, 0, mask, label=shape.attrib["label"]))
            elif shape.tag != "tag":
                left_out.append(f"{file}: a {shape.tag}, which makes no mask")
        images.append(AnnotatedImage(file, width, height, tuple(polyps)))
    return Annotations(tuple(images), tuple(left_out))


def _mask(shape: Element) -> Polyp:
    width, height = check_sides(shape.attrib)
    counts = [int(count) for count in shape.attrib["rle"].split(",")]
    left, top = int(shape.attrib["left"]), int(shape.attrib["top"])
    return Polyp(left, top, from_cvat(counts, height, width), label=shape.attrib["label"])
