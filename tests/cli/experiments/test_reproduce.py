"""``fpgm reproduce`` as a user types it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from fpgm.cli import main
from fpgm.cli.experiments.watch import duration
from fpgm.experiments import work
from fpgm.training.trainer import Stopped
from tests.cli.making import command, runs
from tests.processes import signalling


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("COLUMNS", "200")
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


TWO = ("--methods", "supervised,fpgm")


def test_a_table_is_computed_once(small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(small_store, tmp_path, *TWO)) == 0
    assert "[1/2] strict-0 10% supervised seed 0" in capsys.readouterr().out
    for name in ("supervised", "fpgm"):
        folder = tmp_path / "strict" / "mini" / "10pct" / name / "seed-0"
        assert (folder / "evaluation" / "evaluation.json").is_file() and (folder / "model" / "model.json").is_file()
        assert len(list((folder / "evaluation").glob("*.csv"))) == 6
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert main(command(small_store, tmp_path, *TWO)) == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert capsys.readouterr().out.count("done before") == 2
    assert main(command(small_store, tmp_path, *TWO, "--json", table="zero-shot")) == 0
    assert [cell["state"] for cell in json.loads(capsys.readouterr().out)["cells"]] == ["kept", "kept"]
    assert main(command(small_store, tmp_path, *TWO, iterations=5)) == 2
    assert "train.iterations: 4 -> 5" in capsys.readouterr().err


def test_a_plan_is_shown_with_times_and_writes_nothing(
    small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    dry = ["--methods", "supervised", "--seeds", "0,1", "2", "--dry-run"]
    assert main(command(small_store, out, *dry, iterations=30_000)) == 0
    shown = capsys.readouterr().out
    assert "0 1 2" in shown and "3 of 3 runs to compute: about" in shown and "strict-0" in shown
    assert main(command(small_store, out, *dry, "--json", iterations=30_000)) == 0
    plan = json.loads(capsys.readouterr().out)
    assert [cell["seed"] for cell in plan["cells"]] == [0, 1, 2]
    assert plan["cells"][0]["seconds"] >= 30_000 * plan["cells"][0]["step_seconds"]
    assert plan["seconds"] == pytest.approx(sum(cell["seconds"] for cell in plan["cells"]))
    assert not out.exists()


@pytest.fixture
def two_clinics(small_store: Path, tmp_path: Path) -> Path:
    """A store of two of the phantom's clinics, without splits."""
    store = tmp_path / "two"
    store.mkdir()
    for name in ("phantom-a", "phantom-e"):
        (store / name).symlink_to(small_store / name)
    return store


