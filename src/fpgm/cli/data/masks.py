"""``fpgm data masks``: masks of what an annotation tool exports."""

from __future__ import annotations

from pathlib import Path


def masks(annotations: Path, *, out: Path, label: str | None = None) -> int:
    """Write the masks of an annotation file as PNG, 255 where a polyp is, for `fpgm data prepare --masks`.

    It takes COCO (runs, compressed or not, and polygons), Label Studio's JSON export (brushes and polygons) and CVAT
    for images 1.1 (masks and polygons). What is left out is named, and the exit code is 1.

    Args:
        annotations: file of the annotations, JSON or XML.
        out: folder to write OUT/<image>.png to; it must be empty or not there.
        label: label of the regions to take; the only one of the file if not given.
    """
    from fpgm.cli.terminal import console
    from fpgm.labeling.exchange import read_annotations, save_masks

    found = read_annotations(annotations, label)
    written = save_masks(found, out)
    empty = sum(not image.polyps for image in found.images)
    output = console()
    told = f", {empty} of them without a polyp" if empty else ""
    output.print(f"{len(written)} masks written to {out}{told}", highlight=False, soft_wrap=True)
    for reason in found.left_out:
        output.print(f"left out: {reason}", highlight=False, soft_wrap=True)
    return int(bool(found.left_out))
