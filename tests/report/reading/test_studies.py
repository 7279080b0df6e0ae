"""Which rows answer which question of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fpgm.report.reading.groups import grouped
from fpgm.report.reading.paper import METHODS
from fpgm.report.reading.studies import Study, studies
from tests.report.making import bars, write_run


def ask(folder: Path, *variants: dict[str, Any]) -> list[Study]:
    runs = [
        write_run(folder / str(number), {"Kvasir-SEG": bars(4)}, {"Kvasir-SEG": bars(8)}, **variant)
        for number, variant in enumerate(variants)
    ]
    [made] = studies(grouped(runs))
    return made


def rows(study: Study) -> list[str]:
    return [entry.label for entry in study.entries]


def test_methods_alone_make_one_study(tmp_path: Path) -> None:
    [main] = ask(tmp_path, {}, {"method": "supervised"}, {"arguments": {"recipe": "released"}})
    assert rows(main) == ["supervised", "FPGM", "FPGM (recipe=released)"]
    assert main.reference is main.entries[1]
    assert main.missing() == [name for name in METHODS.values() if name not in ("supervised", "FPGM")]


def test_ablations_leave_the_main_table(tmp_path: Path) -> None:
    off = ({"unsup": 0.0, "freq": 0.0}, {"freq": 0.0})
    others = ({"prior": "generic"}, {"gamma": 0.5}, {"gamma": 0.01})
    main, loss, prior, gamma = ask(tmp_path, {}, *({"arguments": a} for a in (*off, *others)))
    assert [study.name for study in (main, loss, prior, gamma)] == ["main", "ablation-loss", "ablation-prior", "gamma"]
    assert rows(main) == ["FPGM"]
    assert rows(loss) == ["L_sup", "L_sup + L_unsup", "L_sup + L_unsup + L_freq"]
    assert loss.missing() == ["L_sup + L_freq"] and loss.reference is loss.entries[-1]
    assert rows(prior) == ["Generic prior", "Learned prior"] and prior.missing() == ["Low-pass"]
    assert rows(gamma) == ["γ = 0.01", "γ = 0.05", "γ = 0.5"]
    assert gamma.entries[1].row is main.entries[0].row


def test_a_sweep_without_the_papers_value_stays_in_the_main_table(tmp_path: Path) -> None:
    main, gamma = ask(tmp_path, {"arguments": {"gamma": 0.1}}, {"arguments": {"gamma": 0.2}})
    assert rows(main) == ["FPGM (gamma=0.1)", "FPGM (gamma=0.2)"]
    assert gamma.reference is None


def test_other_weights_are_no_ablation(tmp_path: Path) -> None:
    [main] = ask(tmp_path, {}, {"arguments": {"unsup": 0.25}})
    assert rows(main) == ["FPGM", "FPGM (unsup=0.25)"]


def test_a_range_of_gamma_is_no_point_of_the_sweep(tmp_path: Path) -> None:
    [main] = ask(tmp_path, {}, {"arguments": {"gamma": [0.0, 0.2]}})
    assert rows(main) == ["FPGM", "FPGM (gamma=[0.0, 0.2])"]


def test_a_second_recipe_has_an_ablation_of_its_own(tmp_path: Path) -> None:
    released = {"recipe": "released"}
    variants = ({}, {"freq": 0.0}, released, released | {"freq": 0.0})
    _, paper, other = ask(tmp_path, *({"arguments": a} for a in variants))
    assert (paper.name, paper.title) == ("ablation-loss", "Loss terms of FPGM")
    assert (other.name, other.title) == ("ablation-loss-2", "Loss terms of FPGM (recipe=released)")


def test_the_supervised_row_is_l_sup_alone_and_stays_in_the_main_table(tmp_path: Path) -> None:
    main, loss = ask(tmp_path, {}, {"arguments": {"freq": 0.0}}, {"method": "supervised"})
    assert rows(main) == ["supervised", "FPGM"]
    assert rows(loss) == ["L_sup", "L_sup + L_unsup", "L_sup + L_unsup + L_freq"]
    assert loss.entries[0].row is main.entries[0].row


def test_a_supervised_row_of_other_settings_is_not_in_the_ablation(tmp_path: Path) -> None:
    _, loss = ask(tmp_path, {}, {"arguments": {"freq": 0.0}}, {"method": "supervised", "optimizer": {"lr": 0.1}})
    assert loss.missing() == ["L_sup", "L_sup + L_freq"]


def test_with_a_feature_term_it_is_not_l_sup_alone(tmp_path: Path) -> None:
    released = {"recipe": "released"}
    variants = (released, released | {"freq": 0.0}, released | {"freq": 0.0, "unsup": 0.0})
    main, loss = ask(tmp_path, *({"arguments": a} for a in variants))
    assert rows(loss) == ["L_sup + L_unsup", "L_sup + L_unsup + L_freq"]
    assert "FPGM (recipe=released, freq=0.0, unsup=0.0)" in rows(main)
    _, alone = ask(tmp_path / "2", *({"arguments": a} for a in (*variants[:2], variants[2] | {"feature": 0.0})))
    assert rows(alone) == ["L_sup", *rows(loss)]


def test_the_papers_figures_of_fpgm_belong_to_the_released_recipe(tmp_path: Path) -> None:
    [main] = ask(tmp_path, {}, {"arguments": {"recipe": "released"}})
    assert [(entry.label, entry.theirs) for entry in main.entries] == [("FPGM", ""), ("FPGM (recipe=released)", "FPGM")]
    [main] = ask(tmp_path / "2", {})
    assert main.entries[0].theirs == "FPGM"


def test_no_fpgm_no_reference(tmp_path: Path) -> None:
    [main] = ask(tmp_path, {"method": "supervised"}, {"method": "unimatch"})
    assert main.reference is None


def test_another_method_may_be_the_reference(tmp_path: Path) -> None:
    results = [write_run(tmp_path / name, {"a": bars(4)}, {"a": bars(8)}, method=name) for name in ("fpgm", "urpc")]
    [[main]] = studies(grouped(results), "urpc")
    assert main.reference and main.reference.row.method == "urpc"


def test_a_row_of_one_group_is_expected_of_the_others(tmp_path: Path) -> None:
    own, truth = {"clinic": bars(4)}, {"clinic": bars(8)}
    runs = [
        write_run(tmp_path / "a", own, truth),
        write_run(tmp_path / "b", own, truth, method="supervised"),
        write_run(tmp_path / "c", own, truth, labeled="10%"),
    ]
    [five], [ten] = studies(grouped(runs))
    assert five.missing() == []  # nobody expects the paper's methods on images of one's own
    assert ten.missing() == ["supervised"]
