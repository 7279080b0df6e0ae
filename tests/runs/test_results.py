"""Run folders made by hand: what is read, and what is refused."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgm import __version__
from fpgm.evaluation import Row, score, write_rows
from fpgm.runs.results import read_result
from fpgm.runs.scores import COLUMNS, Scores, false_alarms, missed, read_scores

FAR = repr(math.hypot(10, 10))
HEADER = "id,dice,jaccard,hd95,asd,released_dice,released_jaccard,released_hd95,released_asd,predicted,true"
LINES = [
    # 30 and 50 pixels, 20 in common: Dice 40 / 80, Jaccard 20 / 60
    f"clinic/1,0.5,{1 / 3!r},4.5,1.25,0.5,{1 / 3!r},4.5,0.75,30,50",
    "clinic/2,1.0,1.0,0.0,0.0,1.0,1.0,0.0,0.0,7,7",
    f"clinic/3,0.0,0.0,{FAR},{FAR},0.0,0.0,0.0,0.0,0,12",  # a missed polyp
    f"clinic/4,0.0,0.0,{FAR},{FAR},0.0,0.0,nan,nan,9,0",  # a false alarm
    "clinic/5,1.0,1.0,0.0,0.0,0.0,0.0,0.0,0.0,0,0",  # rightly nothing
]
CONFIG = """
version: 0.1.0
preset: mini
method: fpgm
arguments: {gamma: 0.05}
data: {store: store, split: strict-0, labeled: 5%}
train: {iterations: 40, seed: 3}
"""


def write_evaluation(run: Path, lines: list[str], **changes: object) -> Path:
    """Write the CSV file of the data set `clinic` and the record that vouches for it."""
    path = run / "evaluation" / "clinic.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join((HEADER, *lines, "")), newline="")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    record = {
        "format": "fpgm-evaluation-2",
        "version": __version__,
        "weights_sha256": "w",
        "size": 10,
        "protocol": "strict",
        "split": "strict-0",
        "split_seed": 0,
        "datasets": {"clinic": {"images": len(lines), "unseen": True, "sha256": digest}},
    }
    (run / "evaluation" / "evaluation.json").write_text(json.dumps(record | changes))
    return path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    write_evaluation(folder, LINES)
    (folder / "config.yaml").write_text(CONFIG)
    (folder / "metrics.csv").write_text("step,loss,val_dice\n10,0.5,\n20,0.4,0.31\n")
    (folder / "model").mkdir()
    (folder / "model" / "model.json").write_text('{"weights_sha256": "w"}')
    return folder


def refused(run: Path) -> str:
    with pytest.raises((ValueError, OSError)) as caught:
        read_result(run)
    return str(caught.value)


def test_a_run_is_read_back(run: Path) -> None:
    result = read_result(run)
    assert (result.method, result.preset, result.iterations) == ("fpgm", "mini", 40)
    assert (result.labeled, result.seed, result.protocol, result.split, result.size) == (
        "5%",
        3,
        "strict",
        "strict-0",
        10,
    )
    assert [row["val_dice"] for row in result.metrics] == ["", "0.31"]
    scores = result.scores["clinic"]
    assert scores.ids == tuple(f"clinic/{number}" for number in range(1, 6)) and scores.unseen
    assert scores.values["jaccard"].tolist() == [1 / 3, 1, 0, 0, 1]
    assert np.array_equal(scores.values["released_hd95"], [4.5, 0, 0, np.nan, 0], equal_nan=True)
    assert scores.values["true"].dtype == np.int64 and scores.values["true"].tolist() == [50, 7, 12, 0, 0]
    assert missed(scores) == 1 and false_alarms(scores) == 1


def test_columns_are_those_that_evaluation_writes() -> None:
    assert COLUMNS == Row._fields == tuple(HEADER.split(","))


@pytest.mark.parametrize(
    ("line", "column", "cell", "message"),
    [
        (2, "dice", "0.51", "dice is 0.51, but by the other columns it is 0.5"),  # 20.4 pixels in common
        (2, "dice", "0.8", "dice is 0.8, but by the other columns it is 0.75"),  # 32 in common of 30 predicted ones
        (2, "dice", "1.1", "dice is 1.1, but it lies between 0 and 1"),
        (2, "dice", "nan", "dice is nan, but it lies between 0 and 1"),
        (2, "dice", "good", "dice is 'good', which is not a number"),
        (2, "jaccard", "0.4", "jaccard is 0.4, but by the other columns it is 0.333"),
        (2, "hd95", "-1", "hd95 is -1.0, but it lies between 0 and 14.1421"),
        (2, "hd95", "15", "hd95 is 15.0, but it lies between 0 and 14.1421"),
        (2, "released_asd", "15", "released_asd is 15.0, but it lies between 0 and 14.1421"),
        (2, "released_hd95", "4", "released_hd95 is 4.0, but by the other columns it is 4.5"),
        (3, "released_asd", "1", "released_asd is 1.0, but by the other columns it is 0.0"),
        (2, "released_dice", "0.6", "released_dice is 0.6, but by the other columns it is 0.5"),
        (2, "predicted", "31", "dice is 0.5, but by the other columns it is"),
        (2, "predicted", "30.5", "predicted is '30.5', which is not a whole number"),
        (2, "true", "101", "true is 101, but it lies between 0 and 100"),
        (2, "predicted", "0", "dice is 0.5, but by the other columns it is 0.0"),
        (3, "hd95", "1", "hd95 is 1.0, but by the other columns it is 0.0"),
        (4, "hd95", "3", "hd95 is 3.0, but by the other columns it is 14.14"),
        (4, "released_asd", "nan", "released_asd is nan, but by the other columns it is 0.0"),
        (5, "released_asd", "0", "released_asd is 0.0, but by the other columns it is nan"),
        (6, "dice", "0", "dice is 0.0, but by the other columns it is 1.0"),
        (3, "id", "clinic/1", "clinic/1 stands in line 2 already"),
        (3, "id", "other/2", "'other/2' is not an image of clinic"),
        (3, "id", "clinic/2,1", "12 cells, but there are 11 columns"),
    ],
)
def test_an_edited_line_is_refused_with_its_number(run: Path, line: int, column: str, cell: str, message: str) -> None:
    path = run / "evaluation" / "clinic.csv"
    lines = path.read_text().split("\n")
    cells = lines[line - 1].split(",")
    cells[COLUMNS.index(column)] = cell
    lines[line - 1] = ",".join(cells)
    path.write_text("\n".join(lines))
    said = refused(run)
    assert f"{path}, line {line}: {message}" in said and f"`fpgm evaluate {run}`" in said


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (HEADER, HEADER.replace("asd", "assd"), "line 1: the header is not id,dice"),
        ("clinic/2,", "\nclinic/2,", "line 3: 0 cells"),
        (f"{LINES[1]}\n", "", "has 4 lines after the header, but there were 5 images"),
        ("4.5,1.25", "4.5,1.2", "is not the file that was written"),
        ("\n", "\r\n", "line 1: the header is not"),
        (LINES[0], LINES[0].replace("30,50", "50,30"), "is not the file that was written"),
    ],
)
def test_a_changed_file_is_refused(run: Path, before: str, after: str, message: str) -> None:
    path = run / "evaluation" / "clinic.csv"
    path.write_text(path.read_text().replace(before, after), newline="")
    assert message in refused(run)


masks = st.integers(0, 2**16 - 1).map(lambda bits: np.array([bits >> k & 1 for k in range(16)]).reshape(4, 4) > 0)


@given(st.lists(st.tuples(masks, masks), min_size=1, max_size=6))
def test_what_evaluation_writes_is_accepted(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[np.ndarray, np.ndarray]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    rows = [score((f"any, one/{i}", mask, truth.astype(np.uint8))).row for i, (mask, truth) in enumerate(pairs)]
    write_rows(path, rows)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    scores = read_scores(path, dataset="any, one", size=4, images=len(rows), sha256=digest, unseen=False)
    assert scores.ids == tuple(row.id for row in rows)
    for column in COLUMNS[1:]:
        assert np.array_equal(scores.values[column], [getattr(row, column) for row in rows], equal_nan=True)


def test_what_is_missing_is_named_with_the_command_that_makes_it(run: Path) -> None:
    (run / "metrics.csv").unlink()
    assert "it has no metrics.csv" in refused(run)
    (run / "evaluation" / "clinic.csv").unlink()
    assert f"clinic.csv is gone: make it again with `fpgm evaluate {run}`" in refused(run)
    (run / "evaluation" / "evaluation.json").unlink()
    assert f"{run} is not evaluated" in refused(run) and f"`fpgm evaluate {run}`" in refused(run)
    (run / "model" / "model.json").unlink()
    assert f"{run} is not finished" in refused(run) and f"`fpgm train … --out {run} --resume`" in refused(run)
    (run / "config.yaml").unlink()
    assert f"{run} is not a run" in refused(run)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"format": "fpgm-evaluation-1"},
            "evaluation.json: format: Input should be 'fpgm-evaluation-3' or 'fpgm-evaluation-2'",
        ),
        ({"size": "big"}, "evaluation.json: size: "),
        ({"surprise": 1}, "evaluation.json: surprise: "),
        ({"weights_sha256": "other"}, "is of other weights than its model: run `fpgm evaluate"),
    ],
)
def test_an_evaluation_of_something_else_is_refused(run: Path, changes: dict[str, object], message: str) -> None:
    write_evaluation(run, LINES, **changes)
    assert message in refused(run)


def test_the_format_decides_and_not_the_version(run: Path) -> None:
    write_evaluation(run, LINES, version="0.0.1")
    assert list(read_result(run).scores) == ["clinic"]


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00"])
def test_a_damaged_record_is_refused(run: Path, text: str) -> None:
    (run / "evaluation" / "evaluation.json").write_text(text)
    assert f"run `fpgm evaluate {run}` again" in refused(run)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is no method"),
        ("- 1", "there is no method"),
        ("{", "is not readable YAML"),
        (CONFIG.replace("labeled", "labels"), "there is no data.labeled"),
        (CONFIG.replace("train", "training"), "there is no train.iterations"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(run: Path, text: str, message: str) -> None:
    (run / "config.yaml").write_text(text)
    assert str(run / "config.yaml") in refused(run) and message in refused(run)


def test_missed_polyps_and_false_alarms_need_a_truth_that_says_so() -> None:
    values = {"predicted": np.array([0, 0, 4, 4, 0]), "true": np.array([3, 0, 0, 3, 5])}
    scores = Scores(tuple("abcde"), values, unseen=False)
    assert missed(scores) == 2 and false_alarms(scores) == 1


def test_without_an_empty_frame_false_alarms_cannot_be_measured() -> None:
    values = {"predicted": np.array([0, 4]), "true": np.array([3, 3])}
    assert false_alarms(Scores(tuple("ab"), values, unseen=False)) is None
