"""``fpgm export``: a trained model for other programs, and what computes it on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.table import Table

from fpgm.cli.terminal import console, print_json, progress_bars

if TYPE_CHECKING:
    from PIL.Image import Image

    from fpgm.runs.engine import EngineName, EngineRecord, EngineTiming


def export(
    model: Path,
    *,
    format: Literal["onnx", "torch"] | None = None,
    out: Path | None = None,
    int8: bool = False,
    images: list[str] | None = None,
    engine: Literal["auto", "torch", "torch-bfloat16", "onnxruntime", "openvino", "openvino-bfloat16"] | None = None,
    json: bool = False,
) -> None:
    """Write a model as one file for other programs, after comparing it with the original.

    An ONNX file has a dynamic batch size and contains the model's card; `fpgm predict` runs it without torch. If its
    predictions differ from the original's, it is refused and no file is left.

    With --engine no such file is written. Instead the engine that computes the model on this processor is recorded in
    the model folder, and `fpgm predict` and `fpgm serve` use it from then on. auto times all that are installed and
    takes the fastest whose masks agree with torch in float32: on every image a Dice of at least 0.999, and no polyp
    more or less.

    Args:
        model: run folder or model folder.
        format: onnx, the default, or torch for a torch.export program.
        out: file to write, .onnx or .pt2; model.onnx or model.pt2 beside the model's weights if not given.
        int8: compute in 8-bit integers, smaller, faster and less exact; ONNX only.
        images: files, folders or patterns to compare on; int8 uses half of them for calibration. If not given,
            phantoms; with --engine, validation images of the run if they are at hand.
        engine: engine to record, or auto; torch is what computes where none is recorded. OpenVINO needs the extra
            openvino.
        json: print JSON for programs.
    """
    if engine is not None:
        if format or out or int8:
            raise ValueError(
                "--engine records an engine in the model folder: give no --format, --out or --int8 with it"
            )
        return _record(model, engine, images, json)
    from fpgm.runs.card import model_folder
    from fpgm.serving.export import export_onnx, export_torch

    if int8 and format == "torch":
        raise ValueError("--int8 is for --format onnx alone")
    pictures = _read(images) if images else None
    beside = model_folder(model)
    if format == "torch":
        report = export_torch(model, out or beside / "model.pt2", pictures=pictures)
    else:
        report = export_onnx(model, out or beside / "model.onnx", int8=int8, pictures=pictures)
    if json:
        return print_json(**{name: getattr(report, name) for name in _FIGURES}, path=str(report.path))
    kind = "images" if images else "phantom images"
    console().print(
        f"{report.path} written, {report.size / 2**20:.1f} MiB; compared with the original on {report.images} {kind}, "
        f"in {report.found} of which it finds something: probabilities differ by up to {report.max_difference:.2g}, "
        f"Dice of the masks {report.dice:.4f} on average, {report.least_dice:.4f} at least",
        highlight=False,
        soft_wrap=True,
        markup=False,
    )


_FIGURES = ("size", "images", "found", "max_difference", "dice", "least_dice")


def _record(
    model: Path,
    engine: EngineName | Literal["auto"],
    images: list[str] | None,
    json: bool,
) -> None:
    from fpgm.serving.engine_choice import choose_engine

    pictures = _read(images) if images else None
    with progress_bars() as bar:
        show = bar("engines")
        record = choose_engine(
            model, engine, pictures=pictures, advance=lambda done, total: show("compared", done, total)
        )
    if json:
        return print_json(**record.model_dump(mode="json"))
    _show(record, model)


def _show(record: EngineRecord, model: Path) -> None:
    from fpgm.runs.engine import LEAST_DICE

    threads = f"{record.threads} thread{'s' if record.threads > 1 else ''}"
    title = f"{threads}; masks of {record.images} {record.source} beside those of torch in float32"
    table = Table(title=title, title_justify="left")
    table.add_column("engine")
    for head in ("1 image", "8 images", "times as fast", "least Dice", "other polyps", "agrees"):
        table.add_column(head, justify="right")
    for one in record.timings:
        table.add_row(*_cells(one, record.timings[0]))
    output = console()
    output.print(table)
    output.print(
        f"{record.engine} computes {model} from now on. An engine agrees if the Dice is {LEAST_DICE} or more on every "
        "image and no image has more or fewer polyps.",
        highlight=False,
        soft_wrap=True,
    )


def _cells(one: EngineTiming, torch: EngineTiming) -> list[str]:
    return [
        one.engine,
        f"{1e3 * one.one:.1f} ms",
        f"{1e3 * one.eight:.1f} ms",
        f"{torch.one / one.one:.2f}, {torch.eight / one.eight:.2f}",
        f"{one.least_dice:.5f}",
        f"{one.other_polyps}",
        "yes" if one.agrees else "no",
    ]


def _read(images: list[str]) -> list[Image]:
    from fpgm.serving.folders.inputs import find_sources, open_frames

    return [picture for source in find_sources(images) for picture in open_frames(source.path).pictures]
