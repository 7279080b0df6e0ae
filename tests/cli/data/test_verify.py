"""``fpgm data verify`` as a user types it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from fpgm import cli
from tests.data.making import make_store, scene


def run(*arguments: object) -> int:
    return cli.main(["data", *map(str, arguments)])


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
