"""``fpgm data list`` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fpgm.cli import main
from tests.data.pictures import bundle


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def test_list_shows_table_1_and_where_to_get_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "list"]) == 0
    out = capsys.readouterr().out
    for part in ("Kvasir-SEG", "1000", "700", "datasets.simula.no", "phantom-f", "fpgm data synth", "unseen"):
        assert part in out


def test_list_shows_what_is_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle(tmp_path / "raw/CVC-300", 2, first=149)
    bundle(tmp_path / "raw/mine", 1)
    words = ["--root", str(tmp_path / "raw"), "--out", str(tmp_path / "store"), "--workers", "1", "--size", "32"]
    main(["data", "prepare", *words])
    capsys.readouterr()
    assert main(["data", "list", "--root", str(tmp_path / "raw"), "--store", str(tmp_path / "store")]) == 0
    lines = {line.split()[1]: line for line in capsys.readouterr().out.splitlines() if line.startswith("│")}
    assert "2, images/masks" in lines["CVC-300"]
    assert "2 pairs, 0 unlabelled, 32 px" in lines["CVC-300"]
    assert "your own" in lines["mine"]
    assert "pairs" not in lines["BKAI-IGH"]
    assert main(["data", "list", "--store", str(tmp_path / "store"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["prepared"] == {n: {"pairs": p, "unlabeled": 0, "size": 32} for n, p in (("CVC-300", 2), ("mine", 1))}
    assert shown["catalog"]["Kvasir-SEG"]["counts"] == [1000, 700, 100, 200]


def test_list_of_no_store_names_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "list", "--store", str(tmp_path)]) == 2
    assert "fpgm data prepare" in capsys.readouterr().err
