"""Cells in processes of this machine, one process per attempt: a crash affects only its own cell."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

import torch

from fpgm.data.parallel import obey_parent
from fpgm.experiments.plan import Cell
from fpgm.experiments.runner import Outcome, Steps, attempt, record

_VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass
class _Job:
    cell: Cell
    process: SpawnProcess
    result: Connection
    began: float
    device: str | None


class Processes:
    """Processes of this machine, one for each cell under way.

    Args:
        steps: how a cell is computed; must be importable by name.
        jobs: number of cells at a time.
        threads: number of threads of each process.
        devices: names of the GPUs, as CUDA_VISIBLE_DEVICES has them. Each process sees one, that with the fewest
            processes; without any it sees what this one sees.
    """

    def __init__(self, steps: Steps, jobs: int, threads: int, devices: Sequence[str] = ()) -> None:
        self.steps, self.jobs, self.threads, self.devices = steps, jobs, threads, devices
        self._jobs: list[_Job] = []
        self._context = multiprocessing.get_context("spawn")  # a fork would copy torch's threads half

    def free(self) -> bool:
        """Whether a process may be started."""
        return len(self._jobs) < self.jobs

    def running(self) -> int:
        """Number of processes."""
        return len(self._jobs)

    def start(self, cell: Cell) -> None:
        """Start a process for a cell; not a daemon, because training starts processes itself."""
        result, sender = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_work, args=(cell, self.steps, self.threads, sender))
        device = self._least_busy()
        with _visible(device):  # read once, when CUDA is first used: the new process is to find it there
            process.start()
        sender.close()
        self._jobs.append(_Job(cell, process, result, time.monotonic(), device))

    def _least_busy(self) -> str | None:
        """Return the first of the GPUs that the fewest processes have."""
        busy = Counter(job.device for job in self._jobs)
        return min(self.devices, key=lambda device: busy[device], default=None)

    def wait(self) -> list[Outcome]:
        """Give the cells whose processes have ended."""
        ended = wait([job.process.sentinel for job in self._jobs], timeout=1)
        gone = [job for job in self._jobs if job.process.sentinel in ended]
        self._jobs = [job for job in self._jobs if job not in gone]
        return [_outcome(job) for job in gone]

    def stop(self) -> None:
        """Let each process finish its step and save; a second Ctrl-C ends them at once."""
        for job in self._jobs:
            job.process.terminate()
        try:
            for job in self._jobs:
                job.process.join()
        except KeyboardInterrupt:
            for job in self._jobs:
                job.process.kill()
            raise


def cuda_devices(accelerator: str) -> list[str]:
    """Return the names of the GPUs that runs of this accelerator may use."""
    if accelerator not in ("auto", "cuda", "gpu"):
        return []
    given = os.environ.get(_VISIBLE)
    names = [str(number) for number in range(torch.cuda.device_count())]
    return [name.strip() for name in given.split(",") if name.strip()][: len(names)] if given else names


@contextmanager
def _visible(device: str | None) -> Iterator[None]:
    """Let processes that are started in the block see one GPU; None for all that this process sees."""
    before = os.environ.get(_VISIBLE)
    if device is not None:
        os.environ[_VISIBLE] = device
    try:
        yield
    finally:
        if before is not None:
            os.environ[_VISIBLE] = before
        elif device is not None:
            del os.environ[_VISIBLE]


def _outcome(job: _Job) -> Outcome:
    """Return the outcome that an ended process sent, or a failure if it died."""
    try:
        outcome: Outcome = job.result.recv()
        return outcome
    except EOFError:
        job.process.join()
        reason = (
            f"its process died (exit code {job.process.exitcode}; -9 often means that memory ran out): "
            "free memory or use fewer --jobs"
        )
        return record(job.cell, time.monotonic() - job.began, reason)
    finally:
        job.result.close()


def _work(cell: Cell, steps: Steps, threads: int, result: Connection) -> None:
    """Attempt a cell and send the outcome; after a request to stop nothing is sent."""
    obey_parent()
    torch.set_num_threads(threads)
    try:
        result.send(attempt(cell, steps))
    except KeyboardInterrupt:
        return
