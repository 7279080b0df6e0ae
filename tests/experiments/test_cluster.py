"""A Ray instance of two workers, one of which is killed while its cell runs."""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from fpgm.experiments import cells as on_disk
from fpgm.experiments.cluster import Cluster
from fpgm.experiments.runner import run
from tests.experiments.making import STEPS, Diary, cell, notes
from tests.processes import wait


def test_the_cell_of_a_killed_worker_is_finished_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster has a GPU by name alone, which Ray counts like a real one: two cells share it."""
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "init", functools.partial(ray.init, num_gpus=1))
    hanging, good, broken = (cell(tmp_path, name) for name in ("hanging", "supervised", "broken"))

    def kill() -> None:
        wait(lambda: notes(hanging, "trained"))
        os.kill(int(notes(hanging, "trained")[0]), signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    cluster = Cluster(STEPS, address=None, jobs=2, cpus=1, accelerator="auto", gpus=0.5)
    assert cluster.needs == {"num_cpus": 1, "num_gpus": 0.5}
    outcomes = run([hanging, good, broken], cluster, Diary(), retries=1)
    killer.join()
    found = {outcome.cell.variant.name: outcome.state for outcome in outcomes}
    assert found == {"hanging": "done", "supervised": "done", "broken": "failed"}
    first, second = notes(hanging, "trained")
    assert first != second and str(os.getpid()) not in (first, second)
    record = on_disk.read(hanging.folder)
    assert record is not None and record.attempts == 1  # the lost one had no time to leave a record
    assert len(notes(broken, "trained")) == 2 and notes(good, "threads") == ["1"]
    assert notes(good, "devices") == ["0"] and notes(hanging, "devices") == ["0", "0"]


def test_without_ray_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install 'fpgm\[cluster\]'"):
        Cluster(STEPS, address=None, jobs=1, cpus=1, accelerator="cpu")


def test_a_cluster_that_is_not_there_is_a_sentence() -> None:
    pytest.importorskip("ray")
    with pytest.raises(ValueError, match=r"no Ray cluster can be reached at 127\.0\.0\.1:1"):
        Cluster(STEPS, address="127.0.0.1:1", jobs=1, cpus=1, accelerator="cpu")
