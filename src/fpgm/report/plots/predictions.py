"""Pictures of a training: images with truth and prediction, and the views of unlabelled images."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fpgm.report.plots.saving import save_figure

TRUTH, PREDICTION = "#21c45d", "#ffd400"


def prediction_figure(
    images: NDArray[np.floating],
    truth: NDArray[np.bool_],
    predicted: NDArray[np.bool_],
    views: Mapping[str, NDArray[np.floating]],
    path: Path,
    *,
    title: str,
) -> None:
    """Draw labelled images with the outlines of truth and prediction, and beside them views of unlabelled ones.

    Args:
        images: (N, H, W, 3) in [0, 1].
        truth: (N, H, W).
        predicted: (N, H, W).
        views: name -> (N, H, W, 3), the same unlabelled image in each row.
        path: picture file to write, ``.png`` or ``.jpg``.
        title: title of the picture, e.g. the step.
    """
    columns = {"validation": images, **views}
    figure = Figure(figsize=(2.2 * len(columns), 2.2 * len(images) + 0.5), layout="compressed")
    axes = figure.subplots(len(images), len(columns), squeeze=False)
    for column, (name, pictures) in zip(axes.T, columns.items(), strict=True):
        column[0].set_title(name, fontsize=9)
        for axis, picture in zip(column, pictures, strict=False):
            axis.imshow(np.clip(picture, 0, 1))
    for axis, true, found in zip(axes[:, 0], truth, predicted, strict=True):
        for mask, colour in ((true, TRUTH), (found, PREDICTION)):
            if mask.any() and not mask.all():
                axis.contour(mask, [0.5], colors=colour, linewidths=1)
    for axis in axes.flat:
        axis.set_axis_off()
    figure.suptitle(f"{title}: truth green, prediction yellow", fontsize=9)
    save_figure(figure, path)
