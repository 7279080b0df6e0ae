"""A predictor and labelled images → per-image rows; a run folder → the files of its evaluation.

The files are those of `fpgm.runs.evaluation` and `fpgm.runs.scores`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fpgm.data.catalog import find
from fpgm.data.manifest import MANIFEST
from fpgm.data.parallel import Workers
from fpgm.data.splits.split import Split, dataset_of
from fpgm.data.store import open_stores
from fpgm.files import file_sha256, sole_writer
from fpgm.metrics import reported_metrics
from fpgm.runs.card import CARD, ModelCard, read_card
from fpgm.runs.config import read_config
from fpgm.runs.evaluation import (
    EvaluatedSet,
    Evaluation,
    describe_files,
    masks_file,
    read_evaluation,
    scores_file,
    write_masks,
)
from fpgm.runs.folder import RunFolder
from fpgm.runs.scores import Row, write_rows
from fpgm.runs.writing import write_evaluation

if TYPE_CHECKING:  # the processes that compute metrics import this module, and have no need of torch
    import torch
    from torch import nn

    from fpgm.data.batches.pool import Pool

Mask = NDArray[np.bool_]
Advance = Callable[[str, int, int], None]


class NonFiniteOutput(ValueError):
    """A network gave a value that is not finite, of which no mask can be made."""

    def __init__(self) -> None:
        super().__init__(
            "the network gives values that are not finite, of which no mask can be made: its training has diverged. "
            "Train it again with a lower optimizer.lr or with --precision 32-true"
        )


class Scored(NamedTuple):
    """A row, and the predicted mask (S, ceil(S / 8)) with eight pixels in a byte."""

    row: Row
    packed: NDArray[np.uint8]


class HeldOut(NamedTuple):
    """Images of a data set that are kept from training; `unseen` if the whole set is."""

    ids: tuple[str, ...]
    unseen: bool


def predict_masks(predictor: nn.Module, images: NDArray[np.uint8], device: torch.device) -> Mask:
    """Masks (n, S, S) of prepared images (n, S, S, 3): the most likely class is not the background."""
    import torch

    with torch.no_grad():
        batch = torch.from_numpy(images).to(device).permute(0, 3, 1, 2).float().div_(255)
        logits = predictor(batch)
        if not bool(torch.isfinite(logits).all()):
            raise NonFiniteOutput
        masks: Mask = (logits[:, 1:].amax(1) > logits[:, 0]).cpu().numpy()  # argmax takes 90 times as long on a CPU
    return masks


def score(item: tuple[str, Mask, NDArray[np.uint8]]) -> Scored:
    """Compare a predicted mask (S, S) with the true one, by our rules and as the released code does."""
    id_, mask, truth = item
    predicted, true = int(np.count_nonzero(mask)), int(np.count_nonzero(truth))
    scores, released = reported_metrics(mask, truth)
    beside = {f"released_{name}": value for name, value in released.items()}
    row = Row(id_, **scores, **beside, predicted=predicted, true=true)
    return Scored(row, np.packbits(mask, axis=-1))


def compare(
    predictor: nn.Module, pool: Pool, *, device: torch.device, batch_size: int = 16, workers: Workers | None = None
) -> Iterator[Scored]:
    """Compare the predictor with the truth on every image of a pool, in its order.

    Args:
        predictor: (B, 3, H, W) in [0, 1] → logits; evaluated as it is, in evaluation mode.
        pool: images with masks.
        device: device of the predictor.
        batch_size: number of images in a pass.
        workers: processes that compute the metrics while the network goes on; this one if not given.
    """

    def predicted() -> Iterator[tuple[str, Mask, NDArray[np.uint8]]]:
        for start in range(0, len(pool), batch_size):
            chosen = np.arange(start, min(start + batch_size, len(pool)))
            masks = predict_masks(predictor, pool.images(chosen), device)
            yield from zip((pool.ids[i] for i in chosen), masks, pool.masks(chosen), strict=True)

    was_training = predictor.training
    predictor.eval()
    try:
        yield from (workers or Workers()).map(score, predicted())
    finally:
        predictor.train(was_training)


def evaluate(predictor: nn.Module, pool: Pool, *, device: torch.device) -> list[Row]:
    """Return the rows of `compare`, computed in this process."""
    return [row for row, _ in compare(predictor, pool, device=device)]


def evaluate_pools(
    predictor: nn.Module,
    pools: Mapping[str, Pool],
    run: Path,
    *,
    device: torch.device,
    workers: int = 1,
    advance: Advance = lambda name, done, total: None,
) -> None:
    """Score a predictor on each pool and write scores and masks to a run folder; see `compare` and `evaluate_run`."""
    with Workers(workers) as processes:
        for name, pool in pools.items():
            scored = []
            for one in compare(predictor, pool, device=device, workers=processes):
                scored.append(one)
                advance(name, len(scored), len(pool))
            write_rows(scores_file(run, name), (one.row for one in scored))
            write_masks(masks_file(run, name), np.stack([one.packed for one in scored]))


def evaluate_run(
    run: Path,
    store: Path | None = None,
    datasets: Sequence[str] | None = None,
    *,
    device: torch.device,
    workers: int = 1,
    advance: Advance = lambda name, done, total: None,
) -> Path:
    """Score a run's model on the test images of each data set and on each unseen one; return the folder written.

    What is there already of the same weights and images is kept: a second call computes nothing.

    Args:
        run: folder of a finished run.
        store: the store with the run's split; the one it was trained on if not given.
        datasets: names of the data sets; all that have test or unseen images if not given.
        device: device of the network, which computes in float32.
        workers: number of processes that compute metrics.
        advance: called with a data set, the number of its images that are done, and of all its images.
    """
    from fpgm.model import load_model

    data, card = _read_run(run)
    place, name = store or Path(data["store"]), str(data["split"])
    split = _read_split(run, place, name, card)
    sets = held_out(split)
    header = Evaluation(
        weights_sha256=card.weights_sha256,
        size=card.size,
        protocol=split.protocol,
        split=name,
        split_seed=split.seed,
        left_out=split.left_out,
    )
    chosen = _choose(sets, datasets)
    if not _kept(run, header, place, sets).issuperset(chosen):
        with sole_writer(run):
            kept = _kept(run, header, place, sets)
            todo = {name: sets[name] for name in chosen if name not in kept}
            pools, predictor = _pools(place, todo, card.size), load_model(run)[0].to(device)
            _write_record(run, header, place, sets, kept)
            evaluate_pools(predictor, pools, run, device=device, workers=workers, advance=advance)
            _write_record(run, header, place, sets, kept.union(todo))
    return RunFolder(run).evaluation


def held_out(split: Split) -> dict[str, HeldOut]:
    """Return the test or unseen images of each data set that has any."""
    sets = {}
    for name, counts in split.counts().items():
        if counts["test"] and counts["unseen"]:
            raise ValueError(f"{name} has test images and unseen ones: hold it out whole, or not at all")
        if counts["test"] or counts["unseen"]:
            ids = tuple(id_ for id_ in (*split.test, *split.unseen) if dataset_of(id_) == name)
            sets[name] = HeldOut(ids, bool(counts["unseen"]))
    if not sets:
        raise ValueError("the split has neither test nor unseen images: there is nothing to evaluate")
    return sets


def _read_run(run: Path) -> tuple[Mapping[str, Any], ModelCard]:
    """Return the data section of a finished run's settings, and the card of its model."""
    folder = RunFolder(run)
    folder.require_config()
    if not (folder.model / CARD).is_file():
        raise FileNotFoundError(
            f"{run} is not finished: it has no model/{CARD}; go on with `fpgm train … --out {run} --resume`"
        )
    return read_config(run)["data"], read_card(folder.model)


