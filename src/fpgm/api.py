"""The commands as functions, for notebooks and programs: `fpgm.prepare`, `fpgm.train`, `fpgm.predict` and others.

Paths are texts or `Path`s. What cannot be done is refused by a `ValueError` or `OSError` with the sentence that the
command line shows. Results show themselves as tables, see `fpgm.notebook`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fpgm.notebook import AdaptedModel, Divided, Evaluated, Predictions, Prepared, Trained

if TYPE_CHECKING:
    from fpgm.config import Preset
    from fpgm.data.splits.protocols import Protocol
    from fpgm.serving.pictures import Kind

PathLike = str | os.PathLike[str]

__all__ = ["adapt", "evaluate", "predict", "prepare", "split", "train"]


def prepare(
    out: PathLike,
    *,
    images: PathLike | None = None,
    masks: PathLike | None = None,
    unlabeled: PathLike | None = None,
    name: str | None = None,
    root: PathLike | None = None,
    datasets: Sequence[str] | None = None,
    groups: PathLike | None = None,
    size: int = 256,
    keep_empty: bool | None = None,
    replace: bool = False,
    workers: int = 1,
) -> Prepared:
    """Turn your own folders of images and masks, or downloaded data sets, into a store; as `fpgm data prepare`.

    Args:
        out: folder of the store to write.
        images: folder of your own images.
        masks: folder of their masks, with the same names; 0/255 or 0/1.
        unlabeled: folder of your own images without masks.
        name: name of your own data, or of the one data set under `root`.
        root: instead of images and masks, a folder of data sets in any of the known layouts.
        datasets: names of the data sets under `root`; all if not given.
        groups: CSV file with the columns name and group, such as patients, whose images a split keeps together; or
            `"folder"`, by which each folder of images is a group.
        size: side of the prepared images in pixels; a multiple of 32 for the preset `mini`.
        keep_empty: whether frames with empty masks are kept; if not given, they are in your own data.
        replace: prepare anew what is in the store, even if images vanish or change.
        workers: number of processes that decode. More than one needs a script with ``if __name__ == "__main__":``.

    Returns:
        The store, with a count and the files left out of each data set.

    Examples:
        >>> fpgm.prepare("store", images="frames", masks="masks", name="clinic", size=192)  # doctest: +SKIP
    """
    from fpgm.data.parallel import Workers
    from fpgm.data.raw.groups import set_groups
    from fpgm.data.raw.layouts import find_datasets
    from fpgm.data.raw.prepare import prepare as prepare_dataset

    found = find_datasets(_path(root), _path(images), _path(masks), _path(unlabeled), name, datasets)
    if groups is not None:
        found, _ = set_groups(found, os.fspath(groups))
    with Workers(workers) as pool:
        outcomes = tuple(
            prepare_dataset(entry, Path(out), size, pool, keep_empty=keep_empty, replace=replace) for entry in found
        )
    if useless := [one for one in outcomes if one.manifest is None]:
        first = useless[0].problems[0] if useless[0].problems else None
        why = f": {first.file}: {first.reason}" if first else ""
        raise ValueError(f"nothing usable in {', '.join(one.name for one in useless)}{why}")
    return Prepared(Path(out), outcomes)


def split(
    store: PathLike,
    *,
    protocol: Protocol | None = None,
    seed: int = 0,
    leave_out: str | None = None,
    unseen: Sequence[str] = (),
    fractions: tuple[float, float, float] | None = None,
    out: PathLike | None = None,
) -> Divided:
    """Divide a store into train, validation, test and unseen images; as `fpgm data split`.

    Args:
        store: folder of prepared data sets.
        protocol: `given`, the parts that the raw folders had; `strict`, by which videos, patients and near duplicates
            stay on one side; `paper`, at random; `hospitals` or `pranet`. If not given, as `fpgm data split` chooses.
        seed: seed of the random draw.
        leave_out: hospital that protocol `hospitals` keeps unseen.
        unseen: names of data sets to hold out whole.
        fractions: shares of train, validation and test; 0.7, 0.1, 0.2 if not given.
        out: folder to write; STORE/splits/PROTOCOL-SEED if not given.

    Returns:
        The split, with the number of images in each part.

    Examples:
        >>> fpgm.split("store", protocol="strict")  # doctest: +SKIP
    """
    from fpgm.data.splits import protocols
    from fpgm.data.splits.dividing import parse_fractions
    from fpgm.data.store import open_stores

    stores, held_out = open_stores(Path(store)), protocols.parse_names(list(unseen))
    drawn = protocols.draw(
        stores,
        protocol or protocols.usual_protocol(stores, held_out),
        seed,
        fractions=parse_fractions(list(fractions)) if fractions else None,
        unseen=held_out,
        leave_out=leave_out,
    )
    folder = _path(out) or Path(store) / "splits" / drawn.name
    drawn.save(folder)
    return Divided(folder, drawn)


def train(
    store: PathLike | None = None,
    *,
    out: PathLike,
    method: str | None = None,
    labeled: str | int | None = None,
    split: PathLike | None = None,
    preset: Preset | None = None,
    iterations: int | None = None,
    seed: int | None = None,
    base: PathLike | None = None,
    settings: Mapping[str, object] | Iterable[str] = (),
    precision: str | None = None,
    accelerator: str = "auto",
    resume: bool = False,
    progress: bool = True,
) -> Trained:
    """Train a model; as `fpgm train`. A run that was stopped goes on with ``fpgm.train(out=RUN, resume=True)``.

    Args:
        store: folder of prepared data sets, divided by `split`; only a resumed run needs none.
        out: run folder to write.
        method: name of the method: `fpgm_teacher` if not given, `supervised`, `fpgm` …; or `package.module:Class`.
        labeled: number or percentage of training images whose masks may be used, or `all`; if not given, 5% of public
            data and all of your own.
        split: name or path of a split of the store; the only one if not given.
        preset: source of the defaults: `mini`, for a CPU and few labels, if not given; or `paper`.
        iterations: number of steps; the preset's if not given. With `resume` of a run that has ended, a larger number
            goes on.
        seed: seed of weights, batches and augmentation; 0 if not given.
        base: run folder, model folder, or safetensors file of an encoder, to start from.
        settings: further settings, such as ``{"method.gamma": 0.1}`` or ``["method.gamma=0.1"]``.
        precision: `32-true`, `bf16-mixed`, `16-mixed` or `auto`.
        accelerator: kind of device: `auto`, `cpu`, `cuda`, `mps` …
        resume: continue the run in `out` from its last checkpoint; what is given besides must be as it was.
        progress: show a progress bar, or in a notebook a line now and then.

    Returns:
        The finished run and its best validation Dice.

    Examples:
        >>> run = fpgm.train("store", out="run", labeled="all", iterations=2000)  # doctest: +SKIP
    """
    from rich.console import Console

    from fpgm.training.start import start
    from fpgm.training.trainer import Stopped

    pairs = settings.items() if isinstance(settings, Mapping) else None
    try:
        trainer = start(
            Path(out),
            _path(store),
            method=method,
            labeled=None if labeled is None else str(labeled),
            split=None if split is None else os.fspath(split),
            preset=preset,
            iterations=iterations,
            seed=seed,
            base=_path(base),
            settings=list(settings) if pairs is None else [f"{key}={_yaml(value)}" for key, value in pairs],
            precision=precision,
            accelerator=accelerator,
            resume=resume,
            console=Console(markup=False) if progress else None,
        )
    except Stopped as stopped:
        advice = f"go on with fpgm.train(out={os.fspath(out)!r}, resume=True)"
        raise KeyboardInterrupt(f"stopped before step {stopped.step}, all is saved; {advice}") from None
    return _trained(Path(out), trainer.best_score)


def _trained(run: Path, best: Mapping[str, float]) -> Trained:
    from fpgm.runs.config import read_config

    config, step = read_config(run), int(best["step"])
    names = str(config["method"]), str(config["preset"])
    return Trained(run, *names, int(config["train"]["iterations"]), best["dice"] if step else None, step)


def _yaml(value: object) -> str:
    """Write a value as `--set` takes it; JSON is YAML."""
    import json

    return value if isinstance(value, str) else json.dumps(value)


def evaluate(
    run: PathLike,
    *,
    store: PathLike | None = None,
    images: PathLike | None = None,
    masks: PathLike | None = None,
    name: str | None = None,
    split: PathLike | None = None,
    datasets: Sequence[str] | None = None,
    device: str = "auto",
    workers: int = 1,
) -> Evaluated:
    """Score a run's model on the test images of each data set and on each unseen one; as `fpgm evaluate`.

    Args:
        run: folder of a finished run.
        store: the store with the run's split, the one it was trained on if not given; or another store, which is scored
            whole.
        images: folder of images that came after the training.
        masks: folder of their masks, with the same names.
        name: name of these images; that of their folder if not given.
        split: name or path of a split of another store, whose test and unseen images are scored.
        datasets: names of the data sets; all with test or unseen images if not given.
        device: device of the network: `auto`, `cpu`, `cuda` …
        workers: number of processes that compute the metrics.

    Returns:
        The scores of every image, and their means.

    Examples:
        >>> fpgm.evaluate("run", images="ward/images", masks="ward/masks", name="ward")  # doctest: +SKIP
    """
    from fpgm.evaluation import evaluate_any
    from fpgm.model import choose_device
    from fpgm.runs.results import read_result

    place = Path(run)
    evaluate_any(
        place,
        _path(store),
        _path(images),
        _path(masks),
        name=name,
        split=None if split is None else os.fspath(split),
        datasets=datasets,
        device=choose_device(device),
        workers=workers,
    )
    return Evaluated(place, read_result(place))


def predict(
    model: PathLike,
    images: PathLike | Sequence[PathLike],
    out: PathLike,
    *,
    save: Sequence[Kind] | None = None,
    threshold: float = 0.5,
    average: bool = False,
    keep_largest: bool = False,
    min_area: int | None = None,
    smoothing: float = 0.0,
    device: str = "auto",
) -> Predictions:
    """Find polyps in files, folders and films, and write the results to a folder; as `fpgm predict`.

    `fpgm.load_predictor` gives masks of single images in memory instead.

    Args:
        model: run folder, model folder, or ONNX file.
        images: a file, folder or pattern, or several of them; films need the extra `video`.
        out: folder to write to.
        save: `masks`, `probabilities`, `overlays`, `disagreements`, `films`; if not given, all of an image, and films
            of a film.
        threshold: least probability of the foreground.
        average: average over flips and turns.
        keep_largest: keep the largest polyp alone.
        min_area: least pixels of a polyp; if not given, the model's own.
        smoothing: of films, the seconds after which a past frame counts half; 0 for each frame alone.
        device: device of the network: `auto`, `cpu`, `cuda` …

    Returns:
        What was written, what was found, and the files that could not be read.

    Examples:
        >>> fpgm.predict("run", "film.mp4", out="predictions")  # doctest: +SKIP
    """
    from fpgm.serving.folders.inputs import find_sources
    from fpgm.serving.folders.predict import predict_files
    from fpgm.serving.pictures import SUFFIXES
    from fpgm.serving.predictor import load_predictor

    several = [images] if isinstance(images, str | os.PathLike) else images
    place = Path(out)
    sources = find_sources([os.fspath(one) for one in several], [place / kind for kind in SUFFIXES])
    predictor = load_predictor(
        model, device=device, threshold=threshold, average=average, keep_largest=keep_largest, min_area=min_area
    )
    return Predictions(place, predict_files(predictor, sources, place, save, smoothing=smoothing))


def adapt(
    model: PathLike,
    frames: PathLike | Sequence[PathLike],
    out: PathLike,
    *,
    masks: PathLike | None = None,
    own: float = 0.0,
    count: int = 64,
    device: str = "auto",
) -> AdaptedModel:
    """Fit a model to a new site with unlabelled frames; as `fpgm adapt`. Nothing is trained.

    Args:
        model: run folder or model folder.
        frames: a file, folder or pattern, or several of them; or a data set of a store, as STORE/NAME.
        out: model folder to write; it must not exist.
        masks: folder with masks of some of the frames, to report Dice before and after.
        own: share of each image's own statistics at prediction.
        count: largest number of frames; if there are more, this many are taken, evenly spaced.
        device: device of the network: `auto`, `cpu`, `cuda` …

    Returns:
        The model and what was measured on the frames.

    Examples:
        >>> fpgm.adapt("run", "frames-of-the-site", "adapted")  # doctest: +SKIP
    """
    from fpgm.serving.adapt import adapt as fit

    several = [frames] if isinstance(frames, str | os.PathLike) else frames
    sources = [os.fspath(one) for one in several]
    adapted = fit(Path(model), sources, Path(out), masks=_path(masks), own=own, count=count, device=device)
    return AdaptedModel(Path(out), adapted.card, tuple(adapted.problems))


def _path(given: PathLike | None) -> Path | None:
    return None if given is None else Path(given)
