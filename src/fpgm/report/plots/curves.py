"""Learning curves, and scores against the guidance strength γ."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fpgm.report.plots.saving import save_figure
from fpgm.report.plots.style import line_styles
from fpgm.report.reading.groups import Group
from fpgm.report.reading.studies import Study
from fpgm.report.tables.score_table import measure

POINTS = 50  # of a noisy curve: what is logged more often is averaged
Rows = Sequence[Mapping[str, str]]  # of a metrics.csv


def curves_figure(runs: Mapping[str, Sequence[Rows]], path: Path) -> None:
    """Draw supervised loss, kept foreground and validation Dice against the step, a colour per name, a line per run.

    Kept foreground, as a share of the pixels, is drawn if a method with pseudo-labels is among them.

    Args:
        runs: name -> rows of `metrics.csv` of each seed.
        path: picture file to write, ``.png`` or ``.jpg``.
    """
    curves = [("sup", "supervised loss", POINTS), ("val_dice", "validation Dice", 0)]
    if any(row.get("kept_foreground") for seeds in runs.values() for rows in seeds for row in rows):
        curves.insert(1, ("kept_foreground", "foreground kept, share of pixels", POINTS))
    picture = Figure(figsize=(9.5, 3.4 + 0.16 * max(0, len(runs) - 12)), layout="constrained")
    panels = picture.subplots(1, len(curves))
    styles = line_styles(runs)
    for axis, (column, label, points) in zip(panels, curves, strict=True):
        for name, seeds in runs.items():
            for seed, rows in enumerate(seeds):
                steps, values = _thinned(rows, column, points)
                dot = "o" if len(steps) == 1 else ""
                axis.plot(
                    steps, values, **styles[name], marker=dot, linewidth=1.2, label=None if seed else _named(name)
                )
        axis.set(xlabel="step", ylabel=label)
        axis.grid(alpha=0.3)
    panels[-1].set_ylim(0, 1)
    picture.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper", frameon=False, fontsize=8)
    save_figure(picture, path)


def gamma_figure(group: Group, study: Study, path: Path) -> None:
    """Draw Dice and HD95 against γ, a line per data set, unseen ones dashed; bars are deviations over seeds."""
    picture = Figure(figsize=(9.5, 3.4), layout="constrained")
    panels = picture.subplots(1, 2)
    strengths = [float(entry.row.arguments["gamma"]) for entry in study.entries]
    styles = line_styles([*group.datasets(unseen=False), *group.datasets(unseen=True)])
    for unseen in (False, True):
        for dataset in group.datasets(unseen=unseen):
            for axis, metric in zip(panels, ("dice", "hd95"), strict=True):
                figures = [measure(entry.row, dataset, metric) for entry in study.entries]
                bars = [figure.sd if figure.over == "seeds" else 0.0 for figure in figures]
                axis.errorbar(
                    range(len(figures)),
                    [figure.mean for figure in figures],
                    yerr=np.nan_to_num(bars),
                    marker="o",
                    markersize=4,
                    linewidth=1.3,
                    capsize=2,
                    color=styles[dataset]["color"],
                    linestyle="--" if unseen else "-",
                    label=f"{dataset} (unseen)" if unseen else dataset,
                )
    for axis, name in zip(panels, ("Dice, %", f"HD95, pixels of {group.setting.size}²"), strict=True):
        axis.set(xlabel="guidance strength γ", ylabel=name)
        axis.set_xticks(range(len(strengths)), [f"{strength:g}" for strength in strengths])
        axis.grid(alpha=0.3)
    picture.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper", frameon=False, fontsize=8)
    save_figure(picture, path)


def _named(name: str) -> str:
    """A name for a legend, losses with their index."""
    return re.sub(r"\bL_(\w+)", r"$L_\\mathrm{\1}$", name)


def _thinned(rows: Rows, column: str, points: int) -> tuple[list[float], list[float]]:
    """Steps and values of a column, averaged to at most `points` points, or all of them for 0."""
    known = np.array([(float(row["step"]), float(row[column])) for row in rows if row.get(column)]).reshape(-1, 2)
    if points and len(known) > points:
        known = np.array([part.mean(0) for part in np.array_split(known, points)])
    return known[:, 0].tolist(), known[:, 1].tolist()
