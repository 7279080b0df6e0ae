"""Curves, by the points they are drawn through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from PIL import Image

from fpgm.report.plots import curves
from fpgm.report.reading.groups import grouped
from fpgm.report.reading.studies import studies
from tests.report.making import bars, write_run


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    figures: list[Figure] = []
    monkeypatch.setattr(curves, "save_figure", lambda figure, path: figures.append(figure))
    return figures


def points(axis: Any) -> list[list[tuple[float, float]]]:
    return [[tuple(point) for point in line.get_xydata().tolist()] for line in axis.lines]


def test_a_line_per_run_in_the_colour_of_its_name(drawn: list[Figure]) -> None:
    first = [{"step": "1", "sup": "0.5", "val_dice": ""}, {"step": "2", "sup": "0.25", "val_dice": "0.75"}]
    second = [{"step": "2", "sup": "0.5", "val_dice": "0.5"}]
    curves.curves_figure({"L_sup": [first, second], "FPGM": [second]}, Path("x.png"))
    loss, dice = drawn[0].axes
    assert points(loss) == [[(1, 0.5), (2, 0.25)], [(2, 0.5)], [(2, 0.5)]]
    assert points(dice) == [[(2, 0.75)], [(2, 0.5)], [(2, 0.5)]]
    colours = [line.get_color() for line in loss.lines]
    assert colours[0] == colours[1] != colours[2]
    assert [text.get_text() for text in drawn[0].legends[0].texts] == [r"$L_\mathrm{sup}$", "FPGM"]


def test_long_losses_are_averaged_and_dice_is_not(drawn: list[Figure]) -> None:
    rows = [{"step": str(step), "sup": str(step % 2), "val_dice": str(step / 1000)} for step in range(1, 401)]
    curves.curves_figure({"a": [rows]}, Path("x.png"))
    loss, dice = drawn[0].axes
    assert points(loss)[0] == [(8 * n + 4.5, 0.5) for n in range(50)]
    assert len(points(dice)[0]) == 400


def test_a_method_without_the_term_has_no_loss_curve(drawn: list[Figure]) -> None:
    curves.curves_figure({"a": [[{"step": "1", "val_dice": "0.5"}]]}, Path("x.png"))
    assert points(drawn[0].axes[0]) == [[]]


def test_methods_with_pseudo_labels_show_the_foreground_they_keep(drawn: list[Figure]) -> None:
    rows = [{"step": "1", "sup": "1", "kept_foreground": "0.25"}, {"step": "2", "sup": "1", "kept_foreground": ""}]
    curves.curves_figure({"supervised": [[{"step": "1", "sup": "1"}]], "FPGM": [rows]}, Path("x.png"))
    _, kept, _ = drawn[0].axes
    assert kept.get_ylabel() == "foreground kept, share of pixels" and points(kept) == [[], [(1, 0.25)]]


def test_thirty_names_can_be_told_apart(drawn: list[Figure]) -> None:
    curves.curves_figure({str(n): [[{"step": "1", "sup": "1"}]] for n in range(20)}, Path("x.png"))
    looks = {(line.get_color(), line.get_linestyle()) for line in drawn[0].axes[0].lines}
    assert len(looks) == 20


def test_gamma(drawn: list[Figure], tmp_path: Path) -> None:
    truth = {"Kvasir-SEG": bars(8, 8), "CVC-300": bars(8)}
    found = {0.5: (0, 8), 0.05: (8, 8), 0.01: (4, 8)}
    runs = [
        write_run(tmp_path / str(g), {"Kvasir-SEG": bars(*w), "CVC-300": bars(8)}, truth, arguments={"gamma": g})
        for g, w in found.items()
    ]
    [group] = grouped(runs)
    curves.gamma_figure(group, studies([group])[0][1], Path("x.png"))
    dice, hd95 = drawn[0].axes
    lines = [line.get_xydata().tolist() for line in dice.lines if line.get_marker() == "o"]
    assert lines[0] == [[0, pytest.approx(250 / 3)], [1, 100], [2, 50]]
    assert lines[1] == [[0, 100], [1, 100], [2, 100]]
    assert [text.get_text() for text in dice.get_xticklabels()] == ["0.01", "0.05", "0.5"]
    assert hd95.get_ylabel() == "HD95, pixels of 16²"
    assert [text.get_text() for text in drawn[0].legends[0].texts] == ["Kvasir-SEG", "CVC-300 (unseen)"]


def test_a_picture_is_written(tmp_path: Path) -> None:
    curves.curves_figure({"a": [[{"step": "1", "sup": "0.5", "val_dice": "0.5"}]]}, tmp_path / "x.png")
    assert Image.open(tmp_path / "x.png").size[0] > 800
