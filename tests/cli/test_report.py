"""`fpgm report`: exit codes, what is named, and what it does without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fpgm.cli import main
from tests.report.making import bars, write_run

KVASIR = "Kvasir-SEG"


def run(folder: Path, **settings: object) -> Path:
    write_run(folder, {KVASIR: bars(4, 8)}, {KVASIR: bars(8, 8)}, **settings)  # type: ignore[arg-type]
    return folder


def report(out: Path, *paths: Path) -> int:
    return main(["report", *map(str, paths), "--out", str(out)])


def test_runs_anywhere_below_are_read_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path / "all" / "deep" / "a")
    run(tmp_path / "all" / "b", method="supervised")
    out = tmp_path / "out"
    assert report(out, tmp_path / "all", tmp_path / "all" / "b", tmp_path / "all" / "deep" / ".." / "b") == 0
    assert "2 runs" in capsys.readouterr().out
    assert "and was left out" not in (out / "index.html").read_text()


def test_a_broken_run_is_named_and_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path / "good")
    scores = run(tmp_path / "edited") / "evaluation" / f"{KVASIR}.csv"
    scores.write_text(scores.read_text().replace("/1,1.0", "/1,0.9"))
    (run(tmp_path / "unfinished") / "evaluation" / "evaluation.json").unlink()
    assert (
        report(tmp_path / "out", tmp_path / "good", tmp_path / "edited", tmp_path / "unfinished", tmp_path / "no") == 1
    )
    told = capsys.readouterr()
    assert (
        f"{scores}, line 3" in told.err
        and "unfinished is not evaluated" in told.err
        and f"{tmp_path / 'no'}" in told.err
    )
    assert "1 run read, 3 left out" in told.out
    page = (tmp_path / "out" / "index.html").read_text()
    assert "line 3" in page and "is not evaluated" in page


def test_nothing_to_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert report(tmp_path / "out", tmp_path / "empty") == 2
    assert "there is nothing to report" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_it_needs_neither_torch_nor_a_network(tmp_path: Path) -> None:
    run(tmp_path / "runs" / "a")
    run(tmp_path / "runs" / "b", method="supervised")
    script = f"""
import socket, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "kornia", "lightning_fabric", "safetensors"):
            raise ImportError(f"{{name}} is blocked")
sys.meta_path.insert(0, Blocked())
def refuse(*arguments, **settings):
    raise AssertionError("the network is not needed")
socket.socket = socket.create_connection = socket.getaddrinfo = refuse
from fpgm.cli import main
sys.exit(main(["report", {str(tmp_path / "runs")!r}, "--out", {str(tmp_path / "out")!r}]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "index.html").is_file()
