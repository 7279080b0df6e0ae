"""Cells in processes: side by side, dying, stopped, orphaned."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from fpgm.experiments import cells as on_disk
from fpgm.experiments import processes
from fpgm.experiments.plan import Cell
from fpgm.experiments.processes import Processes, cuda_devices
from fpgm.experiments.runner import run
from tests.experiments.making import STEPS, Diary, cell, notes
from tests.forks import FORKS, Fork
from tests.processes import alive, wait


@pytest.fixture(autouse=True)
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork processes that would be spawned, as they are in `tests/cli/experiments/test_reproduce.py`."""
    monkeypatch.setattr(processes, "multiprocessing", SimpleNamespace(get_context=lambda _: FORKS))


def compute_hanging(folder: Path) -> None:
    processes.multiprocessing = SimpleNamespace(  # type: ignore[attr-defined]  # a fork cannot ask the server for more
        get_context=lambda _: multiprocessing.get_context("fork")
    )
    run([cell(folder, "hanging")], Processes(STEPS, 2, 1), Diary())


def wait_for(cell: Cell) -> int:
    """Wait until a cell is being trained, and say by which process."""
    wait(lambda: notes(cell, "trained"))
    return int(notes(cell, "trained")[0])


def test_a_dying_process_is_tried_again_and_harms_nobody(tmp_path: Path) -> None:
    dying, good, diary = cell(tmp_path, "dying"), cell(tmp_path), Diary()
    outcomes = run([dying, good], Processes(STEPS, 2, 1, devices=["3", "GPU-5"]), diary)
    assert {outcome.cell.variant.name: outcome.state for outcome in outcomes} == {"dying": "done", "supervised": "done"}
    assert "failed dying 0 again" in diary.lines
    owners = [*notes(dying, "trained"), *notes(good, "trained")]
    assert len(set(owners)) == 3 and str(os.getpid()) not in owners
    assert notes(good, "threads") == ["1"]
    assert notes(dying, "devices")[0] == "3" and notes(good, "devices") == ["GPU-5"]  # one each, the first is free
    assert os.environ.get("CUDA_VISIBLE_DEVICES") is None
    record = on_disk.read(dying.folder)
    assert record is not None and record.attempts == 2


@pytest.mark.parametrize(
    ("accelerator", "count", "given", "devices"),
    [
        ("auto", 2, None, ["0", "1"]),
        ("cuda", 2, "4, 7", ["4", "7"]),
        ("cuda", 1, "GPU-1a,GPU-2b", ["GPU-1a"]),  # torch sees no more
        ("auto", 0, None, []),
        ("cpu", 2, None, []),
    ],
)
def test_the_gpus_that_processes_may_have(
    monkeypatch: pytest.MonkeyPatch, accelerator: str, count: int, given: str | None, devices: list[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    if given is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    assert cuda_devices(accelerator) == devices


def test_a_process_that_always_dies_is_reported(tmp_path: Path) -> None:
    dying = cell(tmp_path, "dying")
    (outcome,) = run([dying], Processes(STEPS, 1, 1), Diary(), retries=0)
    assert outcome.state == "failed" and "exit code -9" in str(outcome.error)


def test_an_interrupt_ends_all_processes(tmp_path: Path) -> None:
    hanging = cell(tmp_path, "hanging")

    class Impatient(Processes):
        def wait(self) -> list:  # type: ignore[type-arg]  # whatever it holds
            wait_for(hanging)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([hanging], Impatient(STEPS, 2, 1), Diary())
    wait(lambda: not alive(int(notes(hanging, "trained")[0])))
    assert on_disk.read(hanging.folder) is None and not on_disk.is_taken(hanging.folder)


def test_processes_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    parent = Fork(compute_hanging, tmp_path)
    worker = wait_for(cell(tmp_path, "hanging"))
    parent.kill()
    assert parent.wait() == -signal.SIGKILL
    wait(lambda: not alive(worker))
