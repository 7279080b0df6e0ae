"""``fpgm evaluate``: scores of a run's model on images it was not trained on."""

from __future__ import annotations

import math
import os
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


def evaluate(
    run: Path,
    *,
    data: Path | None = None,
    datasets: list[str] | None = None,
    device: str = "auto",
    workers: int | None = None,
    json: bool = False,
) -> None:
    """Score a run's model on the test images of each data set and on each unseen data set.

    Writes RUN/evaluation, with a CSV file (a line per image) and the predicted masks for each data set, and adds the
    scores to RUN/model/MODEL_CARD.md. Scores of the same weights and images are not computed again.

    Args:
        run: folder of a finished run.
        data: the store with the run's split; the one it was trained on if not given.
        datasets: names of the data sets; if not given, all with test or unseen images.
        device: device of the network: auto, cpu, cuda, cuda:1, mps …
        workers: number of processes that compute the metrics; if not given, one for each processor, up to four.
        json: print JSON for programs.
    """
    from fpgm.data.splits.protocols import parse_names
    from fpgm.evaluation import evaluate_run
    from fpgm.model import choose_device
    from fpgm.runs.results import read_result
    from fpgm.runs.scores import METRICS, RELEASED

    with progress_bars() as bar:
        bars = cache(bar)
        folder = evaluate_run(
            run,
            data,
            datasets,
            device=choose_device(device),
            workers=min(4, os.cpu_count() or 1) if workers is None else workers,
            advance=lambda name, done, total: bars(name)("evaluate", done, total),
        )
    result = read_result(run)
    asked = parse_names(datasets or list(result.scores))
    result = replace(result, scores={name: scores for name, scores in result.scores.items() if name in asked})
    if json:
        return print_json(**_record(result))
    output = console()
    output.print(
        _table(result, METRICS, "Empty masks penalised: a missed polyp has Dice 0, its distances the diagonal")
    )
    output.print(
        _table(result, RELEASED, "Scored as by the released code: a missed polyp has 0 in all four, ASD is directed")
    )
    output.print(
        "Mean ± standard deviation over images, below it the bootstrap 95 % interval of the mean. "
        f"{result.method}, preset {result.preset}, {result.iterations} iterations, {result.labeled} labelled, "
        f"seed {result.seed}; split {result.split}, protocol {result.protocol}, {result.size} x {result.size} pixels. "
        f"Per image: {folder}",
        highlight=False,
        markup=False,
    )


def _table(result: Result, columns: tuple[str, ...], title: str) -> Table:
    """Show a row per data set; overlaps in percent, distances in pixels."""
    from fpgm.runs.scores import false_alarms, missed
    from fpgm.runs.summary import summarise

    table = Table(title=title, title_justify="left")
    table.add_column("data set", overflow="fold")
    for head in ("images", "Dice %", "Jaccard %", "HD95 px", "ASD px", "missed\npolyps", "false\nalarms"):
        table.add_column(head, justify="right")
    for name, scores in result.scores.items():
        summaries = [summarise(scores.values[column]) for column in columns]
        cells = [_cell(s, len(scores.ids), scale) for s, scale in zip(summaries, (100, 100, 1, 1), strict=True)]
        counts = f"{missed(scores)}", f"{false_alarms(scores)}"
        table.add_row(f"{name}\n(unseen)" if scores.unseen else name, f"{len(scores.ids)}", *cells, *counts)
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
    from fpgm.runs.scores import METRICS, RELEASED, false_alarms, missed
    from fpgm.runs.summary import summarise

    summaries = {column: asdict(summarise(scores.values[column])) for column in (*METRICS, *RELEASED)}
    return {
        "images": len(scores.ids),
        "unseen": scores.unseen,
        "missed": missed(scores),
        "false_alarms": false_alarms(scores),
        **{
            column: {key: None if math.isnan(value) else value for key, value in summary.items()}
            for column, summary in summaries.items()
        },
    }
