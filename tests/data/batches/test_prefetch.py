"""Prefetching: errors arrive, and no worker process is left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fpgm.data.batches.streams import Stream
from tests.data.batches.making import SUPERVISED, FakeStore, pool, stream
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


SCRIPT = """
import signal, sys, multiprocessing
from tests.data.batches.making import stream
signal.signal(signal.SIGINT, signal.default_int_handler)
loop = stream().loop(0, 10**6, 2)
next(loop)
print(*(child.pid for child in multiprocessing.active_children()), flush=True)
"""


def start(rest: str) -> subprocess.Popen[str]:
    """Run a loop in a process group of its own; the first line it prints is the ids of its workers."""
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT + rest],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_worker_outlives_its_process() -> None:
    forever = "for batch in loop: pass"
    interrupted, killed, ended = start(forever), start(forever), start("")  # the last one leaves its loop open
    workers = [int(pid) for process in (interrupted, killed, ended) for pid in process.stdout.readline().split()]
    os.killpg(interrupted.pid, signal.SIGINT)  # as a terminal does
    killed.kill()
    complaint = interrupted.communicate(timeout=PATIENCE)[1]
    assert complaint.strip().endswith("KeyboardInterrupt") and complaint.count("Traceback") == 1
    assert killed.communicate(timeout=PATIENCE) and killed.returncode == -signal.SIGKILL
    assert not ended.communicate(timeout=PATIENCE)[1] and ended.returncode == 0
    assert len(workers) == 6
    wait(lambda: not any(map(alive, workers)))
