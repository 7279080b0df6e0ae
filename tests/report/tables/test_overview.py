"""Runs of different settings side by side, on masks whose Dice is known by hand."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from fpgm.report.pages.report import write_report
from fpgm.report.reading.groups import grouped
from fpgm.report.tables.overview import overview_table
from tests.report.making import bars, write_run

TRUTH = {"phantom-a": bars(4, 8)}


def test_what_differs_has_a_column_and_nothing_else_has(tmp_path: Path) -> None:
    results = [
        write_run(tmp_path / "a", {"phantom-a": bars(4, 8)}, TRUTH, method="supervised", labeled="5%"),
        write_run(tmp_path / "b", {"phantom-a": bars(4, 0)}, TRUTH, method="supervised", labeled="10%"),
        write_run(tmp_path / "c", {"phantom-a": bars(2, 8)}, TRUTH, method="supervised", labeled="10%", iterations=200),
        write_run(tmp_path / "d", {"phantom-a": bars(4, 8)}, TRUTH, method="supervised", labeled="10%", seed=1),
    ]
    table = overview_table(grouped(results))
    assert table is not None and table.header == ("method", "labelled", "iterations", "seeds", "phantom-a")
    rows = {tuple(cell.text for cell in line.cells[1:4]): line.cells[4] for line in table.lines}
    # of 4 and 8 columns: both found; the second missed in one of two seeds; 2 of 4 found, whose Dice is 4 / 6
    assert rows["5%", "100", "0"].text == "100.0" and rows["10%", "200", "0"].text == "83.3"
    assert rows["10%", "100", "0, 1"].text == "75.0" and rows["10%", "100", "0, 1"].interval == "[50.0, 100.0]"


def test_other_images_are_marked(tmp_path: Path) -> None:
    one = write_run(tmp_path / "a", {"phantom-a": bars(4, 8)}, TRUTH)
    other = write_run(
        tmp_path / "b",
        {"phantom-a": bars(4, 8)},
        TRUTH,
        protocol="strict",
        ids={"phantom-a": ["phantom-a/7", "phantom-a/8"]},
    )
    table = overview_table(grouped([one, other]))
    assert table is not None and sorted(line.cells[-1].text for line in table.lines) == ["100.0", "100.0*"]
    assert overview_table(grouped([one])) is None  # nothing to compare


def test_it_is_the_first_table_of_the_page_and_a_file(tmp_path: Path) -> None:
    results = [
        write_run(tmp_path / name, {"phantom-a": bars(4, 8)}, TRUTH, labeled=name) for name in ("5%", "10%", "20%")
    ]
    page = write_report(results, [], tmp_path / "report").read_text()
    assert re.findall(r"<h2[^>]*>([^<]*)", page)[0] == "All runs side by side" and "95 % interval" in page
    with (tmp_path / "report" / "tables" / "overview.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["labeled"] for row in rows] == ["5%", "10%", "20%"] and float(rows[0]["dice"]) == pytest.approx(1)
