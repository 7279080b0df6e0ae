"""Prefetching: errors arrive, and no worker process is left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fpgm.data.batches.batch import Batch
from fpgm.data.batches.streams import Stream
from tests.data.batches.making import SUPERVISED, FakeStore, pool, stream
from tests.forks import Fork
from tests.processes import PATIENCE, alive, wait


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_of_the_store_arrives_as_it_is(workers: int) -> None:
    source = Stream(pool(FakeStore("a", broken="images")), None, SUPERVISED, seed=0)
    with pytest.raises(OSError) as caught:
        next(source.loop(0, 5, workers))
    assert str(caught.value) == "images of this store must not be read"
    assert not workers or "in images" in caught.value.__notes__[0]  # where it happened in the worker
    assert not multiprocessing.active_children()


def test_closing_the_loop_ends_the_workers() -> None:
    loop = stream().loop(0, 10**6, 2)
    next(loop)
    assert len(multiprocessing.active_children()) == 2
    loop.close()
    assert not multiprocessing.active_children()


def test_a_killed_worker_is_reported_and_not_waited_for() -> None:
    loop = stream().loop(0, 10**6, 2)
    next(loop)
    victim = multiprocessing.active_children()[0].pid
    assert victim is not None
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(ChildProcessError, match=r"died before batch \d+ was ready \(exit code -9"):
        for _ in range(1000):
            next(loop)
    assert not multiprocessing.active_children()


def begin_loop() -> Iterator[Batch]:
    """Begin a loop and print the ids of its workers."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    loop = stream().loop(0, 10**6, 2)
    next(loop)
    sys.stdout.write(f"{' '.join(str(child.pid) for child in multiprocessing.active_children())}\n")
    sys.stdout.flush()
    return loop


def loop_forever() -> None:
    os.setsid()  # a process group of its own
    for _ in begin_loop():
        pass


def leave_open() -> subprocess.Popen[str]:
    """Run an interpreter that ends with its loop open."""
    script = "from tests.data.batches.test_prefetch import begin_loop\nloop = begin_loop()"
    return subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_worker_outlives_its_process() -> None:
    interrupted, killed, ended = Fork(loop_forever), Fork(loop_forever), leave_open()
    workers = [int(pid) for process in (interrupted, killed, ended) for pid in process.stdout.readline().split()]
    os.killpg(interrupted.pid, signal.SIGINT)  # as a terminal does
    killed.kill()
    complaint = interrupted.communicate()
    assert complaint.strip().endswith("KeyboardInterrupt") and complaint.count("Traceback") == 1
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert not ended.communicate(timeout=PATIENCE)[1] and ended.returncode == 0
    assert len(workers) == 6
    wait(lambda: not any(map(alive, workers)))
