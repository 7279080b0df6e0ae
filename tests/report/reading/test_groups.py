"""What may stand in one table, and what rows are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fpgm.report.reading.groups import grouped, labels
from fpgm.runs.results import Result
from tests.report.making import bars, write_run

TRUTH = {"Kvasir-SEG": bars(8, 8)}


def run(folder: Path, **settings: Any) -> Result:
    return write_run(folder, {"Kvasir-SEG": bars(4, 8)}, TRUTH, **settings)


def names(results: list[Result]) -> list[str]:
    [group] = grouped(results)
    return labels(group.rows)


@pytest.mark.parametrize(
    "other",
    [{"protocol": "strict"}, {"preset": "paper"}, {"iterations": 200}, {"labeled": "10%"}],
    ids=lambda other: next(iter(other)),
)
def test_other_settings_are_another_group(tmp_path: Path, other: dict[str, Any]) -> None:
    groups = grouped([run(tmp_path / "a"), run(tmp_path / "b", **other), run(tmp_path / "c", seed=1)])
    assert sorted(len(row.results) for group in groups for row in group.rows) == [1, 2]
    assert len({str(group.setting) for group in groups}) == len({group.setting.slug for group in groups}) == 2


def test_any_number_of_iterations_may_share_a_group_and_each_row_names_its_own(tmp_path: Path) -> None:
    results = [run(tmp_path / str(count), method="urpc", iterations=count) for count in (100, 200)]
    results += [run(tmp_path / "other", method="unimatch"), run(tmp_path / "seed", method="urpc", seed=1)]
    [group] = grouped(results, any_iterations=True)
    assert labels(group.rows) == [
        "URPC (train.iterations=100)",
        "URPC (train.iterations=200)",
        "UniMatch (train.iterations=100)",
    ]
    assert [row.seeds for row in group.rows] == [[0, 1], [0], [0]]
    assert "preset mini, iterations by row" in str(group.setting) and "_any_" in group.setting.slug


def test_another_size_is_another_group(tmp_path: Path) -> None:
    small = write_run(tmp_path / "b", {"Kvasir-SEG": bars(4, size=8)}, {"Kvasir-SEG": bars(8, size=8)})
    assert [group.setting.size for group in grouped([run(tmp_path / "a"), small])] == [8, 16]


def test_other_test_images_are_another_group(tmp_path: Path) -> None:
    other = run(tmp_path / "b", ids={"Kvasir-SEG": ["0", "7"]})
    groups = grouped([run(tmp_path / "a"), other, run(tmp_path / "c", seed=1)])
    assert [len(group.rows[0].results) for group in groups] == [2, 1]
    assert "image set 2" in str(groups[1].setting) and groups[1].setting.slug.endswith("images2")


def test_runs_scored_on_fewer_data_sets_stay_together(tmp_path: Path) -> None:
    both = TRUTH | {"CVC-300": bars(8)}
    more = write_run(tmp_path / "b", {"Kvasir-SEG": bars(4, 8), "CVC-300": bars(2)}, both, seed=1)
    [group] = grouped([run(tmp_path / "a"), more])
    assert (group.datasets(unseen=False), group.datasets(unseen=True)) == (["Kvasir-SEG"], ["CVC-300"])
    assert list(group.rows[0].scores("CVC-300")) == [1]


def test_phantoms_never_join_real_images(tmp_path: Path) -> None:
    phantom = write_run(tmp_path / "b", {"phantom-a": bars(4)}, {"phantom-a": bars(8)})
    real, drawn = grouped([phantom, run(tmp_path / "a")])
    assert not real.setting.phantom and drawn.setting.phantom and "phantom" in str(drawn.setting)


def test_groups_and_rows_are_in_the_papers_order(tmp_path: Path) -> None:
    made = [run(tmp_path / f"{n}", labeled=share) for n, share in enumerate(("10%", "100", "5%"))]
    assert [group.setting.labeled for group in grouped(made)] == ["5%", "10%", "100"]
    methods = ("own", "fpgm", "unimatch", "supervised")
    assert names([run(tmp_path / name, method=name) for name in methods]) == ["supervised", "UniMatch", "FPGM", "own"]


def test_a_cell_computed_twice_counts_once(tmp_path: Path) -> None:
    [group] = grouped([run(tmp_path / "a"), run(tmp_path / "b")])
    assert len(group.rows) == 1 and group.rows[0].seeds == [0]
    assert group.notes == (f"{tmp_path / 'b'} has the settings and the seed of {tmp_path / 'a'} and was left out",)


def test_fpgm_is_named_by_where_it_departs_from_the_paper(tmp_path: Path) -> None:
    released = run(tmp_path / "b", arguments={"recipe": "released", "gamma": 0.1})
    assert names([released]) == ["FPGM (recipe=released, gamma=0.1)"]
    assert names([released, run(tmp_path / "a")]) == ["FPGM", "FPGM (recipe=released, gamma=0.1)"]


def test_other_methods_are_named_by_what_tells_them_apart(tmp_path: Path) -> None:
    made = [run(tmp_path / f"{t}", method="unimatch", arguments={"threshold": t, "drop": 0.5}) for t in (0.9, 0.95)]
    assert names(made) == ["UniMatch (threshold=0.9)", "UniMatch (threshold=0.95)"]
    assert names(made[:1]) == ["UniMatch"]


def test_settings_around_the_method_are_named_in_every_row(tmp_path: Path) -> None:
    slow = run(tmp_path / "b", method="supervised", optimizer={"lr": 0.01})
    assert names([run(tmp_path / "a"), slow]) == ["supervised (optimizer.lr=0.01)", "FPGM (optimizer.lr=0.001)"]


def test_seeds_and_stores_make_no_other_row(tmp_path: Path) -> None:
    [group] = grouped([run(tmp_path / "b", seed=3, store=Path("moved")), run(tmp_path / "a")])
    assert [row.seeds for row in group.rows] == [[0, 3]]