def _read_split(run: Path, place: Path, name: str, card: ModelCard) -> Split:
    """Read the split the run was trained with; another one of the same name could have its train images in test."""
    if not place.is_dir():
        raise FileNotFoundError(f"there is no store {place}; give that of {run}, with its split {name}, as --data")
    if not (place / "splits" / name).is_dir():
        raise FileNotFoundError(f"{place} has no split {name}, with which {run} was trained; give its store as --data")
    split = Split.load(place / "splits" / name)
    if split.train_sha256() != card.training.get("train_sha256"):
        raise ValueError(
            f"split {name} of {place} is not the one {run} was trained with: their train images differ; "
            "give the store of the run as --data"
        )
    return split


def _choose(sets: Mapping[str, HeldOut], names: Sequence[str] | None) -> list[str]:
    """Return the keys of data sets given by name or alias, or all."""
    chosen = [known.key if (known := find(name)) else name for name in names or sets]
    if unknown := [name for name in chosen if name not in sets]:
        raise ValueError(f"the split has no test or unseen images of {', '.join(unknown)}, only of {', '.join(sets)}")
    return chosen


def _kept(run: Path, header: Evaluation, place: Path, sets: Mapping[str, HeldOut]) -> set[str]:
    """Return the data sets that were evaluated before: same weights, same images, files unchanged."""
    try:
        record = read_evaluation(run)
    except (OSError, ValueError):
        return set()  # none, or of another format
    if not record.fits(header):
        return set()
    known = record.datasets
    return {name for name in sets if name in known and known[name] == _entry(run, place, name, sets[name])}


def _entry(run: Path, place: Path, name: str, held: HeldOut) -> EvaluatedSet | None:
    """Describe the files of a data set, and by `source_sha256` the images they were made of."""
    source = "\n".join((*held.ids, file_sha256(place / name / MANIFEST)))
    digest = hashlib.sha256(source.encode()).hexdigest()
    return describe_files(run, name, images=len(held.ids), unseen=held.unseen, source_sha256=digest)


def _pools(place: Path, sets: Mapping[str, HeldOut], size: int) -> dict[str, Pool]:
    from fpgm.data.batches.pool import Pool

    stores = open_stores(place, list(sets))
    pools = {name: Pool(stores, held.ids) for name, held in sets.items()}
    for name, pool in pools.items():
        if pool.size != size:
            raise ValueError(
                f"the model was trained on images of {size} x {size} pixels, but {place / name} holds "
                f"{pool.size} x {pool.size}: give a store made with --size {size} as --data"
            )
    return pools


def _write_record(
    run: Path, header: Evaluation, place: Path, sets: Mapping[str, HeldOut], names: Collection[str]
) -> None:
    """List these data sets as evaluated, and remove the files of all others."""
    found = {name: _entry(run, place, name, held) for name, held in sets.items() if name in names}
    entries = {name: entry for name, entry in found.items() if entry}
    record = header.model_copy(update={"datasets": entries})
    write_evaluation(run, record, store=place, stale=sets.keys() - entries.keys())
