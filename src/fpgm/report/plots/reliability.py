"""Reliability curves: how often a pixel is foreground, against the probability it was given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fpgm.calibration import Reliability, calibration_error
from fpgm.report.plots.saving import save_figure
from fpgm.report.plots.style import Style, line_styles
from fpgm.report.reading.groups import Group
from fpgm.report.reading.studies import Study
from fpgm.runs.details import pooled_reliability

_ACROSS = 3  # panels in a line


def collect_reliability(group: Group, study: Study) -> dict[str, dict[str, Reliability]]:
    """Return the pixels by bin of each data set and row that have any, all seeds together."""
    found: dict[str, dict[str, Reliability]] = {}
    for unseen in (False, True):
        for dataset in group.datasets(unseen=unseen):
            for entry in study.entries:
                scores = entry.row.scores(dataset).values()
                details = [image for one in scores for image in one.details]
                if details:
                    label = next(iter(scores)).label(dataset)
                    found.setdefault(label, {})[entry.label] = pooled_reliability(details)
    return found


def reliability_figure(curves: Mapping[str, Mapping[str, Reliability]], path: Path) -> None:
    """Draw a panel per data set with a line per row; on the diagonal, probabilities are shares.

    Args:
        curves: data set -> row -> pixels by bin; at least one.
        path: picture file to write, ``.png`` or ``.jpg``.
    """
    across = min(len(curves), _ACROSS)
    down = -(-len(curves) // across)
    picture = Figure(figsize=(2.4 * across + 1.9, 2.9 * down), layout="constrained")
    panels = picture.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    names = list(dict.fromkeys(name for rows in curves.values() for name in rows))
    styles = line_styles(names)
    for axis, (dataset, rows) in zip(panels.flat, curves.items(), strict=False):
        _panel(axis, dataset, rows, styles)
    for axis in panels.flat[len(curves) :]:
        axis.set_axis_off()
    for axis in panels[:, 0]:
        axis.set_ylabel("share of foreground")
    picture.supxlabel("foreground probability", fontsize="medium")
    handles = {text: line for axis in panels.flat for line, text in zip(*axis.get_legend_handles_labels(), strict=True)}
    picture.legend([handles[name] for name in names], names, loc="outside right upper", frameon=False, fontsize=8)
    save_figure(picture, path)


def _panel(axis: Axes, dataset: str, rows: Mapping[str, Reliability], styles: Mapping[str, Style]) -> None:
    """Draw the rows of one data set, with the expected calibration error of each."""
    axis.plot([0, 1], [0, 1], color="0.7", linewidth=1, linestyle=":")
    errors = []
    for name, counts in rows.items():
        axis.plot(*counts.shares(), **styles[name], marker="o", markersize=3, linewidth=1.2, label=name)
        errors.append(f"{100 * calibration_error(counts):.2f}")
    shown = ", ".join(errors[:4]) + (", …" if len(errors) > 4 else "")
    axis.set_title(f"{dataset.replace(' (', chr(10) + '(')}\nerror {shown} %", fontsize=8)
    axis.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axis.grid(alpha=0.3)
