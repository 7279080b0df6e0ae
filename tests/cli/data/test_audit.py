"""``fpgm data audit`` as a user types it."""

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
    run("split", "--data", leaky, "--unseen", "third", "--protocol", "paper")
    run("split", "--data", leaky, "--unseen", "third")
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
