"""The page of `fpgm demo`: runs side by side, from their files alone."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping, Sequence
from html import escape
from io import BytesIO
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fpgm.files import atomic_path
from fpgm.report.html import document, figure, table
from fpgm.report.pictures import PREDICTION, TRUTH

NOTICE = (
    "These are phantom images, drawn by the program. The figures show that everything works together and how methods "
    "compare on drawn images; they say nothing about real colonoscopy. One seed, few iterations."
)


def read_csv(path: Path) -> list[dict[str, str]]:
    """Read a CSV file with a header."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def story(
    title: str,
    runs: Mapping[str, Path],
    unseen: Collection[str],
    pictures: Sequence[tuple[Path, str]],
    facts: Sequence[str],
) -> str:
    """Return the page.

    Args:
        title: heading.
        runs: name -> run folder with `metrics.csv` and `evaluation/<data set>.csv`.
        unseen: data sets that no run has trained on.
        pictures: files to show, with their captions.
        facts: sentences about what was done.
    """
    return document(
        title,
        f"<p class='notice'>{escape(NOTICE)}</p>",
        *(f"<p>{escape(fact)}</p>" for fact in facts),
        "<h2>Dice in percent, mean ± standard deviation over held-out images</h2>",
        table(*_scores(runs, unseen)),
        figure(_curves(runs), "png", "Loss on labelled batches, and Dice on the validation images, while training"),
        *(figure(path.read_bytes(), path.suffix[1:].replace("jpg", "jpeg"), caption) for path, caption in pictures),
    )


def _scores(runs: Mapping[str, Path], unseen: Collection[str]) -> tuple[list[str], list[list[str]]]:
    """Header and rows: scores per run and data set, and how many polyps were missed altogether."""
    names = sorted({path.stem for run in runs.values() for path in (run / "evaluation").glob("*.csv")})
    rows = []
    for label, run in runs.items():
        cells, missed, total = [label], 0, 0
        for name in names:
            scored = read_csv(run / "evaluation" / f"{name}.csv")
            dice = [100 * float(row["dice"]) for row in scored]
            cells.append(f"{fmean(dice):.1f} ± {stdev(dice):.1f}")
            missed += sum(int(row["predicted"]) == 0 for row in scored)
            total += len(scored)
        rows.append([*cells, f"{missed} of {total}"])
    return ["", *(f"{name} (unseen)" if name in unseen else name for name in names), "missed polyps"], rows


def _curves(runs: Mapping[str, Path]) -> bytes:
    picture = Figure(figsize=(9, 3.2), layout="constrained")
    loss, dice = picture.subplots(1, 2)
    for label, run in runs.items():
        rows = read_csv(run / "metrics.csv")
        for axis, column in ((loss, "sup"), (dice, "val_dice")):
            points = [(int(row["step"]), float(row[column])) for row in rows if row.get(column)]
            axis.plot(*zip(*points, strict=True), label=label, linewidth=1.4)
    loss.set(xlabel="step", ylabel="supervised loss")
    dice.set(xlabel="step", ylabel="validation Dice", ylim=(0, 1))
    for axis in (loss, dice):
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
    return _png(picture)


def comparison_figure(
    images: NDArray[np.uint8],
    truth: NDArray[np.bool_],
    predicted: Mapping[str, NDArray[np.bool_]],
    names: Sequence[str],
    path: Path,
) -> None:
    """Draw a column per image and a row per method, with the outlines of truth and prediction.

    Args:
        images: (N, H, W, 3).
        truth: (N, H, W).
        predicted: method -> (N, H, W).
        names: of the images.
        path: picture file to write, ``.jpg`` or ``.png``.
    """
    picture = Figure(figsize=(2.1 * len(images) + 0.3, 2.1 * (1 + len(predicted)) + 0.3), layout="compressed")
    axes = picture.subplots(1 + len(predicted), len(images), squeeze=False)
    lines: dict[str, NDArray[np.bool_]] = {"truth": truth, **predicted}
    for line, (label, masks) in zip(axes, lines.items(), strict=True):
        line[0].set_ylabel(label, fontsize=9)
        for axis, image, mask in zip(line, images, masks, strict=True):
            axis.imshow(image)
            axis.set(xticks=[], yticks=[])
            if mask.any() and not mask.all():
                axis.contour(mask, [0.5], colors=TRUTH if label == "truth" else PREDICTION, linewidths=1.2)
    for axis, name in zip(axes[0], names, strict=True):
        axis.set_title(name, fontsize=8)
    with atomic_path(path) as draft:
        picture.savefig(draft, format=path.suffix[1:], dpi=110)


def _png(picture: Figure) -> bytes:
    buffer = BytesIO()
    picture.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()
