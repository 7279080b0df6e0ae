"""The paper's tables, on bars whose scores are known: 4 rows high, so many pixels wide, on 16 x 16 pixels.

Found 4 wide of 8: Dice 2·16 / (16 + 32) = 66.67 %, Jaccard 16/32 = 50 %. Found 8 of 8: 100 %. Found nothing: 0 %, and
distances of the diagonal, 16 √2 = 22.63 pixels, by `penalise`, 0 by `released`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from fpgm.report.reading.groups import Group, grouped
from fpgm.report.reading.studies import Study, studies
from fpgm.report.tables.formats import Table
from fpgm.report.tables.score_table import NOTICE, measure, score_table
from fpgm.runs.results import Result
from tests.report.making import bars, write_run

KVASIR = "Kvasir-SEG"


def run(folder: Path, *widths: int, name: str = KVASIR, **settings: Any) -> Result:
    return write_run(folder, {name: bars(*widths)}, {name: bars(*[8] * len(widths))}, **settings)


def only(results: list[Result]) -> tuple[Group, Study]:
    [group] = grouped(results)
    return group, studies([group])[0][0]


def table(results: list[Result], *, unseen: bool = False) -> Table:
    made = score_table(*only(results), unseen=unseen)
    assert made
    return made


def texts(made: Table) -> list[list[str]]:
    return [[f"{'*' * cell.best}{cell.text} {cell.spread}".strip() for cell in line.cells] for line in made.lines]


def test_one_seed_has_its_deviation_over_images(tmp_path: Path) -> None:
    row = only([run(tmp_path / "a", 4, 8)])[1].entries[0].row
    dice = measure(row, KVASIR, "dice")
    assert dice.mean == pytest.approx(100 * (2 / 3 + 1) / 2)
    assert dice.sd == pytest.approx(100 * (1 / 3) / math.sqrt(2))
    assert (dice.text, dice.spread, dice.over) == ("83.33", "(23.6)", "images")


def test_seeds_have_the_deviation_of_their_means(tmp_path: Path) -> None:
    row = only([run(tmp_path / "a", 8, 8), run(tmp_path / "b", 0, 8, seed=1)])[1].entries[0].row
    dice = measure(row, KVASIR, "dice")  # means 100 and 50
    assert (dice.text, dice.spread, dice.over) == ("75.00", "± 35.36", "seeds")
    assert measure(row, KVASIR, "hd95").mean == pytest.approx(math.hypot(16, 16) / 4)
    assert measure(row, KVASIR, "released_hd95").mean == 0


def test_what_was_not_scored_is_absent(tmp_path: Path) -> None:
    figure = measure(only([run(tmp_path / "a", 4)])[1].entries[0].row, "CVC-300", "dice")
    assert (figure.text, figure.spread) == ("—", "")
    assert measure(only([run(tmp_path / "b", 4)])[1].entries[0].row, KVASIR, "dice").spread == ""  # of one image


def test_distances_that_do_not_exist_do_not_enter(tmp_path: Path) -> None:
    truth = {KVASIR: bars(8, 0)}  # released: NaN where the truth is empty and the prediction is not
    result = write_run(tmp_path / "a", {KVASIR: bars(4, 4)}, truth)
    study = only([result])[1]
    hd95 = measure(study.entries[0].row, KVASIR, "released_hd95")
    assert hd95.mean == result.scores[KVASIR].values["hd95"][0]
    assert "False alarms on images without a polyp, all rows together: 1." in table([result]).facts


def test_lines_by_both_rules_and_the_papers_beside(tmp_path: Path) -> None:
    made = table([run(tmp_path / "a", 0, 8), run(tmp_path / "b", 8, 8, method="supervised")])
    assert made.header[:7] == ("", "scored by", "Dice ↑", "Jaccard ↑", "HD95 ↓", "ASD ↓", "missed")
    assert texts(made) == [
        ["supervised · seed 0", "penalise", *("*100.00 (0.0)",) * 2, *("*0.00 (0.0)",) * 2, "0/2"],
        ["", "released", *("100.00 (0.0)",) * 2, *("0.00 (0.0)",) * 2, ""],
        ["FPGM · seed 0", "penalise", *("50.00 (70.7)",) * 2, *("11.31 (16.0)",) * 2, "1/2"],
        ["", "released", *("50.00 (70.7)",) * 2, *("0.00 (0.0)",) * 2, ""],
        ["", "paper", "80.66", "71.34", "36.80", "12.27", ""],
    ]
    assert [line.aside for line in made.lines] == [False, True, False, True, True]


def test_the_papers_line_follows_all_variants_of_its_method(tmp_path: Path) -> None:
    made = table([run(tmp_path / "a", 4), run(tmp_path / "b", 4, arguments={"recipe": "released"})])
    names = [(line[0].partition(" ·")[0], line[1]) for line in texts(made)]
    assert names[2:] == [("FPGM (recipe=released)", "penalise"), ("", "released"), ("FPGM", "paper")]


def test_equal_figures_are_equally_good_and_one_alone_is_not_the_best(tmp_path: Path) -> None:
    both = [run(tmp_path / "a", 4), run(tmp_path / "b", 4, method="supervised")]
    assert [line.cells[2].best for line in table(both).lines] == [True, False, True, False, False]
    assert not any(cell.best for line in table(both[:1]).lines for cell in line.cells)


def test_the_smaller_distance_is_the_better(tmp_path: Path) -> None:
    far, near = table([run(tmp_path / "a", 6), run(tmp_path / "b", 4, method="supervised")]).lines[:3:2]
    assert [cell.best for cell in far.cells[2:6]] == [False] * 4
    assert [cell.best for cell in near.cells[2:6]] == [True] * 4


def test_unseen_sets_have_a_table_of_their_own(tmp_path: Path) -> None:
    result = write_run(tmp_path / "a", {"CVC-300": bars(4)}, {"CVC-300": bars(8)})
    assert score_table(*only([result]), unseen=False) is None
    made = table([result], unseen=True)
    assert made.name.startswith("zero-shot_5pct") and "CVC-300 (unseen)" in dict(made.heads)
    assert texts(made)[-1] == ["", "paper", "82.46", "75.42", "21.00", "7.09", ""]
    assert "BKAI-IGH in all rows" in made.facts[2]


def test_a_table_says_its_setting_and_what_is_missing(tmp_path: Path) -> None:
    two = {KVASIR: bars(4), "CVC-ColonDB": bars(4)}
    truth = {name: bars(8) for name in two}
    made = table(
        [
            write_run(tmp_path / "a", two, truth),
            write_run(tmp_path / "b", two, truth, seed=1),
            run(tmp_path / "c", 4, method="unimatch"),
            run(tmp_path / "d", 4, method="urpc"),
        ]
    )
    assert made.facts == (
        "5% labelled, protocol paper (split paper-0), preset mini, 100 iterations, 16 × 16 pixels; "
        "seeds as the rows say.",
        "Images: Kvasir-SEG 1, CVC-ColonDB 1.",
        "Missing: no run of supervised, BSNet, AC-MT, CauSSL, BCPNet, ABD, DyCON, CVBM, PICK, "
        "FPGM with a teacher; "
        "CVC-ClinicDB, ETIS-LaribPolypDB in all rows; seed 1 of URPC, UniMatch; "
        "CVC-ColonDB with seed 0 of URPC, UniMatch.",
        "Do not compare our HD95 and ASD with the paper's: ours are in pixels of 16 × 16, the paper's in pixels of "
        "256 × 256.",
    )
    assert any("its ASD is directed" in text for text in made.reading)


def test_ones_own_images_miss_nothing_of_the_paper(tmp_path: Path) -> None:
    made = table([run(tmp_path / "a", 4, name="clinic")])
    assert made.facts[2:] == ("No cell is missing.",)
    assert not any("paper's own figures" in text for text in made.reading)


def test_phantoms_have_the_notice_and_never_the_papers_figures(tmp_path: Path) -> None:
    mixed = {"phantom-a": bars(4), KVASIR: bars(4)}  # no such run should exist, and if it does it is a phantom's
    made = table([write_run(tmp_path / "a", mixed, {name: bars(8) for name in mixed})])
    assert NOTICE in made.reading
    assert [line[1] for line in texts(made)] == ["penalise", "released"]
    assert {record["paper"] for record in made.records} == {""}


def test_records_hold_every_figure_with_its_setting(tmp_path: Path) -> None:
    made = table([run(tmp_path / "a", 0, 8), run(tmp_path / "b", 8, 8, seed=1)])
    assert len(made.records) == 1 * 1 * 2 * 4
    [hd95] = [one for one in made.records if (one["metric"], one["on_empty"]) == ("hd95", "penalise")]
    assert hd95 == {
        "table": "main",
        "phantom": False,
        "protocol": "paper",
        "split": "paper-0",
        "split_seed": 0,
        "preset": "mini",
        "iterations": 100,
        "size": 16,
        "labeled": "5%",
        "image_set": 1,
        "row": "FPGM",
        "method": "fpgm",
        "dataset": KVASIR,
        "unseen": False,
        "images": 2,
        "seeds": "0 1",
        "metric": "hd95",
        "on_empty": "penalise",
        "mean": pytest.approx(math.hypot(16, 16) / 4),
        "sd": pytest.approx(math.hypot(16, 16) / 2 / math.sqrt(2)),
        "sd_over": "seeds",
        "low": "",
        "high": "",
        "missed": 1,
        "paper": 36.80,
    }


def test_dice_has_its_interval_over_images(tmp_path: Path) -> None:
    made = table([run(tmp_path / "a", 0, 8), run(tmp_path / "b", 8, 8, seed=1)])
    # an image counts with its mean over the seeds: 1 / 2 and 1; of two values the interval is the two
    dice, jaccard = made.lines[0].cells[2:4]
    assert (dice.text, dice.interval, jaccard.interval) == ("75.00", "[50.0, 100.0]", "")
    assert made.lines[1].cells[2].interval == ""  # by the other rule
    [record] = [one for one in made.records if (one["metric"], one["on_empty"]) == ("dice", "penalise")]
    assert (record["low"], record["high"]) == (50, 100)
