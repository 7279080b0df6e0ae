"""Cells as jobs: with submitit's local executor, and the script that SLURM would get."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from pathlib import Path

import pytest

from fpgm.experiments import slurm
from fpgm.experiments.runner import run
from fpgm.experiments.slurm import LOGS, Slurm, parse_options
from tests.experiments.making import STEPS, Diary, cell, notes
from tests.processes import wait

ROOT = Path(__file__).parents[2]


def test_a_preempted_job_goes_on_with_its_cell_and_a_broken_one_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("submitit")
    monkeypatch.chdir(ROOT)  # where jobs find the module of these cells
    monkeypatch.setattr(slurm, "_POLL", 0.1)
    preempted, broken = cell(tmp_path, "preempted"), cell(tmp_path, "broken")

    def preempt() -> None:
        wait(lambda: notes(preempted, "trained"))
        os.kill(int(notes(preempted, "trained")[0]), signal.SIGUSR2)  # as SLURM does before the time limit

    threading.Thread(target=preempt, daemon=True).start()
    engine = Slurm(STEPS, tmp_path, jobs=2, cpus=1, cluster="local")
    outcomes = run([preempted, broken], engine, Diary(), retries=0)
    assert {one.cell.variant.name: one.state for one in outcomes} == {"preempted": "done", "broken": "failed"}
    first, second = notes(preempted, "trained")
    assert first != second and notes(preempted, "threads") == ["1", "1"]
    assert "the disk is on fire" in str(next(one.error for one in outcomes if one.state == "failed"))


def test_the_script_is_an_array_with_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit")
    place = tmp_path / "bin"
    place.mkdir()
    for name, said in {"srun": "", "sbatch": "Submitted batch job 12", "sacct": "JobID|State", "scancel": ""}.items():
        (place / name).write_text(f"#!/bin/sh\necho '{said}'\n")
        (place / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(slurm, "_POLL", 0.0)
    engine = Slurm(STEPS, tmp_path, jobs=2, cpus=3, gpus=1, options={"partition": "gpu", "time": 90})
    for seed in range(3):
        engine.start(cell(tmp_path, seed=seed))
    assert engine.running() == 3 and engine.wait() == [] and engine.running() == 3
    engine.stop()
    (script,) = (tmp_path / LOGS).glob("[0-9]*_submission.sh")
    text = script.read_text()
    for line in ("--array=0-2%2", "--cpus-per-task=3", "--gpus-per-node=1", "--partition=gpu", "--time=90"):
        assert f"#SBATCH {line}" in text, text
    assert re.search(r"#SBATCH --signal=\w+@\d+", text)


def test_what_is_not_there_or_wrong_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_options(["time=90", "partition=gpu"]) == {"time": 90, "partition": "gpu"}
    with pytest.raises(ValueError, match="--slurm takes key=value"):
        parse_options(["gpu"])
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="no SLURM cluster can be reached from this machine"):
        Slurm(STEPS, tmp_path, jobs=1, cpus=1)
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(ValueError, match=r"pip install 'fpgm\[slurm\]'"):
        Slurm(STEPS, tmp_path, jobs=1, cpus=1)
