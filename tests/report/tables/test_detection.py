"""Polyps by size in a table, of runs with details and of older ones without."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fpgm.report.plots.reliability import collect_reliability, reliability_figure
from fpgm.report.reading.groups import grouped
from fpgm.report.reading.studies import studies
from fpgm.report.tables.detection import detection_table
from fpgm.runs.details import ImageDetails
from fpgm.runs.results import Result
from tests.report.making import bars, write_run

ZERO = (0,) * 14
SURE = {"pixels": (1000, *ZERO), "foreground": (50, *ZERO), "probability": (0.0, *ZERO)}  # five percent are wrong


def detailed(result: Result, *images: ImageDetails) -> Result:
    scores = {name: replace(one, details=images) for name, one in result.scores.items()}
    return replace(result, scores=scores)


@pytest.fixture
def result(tmp_path: Path) -> Result:
    return write_run(tmp_path / "run", {"Kvasir-SEG": bars(4, 0)}, {"Kvasir-SEG": bars(8, 8)})


def test_sizes_alarms_and_calibration_of_all_seeds(result: Result, tmp_path: Path) -> None:
    other = write_run(tmp_path / "two", {"Kvasir-SEG": bars(4, 0)}, {"Kvasir-SEG": bars(8, 8)}, seed=1)
    images = ImageDetails("a", ((5, 0), (500, 3)), (7,), **SURE), ImageDetails("b", (), (4, 4, 90), **SURE)
    (group,) = grouped([detailed(result, *images), detailed(other, *images)])
    (study,) = studies([group])[0]
    table = detection_table(group, study, unseen=False)
    assert table is not None and detection_table(group, study, unseen=True) is None
    (line,) = table.lines
    texts = [cell.text for cell in line.cells]
    assert texts[1:] == ["Kvasir-SEG", "2/2", "—", "0/2", "6", "0", "2", "3.00", "5.00"]
    assert line.cells[8].spread == "of 2"
    record = table.records[0]
    assert (record["small_missed"], record["large_polyps"], record["false_alarms_per_frame"]) == (2, 2, 3.0)
    path = tmp_path / "curves.png"
    reliability_figure(collect_reliability(group, study), path)
    assert path.stat().st_size > 1000


def test_what_cannot_be_measured_is_said_and_older_runs_have_no_table(result: Result) -> None:
    (group,) = grouped([result])
    (study,) = studies([group])[0]
    assert detection_table(group, study, unseen=False) is None and collect_reliability(group, study) == {}
    (group,) = grouped([detailed(result, *[ImageDetails(None, ((5, 1),), (), **SURE)] * 2)])
    (study,) = studies([group])[0]
    table = detection_table(group, study, unseen=False)
    assert table is not None and table.lines[0].cells[8].text == "not measurable"
    assert table.records[0]["false_alarms_per_frame"] == ""
