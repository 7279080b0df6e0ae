"""Reliability curves, by the points they are drawn through."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from fpgm.calibration import reliability
from fpgm.report.plots import reliability as plots


def test_a_panel_per_data_set_with_a_line_per_row(monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, path: figures.append(figure))
    counts = reliability([0.1, 0.1, 0.9, 0.9], [0, 1, 1, 1])
    right = reliability([0.5, 0.5], [0, 1])
    plots.reliability_figure(
        {"clinic": {"FPGM": counts, "UNet": right}, "ward (unseen)": {"UNet": right}}, Path("x.png")
    )
    first, second = figures[0].axes
    assert np.allclose(first.lines[1].get_xydata(), [(0.1, 0.5), (0.9, 1.0)])
    assert np.allclose(first.lines[2].get_xydata(), [(0.5, 0.5)]) and len(second.lines) == 2
    assert first.lines[2].get_color() == second.lines[1].get_color() != first.lines[1].get_color()
    assert "error 25.00, 0.00 %" in first.get_title()  # (2 |0.1 - 0.5| + 2 |0.9 - 1|) / 4
    assert [text.get_text() for text in figures[0].legends[0].texts] == ["FPGM", "UNet"]
