"""Train what a configuration says, from its data to a finished run folder."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import torch
from lightning_fabric import Fabric
from rich.console import Console
from torch.optim import SGD, AdamW, Optimizer

from fpgm.config import DataConfig, OptimizerConfig, RunConfig, differences
from fpgm.data.batches.batch import Geometry
from fpgm.data.batches.pool import Pool
from fpgm.data.batches.streams import Stream
from fpgm.data.splits.split import AUTO, Split, split_folder
from fpgm.data.store import open_stores
from fpgm.evaluation.specks import choose_least_area
from fpgm.evaluation.temperature import calibrate
from fpgm.files import sole_writer
from fpgm.methods import METHODS, Method
from fpgm.model import save_model
from fpgm.nets import Backbone, build
from fpgm.nets.statistics import ImageBatches, choose_statistics
from fpgm.runs.card import ModelCard, Statistics
from fpgm.runs.folder import RunFolder
from fpgm.runs.images import check_images, describe_training_images, write_training_images
from fpgm.spectrum import FrequencyPrior
from fpgm.training.devices import leave_process_group, make_fabric, on_rank_zero, with_precision
from fpgm.training.memory import kept_memory
from fpgm.training.telemetry import Telemetry
from fpgm.training.trainer import Trainer

CLEAN_IMAGES = 128  # images for new batch-norm statistics: four are nearly as good as 256
PAPER_SIZE = 256


class _Pools(NamedTuple):
    """The images of a run."""

    labeled: Pool
    unlabeled: Pool | None
    validation: Pool | None


def train(
    config: RunConfig,
    folder: Path,
    *,
    resume: bool = False,
    accelerator: str = "auto",
    devices: int = 1,
    num_nodes: int = 1,
    console: Console | None = None,
) -> Trainer:
    """Train what the configuration says, in a new folder or, with `resume`, in one that was left off.

    Everything is built and checked before the first file is written, so that a refused run leaves no folder behind.

    Args:
        config: the whole configuration; `auto` as `train.precision` and `data.labeled` is replaced by what is in use.
        folder: run folder to write.
        resume: go on with the run in the folder, if there is one.
        accelerator: kind of device, as in Lightning Fabric.
        devices: number of processes per machine, one per device.
        num_nodes: number of machines.
        console: where progress and notes are shown; None for nowhere.
    """
    config = with_precision(config, folder, resume, accelerator)
    fabric = make_fabric(accelerator, devices, num_nodes, config.train.precision)
    fabric.launch()
    console = console if fabric.is_global_zero else None
    try:
        split = Split.load(split_folder(config.data.store, config.data.split))
        config = _with_labeled(config, split, folder, resume)
        pools = _pools(config, split)
        trainer = _trainer(fabric, config, *build_method(config), folder)
        stream = _stream(fabric, config, pools, trainer.method)
        with ExitStack() as held:
            on_rank_zero(fabric, lambda: held.enter_context(sole_writer(folder)))
            on_rank_zero(fabric, lambda: _claim(config, folder, resume, pools, split))
            if console is not None:
                _print_notes(console, config, pools, split, trainer)
            _fit(trainer, config, stream, pools, split, resume, console)
        return trainer
    finally:
        leave_process_group()


def _fit(
    trainer: Trainer,
    config: RunConfig,
    stream: Stream,
    pools: _Pools,
    split: Split,
    resume: bool,
    console: Console | None,
) -> None:
    """Bring a run to its end and save its model."""
    if resume and trainer.last.is_file():
        trainer.resume()
    with (
        Telemetry(trainer.folder, trainer.next_step, config.train.iterations, console) as telemetry,
        _stopping(trainer),
        kept_memory(),
    ):
        trainer.fit(stream, pools.validation, telemetry, config.data.workers)
    if trainer.fabric.is_global_zero:
        _save_model(trainer, config, pools, split)


def _stream(fabric: Fabric, config: RunConfig, pools: _Pools, method: Method) -> Stream:
    """Return the batches of this process, or say why the method cannot use them."""
    data, size = config.data, pools.labeled.size
    net = method.predictor()
    multiple = (net.multiple if isinstance(net, Backbone) else 1) * (2 if config.train.half_size else 1)
    if size % multiple:
        halved = ", and train.half_size halves them once more" if config.train.half_size else ""
        raise ValueError(
            f"the store has images of {size} pixels, but {config.net.name} halves them{halved}: prepare one whose "
            f"--size is a multiple of {multiple}"
        )
    stream = Stream(
        pools.labeled,
        pools.unlabeled or pools.labeled,  # without unlabelled images the labelled ones, whose masks it does not read
        method.views,
        seed=config.train.seed,
        batch_labeled=data.batch_labeled,
        batch_unlabeled=data.batch_unlabeled,
        rank=fabric.global_rank,
        world_size=fabric.world_size,
        weak=data.weak,
        geometry=_geometry(data),
        strong_labeled=data.strong_labeled,
    )
    for side in (size, size // 2) if config.train.half_size else (size,):
        method.check_batch(data.batch_labeled // fabric.world_size, data.batch_unlabeled // fabric.world_size, side)
    return stream


def _print_notes(console: Console, config: RunConfig, pools: _Pools, split: Split, trainer: Trainer) -> None:
    """Say what is learnt from, what is missing, and where a run of the preset `paper` departs from the paper."""
    size = pools.labeled.size
    notes = [f"precision {config.train.precision}", split.labels(config.data.labeled).describe(config.data.labeled)]
    if pools.unlabeled is None and trainer.method.views.unlabeled:
        notes.append(f"no unlabelled images: {config.method} takes the labelled ones, without their masks, for them")
    if pools.validation is None:
        notes.append(f"no validation images: the model will have the {trainer.shipped()} of the last step")
    if config.preset == "paper" and size != PAPER_SIZE:
        notes.append(
            f"the paper's images are {PAPER_SIZE} x {PAPER_SIZE} pixels, those of this store {size} x {size}: "
            "figures are not comparable with the paper's"
        )
    for note in notes:
        console.print(note, highlight=False)


def _claim(config: RunConfig, folder: Path, resume: bool, pools: _Pools, split: Split) -> None:
    """Make sure that the folder is this run's before anything else is written to it."""
    path = RunFolder(folder).config
    if path.is_file() and not resume:
        raise ValueError(f"{folder} holds a run already: continue it with --resume, or give another --out")
    if path.is_file() and (changed := differences(RunConfig.load(path), config)):
        raise ValueError(f"{folder} was started with other settings: {'; '.join(changed)}. Give it another --out")
    hashes = {name: pool and pool.sha256() for name, pool in pools._asdict().items()}
    check_images(folder, hashes, config.data.store)
    if not RunFolder(folder).training_images.is_file():
        write_training_images(folder, describe_training_images(split, pools._asdict()))
    config.save(path)


