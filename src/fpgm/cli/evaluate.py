"""``fpgm evaluate``: scores of a run's model on images it was not trained on."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from fpgm.cli.terminal import console, print_json, progress_bars

if TYPE_CHECKING:
    from fpgm.runs.results import Result
    from fpgm.runs.scores import Scores
    from fpgm.runs.summary import Summary

_SHOWN = 5  # near duplicates per data set; --json has all


def evaluate(
    run: Path,
    *,
    data: Path | None = None,
    images: Path | None = None,
    masks: Path | None = None,
    name: str | None = None,
    split: str | None = None,
    datasets: list[str] | None = None,
    device: str = "auto",
    workers: int | None = None,
    json: bool = False,
) -> None:
    """Score a run's model on the test images of each data set and on each unseen data set.

    Writes RUN/evaluation, with a CSV file (a line per image), the predicted masks and details for each data set, and
    adds the scores to RUN/model/MODEL_CARD.md. Scores of the same weights and images are not computed again.

    Images that came after the training, from any hospital, are given as --images with --masks, or as another store.
    They are refused if some of them were trained on.

    Args:
        run: folder of a finished run.
        data: the store with the run's split, the one it was trained on if not given; or another store, which is scored
            whole.
        images: folder of images that came after the training.
        masks: folder of their masks, with the same names.
        name: name of these images; that of their folder if not given.
        split: name or folder of a split of another store, whose test and unseen images are scored; or all.
        datasets: names of the data sets; if not given, all with test or unseen images.
        device: device of the network: auto, cpu, cuda, cuda:1, mps …
        workers: most processes that compute the metrics, started where that is worth it; if not given, one for each
            processor, up to four.
        json: print JSON for programs.
    """
    from fpgm.data.splits.protocols import parse_names
    from fpgm.evaluation import evaluate_any
    from fpgm.model import choose_device
    from fpgm.runs.results import read_result

    with progress_bars() as bar:
        bars = cache(bar)
        options: dict[str, Any] = {
            "device": choose_device(device),
            "workers": min(4, os.cpu_count() or 1) if workers is None else workers,
            "advance": lambda name, done, total: bars(name)("evaluate", done, total),
        }
        asked = evaluate_any(run, data, images, masks, name=name, split=split, datasets=datasets, **options)
    result = read_result(run)
    chosen = parse_names(asked) if asked else list(result.scores)
    result = replace(result, scores={name: scores for name, scores in result.scores.items() if name in chosen})
    if json:
        return print_json(**_record(result))
    _show(result)


def _show(result: Result) -> None:
    """Print the tables."""
    from fpgm.runs.details import SIZE_RULE
    from fpgm.runs.folder import RunFolder
    from fpgm.runs.scores import METRICS, RELEASED
    from fpgm.runs.summary import INTERVAL

    output = console()
    penalised = "Empty masks penalised: a missed polyp has Dice 0, its distances the diagonal"
    released = "Scored as by the released code: a missed polyp has 0 in all four, ASD is directed"
    output.print(_table(result, METRICS, penalised), _table(result, RELEASED, released))
    if any(scores.details for scores in result.scores.values()):
        output.print(_detail_table(result))
    for text in (
        f"Mean ± standard deviation over images, below it the {INTERVAL}. Sizes: {SIZE_RULE}; of a missed one no pixel "
        "was found. False alarms are predicted regions that touch no polyp.",
        f"{result.method}, preset {result.preset}, {result.iterations} iterations, {result.labeled} labelled, "
        f"seed {result.seed}; split {result.split}, protocol {result.protocol}, {result.size} x {result.size} pixels. "
        f"Per image: {RunFolder(result.folder).evaluation}",
        *(note for name, scores in result.scores.items() for note in _notes(name, scores)),
    ):
        output.print(text, highlight=False, markup=False)


def _notes(name: str, scores: Scores) -> list[str]:
    """Say what is known of the overlap of images that came later with those of the training."""
    if not scores.after_training:
        return []
    if scores.near_duplicates is None:
        return [
            f"{name}: not compared with the training images: their store is gone, and the run of an earlier release "
            "has no hashes of them"
        ]
    if not scores.near_duplicates:
        return [f"{name}: no image is a training image, or nearly one"]
    shown = ", ".join(f"{new} of {old}" for new, old in scores.near_duplicates[:_SHOWN])
    more = f" and {len(scores.near_duplicates) - _SHOWN} more" if len(scores.near_duplicates) > _SHOWN else ""
    return [
        f"{name}: warning: {len(scores.near_duplicates)} of {len(scores.ids)} images are near duplicates of training "
        f"images: {shown}{more}"
    ]


def _table(result: Result, columns: tuple[str, ...], title: str) -> Table:
    """Show a row per data set; overlaps in percent, distances in pixels."""
    from fpgm.runs.details import NOT_MEASURABLE
    from fpgm.runs.scores import false_alarms, missed
    from fpgm.runs.summary import told_images

    heads = ("images", "Dice %", "Jaccard %", "HD95 px", "ASD px", "missed\npolyps", "false\nalarms")
    table = _named_table(title, heads)
    for name, scores in result.scores.items():
        summaries = [scores.summary(column) for column in columns]
        cells = [_cell(s, len(scores.ids), scale) for s, scale in zip(summaries, (100, 100, 1, 1), strict=True)]
        alarms = false_alarms(scores)
        counts = f"{missed(scores)}", NOT_MEASURABLE.replace(" ", "\n") if alarms is None else f"{alarms}"
        images = told_images(len(scores.ids), summaries[0].groups).replace(" in ", "\nin ")
        table.add_row(scores.label(name).replace(" (", "\n("), images, *cells, *counts)
    return table


def _detail_table(result: Result) -> Table:
    """Show missed polyps and false alarms by size, false alarms per frame without a polyp, and calibration."""
    from fpgm.runs.details import (
        NOT_MEASURABLE,
        SIZES,
        count_by_size,
        count_empty_frames,
        expected_calibration_error,
    )

    kinds = [f"missed\n{size}" for size in SIZES] + [f"alarms\n{size}" for size in SIZES]
    table = _named_table("Polyp by polyp", (*kinds, "alarms per frame\nwithout a polyp", "calibration\nerror %"))
    for name, scores in result.scores.items():
        if not scores.details:
            table.add_row(scores.label(name).replace(" (", "\n("), *["-"] * (2 * len(SIZES) + 2))
            continue
        sizes = count_by_size(scores.details).values()
        empty = count_empty_frames(scores.details)
        missed = [f"{one.missed} of {one.polyps}" if one.polyps else "-" for one in sizes]
        rate = NOT_MEASURABLE if empty.rate is None else f"{empty.rate:.2f}\n({empty.frames} frames)"
        error = f"{100 * expected_calibration_error(scores.details):.2f}"
        table.add_row(
            scores.label(name).replace(" (", "\n("), *missed, *(f"{one.alarms}" for one in sizes), rate, error
        )
    return table


def _named_table(title: str, heads: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("data set", overflow="fold")
    for head in heads:
        table.add_column(head, justify="right")
    return table


def _cell(summary: Summary, images: int, scale: float) -> str:
    """Write mean ± sd and the interval, and how many values there are if some images have none."""
    mean, sd, low, high = (scale * value for value in (summary.mean, summary.sd, summary.low, summary.high))
    few = "" if summary.count == images else f"\nof {summary.count}"
    return f"{mean:.1f} ± {sd:.1f}\n[{low:.1f}, {high:.1f}]{few}".replace("nan", "-")


def _record(result: Result) -> dict[str, Any]:
    """Return the scores as JSON; NaN is null."""
    return {
        "run": str(result.folder),
        "method": result.method,
        "preset": result.preset,
        "iterations": result.iterations,
        "labeled": result.labeled,
        "seed": result.seed,
        "split": result.split,
        "protocol": result.protocol,
        "size": result.size,
        "datasets": {name: _scores(scores) for name, scores in result.scores.items()},
    }


def _scores(scores: Scores) -> dict[str, Any]:
    from fpgm.runs.scores import METRICS, RELEASED, false_alarms, missed, without_polyp

    summaries = {column: asdict(scores.summary(column)) for column in (*METRICS, *RELEASED)}
    return {
        "images": len(scores.ids),
        "unseen": scores.unseen,
        "after_training": scores.after_training,
        "near_duplicates": scores.near_duplicates,
        "missed": missed(scores),
        "without_polyp": without_polyp(scores),
        "false_alarms": false_alarms(scores),
        **{column: {key: _number(value) for key, value in one.items()} for column, one in summaries.items()},
        **(_details(scores) if scores.details else {}),
    }


def _details(scores: Scores) -> dict[str, Any]:
    """Return polyps by size, false alarms per frame and calibration as JSON."""
    from fpgm.runs.details import count_by_size, count_empty_frames, expected_calibration_error, pooled_reliability

    counts = pooled_reliability(scores.details)
    return {
        "sizes": {size: count._asdict() for size, count in count_by_size(scores.details).items()},
        "false_alarms_per_frame": count_empty_frames(scores.details).rate,
        "calibration_error": expected_calibration_error(scores.details),
        "reliability": {name: values.tolist() for name, values in counts._asdict().items()},
    }


def _number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value
