"""What happens around a run: a second writer, a dead worker, other data, a clock that goes backwards."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fpgm.cli import main
from tests.data.pictures import bundle, content
from tests.experiments.making import HOLD
from tests.faults.making import refusal, works
from tests.forks import signalled
from tests.processes import children, wait_until_stopped
from tests.serving.making import model, pictures
from tests.training.running import arguments, rows, same


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_a_second_writer_is_refused_and_a_dead_worker_is_a_sentence(
    phantom_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first one stands still at step 4 while the second tries; then the process of its batches is killed."""
    run = tmp_path / "run"
    command = arguments(phantom_store, run, method="supervised", iterations=24)
    again = arguments(phantom_store, run, "--resume", method="supervised", iterations=24)
    first = signalled(signal.SIGSTOP, "last.safetensors", 2, command)
    wait_until_stopped(first.pid)
    before = content(run)
    for second in (command, again):
        assert f"another process is writing to {run}: wait until it has ended" in refusal(capsys, second)
    assert content(run) == before
    for worker in children(first.pid):
        os.kill(worker, signal.SIGKILL)
    first.send_signal(signal.SIGCONT)
    output = first.communicate()
    assert first.returncode == 2 and "Traceback" not in output
    assert "the process that prepares batches died before batch" in output and "then resume" in output
    works(again)
    assert [row["step"] for row in rows(run)] == [str(step) for step in range(1, 25)]


def test_what_is_written_by_another_is_not_evaluated(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(run / "evaluation")
    words = [sys.executable, "-c", HOLD, str(run / ".run.lock")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert f"another process is writing to {run}" in refusal(capsys, ["evaluate", str(run), "--workers", "1"])
        other.kill()
    works(["evaluate", str(run), "--workers", "1", "--datasets", "phantom-a"])


@pytest.fixture(scope="module")
def short(phantom_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a short run; its store can be exchanged."""
    place = tmp_path_factory.mktemp("short")
    (place / "store").symlink_to(phantom_store)
    works(arguments(place / "store", place / "run", method="supervised", iterations=4))
    return place / "run"


def test_a_store_exchanged_under_a_run_is_refused(
    short: Path, phantom_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All names and lists are the same; of phantom-b, in train and validation, the pictures are others."""
    other, store, before = tmp_path / "other", short.parent / "store", content(short)
    shutil.copytree(phantom_store, other)
    options = ["--count", "20", "--size", "64", "--seed", "7", "--workers", "1", "--domains", "phantom-b"]
    works(["data", "synth", "--out", str(other), *options])
    store.unlink()
    store.symlink_to(other)
    again = arguments(store, short, "--resume", method="supervised", iterations=4)
    said = refusal(capsys, again)
    assert f"{short} was begun with other images" in said and f"validation ones of {store} have changed" in said
    assert content(short) == before
    store.unlink()
    store.symlink_to(phantom_store)
    works(again)
    assert content(short)["checkpoints/last.safetensors"] == before["checkpoints/last.safetensors"]


def test_a_clock_that_goes_backwards_changes_nothing(
    short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each look at the clock finds it an hour earlier, and what is on the disk comes from the future."""
    run, store, hours = tmp_path / "run", short.parent / "store", itertools.count()
    real = time.time()
    monkeypatch.setattr(time, "time", lambda: real - 3600 * next(hours))
    works(arguments(store, run, method="supervised", iterations=4))
    same(short, run)
    for path in run.rglob("*"):
        os.utime(path, (4e9, 4e9))  # in the year 2096
    works(arguments(store, run, "--resume", method="supervised", iterations=4))
    same(short, run)
    works(["evaluate", str(run), "--workers", "1"])
    works(["evaluate", str(short), "--workers", "1"])
    assert content(run / "evaluation") == content(short / "evaluation")
    works(["report", str(run), "--out", str(tmp_path / "report")])
    assert main(["evaluate", str(run), "--workers", "1"]) == 0 and next(hours) > 1


def held(lock: Path) -> subprocess.Popen[str]:
    """Start another process that writes to a folder."""
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None and other.stdout.readline() == "held\n"
    return other


def test_two_predictions_do_not_mix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    pictures(1)[0].save(tmp_path / "image.png")
    command = ["predict", str(model()), str(tmp_path / "image.png"), "--out", str(out)]
    works(command)
    before = content(out)
    with held(out / ".run.lock") as other:
        told = refusal(capsys, [*command, "--threshold", "0.9"])
        assert f"another process is writing to {out}" in told and content(out) == before
        other.kill()
    (out / "masks" / ".image.png.x.part").touch()  # of a command that was killed
    works([*command, "--threshold", "0.9"])
    assert not list(out.rglob("*.part"))


def test_two_preparations_leave_each_other_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw, store = bundle(tmp_path / "raw", 2), tmp_path / "store"
    own = ["--images", str(raw / "images"), "--masks", str(raw / "masks"), "--name", "mine", "--workers", "1"]
    command = ["data", "prepare", *own, "--size", "16", "--out", str(store)]
    (store / "mine").mkdir(parents=True)
    with held(store / "mine" / ".run.lock") as other:
        (store / "mine" / ".data.h5.x.part").write_text("of the other")
        assert f"another process is writing to {store / 'mine'}" in refusal(capsys, command)
        assert (store / "mine" / ".data.h5.x.part").read_text() == "of the other"
        other.kill()
    works(command)
    assert not list(store.rglob("*.part"))
