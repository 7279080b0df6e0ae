"""Figures of the spectral core: aligned images and radial profiles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fpgm.report.plots.saving import save_figure
from fpgm.report.plots.style import line_styles, theme

Floats = NDArray[np.floating]


def alignment_figure(original: Floats, aligned: Mapping[str, Floats], path: Path, *, dark: bool = False) -> None:
    """Draw a row per image: original, then each aligned version with its difference from the original.

    Args:
        original: (N, H, W, 3) in [0, 1].
        aligned: name -> (N, H, W, 3).
        path: picture file to write, ``.png`` or ``.jpg``.
        dark: light text on the background of a dark page.
    """
    with theme(dark):
        save_figure(_compare(original, aligned), path, dpi=130)


def _compare(original: Floats, aligned: Mapping[str, Floats]) -> Figure:
    columns = 1 + 2 * len(aligned)
    figure = Figure(figsize=(2 * columns + 0.8, 2 * len(original) + 0.3), layout="compressed")
    axes = figure.subplots(len(original), columns, squeeze=False)
    reach = max(float(np.quantile(np.abs(version - original), 0.99)) for version in aligned.values()) or 1.0
    for row, image in zip(axes, original, strict=True):
        row[0].imshow(image)
    for number, (name, versions) in enumerate(aligned.items()):
        for row, image, version in zip(axes, original, versions, strict=True):
            row[2 * number + 1].imshow(version.clip(0, 1))
            shown = row[2 * number + 2].imshow((version - image).mean(-1), cmap="RdBu_r", vmin=-reach, vmax=reach)
        axes[0, 2 * number + 1].set_title(name, fontsize=10)
        axes[0, 2 * number + 2].set_title("difference", fontsize=10)
    axes[0, 0].set_title("original", fontsize=10)
    figure.colorbar(shown, ax=axes.ravel().tolist(), aspect=40, pad=0.01)
    for axis in axes.flat:
        axis.set_axis_off()
    return figure


def profile_figure(profiles: Mapping[str, Floats], path: Path, *, title: str) -> None:
    """Draw the shapes of radial profiles (each divided by its sum) on a logarithmic scale.

    Args:
        profiles: name -> (R,), amplitudes at radius 0 … R - 1.
        path: picture file to write, ``.png`` or ``.jpg``.
        title: title of the figure.
    """
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    axis = figure.subplots()
    styles = line_styles(profiles)
    for name, profile in profiles.items():
        axis.plot(np.arange(len(profile)), profile / profile.sum(), label=name, linewidth=1.6, **styles[name])
    axis.set(yscale="log", xlabel="frequency radius r", ylabel="share of energy", title=title)
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    save_figure(figure, path, dpi=130)
