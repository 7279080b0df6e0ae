"""Devices, ranks and precision of a run."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from lightning_fabric import Fabric

from fpgm.config import Precision, RunConfig


def make_fabric(accelerator: str, devices: int, num_nodes: int, precision: Precision) -> Fabric:
    """Return the Fabric of a run, or say why it cannot be had."""
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    assert precision != "auto", "with_precision comes first"
    try:
        fabric = Fabric(
            accelerator=accelerator,
            devices=devices,
            num_nodes=num_nodes,
            precision=precision,
            # a stage may leave parts of a method without gradient
            strategy="ddp_find_unused_parameters_true" if devices * num_nodes > 1 else "auto",
        )
    except RuntimeError as error:
        raise ValueError(f"--accelerator {accelerator} cannot be used here: {error}") from None
    used = fabric.strategy.precision.precision
    if used != precision:
        raise ValueError(f"this device has no --precision {precision}, Fabric would take {used} instead: ask for that")
    return fabric


def with_precision(config: RunConfig, folder: Path, resume: bool, accelerator: str) -> RunConfig:
    """Return the configuration with `auto` replaced: by what a resumed run began with, else by what suits the device.

    That is bf16-mixed on a GPU that has it, 32-true elsewhere: a CPU that offers bfloat16 may be slower with it.
    """
    precision, path = config.train.precision, folder / "config.yaml"
    if precision == "auto" and resume and path.is_file():
        precision = RunConfig.load(path).train.precision
    if precision == "auto":
        on_gpu = accelerator in ("auto", "cuda", "gpu") and torch.cuda.is_available()
        precision = "bf16-mixed" if on_gpu and torch.cuda.is_bf16_supported() else "32-true"
    return config.model_copy(update={"train": config.train.model_copy(update={"precision": precision})})


def on_rank_zero(fabric: Fabric, act: Callable[[], object]) -> None:
    """Run a function on rank zero while the other processes wait; an error of the user there ends them all."""
    refusal: Exception | None = None
    if fabric.is_global_zero:
        try:
            act()
        except (ValueError, OSError) as error:
            refusal = error
    if fabric.broadcast(refusal is not None):
        raise refusal or ValueError("rank zero refused to go on; its own message says why")


def leave_process_group() -> None:
    """Leave the group of all processes, if there is one.

    The group itself is never destroyed. Its destructor waits for threads that may need the interpreter lock to release
    the tensors of the last broadcast, and whoever destroys it holds that lock: both would wait for ever.
    """
    if dist.is_available() and dist.is_initialized():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(dist.group.WORLD))
        dist.destroy_process_group()
