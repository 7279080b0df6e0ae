"""``fpgm export``: a trained model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fpgm.cli.terminal import console

if TYPE_CHECKING:
    from PIL.Image import Image


def export(
    model: Path,
    *,
    format: Literal["onnx", "torch"] = "onnx",
    out: Path | None = None,
    int8: bool = False,
    images: list[str] | None = None,
) -> None:
    """Write a model as one file for other programs, after comparing it with the original.

    An ONNX file has a dynamic batch size and contains the model's card; `fpgm predict` runs it without torch. If its
    predictions differ from the original's, it is refused and no file is left.

    Args:
        model: run folder or model folder.
        format: onnx, or torch for a torch.export program.
        out: file to write, .onnx or .pt2; model.onnx or model.pt2 beside the model's weights if not given.
        int8: compute in 8-bit integers, smaller, faster and less exact; ONNX only.
        images: files, folders or patterns to compare on; int8 uses half of them for calibration. Phantoms if not given.
    """
    from fpgm.runs.card import model_folder
    from fpgm.serving.export import export_onnx, export_torch

    if int8 and format != "onnx":
        raise ValueError("--int8 is for --format onnx alone")
    pictures = _read(images) if images else None
    beside = model_folder(model)
    if format == "onnx":
        report = export_onnx(model, out or beside / "model.onnx", int8=int8, pictures=pictures)
    else:
        report = export_torch(model, out or beside / "model.pt2", pictures=pictures)
    kind = "images" if images else "phantom images"
    console().print(
        f"{report.path} written, {report.size / 2**20:.1f} MiB; compared with the original on {report.images} {kind}, "
        f"in {report.found} of which it finds something: probabilities differ by up to {report.max_difference:.2g}, "
        f"Dice of the masks {report.dice:.4f} on average, {report.least_dice:.4f} at least",
        highlight=False,
        soft_wrap=True,
        markup=False,
    )


def _read(images: list[str]) -> list[Image]:
    from fpgm.serving.folders.inputs import find_sources, open_frames

    return [picture for source in find_sources(images) for picture in open_frames(source.path).pictures]
