"""What computes the runs: this process, several, a Ray cluster or a SLURM cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console

if TYPE_CHECKING:
    from fpgm.experiments.runner import Engine


MEMORY_OF_A_RUN = 2 << 30  # bytes; a UNet at 256 pixels takes less


class Needs(NamedTuple):
    """What runs ask for, as it was given."""

    jobs: int
    threads: int
    accelerator: str
    gpus: float | None
    address: str | None
    slurm: Sequence[str] | None


def usual_jobs(engine: str, accelerator: str, runs: int) -> int:
    """Return how many runs to compute at a time if nobody says.

    On processors, one run on each: two of one thread get more done than one of two threads after the other. On a GPU or
    a cluster, one.

    Args:
        engine: name of the engine.
        accelerator: kind of device.
        runs: number of runs to compute.
    """
    import torch

    on_gpu = accelerator == "auto" and (torch.cuda.is_available() or torch.backends.mps.is_available())
    if engine != "local" or on_gpu or accelerator not in ("auto", "cpu"):
        return 1
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(torch.get_num_threads(), runs, memory // MEMORY_OF_A_RUN))


def make_engine(name: str, needs: Needs, out: Path, output: Console) -> Engine:
    """Return what computes cells in a folder; training draws its bar only where it is alone."""
    from fpgm.experiments import processes
    from fpgm.experiments.runner import InProcess
    from fpgm.experiments.work import make_steps

    _check(name, needs)
    if name in ("ray", "slurm"):
        return _cluster(name, needs, out)
    if needs.jobs > 1:
        devices = processes.cuda_devices(needs.accelerator)
        return processes.Processes(make_steps(needs.accelerator), needs.jobs, needs.threads, devices)
    return InProcess(make_steps(needs.accelerator, output))


def _check(name: str, needs: Needs) -> None:
    """Refuse options that the engine does not have."""
    if needs.slurm and name != "slurm":
        raise ValueError(f"--slurm is for --engine slurm, not for {name}")
    if needs.gpus is None:
        return
    if name == "local":
        raise ValueError("--gpus-per-run is for clusters: on this machine --jobs divides the GPUs among the runs")
    if needs.gpus < 0 or (needs.gpus != int(needs.gpus) and (needs.gpus > 1 or name == "slurm")):
        rest = ", or with ray a part of one such as 0.25" if name == "ray" else "; SLURM gives no part of one"
        raise ValueError(f"--gpus-per-run {needs.gpus:g}: give a whole number of GPUs{rest}")


def _cluster(name: str, needs: Needs, out: Path) -> Engine:
    from fpgm.experiments.work import make_steps

    steps, gpus = make_steps(needs.accelerator), 1.0 if needs.gpus is None else needs.gpus
    options: dict[str, Any] = {"jobs": needs.jobs, "cpus": needs.threads}
    if name == "ray":
        from fpgm.experiments.cluster import Cluster

        return Cluster(steps, address=needs.address, accelerator=needs.accelerator, gpus=gpus, **options)
    from fpgm.experiments.slurm import Slurm, parse_options

    asked = int(gpus) if needs.gpus is not None or needs.accelerator in ("cuda", "gpu") else 0
    return Slurm(steps, out.resolve(), gpus=asked, options=parse_options(needs.slurm), **options)
