"""The table of unseen hospitals, on bars whose Dice is known: found 8 wide of 8 is 1, 4 of 8 is 2/3, nothing is 0."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fpgm.report.pages.report import write_report
from fpgm.report.reading.groups import grouped
from fpgm.report.reading.studies import studies
from fpgm.report.tables.formats import Table
from fpgm.report.tables.hospitals import HospitalStudy, hospital_significance, hospital_studies, hospital_table
from fpgm.report.tables.score_table import score_table
from fpgm.report.tables.significance import signed_rank
from fpgm.runs.results import Result, read_result
from tests.report.making import bars, write_run

Widths = dict[str, list[int]]


def fold(folder: Path, left_out: str, unseen: Widths, seen: Widths, **settings: Any) -> Result:
    """A run that left one hospital out; all polyps are 8 wide, apart from those found 9 wide, which are not there."""
    widths = unseen | seen
    found = {name: bars(*(width if width < 9 else 8 for width in of)) for name, of in widths.items()}
    truth = {name: bars(*(8 if width < 9 else 0 for width in of)) for name, of in widths.items()}
    options = {"protocol": "hospitals", "left_out": left_out, "unseen": tuple(unseen)}
    place = folder / left_out / "-".join(map(str, settings.values()))
    return write_run(place, found, truth, **options, **settings)


def asked(results: list[Result]) -> list[HospitalStudy]:
    groups = grouped(results)
    return hospital_studies(groups, studies(groups))


def only(results: list[Result]) -> HospitalStudy:
    [study] = asked(results)
    return study


def texts(table: Table) -> list[list[str]]:
    return [[f"{'*' * cell.best}{cell.text} {cell.spread}".strip() for cell in line.cells] for line in table.lines]


@pytest.fixture
def two(tmp_path: Path) -> list[Result]:
    """FPGM with two seeds and the baseline with one, two hospitals."""
    return [
        fold(tmp_path, "north", {"north": [8, 0]}, {"south": [8]}, seed=0),
        fold(tmp_path, "south", {"south": [8]}, {"north": [0]}, seed=0),
        fold(tmp_path, "north", {"north": [8, 8]}, {"south": [8]}, seed=1),
        fold(tmp_path, "south", {"south": [0]}, {"north": [8]}, seed=1),
        fold(tmp_path, "north", {"north": [0, 4]}, {"south": [8]}, seed=0, method="supervised"),
        fold(tmp_path, "south", {"south": [4]}, {"north": [0]}, seed=0, method="supervised"),
    ]


def test_convention_hospitals_weigh_equally_and_the_spread_is_over_seeds(two: list[Result]) -> None:
    table = hospital_table(only(two))
    assert table.heads == (
        ("", 1),
        ("north", 2),
        ("south", 2),
        ("mean over unseen hospitals", 2),
        ("seen hospitals, test images", 1),
    )
    assert table.header == ("", *("Dice ↑", "missed") * 3, "Dice ↑")
    # seed 0: north (1 + 0) / 2, south 1, mean 0.75; seed 1: north 1, south 0, mean 0.5; mean 0.625, deviation 0.25 / √2
    # seen, seed 0: (1 + 0) / 2; seed 1: 1; the baseline's mean is of 1/3 and 2/3
    assert texts(table) == [
        ["supervised · seed 0", "33.33 (47.1)", "1/2", "*66.67", "0/1", "50.00", "1/3", "50.00"],
        [
            "FPGM · seeds 0, 1",
            "*75.00 ± 35.36",
            "1/4",
            "50.00 ± 70.71",
            "1/2",
            "*62.50 ± 17.68",
            "2/6",
            "*75.00 ± 35.36",
        ],
    ]
    assert table.facts == (
        "5% labelled, protocol hospitals (split hospitals-*-0), preset mini, 100 iterations, 16 × 16 pixels.",
        "Unseen images: north 2, south 1.",
        "Missing: seed 1 of supervised on north, south.",
        "Every image has a polyp: false alarms are not measurable.",
    )
    assert table.name == "hospitals_5pct_hospitals-all-0_mini_100_16"


def test_records_hold_every_figure(two: list[Result]) -> None:
    records = hospital_table(only(two)).records
    assert len(records) == 2 * 4
    [mean] = [one for one in records if one["row"] == "FPGM" and one["place"].startswith("mean")]
    assert mean["mean"] == pytest.approx(62.5) and mean["sd"] == pytest.approx(25 / math.sqrt(2))
    told = {key: mean[key] for key in ("table", "split", "seeds", "images", "missed", "false_alarms", "unseen")}
    assert told == {
        "table": "hospitals",
        "split": "hospitals-*-0",
        "seeds": "0 1",
        "images": 3,
        "missed": 2,
        "false_alarms": None,
        "unseen": True,
    }


def test_convention_the_test_averages_seeds_per_image_and_pools_hospitals(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    results, dice = [], {}
    for method in ("fpgm", "supervised", "unimatch"):
        for seed in (0, 1):
            for name, other in (("north", "south"), ("south", "north")):
                widths = rng.integers(1, 9, 7 if name == "north" else 5).tolist()
                results.append(fold(tmp_path, name, {name: widths}, {other: [8]}, method=method, seed=seed))
                dice[method, seed, name] = [2 * width / (width + 8) for width in widths]
    table = hospital_significance(only(results))
    assert table and [record["against"] for record in table.records] == ["supervised", "UniMatch"]
    p = []
    for method, record in zip(("supervised", "unimatch"), table.records, strict=True):
        means = [
            np.concatenate([np.mean([dice[one, seed, name] for seed in (0, 1)], axis=0) for name in ("north", "south")])
            for one in ("fpgm", method)
        ]
        assert record["images"] == 12 and record["seeds"] == "0 1" and record["dataset"] == "all unseen hospitals"
        assert record["difference"] == pytest.approx((means[0] - means[1]).mean())
        assert record["p"] == pytest.approx(signed_rank(means[0] - means[1])[1])
        p.append(record["p"])
    # of two, Holm doubles the smaller and leaves the larger, but never below it
    smaller, larger = min(2 * min(p), 1), max(p)
    assert sorted(record["p_holm"] for record in table.records) == pytest.approx([smaller, max(smaller, larger)])


def test_only_seeds_that_all_folds_have_enter_the_mean_and_the_test(two: list[Result], tmp_path: Path) -> None:
    study = only(two[:3] + two[4:])  # FPGM has no seed 1 on south
    table, test = hospital_table(study), hospital_significance(study)
    assert texts(table)[1][5] == "*75.00"
    assert table.facts[2] == "Missing: seed 1 of supervised on north, south; seed 1 of FPGM on south."
    assert test and test.records[0]["seeds"] == "0"
    study = only([two[0], *two[4:]])  # nor any other
    assert texts(hospital_table(study))[1][3:] == ["—", "—", "—", "—", "—"]
    assert hospital_significance(study) is None


def test_a_row_that_cannot_be_tested_is_named(two: list[Result], tmp_path: Path) -> None:
    late = [
        fold(tmp_path, "north", {"north": [8, 8]}, {"south": [8]}, seed=4, method="urpc"),
        fold(tmp_path, "south", {"south": [8]}, {"north": [8]}, seed=4, method="urpc"),
    ]
    test = hospital_significance(only([*two, *late]))
    assert test and test.facts[1:] == ("Missing: URPC: no seed that both have in all folds.",)


def test_a_fold_that_was_not_run_is_named(two: list[Result]) -> None:
    table = hospital_table(only([two[0]]))
    assert "no run that leaves out the hospital of south" in table.facts[2]


def test_without_fpgm_the_first_row_is_the_reference(two: list[Result], tmp_path: Path) -> None:
    others = [
        fold(tmp_path, "north", {"north": [8, 8]}, {"south": [8]}, seed=0, method="unimatch"),
        fold(tmp_path, "south", {"south": [8]}, {"north": [8]}, seed=0, method="unimatch"),
    ]
    test = hospital_significance(only([*two[4:], *others]))
    assert test and test.header[-1] == "supervised is" and [one["against"] for one in test.records] == ["UniMatch"]


def test_another_method_may_be_the_reference(two: list[Result]) -> None:
    groups = grouped(two)
    [study] = hospital_studies(groups, studies(groups, "supervised"))
    test = hospital_significance(study)
    assert study.reference.method == "supervised" and test and test.header[-1] == "supervised is"


def test_frames_of_another_data_set_count_once(tmp_path: Path) -> None:
    unseen = {"CVC-ClinicDB": [8], "CVC-ColonDB": [0, 8], "CVC-300": [0, 0, 0]}
    results = [
        fold(tmp_path, "CVC", unseen, {"Kvasir-SEG": [8]}),
        fold(tmp_path, "Kvasir", {"Kvasir-SEG": [4]}, {"CVC-ColonDB": [8]}),
    ]
    table = hospital_table(only(results))
    assert [name for name, _ in table.heads[1:3]] == ["Kvasir", "CVC"]  # the paper's order
    assert texts(table)[0][3:5] == ["66.67 (57.7)", "1/3"]
    assert table.facts[1:3] == (
        "Unseen images: Kvasir (Kvasir-SEG 1), CVC (CVC-ClinicDB 1, CVC-ColonDB 2).",
        "CVC-300 is not counted here: its images are frames of CVC-ColonDB.",
    )


def test_false_alarms_are_counted_where_images_have_no_polyp(tmp_path: Path) -> None:
    results = [
        fold(tmp_path, "north", {"north": [8, 9, 9]}, {"south": [8]}),
        fold(tmp_path, "south", {"south": [8]}, {"north": [8]}),
    ]
    table = hospital_table(only(results))
    assert table.header[1:4] == ("Dice ↑", "missed", "false alarms")
    assert [row[3::3] for row in texts(table)] == [["2/2", "—", "2/2"]]


def test_settings_make_tables_of_their_own(two: list[Result], tmp_path: Path) -> None:
    more = [
        fold(tmp_path, "north", {"north": [8, 8]}, {"south": [8]}, labeled="10%"),
        write_run(tmp_path / "plain", {"north": bars(8)}, {"north": bars(8)}),
    ]
    assert [study.setting.labeled for study in asked([*two, *more])] == ["5%", "10%"]
    assert asked(more[1:]) == []


def test_a_second_split_of_the_same_hospital_is_said(two: list[Result], tmp_path: Path) -> None:
    again = fold(tmp_path / "again", "North", {"north": [8, 8]}, {"south": [8]})
    record = tmp_path / "again" / "North" / "evaluation" / "evaluation.json"
    record.write_text(record.read_text().replace('"North"', '"north"').replace("hospitals-north-0", "mine"))
    table = hospital_table(only([*two, read_result(again.folder)]))
    assert "Split mine leaves out north as hospitals-north-0 does, and is not in this table." in table.facts


def test_folds_expect_nothing_of_the_paper(tmp_path: Path) -> None:
    results = [
        fold(tmp_path, "ETIS", {"ETIS-LaribPolypDB": [8]}, {"Kvasir-SEG": [8]}),
        fold(tmp_path, "ETIS", {"ETIS-LaribPolypDB": [8]}, {"Kvasir-SEG": [8]}, method="supervised"),
        write_run(tmp_path / "paper", {"Kvasir-SEG": bars(4)}, {"Kvasir-SEG": bars(8)}, method="urpc"),
    ]
    left_out, paper = sorted(grouped(results), key=lambda group: not group.left_out)
    made = studies([left_out, paper])
    for unseen in (False, True):
        table = score_table(left_out, made[0][0], unseen=unseen)
        assert table and "No cell is missing." in table.facts
        assert all(line.cells[1].text != "paper" for line in table.lines)
        assert {record["paper"] for record in table.records} == {""}
    page = write_report(results[:2], [], tmp_path / "out").read_text()
    assert "missing: 10%" not in page and "paper's own figures" not in page


def test_the_page_begins_with_the_hospitals(two: list[Result], tmp_path: Path) -> None:
    page = write_report(two, [], tmp_path / "out").read_text()
    places = [page.index(f"id='{name}'") for name in ("hospitals-0", "setting-0", "setting-1")]
    assert places == sorted(places) and "href='#hospitals-0'" in page
    assert "id='setting-2'" not in page and page.count("<h3>Unseen hospitals") == 1
    names = {path.name for path in (tmp_path / "out" / "tables").iterdir() if "hospitals-all" in path.name}
    stem = "hospitals_5pct_hospitals-all-0_mini_100_16"
    assert names == {f"{kind}{stem}.{end}" for kind in ("", "significance-") for end in ("md", "tex", "csv")}


def test_a_run_that_was_not_scored_on_its_hospital_has_no_figure(two: list[Result], tmp_path: Path) -> None:
    bare = fold(tmp_path, "<i>east", {}, {"north": [8]}, seed=0)
    table = hospital_table(only([*two, bare]))
    assert table.heads[1][0] == "<i>east"
    assert [texts(table)[1][place] for place in (1, 2, 7, 8)] == ["—"] * 4  # nor has the mean over hospitals
    assert "seed 0, 1 of supervised on <i>east" in table.facts[2]
    page = write_report([*two, bare], [], tmp_path / "out").read_text()
    assert "&lt;i&gt;east" in page and "<i>east" not in page
