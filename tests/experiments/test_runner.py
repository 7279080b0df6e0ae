"""Cells that are done, killed, broken or in other hands."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from fpgm.experiments import cells as on_disk
from fpgm.experiments import runner
from fpgm.experiments.plan import Cell
from fpgm.experiments.runner import InProcess, Steps, run
from tests.experiments.making import HOLD, STEPS, Diary, cell, evaluate, notes, train
from tests.processes import PATIENCE


def states(cells: list[Cell], diary: Diary | None = None) -> dict[str, str]:
    outcomes = run(cells, InProcess(STEPS), diary or Diary())
    return {outcome.cell.variant.name: outcome.state for outcome in outcomes}


def hold(cell: Cell) -> subprocess.Popen[str]:
    """Let another process have the cell until it is sent a line."""
    cell.folder.mkdir(parents=True)
    words = [sys.executable, "-c", HOLD, str(cell.folder / ".lock")]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_what_is_done_is_never_computed_again(tmp_path: Path) -> None:
    good = cell(tmp_path)
    assert states([good]) == {"supervised": "done"}
    assert states([good]) == {"supervised": "kept"}
    assert len(notes(good, "trained")) == 1
    record = json.loads((good.folder / "cell.json").read_text())
    assert record == {
        "format": "fpgm-cell-1",
        "table": ["main", "zero-shot"],
        "variant": "supervised",
        "settings": [],
        "attempts": 1,
        "state": "done",
        "error": None,
        "seconds": record["seconds"],
    }


@pytest.mark.parametrize("lost", ["cell.json", "evaluation/evaluation.json"])
def test_what_was_cut_short_is_taken_up(tmp_path: Path, lost: str) -> None:
    good = cell(tmp_path)
    states([good])
    (good.folder / lost).unlink()
    assert states([good]) == {"supervised": "done"}


def test_an_evaluation_in_another_format_is_made_again(tmp_path: Path) -> None:
    good = cell(tmp_path)
    states([good])
    (good.folder / "evaluation" / "evaluation.json").write_text('{"format": "fpgm-evaluation-0"}')
    assert states([good]) == {"supervised": "done"}
    assert states([good]) == {"supervised": "kept"}


def test_a_failure_is_tried_twice_again_after_the_others_and_reported(tmp_path: Path) -> None:
    broken, good, diary = cell(tmp_path, "broken"), cell(tmp_path), Diary()
    assert states([broken, good], diary) == {"supervised": "done", "broken": "failed"}
    assert [line for line in diary.lines if not line.startswith("started")] == [
        "failed broken 0 again",
        "done supervised 0",
        "failed broken 0 again",
        "failed broken 0",
    ]
    record = on_disk.read(broken.folder)
    assert record is not None
    assert (record.state, record.attempts, record.error) == ("failed", 3, "RuntimeError: the disk is on fire")
    assert "in train" in (broken.folder / "error.txt").read_text()
    states([broken])  # the next command gives it three more
    assert len(notes(broken, "trained")) == 6


def test_a_failure_that_passes_leaves_no_trace(tmp_path: Path) -> None:
    shaky = cell(tmp_path, "shaky")
    assert states([shaky]) == {"shaky": "done"}
    record = on_disk.read(shaky.folder)
    assert record is not None
    assert (record.attempts, record.error) == (2, None)
    assert not (shaky.folder / "error.txt").exists()


def test_a_sentence_of_ours_is_reported_as_it_is(tmp_path: Path) -> None:
    (outcome,) = run([cell(tmp_path, "mistaken")], InProcess(STEPS), Diary(), retries=0)
    assert outcome.error == "a sentence for the user"


def test_an_evaluation_that_fails_is_a_failure(tmp_path: Path) -> None:
    def refuse(cell: Cell, device: str) -> None:
        raise ValueError("no test images")

    good = cell(tmp_path)
    (outcome,) = run([good], InProcess(Steps(train, refuse)), Diary(), retries=0)
    assert outcome.state == "failed"
    (outcome,) = run([good], InProcess(Steps(train, evaluate)), Diary())
    assert outcome.state == "done"


def test_asked_to_stop_it_stops_and_records_nothing(tmp_path: Path) -> None:
    def stopped(cell: Cell) -> None:
        raise KeyboardInterrupt

    good = cell(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run([good, cell(tmp_path, seed=1)], InProcess(Steps(stopped, evaluate)), Diary())
    assert on_disk.read(good.folder) is None
    assert not on_disk.is_taken(good.folder)


def test_a_damaged_record_is_no_record(tmp_path: Path) -> None:
    good = cell(tmp_path)
    states([good])
    (good.folder / "cell.json").write_text("{")
    assert states([good]) == {"supervised": "done"}


def test_what_another_process_computes_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "POLL", 0.01)
    taken, good = cell(tmp_path), cell(tmp_path, seed=1)
    process = hold(taken)

    class Patient(Diary):
        def waiting(self, count: int) -> None:
            super().waiting(count)
            process.communicate("enough\n")

    diary = Patient()
    run([taken, good], InProcess(STEPS), diary)
    assert diary.lines == [
        "started supervised 1",
        "done supervised 1",
        "waiting 1",
        "started supervised 0",
        "done supervised 0",
    ]


def test_what_a_killed_process_leaves_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "POLL", 0.01)
    taken = cell(tmp_path)
    process = hold(taken)
    assert on_disk.is_taken(taken.folder)

    class Killer(Diary):
        def waiting(self, count: int) -> None:
            process.kill()

    (outcome,) = run([taken], InProcess(STEPS), Killer())
    assert outcome.state == "done" and process.wait() == -signal.SIGKILL


def _race(cells: list[Cell], both: Barrier) -> None:
    """Compute the cells that the other process does not; neither ends its first before both have one."""
    begun: list[Cell] = []

    def meet(one: Cell) -> str:
        begun.append(one)
        if len(begun) == 1:
            both.wait(PATIENCE)
        return train(one)

    run(cells, InProcess(Steps(meet, evaluate)), Diary())


def test_two_commands_share_the_cells(tmp_path: Path) -> None:
    """Both go through the same list; each cell is computed once, and both are at work."""
    cells = [cell(tmp_path, seed=seed) for seed in range(6)]
    context = multiprocessing.get_context("fork")
    both = context.Barrier(2)
    racers = [context.Process(target=_race, args=(cells, both)) for _ in range(2)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
        assert racer.exitcode == 0
    owners = [notes(one, "trained") for one in cells]
    assert all(len(owner) == 1 for owner in owners)
    assert {owner[0] for owner in owners} == {str(racer.pid) for racer in racers}
    assert str(os.getpid()) not in {owner[0] for owner in owners}
