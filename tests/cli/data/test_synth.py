"""``fpgm data synth`` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from fpgm.cli import main
from fpgm.data.store import open_stores


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def test_synth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--count", "3", "--size", "64", "--seed", "4", "--domains", "phantom-e", "phantom-a", "--workers", "1"]
    assert main(["data", "synth", "--out", str(tmp_path), *arguments]) == 0
    stores = open_stores(tmp_path)
    assert {name: (len(store), store.size) for name, store in stores.items()} == {
        "phantom-a": (3, 64),
        "phantom-e": (3, 64),
    }
    sheet = Image.open(tmp_path / "phantoms.png")
    assert sheet.size == (3 * 68 + 4, 2 * 68 + 4)  # a row per domain
    assert "2 x 3 phantoms of 64 x 64" in capsys.readouterr().out


def test_synth_json_and_its_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["data", "synth", "--out", str(tmp_path), "--workers", "1", "--domains"]
    assert main([*common, "phantom-b", "--count", "1", "--size", "64", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["prepared"]["phantom-b"]["pairs"] == 1
    for wrong, message in (
        (["phantom-z"], "no phantom domain phantom-z; there are phantom-a"),
        (["phantom-a", "--count", "0"], "at least 1"),
        (["phantom-a", "--size", "3"], "size 3"),
    ):
        assert main([*common, *wrong]) == 2
        assert message in capsys.readouterr().err
