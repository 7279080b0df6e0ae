"""``fpgm predict``: masks of new images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.table import Table
from rich.text import Text

from fpgm.cli.terminal import console, progress_bars

if TYPE_CHECKING:
    from fpgm.serving.folders.predict import Summary

KINDS = ["masks", "probabilities", "overlays", "disagreements", "films"]


def predict(
    model: Path,
    images: list[str],
    *,
    out: Path,
    threshold: float = 0.5,
    average: bool = False,
    keep_largest: bool = False,
    min_area: int | None = None,
    save: list[Literal["masks", "probabilities", "overlays", "disagreements", "films"]] | None = None,
    annotations: list[Literal["coco", "label-studio", "cvat"]] | None = None,
    smoothing: float = 0.0,
    device: str = "auto",
    precision: Literal["float32", "bfloat16", "auto"] = "float32",
    batch_size: int = 8,
) -> int:
    """Find polyps in images and films of any size; not for clinical use.

    Writes OUT/findings.csv with area, confidence and box of each polyp, the most uncertain images first, and for each
    image OUT/masks (PNG, 0 or 255), OUT/probabilities (16-bit PNG, 65535 is certain), OUT/overlays (JPEG with outlines)
    and, of a model of `fpgm combine`, OUT/disagreements (16-bit PNG), at the size of the image. Of a film it writes
    OUT/films (MP4 with outlines, times and sound of the film), and the pictures of its frames only if `--save` asks.
    Results of the same image, model and options are not computed again. A file that cannot be read is named at the
    end, and the exit code is 1.

    Args:
        model: run folder, model folder, or an ONNX file of `fpgm export`, for which torch need not be installed.
        images: files, folders, and patterns in quotes such as "frames/**/*.png"; films need the extra `video`.
        out: folder to write to.
        threshold: probability from which on a pixel is polyp.
        average: average over the eight flips and turns of each image; eight times the work.
        keep_largest: keep only the largest polyp of an image.
        min_area: leave out polyps of fewer pixels of the image; if not given, of fewer than the validation images chose
            for this model; 0 to keep all.
        save: kinds of results to write; if not given, all of an image, and films of a film.
        annotations: formats of annotation tools to write the polyps in, to OUT/annotations; `fpgm data masks` makes
            masks of what the tools export.
        smoothing: seconds after which a frame counts half in the average over the past frames of a film; 0 predicts
            each frame by itself.
        device: device of the network: auto, cpu, cuda, cuda:1, mps …
        precision: float32, as in evaluation; bfloat16, faster and less exact; auto: bfloat16 if the processor has it.
        batch_size: number of images in a forward pass.
    """
    from fpgm.labeling.exchange import write_annotations
    from fpgm.serving.folders.inputs import find_sources
    from fpgm.serving.folders.predict import predict_files
    from fpgm.serving.predictor import Predictor, load_engine

    if annotations and save and "masks" not in save:
        raise ValueError("--annotations are made of the masks: name masks in --save too")
    sources = find_sources(images, [out / kind for kind in KINDS])
    predictor = Predictor(
        load_engine(model, device, precision),
        threshold=threshold,
        average=average,
        keep_largest=keep_largest,
        min_area=min_area,
        batch_size=batch_size,
    )
    with progress_bars() as bar:
        show = bar("predict")
        summary = predict_files(predictor, sources, out, save or None, show, smoothing)
        written = write_annotations(out, annotations, summary.settings) if annotations else []
    _show(summary, out, predictor.engine.name)
    if written:
        console().print(f"for annotation tools: {', '.join(map(str, written))}", highlight=False, soft_wrap=True)
    return int(bool(summary.problems))


def _show(summary: Summary, out: Path, engine: str) -> None:
    from fpgm.data.names import plural, printable

    output = console()
    before = f", {summary.kept} were there already" if summary.kept else ""
    by = "" if engine == "torch" else f" by {engine}"
    found = f"{plural(summary.polyps, 'polyp')} in {plural(summary.pictures, 'image')}"
    text = f"{plural(summary.done, 'file')} predicted{by}{before}: {found}; see {out}"
    output.print(text, highlight=False, soft_wrap=True, markup=False)
    for film in summary.films:
        output.print(film.describe(), highlight=False, soft_wrap=True, markup=False)
    if summary.problems:
        table = Table(title=f"{len(summary.problems)} left out", title_justify="left")
        for head in ("file", "why"):
            table.add_column(head, overflow="fold")
        for problem in summary.problems:
            table.add_row(Text(printable(str(problem.path))), Text(problem.reason))
        output.print(table)