def test_every_hospital_is_left_out_once(two_clinics: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    chosen = ("--methods", "supervised", "--seeds", "0")
    assert main(command(two_clinics, out, *chosen, "--dry-run", table="hospitals")) == 0
    assert "2 of 2 runs to compute" in capsys.readouterr().out and not (two_clinics / "splits").exists()
    assert main(command(two_clinics, out, *chosen, "--json", table="hospitals", iterations=2)) == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert [cell["split"] for cell in cells] == ["hospitals-phantom-a-0", "hospitals-phantom-e-0"]
    for letter, other in ("ae", "ea"):
        folder = out / f"hospitals-phantom-{letter}" / "mini" / "10pct" / "supervised" / "seed-0"
        record = json.loads((folder / "evaluation" / "evaluation.json").read_text())
        assert {name: entry["unseen"] for name, entry in record["datasets"].items()} == {
            f"phantom-{letter}": True,
            f"phantom-{other}": False,
        }
        assert (record["protocol"], record["left_out"]) == ("hospitals", f"phantom-{letter}")
    assert main(command(two_clinics, out, *chosen, table="hospitals", iterations=2)) == 0
    assert capsys.readouterr().out.count("done before") == 2


def test_hospitals_take_no_protocol_and_need_two(
    two_clinics: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--data", str(two_clinics), "--out", str(tmp_path / "out")]
    assert main(["reproduce", "hospitals", *options, "--protocol", "strict"]) == 2
    assert "leave --protocol out" in capsys.readouterr().err
    (two_clinics / "phantom-e").unlink()
    assert main(["reproduce", "hospitals", *options]) == 2
    assert "two hospitals or more; this store has phantom-a" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_failure_is_reported_and_stops_nobody(
    small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = work.train

    def train(config: Any, *arguments: Any, **options: Any) -> Any:
        if config.method == "supervised":
            raise RuntimeError("out of [memory]")
        return real(config, *arguments, **options)

    monkeypatch.setattr(work, "train", train)
    assert main(command(small_store, tmp_path, *TWO)) == 1
    shown = capsys.readouterr().out
    assert "RuntimeError: out of [memory]" in shown and "1 of 2 runs failed" in shown
    assert runs(tmp_path)["supervised"]["attempts"] == 3 and runs(tmp_path)["fpgm"]["state"] == "done"
    monkeypatch.undo()
    assert main(command(small_store, tmp_path, *TWO)) == 0
    assert runs(tmp_path)["supervised"]["state"] == "done"


def test_a_request_to_stop_during_the_last_step_begins_nothing_else(
    small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", signalling(signal.SIGTERM, "last.safetensors", 1))
        assert main(command(small_store, tmp_path, *TWO, iterations=1)) == 130
    assert "stopped with 0 of 2 runs done; the same command goes on" in capsys.readouterr().out
    assert [config.parts[-3] for config in tmp_path.rglob("config.yaml")] == ["supervised"] and not runs(tmp_path)
    assert main(command(small_store, tmp_path, *TWO, iterations=1)) == 0
    assert [run["state"] for run in runs(tmp_path).values()] == ["done", "done"]


@pytest.mark.parametrize("by", ["training", "signal"])
def test_stopped_it_says_how_to_go_on(
    small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    def train(*_: Any, **__: Any) -> Any:
        if by == "training":
            raise Stopped(3, rank=0)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

    monkeypatch.setattr(work, "train", train)
    assert main(command(small_store, tmp_path, *TWO)) == 130
    assert "stopped with 0 of 2 runs done; the same command goes on" in capsys.readouterr().out
    assert runs(tmp_path) == {}


def test_an_interrupt_that_native_code_loses_still_ends_the_command(
    small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    def train(config: Any, folder: Path, **_: Any) -> Any:
        begun.append(folder)
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        raise OSError("a run that fails")

    monkeypatch.setattr(work, "train", train)
    assert main(command(small_store, tmp_path, *TWO)) == 130
    assert len(begun) == 1 and "the same command goes on" in capsys.readouterr().out


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_several_at_a_time(small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str) -> None:
    if engine == "ray":
        pytest.importorskip("ray")
    chosen = ("--methods", "supervised", "--seeds", "0", "1", "--engine", engine, "--jobs", "2", "--cpus", "1")
    assert main(command(small_store, tmp_path, *chosen, iterations=2)) == 0
    assert capsys.readouterr().out.count("supervised seed") == 2
    assert [record["state"] for record in runs(tmp_path).values()] == ["done"]
    assert len(list(tmp_path.rglob("evaluation.json"))) == 2


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--methods", "unimach"], "near it: unimatch"),
        (["--seeds", "-1"], "a seed is a whole number"),
        (["--jobs", "0"], "must be at least 1"),
        (["--labeled", "half"], "takes a number, a percentage or all"),
        (["--labeled", "1%"], "that is none of the 56 train images with masks"),
    ],
)
def test_what_makes_no_plan_is_a_sentence(
    small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: list[str], said: str
) -> None:
    assert main(command(small_store, tmp_path / "out", *wrong)) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_missing_store_names_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(tmp_path / "none", tmp_path / "out")) == 2
    assert "fpgm data prepare" in capsys.readouterr().err


def test_times_are_written_for_people() -> None:
    assert [duration(seconds) for seconds in (7.4, 99, 600, 7500, 100_000)] == [
        "7 s",
        "99 s",
        "10 min",
        "2 h 5 min",
        "1 d 3 h",
    ]
