"""From a configuration to a trained run folder: the door at which configuration stops."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from rich.console import Console
from torch.optim import SGD, AdamW, Optimizer

from fpgm.config import DataConfig, OptimizerConfig, RunConfig, differences
from fpgm.data.batches.batch import Geometry
from fpgm.data.batches.pool import Pool
from fpgm.data.batches.streams import Stream
from fpgm.data.splits.split import Split
from fpgm.data.store import open_stores
from fpgm.files import sole_writer
from fpgm.methods import METHODS, Method
from fpgm.model import save_model
from fpgm.nets import build
from fpgm.nets.statistics import ImageBatches, choose_statistics
from fpgm.runs.card import ModelCard, Statistics
from fpgm.runs.folder import RunFolder
from fpgm.runs.images import check_images
from fpgm.spectrum import FrequencyPrior
from fpgm.training.telemetry import Telemetry
from fpgm.training.trainer import Trainer

CLEAN_IMAGES = 128  # from which batch-norm statistics are estimated anew: four frames are nearly as good as 256


class _Pools(NamedTuple):
    """The images of a run."""

    labeled: Pool
    unlabeled: Pool | None
    validation: Pool


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
        with ExitStack() as held:
            _on_first(fabric, lambda: held.enter_context(sole_writer(folder)))
            return _train(fabric, config, folder, resume, compiled, console if fabric.is_global_zero else None)
    finally:
        if dist.is_available() and dist.is_initialized():
            dist.destroy_process_group()


def _train(
    fabric: Fabric, config: RunConfig, folder: Path, resume: bool, compiled: bool, console: Console | None
) -> Trainer:
    """Make the parts of a run and bring it to its end."""
    pools = _pools(config)
    if config.train.half_size and pools.labeled.size % 32:
        raise ValueError(
            f"train.half_size halves images of {pools.labeled.size} pixels, and networks halve them four times more: "
            "prepare a store whose --size is a multiple of 32"
        )
    _on_first(fabric, lambda: _claim(config, folder, resume, pools))
    method, optimizer = _build(config)
    trainer = _trainer(fabric, config, method, optimizer, folder)
    if resume and trainer.last.is_file():
        trainer.resume()
    if compiled:
        method.predictor().compile()
    stream = Stream(
        pools.labeled,
        pools.unlabeled,
        method.views,
        seed=config.train.seed,
        batch_labeled=config.data.batch_labeled,
        batch_unlabeled=config.data.batch_unlabeled,
        rank=fabric.global_rank,
        world_size=fabric.world_size,
        weak=config.data.weak,
        geometry=_geometry(config.data),
        strong_labeled=config.data.strong_labeled,
    )
    with (
        Telemetry(folder, trainer.next_step, config.train.iterations, console) as telemetry,
        _stopping(trainer),
    ):
        trainer.fit(stream, pools.validation, telemetry, config.data.workers)
    if fabric.is_global_zero:
        _ship(trainer, config, pools)
    return trainer


def _on_first(fabric: Fabric, act: Callable[[], object]) -> None:
    """Let the first process act while the others wait; what it refuses ends them all."""
    refusal: Exception | None = None
    if fabric.is_global_zero:
        try:
            act()
        except (ValueError, OSError) as error:
            refusal = error
    if fabric.broadcast(refusal is not None):
        raise refusal or ValueError("the first process refused; it says why")


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


def _claim(config: RunConfig, folder: Path, resume: bool, pools: _Pools) -> None:
    """Make sure that the folder is this run's before anything else is written to it."""
    path = RunFolder(folder).config
    if path.is_file() and not resume:
        raise ValueError(f"{folder} holds a run already: continue it with --resume, or give another --out")
    if path.is_file() and (changed := differences(RunConfig.load(path), config)):
        raise ValueError(f"{folder} was started with other settings: {'; '.join(changed)}. Give it another --out")
    hashes = {name: pool and pool.sha256() for name, pool in pools._asdict().items()}
    check_images(folder, hashes, config.data.store)
    config.save(path)


def _pools(config: RunConfig) -> _Pools:
    stores = open_stores(config.data.store)
    split = Split.load(config.data.store / "splits" / config.data.split)
    unlabeled = split.unlabeled(config.data.labeled)
    return _Pools(
        labeled=Pool(stores, split.labeled(config.data.labeled)),
        unlabeled=Pool(stores, unlabeled) if unlabeled else None,
        validation=Pool(stores, split.validation),
    )


def _geometry(data: DataConfig) -> Geometry:
    return Geometry(
        probability=data.geometry, scale=data.scale, aspect=data.aspect, rotation=data.rotation, shift=data.shift
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
        schedule=config.optimizer.schedule,
        power=config.optimizer.power,
        warmup=config.optimizer.warmup,
        average=config.train.average,
        half_size=config.train.half_size,
        validate_every=config.train.validate_every,
        save_every=config.train.save_every,
        log_every=config.train.log_every,
        pictures_every=config.train.pictures_every,
        seed=config.train.seed,
    )


def _precision(precision: str, accelerator: str) -> str:
    """Return bf16 on a GPU that has it, if left to us; a processor that lists it may well be slower with it."""
    if precision != "auto":
        return precision
    on_gpu = accelerator in ("auto", "cuda", "gpu") and torch.cuda.is_available()
    return "bf16-mixed" if on_gpu and torch.cuda.is_bf16_supported() else "32-true"


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


def _ship(trainer: Trainer, config: RunConfig, pools: _Pools) -> None:
    """Write what outlives the training: the best predictor, and the prior if one was learnt."""
    trainer.restore(trainer.best())
    net, statistics = trainer.predictor(), Statistics()
    if config.train.choose_statistics:
        choice = choose_statistics(
            net, _clean_images(pools, trainer.fabric.device), partial(trainer.score, pools.validation)
        )
        net, statistics = choice.net, Statistics(source=choice.source, own=choice.own, scores=choice.scores)
    training = {
        "method": config.method,
        "preset": config.preset,
        "iterations": config.train.iterations,
        "seed": config.train.seed,
        "split": config.data.split,
        "labeled": config.data.labeled,
        "train_sha256": Split.load(config.data.store / "splits" / config.data.split).train_sha256(),
        "validation_dice": max(statistics.scores.values(), default=trainer.record["dice"]),
        "best_step": trainer.record["step"],
    }
    card = ModelCard(
        net=config.net.name,
        arguments=config.net.arguments,
        size=pools.validation.size,
        training=training,
        statistics=statistics,
    )
    save_model(RunFolder(trainer.folder).model, net, card)
    for module in trainer.method.modules():
        if isinstance(module, FrequencyPrior) and module.learnt:
            module.save(RunFolder(trainer.folder).prior)


def _clean_images(pools: _Pools, device: torch.device, count: int = CLEAN_IMAGES) -> ImageBatches:
    """Training images as they are, labelled and unlabelled, evenly spaced over both pools."""
    both = [pool for pool in (pools.labeled, pools.unlabeled) if pool is not None]
    total = sum(map(len, both))
    chosen = []
    for pool in both:
        wanted = max(1, min(len(pool), round(count * len(pool) / total)))
        chosen.append(pool.images(np.linspace(0, len(pool) - 1, wanted).round().astype(int)))
    return ImageBatches(torch.from_numpy(np.concatenate(chosen)), device=device)
