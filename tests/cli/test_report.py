"""`fpgm report`: exit codes, what is named, and what it does without."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from fpgm.cli import main
from tests.report.making import bars, write_run, write_store

KVASIR = "Kvasir-SEG"


def run(folder: Path, **settings: object) -> Path:
    write_run(folder, {KVASIR: bars(4, 8)}, {KVASIR: bars(8, 8)}, **settings)  # type: ignore[arg-type]  # settings of several types
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


def test_methods_at_equal_time_share_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path / "runs" / "a", method="unimatch")
    run(tmp_path / "runs" / "b", method="supervised", iterations=300)
    options = [str(tmp_path / "runs"), "--out", str(tmp_path / "out"), "--any-iterations", "--reference"]
    assert main(["report", *options, "supervised"]) == 0
    [table] = (tmp_path / "out" / "tables").glob("*significance*.md")
    assert "supervised (train.iterations=300) is" in table.read_text()
    assert main(["report", *options, "urpc"]) == 2
    assert "give --reference one of supervised, unimatch" in capsys.readouterr().err


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


def changed(run: Path, name: str, old: str, new: str) -> None:
    text = (run / name).read_text()
    assert old in text
    (run / name).write_text(text.replace(old, new))


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in pairwise("abcdefghi")
)
BREAKS: dict[str, Callable[[Path], object]] = {
    "preset": lambda run: changed(run, "config.yaml", "preset: mini", "preset: /../../../../../../tmp/x"),
    "split": lambda run: changed(run, "evaluation/evaluation.json", "paper-0", "../../../../x"),
    "protocol": lambda run: changed(run, "evaluation/evaluation.json", '"protocol": "paper"', '"protocol": "/tmp/x"'),
    "aliases": lambda run: (run / "config.yaml").write_text(BOMB),
    "steps": lambda run: changed(run, "config.yaml", "iterations: 100", "iterations: [many]"),
    "arguments": lambda run: changed(run, "config.yaml", "freq:", "freak:"),
    "metrics": lambda run: changed(run, "metrics.csv", "50,0.5", "50,half"),
    "metrics bytes": lambda run: (run / "metrics.csv").write_bytes(b"\xff\0" * 99),
    "metrics long": lambda run: (run / "metrics.csv").write_text("step,sup\n" + "x" * 200_000),
    "metrics link": lambda run: ((run / "metrics.csv").unlink(), (run / "metrics.csv").symlink_to("/etc/passwd")),
    "deep": lambda run: (run / "evaluation" / "evaluation.json").write_text("[" * 10**6),
    "deep card": lambda run: (run / "model" / "model.json").write_text('{"a":' * 10**5),
    "size": lambda run: changed(run, "evaluation/evaluation.json", '"size": 16', f'"size": {10**400}'),
}


@pytest.mark.parametrize("kind", BREAKS)
def test_whatever_is_broken_in_a_run_the_others_are_reported(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path / "runs" / "good")
    BREAKS[kind](run(tmp_path / "runs" / "bad", seed=1))
    before = {path for path in tmp_path.rglob("*") if "out" not in path.parts}
    assert report(tmp_path / "out", tmp_path / "runs") == 1
    told = capsys.readouterr()
    assert "1 run read, 1 left out" in told.out and "bad" in told.err and "Traceback" not in told.err
    assert before == {path for path in tmp_path.rglob("*") if tmp_path / "out" not in (path, *path.parents)}


def test_masks_that_are_broken_are_left_out(tmp_path: Path) -> None:
    write_store(tmp_path / "store", KVASIR, bars(8, 8))
    bad = run(tmp_path / "bad", store=tmp_path / "store")
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (10**15, 16, 2)})
    with zipfile.ZipFile(bad / "evaluation" / f"{KVASIR}.npz", "w") as file:
        file.writestr("masks.npy", header.getvalue())
    assert report(tmp_path / "out", bad) == 0
    assert "No pictures of Kvasir-SEG" in (tmp_path / "out" / "index.html").read_text()


def test_a_name_is_no_formula_in_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "=cmd"
    run(folder)
    monkeypatch.chdir(tmp_path)
    assert report(tmp_path / "out", Path("=cmd")) == 0
    assert ",'=cmd" in (tmp_path / "out" / "tables" / "runs.csv").read_text()


def test_a_bracket_in_a_path_is_no_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(tmp_path / "[/out]", run(tmp_path / "[/run]")) == 0
    assert f"open {tmp_path / '[/out]'}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("variables", "code", "text"),
    [
        ({"PYTHONOPTIMIZE": "2"}, 2, "fpgm: the help texts are missing, PYTHONOPTIMIZE=2"),
        ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, 0, "device of the network: auto"),
    ],
)
def test_help_in_unusual_surroundings(variables: dict[str, str], code: int, text: str) -> None:
    words = [sys.executable, "-m", "fpgm", "predict", "--help"]
    done = subprocess.run(words, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == code and text in done.stdout + done.stderr and "Traceback" not in done.stderr
