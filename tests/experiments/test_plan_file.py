"""A plan as a file: what it says comes back, whatever the order of its lines, and it fits one store alone."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from fpgm.experiments.plan_file import PLAN, make_plan, read_plan, write_plan

AXES: dict[str, Any] = {
    "preset": "mini",
    "protocols": ["strict"],
    "splits": [0],
    "draws": [0, 1],
    "labeled": ["10%"],
    "seeds": [0],
    "methods": ["supervised", "fpgm"],
    "iterations": {"supervised": 4},
    "settings": ["train.iterations=2"],
}


def test_a_plan_comes_back_and_its_hash_is_of_what_it_says(phantom_store: Path, tmp_path: Path) -> None:
    plan = make_plan("small", phantom_store, AXES)
    write_plan(tmp_path / PLAN, plan)
    assert read_plan(tmp_path / PLAN) == plan
    record = yaml.safe_load((tmp_path / PLAN).read_text())
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(dict(reversed(record.items()))))
    assert read_plan(tmp_path / "other.yaml").sha256 == plan.sha256
    (tmp_path / "other.yaml").write_text(yaml.safe_dump({**record, "seeds": [1]}))
    assert read_plan(tmp_path / "other.yaml").sha256 != plan.sha256
    with pytest.raises(ValueError, match="is of another plan: give another --out"):
        write_plan(tmp_path / "other.yaml", plan)
    cells = plan.cells(phantom_store, tmp_path)
    assert [cell.split for cell in cells] == ["strict-0"] * 2 + ["strict-0-draw-1"] * 2
    assert [cell.config().train.iterations for cell in cells] == [4, 2] * 2
    assert set(plan.check_store(phantom_store)) == {"strict-0", "strict-0-draw-1"}


def test_a_plan_of_hospitals_leaves_out_one_at_a_time(phantom_store: Path, tmp_path: Path) -> None:
    hospitals = {"protocols": ["hospitals"], "hospitals": ["phantom-a", "phantom-b"], "draws": [0]}
    plan = make_plan("hospitals", phantom_store, AXES | hospitals)
    names = ["hospitals-phantom-a-0", "hospitals-phantom-b-0"]
    assert list(plan.check_store(phantom_store)) == names
    cells = plan.cells(phantom_store, tmp_path)
    assert [cell.split for cell in cells] == [name for name in names for _ in range(2)]
    assert {cell.tables for cell in cells} == {("hospitals",)}


def test_a_plan_without_hospitals_has_the_hash_of_files_that_know_none(phantom_store: Path, tmp_path: Path) -> None:
    plan = make_plan("small", phantom_store, AXES)
    record = {key: value for key, value in plan.model_dump(mode="json").items() if key != "hospitals"}
    text = json.dumps(record, sort_keys=True, ensure_ascii=False)
    assert plan.sha256 == hashlib.sha256(text.encode()).hexdigest()


def test_a_store_with_other_images_or_lists_is_refused(phantom_store: Path, tmp_path: Path) -> None:
    plan = make_plan("small", phantom_store, AXES)
    store = tmp_path / "store"
    store.mkdir()
    for one in phantom_store.glob("phantom-[a-e]"):
        (store / one.name).symlink_to(one)
    with pytest.raises(ValueError, match="does not hold the data of the plan small: phantom-f differ"):
        plan.check_store(store)
    wrong = plan.model_copy(update={"lists": {**plan.lists, "strict-0": "0"}})
    with pytest.raises(ValueError, match=r"the split strict-0 of .* is not that of the plan"):
        wrong.check_store(phantom_store)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"methods": ["os:system"]}, "a plan names methods, not modules"),
        ({"iterations": {"fpg": 1}}, "iterations of fpg, which is none of the methods"),
        ({"seeds": []}, "seeds: Tuple should have at least 1 item"),
        ({"seeds": [-1]}, "greater than or equal to 0"),
        ({"name": "../../x"}, "the name in"),
        ({"format": "fpgm-plan-2"}, "format"),
        ({"hospitals": ["phantom-a"]}, "protocol hospitals and the hospitals to leave out go together"),
        ({"protocols": ["hospitals"]}, "protocol hospitals and the hospitals to leave out go together"),
        ({"evil": 1}, "evil: Extra inputs are not permitted"),
    ],
)
def test_what_is_no_plan_is_a_sentence(phantom_store: Path, tmp_path: Path, change: dict[str, Any], said: str) -> None:
    record = make_plan("small", phantom_store, AXES).model_dump(mode="json")
    (tmp_path / PLAN).write_text(yaml.safe_dump({**record, **change}))
    with pytest.raises(ValueError, match=said):
        read_plan(tmp_path / PLAN)


def test_a_plan_that_is_not_there_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="--save-plan FILE"):
        read_plan(tmp_path / PLAN)
