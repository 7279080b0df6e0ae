"""Spread over seeds, draws and splits, against figures worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from fpgm.report.reading.groups import grouped
from fpgm.report.tables.spread import Place, spread, spread_table, spread_tables
from fpgm.runs.results import Result
from tests.report.making import bars, write_run


def test_each_level_has_a_deviation_of_its_own() -> None:
    values = {
        Place(0, 0, 0): 10.0,
        Place(0, 0, 1): 14.0,  # mean 12, variance 8
        Place(0, 1, 0): 20.0,
        Place(0, 1, 1): 20.0,  # mean 20, variance 0; draws 12 and 20: mean 16, variance 32
        Place(1, 0, 0): 30.0,
        Place(1, 0, 1): 30.0,
        Place(1, 1, 0): 26.0,
        Place(1, 1, 1): 34.0,  # mean 30, variance 32; draws 30 and 30: mean 30, variance 0
    }
    found = spread(values)
    assert found.mean == 23  # of 16 and 30
    assert found.seeds == pytest.approx(math.sqrt((8 + 0 + 0 + 32) / 4))
    assert found.draws == pytest.approx(math.sqrt((32 + 0) / 2))
    assert found.splits == pytest.approx(math.sqrt(2) * 7)  # 16 and 30 are 7 from their mean


def test_of_one_alone_there_is_no_spread() -> None:
    found = spread({Place(0, 0, 0): 1.0, Place(0, 0, 1): 3.0})
    assert found.mean == 2 and found.seeds == pytest.approx(math.sqrt(2))
    assert math.isnan(found.draws) and math.isnan(found.splits)


@pytest.fixture
def results(tmp_path: Path) -> list[Result]:
    """Runs of one image each: truth 8 columns wide, found 8 or 4; Dice is 2 · found / (found + 8): 1 or 2/3."""
    made = []
    for protocol, draw, seed, found in [("paper", 0, 0, 8), ("paper", 1, 0, 4), ("strict", 0, 0, 4)]:
        folder = tmp_path / f"{protocol}-{draw}-{seed}"
        one = write_run(folder, {"north": bars(found)}, {"north": bars(8)}, protocol=protocol, seed=seed)
        drawn = f"-draw-{draw}" if draw else ""
        made.append(replace(one, draw=draw, split=f"{protocol}-0{drawn}"))
    return made


def test_protocols_stand_side_by_side(results: list[Result]) -> None:
    (table,) = spread_tables(grouped(results))
    lines = [[cell.text for cell in line.cells] for line in table.lines]
    assert [line[1] for line in lines] == ["paper", "strict"]
    assert lines[0][2:6] == ["83.33", "—", "23.57", "—"]  # 100 and 66.67 are 16.67 from their mean, times root 2
    assert lines[1][2:6] == ["66.67", "—", "—", "—"]
    assert [cell.text for cell in table.lines[0].cells][6] == "2" and table.name.startswith("spread_5pct_mini")
    record = table.records[0]
    assert (record["dataset"], record["runs"]) == ("all", 2) and record["mean"] == pytest.approx(250 / 3)


def test_one_split_makes_no_such_table(results: list[Result]) -> None:
    assert spread_tables(grouped(results[:1])) == []


def test_ranked_rows_are_methods_the_highest_first(results: list[Result]) -> None:
    low, high = results[2], replace(results[0], config={**results[0].config, "method": "other"})
    table = spread_table("a", "A", [low, high], ranked=True)
    assert [line.cells[0].text for line in table.lines] == ["other", "fpgm"]
