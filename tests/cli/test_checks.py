"""``fpgm data split | audit | verify`` as a user runs them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from fpgm import cli
from fpgm.data.splits.split import Split
from tests.data.making import make_store, scene


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two hospitals of 20 different images each."""
    rng = np.random.default_rng(0)
    for name in ("north", "south"):
        make_store(tmp_path / "store", name, {str(k): scene(rng) for k in range(20)})
    return tmp_path / "store"


@pytest.fixture
def leaky(store: Path) -> Path:
    """The same, and a third that has an image of the first and is called <third>."""
    rng = np.random.default_rng(0)
    first = scene(rng)
    make_store(store, "third", {"copy": first, "new": scene(np.random.default_rng(9))})
    return store


def run(*arguments: object) -> int:
    return cli.main(["data", *map(str, arguments)])


def test_split_writes_and_shows_the_counts(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("split", "--data", store, "--unseen", "south", "--labeled", "3", "50%") == 0
    split = Split.load(store / "splits" / "paper-0")
    assert [len(ids) for ids in split.parts().values()] == [14, 2, 4, 20]
    out = capsys.readouterr().out
    assert re.search(r"north\W+14\W+2\W+4\W+0\W+3\W+7\W", out)
    assert "splits/paper-0" in out.replace("\n", "")


def test_split_prints_json_and_takes_names_fractions_and_a_folder(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--protocol", "strict", "--seed", 4, "--datasets", "south", "--fractions", 0.5, 0.25, 0.25)
    assert run("split", "--data", store, *options, "--out", tmp_path / "here", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["counts"] == {"south": {"train": 10, "validation": 5, "test": 5, "unseen": 0}}
    assert (shown["protocol"], shown["seed"]) == ("strict", 4)
    assert shown["labeled"] == {"10%": {"south": 1}, "20%": {"south": 2}}  # 5 % of 10 is no image
    assert Split.load(tmp_path / "here").seed == 4


def test_split_leaves_a_hospital_out(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("split", "--data", store, "--protocol", "hospitals", "--leave-out", "South", "--labeled", "3") == 0
    split = Split.load(store / "splits" / "hospitals-south-0")
    assert {id_.partition("/")[0] for id_ in split.unseen} == {"south"} and split.left_out == "south"
    assert "hospital south unseen" in capsys.readouterr().out
    options = ["--protocol", "hospitals", "--leave-out", "south", "--labeled", "3", "--json"]
    assert run("split", "--data", store, *options) == 0
    assert json.loads(capsys.readouterr().out)["left_out"] == "south"


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
        (("--labeled", "many"), "such as 70 or 5%"),
        (("--labeled", "29"), "train has 28 with masks"),
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


@pytest.mark.parametrize("command", ["split", "audit", "verify"])
def test_missing_store_names_the_command_that_makes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert run(command, "--data", tmp_path / "no") == 2
    assert "fpgm data prepare" in capsys.readouterr().err


def test_clean_audit_exits_with_0(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("audit", "--data", store) == 0
    out = capsys.readouterr().out
    assert "clean" in out
    assert "LEAK" not in out
    assert {path.name for path in (store / "audit").iterdir()} == {"pairs.csv", "sequences.csv", "index.html"}


def test_leak_exits_with_1_and_is_shown(leaky: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("audit", "--data", leaky, "--out", tmp_path / "out") == 1
    out = capsys.readouterr().out
    assert re.search(r"north\W+third\W+1\W+0\W+1 of 20 \+ 1 of 2\W+0\W+LEAK", out)
    assert (tmp_path / "out" / "pairs.csv").read_text().splitlines()[1:] == [
        "north/0,third/copy,0,exact,north,third,LEAK"
    ]
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.count("<img src='data:image/jpeg;base64,") == 2
    assert "1 of 1 are shown" in page
    assert not re.search(r"https?://|src='(?!data:)|<link|<script", page)


def test_audit_of_a_split_looks_at_its_parts(leaky: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("split", "--data", leaky, "--unseen", "third")
    run("split", "--data", leaky, "--unseen", "third", "--protocol", "strict")
    capsys.readouterr()
    assert run("audit", "--data", leaky, "--split", leaky / "splits" / "strict-0") == 0
    assert (leaky / "splits" / "strict-0" / "audit" / "index.html").is_file()
    assert run("audit", "--data", leaky, "--split", leaky / "splits" / "paper-0", "--json") == 1
    shown = json.loads(capsys.readouterr().out.partition("\n{")[2].join(("{", "")))
    assert shown["leak"] is True
    (leak,) = (row for row in shown["findings"] if row["verdict"] == "LEAK")
    assert leak["second"] == {"place": "unseen third", "size": 2, "duplicated": 1, "sequences": 0}
    assert (leak["exact"], leak["near"], leak["shared"]) == (1, 0, [])


def test_audit_of_a_split_of_other_data_says_so(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Split(("north/1", "north/99"), (), (), (), "paper", 0).save(tmp_path / "s")
    assert run("audit", "--data", store, "--split", tmp_path / "s") == 2
    assert "north/99; see `fpgm data prepare`" in capsys.readouterr().err
    assert run("audit", "--data", store, "--split", tmp_path / "none") == 2
    assert "fpgm data split" in capsys.readouterr().err


def test_page_escapes_names(tmp_path: Path) -> None:
    picture = scene(np.random.default_rng(0))
    make_store(tmp_path, "a", {"<b>&": picture, "x": picture})
    assert run("audit", "--data", tmp_path) == 0
    page = (tmp_path / "audit" / "index.html").read_text()
    assert "&lt;b&gt;&amp;" in page
    assert "<b>" not in page


def test_verify_accepts_other_data_and_lists_the_absent_sets(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", "--data", store) == 0
    out = capsys.readouterr().out
    assert re.search(r"north\W+20\W+0\W.*ok", out)
    assert re.search(r"BKAI-IGH\W+0\W+1000\W.*absent", out)


def test_verify_finds_differences_and_exits_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    make_store(tmp_path, "CVC-300", {str(frame): scene(rng) for frame in range(149, 160)})
    assert run("verify", "--data", tmp_path) == 1
    out = capsys.readouterr().out
    assert re.search(r"CVC-300\W+11\W+60\W+49\W+11\W+0\W+0\W+0\W+differs", out)
    assert "CVC-300/149: altered: picture differs by" in out
    assert "… and 52 more; --json lists all" in out
    assert run("verify", "--data", tmp_path, "--json") == 1
    shown = json.loads(capsys.readouterr().out)
    assert shown["ok"] is False
    assert len(shown["differences"]["CVC-300"]) == 60
    assert "Kvasir-SEG" in shown["absent"]
