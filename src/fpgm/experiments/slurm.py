"""Cells as an array of jobs of a SLURM cluster, through submitit.

All machines must see store and cells under the same paths and have this package. A job that reaches its time limit, or
is pre-empted, is requeued by itself and goes on with the same cell from its last checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from fpgm.experiments.plan import Cell
from fpgm.experiments.runner import Outcome, Steps, attempt, record

LOGS = ".slurm"  # scripts, messages and results of the jobs, in the folder of all cells
_TIMEOUTS = 1000  # times that a job may reach its time limit
_POLL = 1.0  # seconds between looks at the jobs
USUAL = {"time": 240}  # minutes


class Job:
    """What a job computes; SLURM's signal before the time limit makes submitit call `checkpoint`."""

    def __init__(self, steps: Steps, threads: int) -> None:
        self.steps, self.threads = steps, threads

    def __call__(self, cell: Cell) -> Outcome:
        """Compute a cell, or go on with it."""
        torch.set_num_threads(self.threads)
        return attempt(cell, self.steps)

    def checkpoint(self, cell: Cell) -> Any:
        """Return what is to be queued again: the same, since a cell keeps its own checkpoints."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, cell)


class Slurm:
    """A SLURM cluster.

    Args:
        steps: how a cell is computed; must be importable by name.
        out: folder of all cells, which all machines see.
        jobs: number of cells at a time.
        cpus: number of processors of each cell, and of its threads.
        gpus: number of GPUs of each cell.
        options: options of `sbatch`, such as time in minutes, partition or account.
        cluster: `slurm`, or for tests `local`, which are processes of this machine.
    """

    def __init__(
        self,
        steps: Steps,
        out: Path,
        *,
        jobs: int,
        cpus: int,
        gpus: int = 0,
        options: Mapping[str, Any] | None = None,
        cluster: str = "slurm",
    ) -> None:
        self._executor = _executor(out / LOGS, cluster)
        self._job = Job(steps, cpus)
        given = {**USUAL, "array_parallelism": jobs, **(options or {})}
        chosen = {f"slurm_{name}": value for name, value in given.items()}
        try:
            self._executor.update_parameters(name="fpgm", cpus_per_task=cpus, gpus_per_node=gpus, **chosen)
        except Exception as error:  # submitit's own answer to an option that `sbatch` does not have
            raise ValueError(f"--slurm {' '.join(options or ())}: {error}") from None
        self._waiting: list[Cell] = []
        self._running: list[tuple[Any, Cell]] = []

    def free(self) -> bool:
        """Always true: SLURM queues jobs until a machine is free."""
        return True

    def running(self) -> int:
        """Number of jobs, and of cells that are about to be submitted."""
        return len(self._waiting) + len(self._running)

    def start(self, cell: Cell) -> None:
        """Take a cell; all that were taken are submitted together, as one array."""
        self._waiting.append(cell)

    def wait(self) -> list[Outcome]:
        """Submit what is waiting, and give the cells whose jobs have ended."""
        if self._waiting:
            submitted = self._executor.map_array(self._job, self._waiting)
            self._running += zip(submitted, self._waiting, strict=True)
            self._waiting = []
        ended = [pair for pair in self._running if pair[0].done()]
        if not ended:
            time.sleep(_POLL)
        self._running = [pair for pair in self._running if pair not in ended]
        return [_outcome(job, cell) for job, cell in ended]

    def stop(self) -> None:
        """Cancel the jobs that are left; their cells go on from their last checkpoints."""
        for job, _ in self._running:
            job.cancel(check=False)


def _outcome(job: Any, cell: Cell) -> Outcome:
    """Return the result of a job, or a failure if it was lost."""
    try:
        outcome: Outcome = job.result()
        return outcome
    except Exception as error:  # whatever the job raised, or that it left no result
        last = str(error).strip().splitlines()[-1:] or [""]
        return record(cell, 0.0, f"lost on the cluster: {type(error).__name__}: {last[0][:500]}")


def _executor(folder: Path, cluster: str) -> Any:
    try:
        import submitit
    except ImportError:
        raise ValueError("--engine slurm needs submitit, which is not installed: pip install 'fpgm[slurm]'") from None
    try:
        return submitit.AutoExecutor(str(folder), cluster=cluster, slurm_max_num_timeout=_TIMEOUTS)
    except RuntimeError as error:
        raise ValueError(f"no SLURM cluster can be reached from this machine: {error}") from None


def parse_options(texts: Sequence[str] | None) -> dict[str, Any]:
    """Read options of `sbatch`, ``key=value``; numbers become numbers."""
    options: dict[str, Any] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key.isidentifier():
            raise ValueError(f"--slurm takes key=value, such as time=240 or partition=gpu, not {text!r}")
        options[key] = int(value) if value.isdecimal() else value
    return options
