"""Cells as tasks of a Ray cluster: Ray chooses the machine, and restarts a task whose worker is lost.

All machines must see store and cells under the same paths and have this package; the lock of a cell works between
them where the file system passes locks on, as NFS does.
"""

from __future__ import annotations

import os
import socket
from types import ModuleType
from typing import Any

import torch

from fpgm.experiments.plan import Cell
from fpgm.experiments.runner import RETRIES, Outcome, Steps, attempt, record

_OBJECT_STORE = 80 * 2**20  # bytes; what cells give back is a few lines
_PATIENCE = 120  # seconds that a step may take to finish after a request to stop


class Cluster:
    """A Ray cluster.

    Args:
        steps: how a cell is computed.
        address: address of a running cluster; if not given, one is started on this machine and ended with the work.
        jobs: number of cells at a time on a cluster of our own; a given one takes as many as its machines hold.
        cpus: number of processors that a cell asks for, and of its threads.
        accelerator: `cuda` or `gpu` ask for a GPU, `auto` does where the cluster has any.
        gpus: number of GPUs that a cell asks for then; with 0.25 four cells share one.
    """

    def __init__(
        self, steps: Steps, *, address: str | None, jobs: int, cpus: int, accelerator: str, gpus: float = 1.0
    ) -> None:
        self._ray = _ray()
        self._connect(address, jobs * cpus)
        resources = self._ray.cluster_resources()
        wanted = accelerator in ("cuda", "gpu") or (accelerator == "auto" and resources.get("GPU", 0) >= 1)
        self.needs = {"num_cpus": cpus, "num_gpus": gpus if wanted else 0}
        self._task = self._ray.remote(max_retries=RETRIES, **self.needs)(_work)
        self._steps, self._tasks = self._ray.put(steps), dict[Any, Cell]()

    def _connect(self, address: str | None, cpus: int) -> None:
        """Join a cluster, or start a private one."""
        if address:
            # read once, when torch is imported; a cluster of our own has it from this process
            options: dict[str, Any] = {"runtime_env": {"env_vars": {"OMP_WAIT_POLICY": "PASSIVE"}}}
        else:
            options = {"num_cpus": cpus, "include_dashboard": False, "object_store_memory": _OBJECT_STORE}
        try:
            _check_reachable(address or "")
            self._ray.init(address or "local", log_to_driver=False, logging_level="error", **options)
        except (OSError, RuntimeError) as error:
            raise ValueError(f"no Ray cluster can be reached at {address or 'this machine'}: {error}") from None

    def free(self) -> bool:
        """Always true: Ray queues tasks until a machine is free."""
        return True

    def running(self) -> int:
        """Number of tasks."""
        return len(self._tasks)

    def start(self, cell: Cell) -> None:
        """Submit a cell."""
        task = self._task.options(name=cell.name).remote(cell, self._steps, self.needs["num_cpus"])
        self._tasks[task] = cell

    def wait(self) -> list[Outcome]:
        """Give the cells whose tasks have ended."""
        ended, _ = self._ray.wait(list(self._tasks), timeout=1)
        return [self._outcome(task, self._tasks.pop(task)) for task in ended]

    def _outcome(self, task: Any, cell: Cell) -> Outcome:
        """Return the result of a task, or a failure if it was lost more often than Ray restarts it."""
        try:
            outcome: Outcome = self._ray.get(task)
            return outcome
        except self._ray.exceptions.RayError as error:
            return record(cell, 0.0, f"lost on the cluster: {type(error).__name__}: {str(error).strip()[:500]}")

    def stop(self) -> None:
        """Interrupt running tasks, which finish their step and save, and leave the cluster."""
        for task in self._tasks:
            self._ray.cancel(task, force=False)
        if self._tasks:
            self._ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=_PATIENCE)
        self._ray.shutdown()


def _work(cell: Cell, steps: Steps, threads: int) -> Outcome:
    torch.set_num_threads(threads)
    return attempt(cell, steps)


def _check_reachable(address: str) -> None:
    """Raise OSError if nothing listens at HOST:PORT; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=10).close()


def _ray() -> ModuleType:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing leaves the machine unasked
    os.environ.setdefault("RAY_worker_niceness", "0")  # cells are no less urgent here than without Ray
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise ValueError("--engine ray needs Ray, which is not installed: pip install 'fpgm[cluster]'") from None
    return ray
