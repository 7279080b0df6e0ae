"""Which engine computes, and which options go with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from rich.console import Console

from fpgm.cli.experiments.engines import MEMORY_OF_A_RUN, Needs, make_engine, usual_jobs
from fpgm.experiments.processes import Processes
from fpgm.experiments.runner import InProcess

ONE = Needs(jobs=1, threads=1, accelerator="auto", gpus=None, address=None, slurm=None)


def test_several_jobs_divide_the_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert isinstance(make_engine("local", ONE, tmp_path, Console()), InProcess)
    engine = make_engine("local", ONE._replace(jobs=4), tmp_path, Console())
    assert isinstance(engine, Processes) and engine.devices == ["0", "1"]


@pytest.mark.parametrize(
    ("engine", "needs", "said"),
    [
        ("local", {"gpus": 0.5}, "--gpus-per-run is for clusters"),
        ("local", {"slurm": ["time=3"]}, "--slurm is for --engine slurm, not for local"),
        ("ray", {"gpus": 1.5}, "a whole number of GPUs, or with ray a part of one"),
        ("ray", {"gpus": -1.0}, "a whole number of GPUs"),
        ("slurm", {"gpus": 0.5}, "SLURM gives no part of one"),
    ],
)
def test_options_of_other_engines_are_refused(tmp_path: Path, engine: str, needs: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make_engine(engine, ONE._replace(**needs), tmp_path, Console())  # type: ignore[arg-type]  # settings by **


@pytest.mark.parametrize(
    ("engine", "accelerator", "runs", "gpu", "gigabytes", "jobs"),
    [
        ("local", "auto", 9, False, 64, 4),  # one on each processor
        ("local", "cpu", 9, True, 64, 4),
        ("local", "auto", 3, False, 64, 3),
        ("local", "auto", 0, False, 64, 1),
        ("local", "auto", 9, False, 5, 2),  # two fit in
        ("local", "auto", 9, False, 1, 1),
        ("local", "auto", 9, True, 64, 1),
        ("local", "cuda", 9, True, 64, 1),
        ("ray", "cpu", 9, False, 64, 1),
    ],
)
def test_how_many_runs_at_a_time(
    monkeypatch: pytest.MonkeyPatch, engine: str, accelerator: str, runs: int, gpu: bool, gigabytes: int, jobs: int
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    pages = gigabytes * MEMORY_OF_A_RUN // 2 // 4096
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": pages, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert usual_jobs(engine, accelerator, runs) == jobs
