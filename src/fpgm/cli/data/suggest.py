"""``fpgm suggest``: which images to label next."""

from __future__ import annotations

from pathlib import Path

from fpgm.cli.terminal import console, print_json, progress_bars


def suggest(
    path: Path,
    *,
    out: Path,
    count: int = 20,
    model: Path | None = None,
    images: list[Path] | None = None,
    device: str = "auto",
    json: bool = False,
) -> None:
    """Choose the images to label next: spread over patients and looks, near duplicates once, uncertain ones first.

    Writes OUT/suggestions.csv, OUT/contact_sheet.png, and OUT/images with a link to each image.

    Args:
        path: store, whose images without a mask are chosen from; or run folder, whose training images with unused masks
            are, and whose model says what is uncertain.
        out: folder to write; it must be empty or not there.
        count: number of images.
        model: run folder, model folder or ONNX file that says what is uncertain; the run's own if PATH is a run.
        images: folders that the store was prepared from, to link the source files; without them OUT/images has the
            prepared images.
        device: device of the model: auto, cpu, cuda, cuda:1, mps …
        json: print JSON for programs.
    """
    from fpgm.labeling.suggest import SHEET, TABLE
    from fpgm.labeling.suggest import suggest as choose

    with progress_bars() as bar:
        show = bar("suggest")
        rows = choose(path, out, count, model=model, images=images or [], device=device, advance=show)
    if json:
        return print_json(suggestions=[row._asdict() for row in rows])
    groups = {row.group for row in rows if row.group}
    told = f", of {len(groups)} known patients or videos" if groups else ""
    console().print(
        f"{len(rows)} images to label{told}: see {out / TABLE} and {out / SHEET}", highlight=False, soft_wrap=True
    )
