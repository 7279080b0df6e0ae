"""Tests of differences, against enumeration and definitions written out."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from fpgm.report.reading.groups import Row, grouped
from fpgm.report.reading.studies import studies
from fpgm.report.tables.formats import Table
from fpgm.report.tables.significance import holm, paired, pairwise_tests, signed_rank, significance_table
from fpgm.runs.results import Result
from tests.report.making import bars, write_run

KVASIR = "Kvasir-SEG"
P = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def run(folder: Path, *widths: int, **settings: Any) -> Result:
    return write_run(folder, {KVASIR: bars(*widths)}, {KVASIR: bars(*[8] * len(widths))}, **settings)


def table(results: list[Result]) -> Table | None:
    [group] = grouped(results)
    return significance_table(group, studies([group])[0][0], unseen=False)


def test_holm_by_hand() -> None:
    # sorted 0.01 · 3 = 0.03, 0.03 · 2 = 0.06, 0.04 · 1 = 0.04, which may not be below the one before
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1, 1])
    assert len(holm([])) == 0


@given(P)
def test_holm_rejects_what_the_step_down_procedure_rejects(values: list[float]) -> None:
    corrected = holm(values)
    for level in (0.01, 0.05, 0.3):
        rejected = set()
        for step, place in enumerate(np.argsort(values, kind="stable")):
            if values[place] * (len(values) - step) > level:
                break
            rejected.add(place)
        assert {place for place, value in enumerate(corrected) if value <= level} == rejected


@given(st.lists(st.integers(1, 40), min_size=2, max_size=9, unique=True), st.data())
def test_signed_rank_counts_all_signs(sizes: list[int], data: st.DataObject) -> None:
    signs = data.draw(st.lists(st.sampled_from((-1, 1)), min_size=len(sizes), max_size=len(sizes)))
    ranks = rankdata(sizes)
    observed = abs(sum(sign * rank for sign, rank in zip(signs, ranks, strict=True)))
    every = [abs(np.dot(choice, ranks)) for choice in itertools.product((-1, 1), repeat=len(ranks))]
    total, p = signed_rank(np.array(sizes, float) * signs)
    assert p == pytest.approx(np.mean([one >= observed - 1e-9 for one in every]))
    assert abs(total) == pytest.approx(observed)


def test_nothing_differs() -> None:
    assert signed_rank(np.zeros(5)) == (0.0, 1.0)


def test_images_without_a_difference_are_left_out() -> None:
    values = np.array([0.1, 0.2, -0.3, 0.4, 0.5])
    assert signed_rank(np.concatenate([values, np.zeros(20)])) == signed_rank(values)


def test_seeds_in_common_are_averaged_per_image(tmp_path: Path) -> None:
    first = Row(
        (run(tmp_path / "a", 8, 4, 0), run(tmp_path / "b", 0, 4, 0, seed=1), run(tmp_path / "c", 8, 8, 8, seed=2))
    )
    # the same images in another order
    second = Row(tuple(run(tmp_path / f"d{s}", 0, 8, 8, seed=s, ids={KVASIR: ["2", "0", "1"]}) for s in (0, 1, 3)))
    seeds, differences = paired(first.scores(KVASIR), second.scores(KVASIR))
    assert seeds == (0, 1)
    # image 0: (1 + 0) / 2 against 1; image 1: 2/3 against 1; image 2: 0 against 0
    assert differences == pytest.approx([-0.5, -1 / 3, 0])


def test_each_other_row_on_each_set_both_have(tmp_path: Path) -> None:
    two = {KVASIR: bars(*range(1, 9)), "CVC-ColonDB": bars(*range(1, 9))}
    truth = {name: bars(*[8] * 8) for name in two}
    results = [
        write_run(tmp_path / "a", two, truth),
        write_run(tmp_path / "b", {name: bars(*[0] * 8) for name in two}, truth, method="supervised"),
        run(tmp_path / "c", *[0] * 8, method="unimatch"),
    ]
    [group] = grouped(results)
    [study] = studies([group])[0]
    found = pairwise_tests(study, group.datasets(unseen=False))
    assert [(one.other, one.dataset) for one in found] == [
        ("supervised", KVASIR),
        ("supervised", "CVC-ColonDB"),
        ("UniMatch", KVASIR),
    ]
    # eight images, all better: 2 of the 2^8 choices of signs; Holm: three equal p, three times each
    assert [one.p for one in found] == pytest.approx([2 / 256] * 3)
    assert [one.corrected for one in found] == pytest.approx([6 / 256] * 3)


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        ([*range(1, 9)], [0] * 8, "better"),
        ([0] * 8, [*range(1, 9)], "worse"),
        ([1, 2, 3, 4, 5, 6, 7, 8], [2, 1, 4, 3, 6, 5, 8, 7], "not shown to differ"),
    ],
)
def test_verdicts(tmp_path: Path, ours: list[int], theirs: list[int], verdict: str) -> None:
    made = table([run(tmp_path / "a", *ours), run(tmp_path / "b", *theirs, method="supervised")])
    assert made and made.lines[0].cells[-1].text == verdict
    assert f"better in {int(verdict == 'better')}, worse in {int(verdict == 'worse')} of 1" in made.title


def test_ranks_and_mean_may_disagree(tmp_path: Path) -> None:
    ours = [5] * 30 + [0] * 4  # a little better on thirty images, and four polyps missed
    made = table([run(tmp_path / "a", *ours), run(tmp_path / "b", *[4] * 30, *[8] * 4, method="supervised")])
    assert made and made.lines[0].cells[-1].text == "better on more images, worse on average"


def test_nothing_to_compare(tmp_path: Path) -> None:
    assert table([run(tmp_path / "a", 4)]) is None
    others = [run(tmp_path / name, 4, method=name) for name in ("supervised", "unimatch")]
    assert table(others) is None  # no FPGM


def test_rows_without_a_common_seed_are_named(tmp_path: Path) -> None:
    made = table(
        [run(tmp_path / "a", 4), run(tmp_path / "b", 4, method="urpc"), run(tmp_path / "c", 4, method="abd", seed=1)]
    )
    assert made and made.facts[1] == "Missing: ABD: no seed in common."
    assert len(made.records) == 1 and made.records[0]["p_holm"] == 1.0
