"""From a configuration to a trained run folder: the door at which configuration stops."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from rich.console import Console
from torch.optim import SGD, AdamW, Optimizer

from fpgm.card import ModelCard
from fpgm.config import OptimizerConfig, RunConfig, differences
from fpgm.data.splits import Split
from fpgm.data.store import open_stores
from fpgm.data.streams import Pool, Stream
from fpgm.methods import METHODS, Method
from fpgm.model import save_model
from fpgm.nets import build
from fpgm.spectrum import FrequencyPrior
from fpgm.tensors import read_tensors
from fpgm.training import checkpoint
from fpgm.training.telemetry import Telemetry
from fpgm.training.trainer import Trainer


def train(
    config: RunConfig,
    folder: Path,
    *,
    resume: bool = False,
    accelerator: str = "auto",
    devices: int = 1,
    num_nodes: int = 1,
    precision: str = "auto",
    compiled: bool = False,
    console: Console | None = None,
) -> Trainer:
    """Train what the configuration says, in a new folder or, with `resume`, in one that was left off."""
    fabric = _fabric(accelerator, devices, num_nodes, precision)
    fabric.launch()
    try:
        _claim(fabric, config, folder, resume)
        labeled, unlabeled, validation = _pools(config)
        method, optimizer = _build(config)
        trainer = _trainer(fabric, config, method, optimizer, folder)
        if resume and trainer.last.is_file():
            trainer.resume()
        if compiled:
            method.predictor().compile()
        stream = Stream(
            labeled,
            unlabeled,
            method.views,
            seed=config.train.seed,
            batch_labeled=config.data.batch_labeled,
            batch_unlabeled=config.data.batch_unlabeled,
            rank=fabric.global_rank,
            world_size=fabric.world_size,
            weak=config.data.weak,
        )
        shown = console if fabric.is_global_zero else None
        with (
            Telemetry(folder, trainer.next_step, config.train.iterations, shown) as telemetry,
            _stopping(trainer),
        ):
            trainer.fit(stream, validation, telemetry, config.data.workers)
        if fabric.is_global_zero:
            _ship(trainer, config, validation.size)
        return trainer
    finally:
        if dist.is_available() and dist.is_initialized():
            dist.destroy_process_group()


def _fabric(accelerator: str, devices: int, num_nodes: int, precision: str) -> Fabric:
    """Return devices, precision and ranks, or say why they cannot be had."""
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    try:
        return Fabric(
            accelerator=accelerator,
            devices=devices,
            num_nodes=num_nodes,
            precision=_precision(precision, accelerator),  # type: ignore[arg-type]  # Fabric judges the name
            # a stage may leave parts of a method without gradient
            strategy="ddp_find_unused_parameters_true" if devices * num_nodes > 1 else "auto",
        )
    except RuntimeError as error:
        raise ValueError(f"--accelerator {accelerator} cannot be used here: {error}") from None


def _claim(fabric: Fabric, config: RunConfig, folder: Path, resume: bool) -> None:
    """Make sure that the folder is this run's, on the first rank, before any other writes to it."""
    if fabric.is_global_zero:
        path = folder / "config.yaml"
        if path.is_file() and not resume:
            raise ValueError(f"{folder} holds a run already: continue it with --resume, or give another --out")
        if path.is_file():
            changed = differences(RunConfig.load(path), config)
            if changed:
                raise ValueError(
                    f"{folder} was started with other settings: {'; '.join(changed)}. Give it another --out"
                )
        config.save(path)
    fabric.barrier()


def _pools(config: RunConfig) -> tuple[Pool, Pool | None, Pool]:
    stores = open_stores(config.data.store)
    split = Split.load(config.data.store / "splits" / config.data.split)
    unlabeled = split.unlabeled(config.data.labeled)
    return (
        Pool(stores, split.labeled(config.data.labeled)),
        Pool(stores, unlabeled) if unlabeled else None,
        Pool(stores, split.validation),
    )


def _build(config: RunConfig) -> tuple[Method, Optimizer]:
    """Make method and optimiser; the seed alone decides the first weights."""
    torch.manual_seed(config.train.seed)
    net = build(config.net.name, **config.net.arguments)
    method = METHODS[config.method](net, **dict(config.arguments))  # type: ignore[call-arg]  # checked by config
    method.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing from torch's stubs
    return method, make_optimizer(method, config.optimizer)


def make_optimizer(method: Method, settings: OptimizerConfig) -> Optimizer:
    """Return the main optimiser of a method."""
    common: dict[str, Any] = {"lr": settings.lr, "weight_decay": settings.weight_decay}
    if settings.name == "sgd":
        return SGD(method.parameter_groups(), momentum=settings.momentum, **common)
    return AdamW(method.parameter_groups(), **common)


def _trainer(fabric: Fabric, config: RunConfig, method: Method, optimizer: Optimizer, folder: Path) -> Trainer:
    return Trainer(
        fabric,
        method,
        optimizer,
        folder,
        iterations=config.train.iterations,
        power=config.optimizer.power,
        validate_every=config.train.validate_every,
        save_every=config.train.save_every,
        log_every=config.train.log_every,
        pictures_every=config.train.pictures_every,
        seed=config.train.seed,
    )


def _precision(precision: str, accelerator: str) -> str:
    """Return bf16 where the processor has it, if left to us."""
    if precision != "auto":
        return precision
    if accelerator in ("auto", "cuda", "gpu") and torch.cuda.is_available():
        return "bf16-mixed" if torch.cuda.is_bf16_supported() else "32-true"
    able = torch.cpu.get_capabilities()
    return "bf16-mixed" if able.get("avx512_bf16") or able.get("amx_bf16") else "32-true"


@contextmanager
def _stopping(trainer: Trainer) -> Iterator[None]:
    """Let SIGINT and SIGTERM end the run after the step under way; a second one ends it at once."""

    def ask(number: int, frame: FrameType | None) -> None:
        trainer.stop_requested = True
        signal.signal(number, before[number])

    before: dict[int, Any] = {}
    for number in (int(signal.SIGINT), int(signal.SIGTERM)):
        before[number] = signal.getsignal(number)
        signal.signal(number, ask)
    try:
        yield
    finally:
        for number in before:
            signal.signal(number, before[number])


def _ship(trainer: Trainer, config: RunConfig, size: int) -> None:
    """Write what outlives the training: the best predictor, and the prior if one was learnt."""
    tensors, _ = read_tensors(trainer.best(), checkpoint.FORMAT)
    checkpoint.load_method(trainer.best(), trainer.method, tensors)
    training = {
        "method": config.method,
        "preset": config.preset,
        "iterations": config.train.iterations,
        "seed": config.train.seed,
        "split": config.data.split,
        "labeled": config.data.labeled,
        "train_sha256": Split.load(config.data.store / "splits" / config.data.split).train_sha256(),
        "validation_dice": trainer.record["dice"],
        "best_step": trainer.record["step"],
    }
    card = ModelCard(net=config.net.name, arguments=config.net.arguments, size=size, training=training)
    save_model(trainer.folder / "model", trainer.method.predictor(), card)
    for module in trainer.method.modules():
        if isinstance(module, FrequencyPrior) and module.learnt:
            module.save(trainer.folder / "prior.json")