def _with_labeled(config: RunConfig, split: Split, folder: Path, resume: bool) -> RunConfig:
    """Return the configuration with the labelled images of the run to go on with, or the usual ones, for `auto`."""
    if config.data.labeled != AUTO:
        return config
    path = RunFolder(folder).config
    labeled = RunConfig.load(path).data.labeled if resume and path.is_file() else split.usual_labeled
    return config.model_copy(update={"data": config.data.model_copy(update={"labeled": labeled})})


def _pools(config: RunConfig, split: Split) -> _Pools:
    stores, spec = open_stores(config.data.store), config.data.labeled
    unlabeled = split.unlabeled(spec)
    return _Pools(
        labeled=Pool(stores, split.labeled(spec)),
        unlabeled=Pool(stores, unlabeled) if unlabeled else None,
        validation=Pool(stores, split.validation) if split.validation else None,
    )


def _geometry(data: DataConfig) -> Geometry:
    return Geometry(
        probability=data.geometry, scale=data.scale, aspect=data.aspect, rotation=data.rotation, shift=data.shift
    )


def build_method(config: RunConfig) -> tuple[Method, Optimizer]:
    """Return method and optimiser; the seed alone decides the first weights."""
    torch.manual_seed(config.train.seed)
    net = build(config.net.name, **config.net.arguments)
    if config.net.pretrained:
        if not isinstance(net, Backbone):
            raise ValueError(f"{config.net.name} has no pretrained weights: set net.pretrained=false")
        net.load_pretrained()
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


def _save_model(trainer: Trainer, config: RunConfig, pools: _Pools, split: Split) -> None:
    """Write the best predictor, without validation images the last one, and the prior if one was learnt."""
    if pools.validation is not None:
        trainer.restore(trainer.best())
    net, statistics = trainer.predictor(), Statistics()
    if config.train.choose_statistics and pools.validation is not None:
        choice = choose_statistics(
            net, _clean_images(pools, trainer.fabric.device), partial(trainer.score, pools.validation)
        )
        net, statistics = choice.net, Statistics(source=choice.source, own=choice.own, scores=choice.scores)
    validation, device = pools.validation, trainer.fabric.device
    labels = split.labels(config.data.labeled)
    training = {
        "method": config.method,
        "preset": config.preset,
        "iterations": config.train.iterations,
        "seed": config.train.seed,
        "split": Path(config.data.split).name,
        "labeled": config.data.labeled,
        "labeled_images": labels.labeled,
        "unlabeled_images": labels.unlabeled,
        "masks_not_used": labels.unused,
        "train_sha256": split.train_sha256(),
        **_selection(trainer, statistics, pools.validation),
    }
    card = ModelCard(
        net=config.net.name,
        arguments=config.net.arguments,
        size=pools.labeled.size,
        training=training,
        statistics=statistics,
        calibration=calibrate(net, validation, device=device) if validation else None,
        least_area=choose_least_area(net, validation, device=device)
        if validation and config.train.choose_area
        else None,
    )
    save_model(RunFolder(trainer.folder).model, net, card)
    for module in trainer.method.modules():
        if isinstance(module, FrequencyPrior) and module.learnt:
            module.save(RunFolder(trainer.folder).prior)


def _selection(trainer: Trainer, statistics: Statistics, validation: Pool | None) -> dict[str, Any]:
    """Say in the card how the weights were chosen; without validation images there is no Dice to name."""
    if validation is None:
        return {"chosen_by": f"nothing: the {trainer.shipped()} of the last step"}
    dice = max(statistics.scores.values(), default=trainer.best_score["dice"])
    return {"chosen_by": "validation Dice", "validation_dice": dice, "best_step": trainer.best_score["step"]}


def _clean_images(pools: _Pools, device: torch.device, count: int = CLEAN_IMAGES) -> ImageBatches:
    """Training images as they are, labelled and unlabelled, evenly spaced over both pools."""
    both = [pool for pool in (pools.labeled, pools.unlabeled) if pool is not None]
    total = sum(map(len, both))
    chosen = []
    for pool in both:
        wanted = max(1, min(len(pool), round(count * len(pool) / total)))
        chosen.append(pool.images(np.linspace(0, len(pool) - 1, wanted).round().astype(int)))
    return ImageBatches(torch.from_numpy(np.concatenate(chosen)), device=device)
