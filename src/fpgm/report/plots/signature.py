"""Figures of the frequency signature and of its specificity: radial profiles and how far apart they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fpgm.report.plots.saving import save_compressed
from fpgm.report.plots.style import COLOURS, Style, line_styles

Floats = NDArray[np.floating]


class Range(NamedTuple):
    """A value with its lower and upper end, under a group's name; ``beside`` is marked on the same line."""

    group: str
    label: str
    value: float
    low: float
    high: float
    beside: float | None = None


def halves_figure(halves: Mapping[str, tuple[Floats, Floats]], notes: Mapping[str, str], path: Path) -> None:
    """Draw a panel per data set with the mean profiles of two disjoint halves (the paper's Fig. 1).

    Args:
        halves: data set -> two profiles (R,).
        notes: data set -> a line below its name.
        path: PNG file to write.
    """
    columns = min(3, len(halves))
    rows = -(-len(halves) // columns)
    figure = Figure(figsize=(3.3 * columns + 0.4, 2.8 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True).flatten()
    for axis, (name, pair) in zip(axes, halves.items(), strict=False):
        _halves(axis, pair)
        axis.set_title(f"{name}\n{notes[name]}", fontsize=9)
    for axis in axes[len(halves) :]:
        axis.set_axis_off()
    axes[0].legend(frameon=False, fontsize=9)
    figure.supxlabel("frequency radius r", fontsize=10)
    figure.supylabel("mean amplitude", fontsize=10)
    save_compressed(figure, path)


def sets_figure(
    sets: Mapping[str, tuple[Floats, Floats]], mixture: tuple[Floats, Floats] | None, note: str, path: Path
) -> None:
    """Draw the halves of a mixture, each data set's mean ± standard deviation (Fig. 2), and what sets them apart.

    Args:
        sets: data set -> mean and standard deviation, (R,) each.
        mixture: mean profiles (R,) of its two halves; None leaves the panel out.
        note: a line below the mixture's title.
        path: PNG file to write.
    """
    panels = 2 if mixture is None else 3
    figure = Figure(figsize=(4 * panels, 3.8), layout="constrained")
    axes = figure.subplots(1, panels)
    styles = line_styles(sets)
    if mixture is not None:
        _halves(axes[0], mixture)
        axes[0].set_title(f"Two halves of the mixture\n{note}", fontsize=10)
        axes[0].legend(frameon=False, fontsize=9)
    *_, profiles, ratios = axes
    for name, (mean, sd) in sets.items():
        _band(profiles, mean, sd, name, **styles[name])
    _scales(profiles, len(mean))
    profiles.legend(frameon=False, fontsize=9, loc="lower left")
    profiles.set_title("Data sets: amplitude\nmean ± standard deviation of the images", fontsize=10)
    _ratios(ratios, {name: mean / mean.sum() for name, (mean, _) in sets.items()}, styles)
    for axis in axes:
        axis.set_xlabel("frequency radius r")
    save_compressed(figure, path)


def distance_figure(ranges: Sequence[Range], path: Path, *, label: str, beside: str) -> None:
    """Draw values with their ranges as dots on one scale, a line each, a colour per group.

    Args:
        ranges: in the order from top to bottom.
        path: PNG file to write.
        label: label of the scale.
        beside: meaning of the marks.
    """
    figure = Figure(figsize=(7.2, 0.24 * len(ranges) + 1.1), layout="constrained")
    axis = figure.subplots()
    groups = list(dict.fromkeys(entry.group for entry in ranges))
    for group, colour in zip(groups, COLOURS, strict=False):
        lines = [line for line, entry in enumerate(ranges) if entry.group == group]
        chosen = [ranges[line] for line in lines]
        axis.hlines(lines, [e.low for e in chosen], [e.high for e in chosen], colors=colour, linewidth=3, alpha=0.35)
        axis.plot([e.value for e in chosen], lines, "o", color=colour, markersize=5, label=group)
    marks = [(entry.beside, line) for line, entry in enumerate(ranges) if entry.beside is not None]
    if marks:
        axis.plot(*zip(*marks, strict=True), "kD", fillstyle="none", markersize=6, label=beside)
    axis.set_yticks(range(len(ranges)), [entry.label for entry in ranges], fontsize=9)
    axis.invert_yaxis()
    axis.set(xlabel=label, xlim=(0, None))
    axis.grid(axis="x", alpha=0.3)
    axis.legend(frameon=False, fontsize=9)
    save_compressed(figure, path)


def specificity_figure(samples: Mapping[str, tuple[Floats, Floats]], title: str, path: Path) -> None:
    """Draw the profiles of the edge and of what it is compared with: low radii as they are, all radii by logarithm.

    Args:
        samples: label -> mean and standard deviation, (R,) each; the band of deviation is drawn for the first two.
        title: origin of the curves.
        path: PNG file to write.
    """
    figure = Figure(figsize=(10.4, 4), layout="constrained")
    low, full = figure.subplots(1, 2)
    for axis in (low, full):
        for place, (label, (mean, sd)) in enumerate(samples.items()):
            colour = {"color": COLOURS[place], "linestyle": "-" if place < 2 else "--"}
            _band(axis, mean, sd if place < 2 else None, label, **colour)
        axis.set_xlabel("frequency radius r")
    low.set(xlim=(0, 16), ylim=(0, None), ylabel="amplitude", title="low radii, linear")
    low.grid(alpha=0.3)
    low.legend(frameon=False, fontsize=9)
    _scales(full, len(mean))
    full.set_title("all radii, logarithmic")
    figure.suptitle(title, fontsize=10)
    save_compressed(figure, path)


def _halves(axis: Axes, pair: tuple[Floats, Floats]) -> None:
    axis.plot(pair[0], color=COLOURS[0], linewidth=2.4, alpha=0.6, label="first half")
    axis.plot(pair[1], color=COLOURS[1], linewidth=1.2, linestyle="--", label="second half")
    _scales(axis, len(pair[0]))


def _ratios(axis: Axes, shapes: Mapping[str, Floats], styles: Mapping[str, Style]) -> None:
    """Draw shapes (R,), each divided by the mean of all."""
    mean = np.mean(list(shapes.values()), axis=0)
    for name, shape in shapes.items():
        axis.plot(shape / mean, label=name, linewidth=1.6, **styles[name])
    _scales(axis, len(mean))
    axis.set_yscale("linear")
    axis.set_title("Data sets: shape\ndivided by the mean of their shapes", fontsize=10)


def _band(axis: Axes, mean: Floats, sd: Floats | None, label: str, **style: Any) -> None:
    radius = np.arange(len(mean))
    axis.plot(radius, mean, label=label, linewidth=1.6, **style)
    if sd is not None:
        floor = mean.min() / 2  # a logarithmic scale has no place for zero and less
        axis.fill_between(radius, (mean - sd).clip(floor), mean + sd, color=style["color"], alpha=0.12, linewidth=0)


def _scales(axis: Axes, radii: int) -> None:
    """Set logarithmic scales, on which the radii 0 and 1 have a place too."""
    axis.set_xscale("symlog", linthresh=1, linscale=0.5)
    axis.set_yscale("log")
    ticks = [0, *(2**power for power in range(radii.bit_length()) if 2**power <= radii)]
    axis.set_xticks(ticks, map(str, ticks))
    axis.set_xlim(0, radii)
    axis.grid(alpha=0.3)
