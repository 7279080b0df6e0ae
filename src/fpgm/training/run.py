"""Train what a configuration says, from its data to a finished run folder."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

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
from fpgm.files import sole_writer
from fpgm.methods import Method
from fpgm.nets import Backbone, build
from fpgm.registry import find_method
from fpgm.runs.config import flatten
from fpgm.runs.folder import RunFolder
from fpgm.runs.images import check_images, describe_training_images, write_training_images
from fpgm.training.devices import leave_process_group, make_fabric, on_rank_zero, with_precision
from fpgm.training.first_weights import FirstWeights, load_first_weights, seen_before
from fpgm.training.memory import kept_memory
from fpgm.training.saving import Pools, save_trained
from fpgm.training.telemetry import Telemetry
from fpgm.training.trackers import Name, Tracker, check_names, open_trackers
from fpgm.training.trainer import Trainer

PAPER_SIZE = 256


def train(
    config: RunConfig,
    folder: Path,
    *,
    resume: bool = False,
    accelerator: str = "auto",
    devices: int = 1,
    num_nodes: int = 1,
    track: Sequence[str] = (),
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
        track: trackers that get the figures of the run, see `fpgm.training.trackers`.
        console: where progress and notes are shown; None for nowhere.
    """
    trackers = check_names(track)
    config = with_precision(config, folder, resume, accelerator)
    fabric = make_fabric(accelerator, devices, num_nodes, config.train.precision)
    fabric.launch()
    console = console if fabric.is_global_zero else None
    try:
        split = Split.load(split_folder(config.data.store, config.data.split))
        config = _with_labeled(config, split, folder, resume)
        pools = _pools(config, split)
        begun = resume and (RunFolder(folder).checkpoints / "last.safetensors").is_file()
        first = None if begun or config.net.start is None else Path(config.net.start)
        method, optimizer, weights = build_method(config, first)
        trainer = _trainer(fabric, config, method, optimizer, folder)
        stream = _stream(fabric, config, pools, trainer.method)
        with ExitStack() as held:
            on_rank_zero(fabric, lambda: held.enter_context(sole_writer(folder)))
            on_rank_zero(fabric, lambda: _claim(config, folder, resume, pools, split, trainer))
            if console is not None:
                _print_notes(console, config, pools, split, trainer)
                for note in _notes_on_base(config, split, weights):
                    console.print(note, highlight=False)
            _fit(trainer, config, stream, pools, split, resume, trackers, console)
        return trainer
    finally:
        leave_process_group()


def _fit(
    trainer: Trainer,
    config: RunConfig,
    stream: Stream,
    pools: Pools,
    split: Split,
    resume: bool,
    track: Sequence[Name],
    console: Console | None,
) -> None:
    """Bring a run to its end and save its model."""
    if resume and trainer.last.is_file():
        trainer.resume()
    folder, start, trackers = trainer.folder, trainer.next_step, list[Tracker]()
    settings = flatten(config.model_dump(mode="json", serialize_as_any=True))
    on_rank_zero(trainer.fabric, lambda: trackers.extend(open_trackers(folder, start, track, settings)))
    with (
        Telemetry(folder, start, config.train.iterations, console, trackers=trackers) as telemetry,
        _stopping(trainer),
        kept_memory(),
    ):
        trainer.fit(stream, pools.validation, telemetry, config.data.workers)
    if trainer.fabric.is_global_zero:
        save_trained(trainer, config, pools, split)


def _stream(fabric: Fabric, config: RunConfig, pools: Pools, method: Method) -> Stream:
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


def _print_notes(console: Console, config: RunConfig, pools: Pools, split: Split, trainer: Trainer) -> None:
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


def _notes_on_base(config: RunConfig, split: Split, weights: FirstWeights | None) -> list[str]:
    """Say which first weights the network got, and which images to score it with its base has learnt from."""
    if weights is None or config.net.start is None:
        return []
    ids = [*split.validation, *split.test, *split.unseen]
    held = Pool(open_stores(config.data.store), ids) if ids else None
    seen = seen_before(Path(config.net.start), held)
    leak = (
        f"warning: {len(seen)} of the {len(ids)} validation, test and unseen images, {seen[0]} for one, are images "
        "that the model it starts from has learnt from: scores on them say too much"
        if seen
        else ""
    )
    return [weights.describe(), *([leak] if leak else [])]


def _claim(config: RunConfig, folder: Path, resume: bool, pools: Pools, split: Split, trainer: Trainer) -> None:
    """Make sure that the folder is this run's before anything else is written to it."""
    path = RunFolder(folder).config
    if path.is_file() and not resume:
        raise ValueError(f"{folder} holds a run already: continue it with --resume, or give another --out")
    if path.is_file() and (changed := differences(RunConfig.load(path), config)):
        raise ValueError(f"{folder} was started with other settings: {'; '.join(changed)}. Give it another --out")
    if config.train.raised and not trainer.is_last_stage(config.train.raised[-1]):
        raise ValueError(
            f"--iterations {config.train.iterations} would send the method {config.method} back to an earlier stage: "
            f"it has ended at step {config.train.raised[-1]}; give fewer, or begin another run"
        )
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


def _pools(config: RunConfig, split: Split) -> Pools:
    stores, spec = open_stores(config.data.store), config.data.labeled
    unlabeled = split.unlabeled(spec)
    return Pools(
        labeled=Pool(stores, split.labeled(spec)),
        unlabeled=Pool(stores, unlabeled) if unlabeled else None,
        validation=Pool(stores, split.validation) if split.validation else None,
    )


def _geometry(data: DataConfig) -> Geometry:
    return Geometry(
        probability=data.geometry, scale=data.scale, aspect=data.aspect, rotation=data.rotation, shift=data.shift
    )


def build_method(config: RunConfig, first: Path | None = None) -> tuple[Method, Optimizer, FirstWeights | None]:
    """Return method, optimiser and, with a file or folder of first weights, what the network got of them.

    Without one the seed alone decides the first weights.
    """
    torch.manual_seed(config.train.seed)
    net = build(config.net.name, **config.net.arguments)
    if config.net.pretrained:
        if not callable(load := getattr(net, "load_pretrained", None)):
            raise ValueError(f"{config.net.name} has no pretrained weights: set net.pretrained=false")
        load()
    weights = load_first_weights(net, first) if first is not None else None
    method = find_method(config.method)(net, **dict(config.arguments))  # type: ignore[call-arg]  # checked by config
    method.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing from torch's stubs
    return method, make_optimizer(method, config.optimizer), weights


def make_optimizer(method: Method, settings: OptimizerConfig) -> Optimizer:
    """Return the main optimiser of a method."""
    common: dict[str, Any] = {"lr": settings.lr, "weight_decay": settings.weight_decay}
    if settings.name == "sgd":
        return SGD(method.parameter_groups(), momentum=settings.momentum, **common)
    # a fused step unscales gradients itself, so that those of 16-mixed on a GPU could not be clipped
    return AdamW(method.parameter_groups(), fused=not torch.cuda.is_available(), **common)


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
