"""``fpgm data verify`` as a user types it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import h5py
import numpy as np
import pytest

from fpgm import cli
from tests.data.making import make_store, scene
from tests.data.pictures import bundle


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


def test_verify_finds_a_file_that_was_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    make_store(tmp_path, "north", {"1": scene(rng)})
    assert run("verify", "--data", tmp_path) == 0
    with h5py.File(tmp_path / "north" / "data.h5", "r+") as file:
        file["images"][0] = 255 - file["images"][0]
    assert run("verify", "--data", tmp_path) == 1
    assert "north: data.h5 is not as it was written" in capsys.readouterr().out
    assert run("verify", "--data", tmp_path, "--json") == 1
    shown = json.loads(capsys.readouterr().out)
    assert shown["changed"] == ["north"] and shown["ok"] is False


def test_a_bracket_in_a_path_is_no_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = bundle(tmp_path / "[/raw]", 2)
    own = ["--images", raw / "images", "--masks", raw / "masks", "--name", "mine", "--size", 16, "--workers", 1]
    assert run("prepare", *own, "--out", tmp_path / "[/store]") == 0
    assert "[/store]" in capsys.readouterr().out.replace("\n", "")
    assert run("synth", "--out", tmp_path / "[/drawn]", "--count", 1, "--size", 48, "--workers", 1) == 0
