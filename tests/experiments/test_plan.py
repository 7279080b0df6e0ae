"""Which cells a table has, where they lie, and what is refused before anything is computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fpgm.data.splits.split import Split
from fpgm.experiments.folds import Fold, find_split, hospital_folds
from fpgm.experiments.plan import (
    HOSPITAL_METHODS,
    LABELED,
    PAPER,
    ROWS,
    Cell,
    Table,
    check,
    plan,
)
from fpgm.methods import METHODS
from tests.data.making import make_store, scene

TABLES = PAPER
STRICT = Fold("strict")
CVC, ETIS = Fold("hospitals", "CVC"), Fold("hospitals", "ETIS")


def make(tmp_path: Path, *tables: Any, **options: Any) -> list[Cell]:
    return plan(tables, store=tmp_path / "store", out=tmp_path / "out", **options)


def names(cells: list[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.variant.name for cell in cells))


def test_the_comparison_is_methods_times_labels_times_seeds(tmp_path: Path) -> None:
    cells = make(tmp_path, "main", seeds=[0, 1])
    assert len(cells) == 14 * 3 * 2 and names(cells) == [*METHODS, "fpgm-released"]
    assert {cell.labeled for cell in cells} == {"5%", "10%", "20%"}
    assert len({cell.folder for cell in cells}) == len(cells)


def test_all_tables_together_compute_each_cell_once(tmp_path: Path) -> None:
    """At 5 and 10 %: 13 methods, 1 + 2 + 2 + 4 variants of fpgm beside fpgm itself; at 20 % the methods and one."""
    cells = make(tmp_path, *TABLES)
    assert len(cells) == 2 * (13 + 1 + 2 + 2 + 4) + 14 == len({cell.folder for cell in cells})
    assert make(tmp_path, "zero-shot") == make(tmp_path, "main")


def test_tables_are_those_of_the_paper(tmp_path: Path) -> None:
    def arguments(table: Table, *keys: str) -> list[tuple[Any, ...]]:
        cells = make(tmp_path, table, labeled=["5%"])
        return [tuple(dict(cell.config().arguments).get(key, 0) for key in keys) for cell in cells]

    assert arguments("ablation-loss", "unsup", "freq") == [(0, 0), (0.5, 0), (0, 0.5), (0.5, 0.5)]
    assert arguments("ablation-prior", "prior") == [("generic",), ("low-pass",), ("learned",)]
    assert (0.05,) in arguments("gamma", "gamma") and (0.1,) in arguments("gamma", "gamma")
    for table in ("ablation-loss", "ablation-prior", "gamma"):
        assert LABELED[table] == ("5%", "10%")
    assert all(dict(cell.config().arguments)["recipe"] == "paper" for cell in make(tmp_path, "gamma"))


def test_folders_are_readable(tmp_path: Path) -> None:
    cells = make(tmp_path, "gamma", folds=[STRICT], preset="mini", labeled=["5%", "70"], seeds=[3])
    folders = [cell.folder.relative_to(tmp_path / "out").as_posix() for cell in cells]
    assert folders[:2] == ["strict/mini/5pct/fpgm-gamma-0.01/seed-3", "strict/mini/5pct/fpgm/seed-3"]
    assert folders[5] == "strict/mini/70/fpgm-gamma-0.01/seed-3"


def test_a_seed_is_finished_before_the_next(tmp_path: Path) -> None:
    cells = make(tmp_path, *TABLES, seeds=[1, 0])
    assert [cell.seed for cell in cells] == sorted((cell.seed for cell in cells), reverse=True)
    half = [cell.labeled for cell in cells if cell.seed == 1]
    assert half == sorted(half, key=["5%", "10%", "20%"].index)


def test_convention_the_split_is_the_same_for_all_seeds(tmp_path: Path) -> None:
    cells = make(tmp_path, "main", seeds=[0, 1, 2], methods=["fpgm"])
    assert {cell.split for cell in cells} == {"paper-0"}
    assert {cell.config().train.seed for cell in cells} == {0, 1, 2}


def test_the_comparison_has_the_released_recipe(tmp_path: Path) -> None:
    assert "fpgm-released" in names(make(tmp_path, "main"))
    (cell,) = make(tmp_path, "main", methods=["fpgm-released"], labeled=["5%"])
    assert dict(cell.config().arguments)["recipe"] == "released"
    assert cell.tables == ("main", "zero-shot")


def test_a_shared_cell_names_all_its_tables(tmp_path: Path) -> None:
    (cell,) = make(tmp_path, "main", methods=["fpgm"], labeled=["5%"])
    assert cell.tables == PAPER


def test_the_row_of_l_sup_alone_is_the_supervised_cell(tmp_path: Path) -> None:
    (compared,) = make(tmp_path, "main", methods=["supervised"], labeled=["5%"])
    ablated = make(tmp_path, "ablation-loss", labeled=["5%"])
    assert compared == ablated[0] and compared.tables == ("main", "zero-shot", "ablation-loss", "recipe")


def test_settings_of_fpgm_are_not_for_the_row_of_l_sup_alone(tmp_path: Path) -> None:
    cells = make(tmp_path, "ablation-loss", labeled=["5%"], settings=["method.gamma=0.1", "train.iterations=7"])
    configs = [cell.config() for cell in cells]
    assert [dict(config.arguments).get("gamma") for config in configs] == [None, 0.1, 0.1, 0.1]
    assert {config.train.iterations for config in configs} == {7}


def test_without_l_unsup_the_released_recipe_has_no_feature_term(tmp_path: Path) -> None:
    cells = make(tmp_path, "ablation-loss", labeled=["5%"], settings=["method.recipe=released"])
    terms = [[dict(cell.config().arguments)[name] for name in ("unsup", "feature", "freq")] for cell in cells[1:]]
    assert terms == [[0.5, 0.5, 0], [0, 0, 0.5], [0.5, 0.5, 0.5]]
    assert cells[0].config().method == "supervised"


def test_settings_reach_every_cell(tmp_path: Path) -> None:
    cells = make(tmp_path, "main", settings=["train.iterations=7"], preset="mini")
    assert {cell.config().train.iterations for cell in cells} == {7}
    assert {cell.config().optimizer.name for cell in cells} == {"adamw"}


@pytest.mark.parametrize("key", ["train.seed", "data.split", "data.labeled", "data.store", "method.gamma"])
def test_settings_in_which_the_cells_differ_are_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(ValueError, match=f"{key} is what the cells of this plan differ in"):
        make(tmp_path, "gamma", settings=[f"{key}=1"])


def test_a_setting_of_one_method_is_refused_for_others(tmp_path: Path) -> None:
    make(tmp_path, "main", methods=["fpgm"], settings=["method.gamma=0.1"])[0].config()
    with pytest.raises(ValueError, match=r"no setting 'method\.gamma'"):
        check(make(tmp_path, "main", methods=["fpgm", "supervised"], settings=["method.gamma=0.1"]))


def test_a_wrong_method_shows_those_near_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="near it: unimatch"):
        make(tmp_path, "main", methods=["unimach"])


def test_ablations_take_no_methods(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="gamma has rows of its own: leave --methods out"):
        make(tmp_path, "gamma", methods=["fpgm"])
    assert "fpgm-generic" in names(make(tmp_path, *TABLES, methods=["supervised"]))


def test_a_folder_of_other_settings_is_refused_with_the_difference(tmp_path: Path) -> None:
    old, new = (
        make(tmp_path, "main", methods=["fpgm"], labeled=["5%"], settings=[f"train.iterations={n}"]) for n in (5, 6)
    )
    check(old)
    old[0].config().save(old[0].folder / "config.yaml")
    check(old)
    with pytest.raises(ValueError, match=r"seed-0 was computed with other settings: train\.iterations: 5 -> 6"):
        check(new)


def test_hospitals_are_folds_times_methods_times_seeds(tmp_path: Path) -> None:
    cells = make(tmp_path, "hospitals", folds=[CVC, ETIS], preset="mini")
    assert len(cells) == 2 * len(HOSPITAL_METHODS) * 3 == len({cell.folder for cell in cells})
    assert names(cells) == list(HOSPITAL_METHODS) and METHODS.keys() >= set(HOSPITAL_METHODS)
    assert {cell.labeled for cell in cells} == {"5%"} and {cell.tables for cell in cells} == {("hospitals",)}
    assert [(cell.seed, cell.split) for cell in cells[:: len(HOSPITAL_METHODS)]] == [
        (seed, f"hospitals-{name}-0") for seed in (0, 1, 2) for name in ("cvc", "etis")
    ]
    assert cells[0].folder == tmp_path / "out" / "hospitals-cvc" / "mini" / "5pct" / "supervised" / "seed-0"
    assert cells[0].config().data.split == "hospitals-cvc-0"


def test_rows_labels_and_seeds_of_hospitals_can_be_chosen(tmp_path: Path) -> None:
    options: dict[str, Any] = {"methods": ["bcpnet", "fpgm-released"], "labeled": ["10%", "7"], "seeds": [4]}
    cells = make(tmp_path, "hospitals", folds=[ETIS], **options)
    assert [(cell.labeled, cell.variant.name) for cell in cells] == [
        (share, name) for share in ("10%", "7") for name in ("bcpnet", "fpgm-released")
    ]
    assert {cell.tables for cell in cells} == {("hospitals",)}


def test_rows_of_other_tables_can_be_chosen(tmp_path: Path) -> None:
    rows = ["supervised", "supervised-no-geometry", "fpgm_teacher-no-cutmix", "fpgm-gamma-0.1"]
    cells = make(tmp_path, "hospitals", folds=[ETIS], preset="mini", methods=rows, seeds=[0])
    assert names(cells) == rows and {cell.tables for cell in cells} == {("hospitals",)}
    assert cells[1].config().data.geometry == 0 < cells[0].config().data.geometry


def test_the_papers_tables_are_no_hospitals(tmp_path: Path) -> None:
    assert {*PAPER, "recipe", "ablation-teacher", "hospitals"} == set(ROWS) and "hospitals" not in PAPER
    assert not any("hospitals" in cell.tables for cell in make(tmp_path, *PAPER))


def test_a_fold_for_each_hospital_of_the_store(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("CVC-ColonDB", "CVC-ClinicDB", "ETIS-LaribPolypDB", "north"):
        make_store(tmp_path / "store", name, {str(1000 + k): scene(rng) for k in range(10)})
    store = tmp_path / "store"
    assert hospital_folds(store) == [CVC, ETIS, Fold("hospitals", "north")]
    drawn = find_split(store, CVC, save=True)
    assert drawn == Split.load(store / "splits" / "hospitals-cvc-0") == find_split(store, CVC, save=True)
    assert (drawn.left_out, len(drawn.unseen)) == ("CVC", 20)
    (store / "splits" / "hospitals-cvc-0").rename(store / "splits" / "hospitals-etis-0")
    with pytest.raises(ValueError, match="hospitals-etis-0 holds a split hospitals-cvc-0: rename"):
        find_split(store, ETIS, save=True)


def test_a_fold_that_was_drawn_before_a_hospital_came_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    store = tmp_path / "store"
    for name in ("north", "south"):
        make_store(store, name, {str(k): scene(rng) for k in range(10)})
    fold = Fold("hospitals", "north")
    find_split(store, fold, save=True)
    make_store(store, "east", {str(k): scene(rng) for k in range(10)})
    with pytest.raises(ValueError, match="hospitals-north-0 was drawn without east, which is in the store now: remove"):
        find_split(store, fold, save=True)


def test_a_split_is_drawn_once_and_kept(phantom_store: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    for folder in phantom_store.glob("phantom-*"):
        (store / folder.name).symlink_to(folder)
    drawn = find_split(store, Fold("paper"), save=False)
    assert not (store / "splits").exists()
    assert find_split(store, Fold("paper"), save=True) == drawn == Split.load(store / "splits" / "paper-0")
    before = (store / "splits" / "paper-0" / "split.json").stat().st_mtime_ns
    find_split(store, Fold("paper"), save=True)
    assert (store / "splits" / "paper-0" / "split.json").stat().st_mtime_ns == before
    (store / "splits" / "paper-0").rename(store / "splits" / "strict-0")
    with pytest.raises(ValueError, match="holds a split paper-0: rename"):
        find_split(store, STRICT, save=True)


@pytest.mark.parametrize(("table", "method"), [("recipe", "supervised"), ("ablation-teacher", "fpgm_teacher")])
def test_the_parts_of_recipe_and_teacher_are_rows_that_make_a_run(table: Table, method: str, tmp_path: Path) -> None:
    cells = make(tmp_path, table, preset="mini")
    assert len(cells) == 3 * len(ROWS[table]) and {cell.labeled for cell in cells} == {"5%"}
    configs = [cell.config() for cell in cells]  # refuses an argument that the method does not have
    assert {config.method for config in configs} == {method}
    assert len({config.model_dump_json(serialize_as_any=True) for config in configs}) == len(cells)


def test_a_class_that_the_user_names_is_a_row_that_other_processes_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "from fpgm.methods.supervised import Supervised\nclass Own(Supervised):\n    pass\n"
    (tmp_path / "own_row.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    (cell,) = make(tmp_path, "main", methods=["own_row:Own"], labeled=["5%"])
    assert cell.folder.parts[-2] == "own_row.Own" == cell.variant.method
    del METHODS["own_row.Own"]  # as in a process that has just been started
    try:
        assert cell.config().method == "own_row.Own"
    finally:
        METHODS.pop("own_row.Own", None)
