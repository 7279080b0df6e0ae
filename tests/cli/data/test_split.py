"""``fpgm data split`` as a user types it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from fpgm import cli
from fpgm.data.splits.split import Split
from tests.data.making import make_store, scene


def run(*arguments: object) -> int:
    return cli.main(["data", *map(str, arguments)])


def test_split_writes_and_shows_the_counts(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("split", "--data", store, "--unseen", "south", "--labeled", "3", "50%") == 0
    split = Split.load(store / "splits" / "strict-0")
    assert [len(ids) for ids in split.parts().values()] == [14, 2, 4, 20]
    out = capsys.readouterr().out
    assert re.search(r"north\W+14\W+2\W+4\W+0\W+3\W+7\W", out)
    assert "splits/strict-0" in out.replace("\n", "")


def test_split_prints_json_and_takes_names_fractions_and_a_folder(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--protocol", "strict", "--seed", 4, "--datasets", "south", "--fractions", 0.5, 0.25, 0.25)
    assert run("split", "--data", store, *options, "--out", tmp_path / "here", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["counts"] == {"south": {"train": 10, "validation": 5, "test": 5, "unseen": 0}}
    assert (shown["protocol"], shown["seed"]) == ("strict", 4)
    assert shown["labeled"] == {"all": {"south": 10}}
    assert Split.load(tmp_path / "here").seed == 4


def test_split_leaves_a_hospital_out(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("split", "--data", store, "--protocol", "hospitals", "--leave-out", "South", "--labeled", "3") == 0
    split = Split.load(store / "splits" / "hospitals-south-0")
    assert {id_.partition("/")[0] for id_ in split.unseen} == {"south"} and split.left_out == "south"
    assert "hospital south unseen" in capsys.readouterr().out
    options = ["--protocol", "hospitals", "--leave-out", "south", "--labeled", "3", "--json"]
    assert run("split", "--data", store, *options) == 0
    assert json.loads(capsys.readouterr().out)["left_out"] == "south"


def test_split_keeps_given_parts_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    pictures = {str(k): scene(rng) for k in range(20)}
    parts = {str(k): "train" if k < 12 else "validation" if k < 15 else "test" for k in range(18)}
    make_store(tmp_path / "store", "clinic", pictures, {"18", "19"}, parts=parts, groups={"3": "p", "16": "p"})
    assert run("split", "--data", tmp_path / "store") == 0
    split = Split.load(tmp_path / "store" / "splits" / "given-0")
    assert set(split.test) == {"clinic/15", "clinic/16", "clinic/17"} and split.without_mask == 2
    out = capsys.readouterr().out
    assert re.search(r"clinic\W+14\W+3\W+3\W+0\W+12\W", out) and "labelled all" in out
    assert "note: all 1 groups of test clinic are in train clinic too, such as clinic group p" in out
    assert run("audit", "--data", tmp_path / "store", "--split", "given-0") == 1
    assert re.search(r"train clinic\W+test clinic\W+0\W+0\W+0\W+1 of 1 \+ 1 of 1\W+LEAK", capsys.readouterr().out)
    assert run("split", "--data", tmp_path / "store", "--protocol", "strict") == 0
    assert "note: clinic: the given parts are ignored; protocol given keeps them" in capsys.readouterr().out


def test_split_imports_lists(store: Path, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("1\n2\n3\n")
    (tmp_path / "test.txt").write_text("4\n")
    lists = (f"north/train={tmp_path}/train.txt", f"north/test={tmp_path}/test.txt")
    assert run("split", "--data", store, "--lists", *lists) == 0
    split = Split.load(store / "splits" / "imported-0")
    assert set(split.train) == {"north/1", "north/2", "north/3"}
    assert split.test == ("north/4",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--labeled", "many"), "such as 70, 5% or all"),
        (("--labeled", "29"), "--labeled 29: train has only 28 images with masks; give 1 to 28, or all"),
        (("--fractions", "1", "1", "1"), "add up to 1"),
        (("--lists", "north=x"), "DATASET/PART=FILE"),
        (("--lists", "north/train=nowhere.txt"), "nowhere.txt"),
        (("--unseen", "east"), "east: not in the store"),
        (("--datasets", "east"), "does not hold east"),
        (("--seed", "-1"), "0 or more"),
        (("--protocol", "hospitals"), "name it with --leave-out, one of north, south"),
        (("--protocol", "hospitals", "--leave-out", "east"), "no hospital 'east' in the store, which has north, south"),
        (("--leave-out", "north"), "--leave-out is for protocol hospitals"),
        (("--lists", "north/train=x.txt", "--leave-out", "north"), "leave --leave-out out"),
    ],
)
def test_split_refuses_in_one_sentence_and_writes_nothing(
    store: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], message: str
) -> None:
    assert run("split", "--data", store, *options) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (store / "splits").exists()
