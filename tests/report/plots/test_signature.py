"""Figures of profiles: written whole, small, and drawing what they were given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from PIL import Image

from fpgm.report.plots import signature
from fpgm.report.plots.signature import Range, distance_figure, halves_figure, sets_figure, specificity_figure


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[list[Axes]]:
    """The axes of each figure that is saved."""
    axes: list[list[Axes]] = []
    save = signature.save_compressed

    def keep(figure: object, path: Path) -> None:
        axes.append(figure.axes)  # type: ignore[attr-defined]  # a figure
        save(figure, path)  # type: ignore[arg-type]  # a figure

    monkeypatch.setattr(signature, "save_compressed", keep)
    return axes


def profile(scale: float, radii: int = 64) -> np.ndarray:
    return scale / np.arange(1, radii + 1)


def check(path: Path) -> None:
    with Image.open(path) as picture:
        assert picture.format == "PNG" and min(picture.size) > 200
    assert path.stat().st_size < 100_000
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]  # nothing half-written is left


@pytest.mark.parametrize("count", [1, 3, 4])
def test_a_panel_for_each_set(tmp_path: Path, drawn: list[list[Axes]], count: int) -> None:
    halves = {f"set {k}": (profile(1 + k), profile(2 + k)) for k in range(count)}
    halves_figure(halves, dict.fromkeys(halves, "a note"), tmp_path / "halves.png")
    check(tmp_path / "halves.png")
    panels = [axis for axis in drawn[0] if axis.lines]
    assert [axis.get_title() for axis in panels] == [f"{name}\na note" for name in halves]
    for axis, pair in zip(panels, halves.values(), strict=True):
        for line, values in zip(axis.lines, pair, strict=True):
            np.testing.assert_array_equal(line.get_ydata(), values)


@pytest.mark.parametrize("mixture", [None, (profile(1), profile(2))])
def test_sets_with_and_without_a_mixture(
    tmp_path: Path, drawn: list[list[Axes]], mixture: tuple[np.ndarray, np.ndarray] | None
) -> None:
    sets = {f"set {k}": (profile(1 + k), profile(2)) for k in range(10)}  # more than there are colours
    sets_figure(sets, mixture, "a note", tmp_path / "sets.png")
    check(tmp_path / "sets.png")
    *halves, means, ratios = drawn[0]
    assert len(halves) == (mixture is not None)
    styles = {(line.get_color(), line.get_linestyle()) for line in means.lines}
    assert len(means.lines) == len(styles) == len(ratios.lines) == 10
    for line in ratios.lines:  # all have the same shape
        np.testing.assert_allclose(line.get_ydata(), 1)


def test_distances_stand_on_their_lines(tmp_path: Path, drawn: list[list[Axes]]) -> None:
    ranges = [
        Range("halves", "a", 1, 0.5, 1.5),
        Range("sets", "a – b", 4, 3, 5, beside=4.5),
        Range("halves", "b", 2, 1, 3),
    ]
    distance_figure(ranges, tmp_path / "distances.png", label="distance", beside="outlines")
    check(tmp_path / "distances.png")
    (axis,) = drawn[0]
    dots = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axis.lines}
    assert dots == {"halves": ([1, 2], [0, 2]), "sets": ([4], [1]), "outlines": ([4.5], [1])}
    assert [label.get_text() for label in axis.get_yticklabels()] == ["a", "a – b", "b"]


def test_specificity_shows_all_curves_twice(tmp_path: Path, drawn: list[list[Axes]]) -> None:
    samples = {name: (profile(k + 1), profile(9)) for k, name in enumerate(("edge", "background", "moved"))}
    specificity_figure(samples, "500 images", tmp_path / "specificity.png")
    check(tmp_path / "specificity.png")
    for axis in drawn[0]:
        assert [line.get_label() for line in axis.lines] == list(samples)
        assert len(axis.collections) == 2  # deviations of the first two
        for line, (mean, _) in zip(axis.lines, samples.values(), strict=True):
            np.testing.assert_array_equal(line.get_ydata(), mean)
