"""A run and the images of its split → the files of its evaluation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fpgm.data.catalog import find
from fpgm.data.manifest import MANIFEST
from fpgm.data.parallel import Workers
from fpgm.data.splits.split import Split, dataset_of
from fpgm.data.store import open_stores
from fpgm.evaluation.scoring import compare_in_detail
from fpgm.files import file_sha256, sole_writer
from fpgm.runs.card import CARD, ModelCard, read_card
from fpgm.runs.config import read_config
from fpgm.runs.details import write_details
from fpgm.runs.evaluation import (
    EvaluatedSet,
    Evaluation,
    describe_files,
    details_file,
    masks_file,
    read_evaluation,
    recorded_names,
    scores_file,
    write_masks,
)
from fpgm.runs.folder import RunFolder
from fpgm.runs.scores import write_rows
from fpgm.runs.writing import write_evaluation

if TYPE_CHECKING:  # the processes that compute metrics import this package, and have no need of torch
    import torch
    from torch import nn

    from fpgm.data.batches.pool import Pool

Advance = Callable[[str, int, int], None]


class HeldOut(NamedTuple):
    """Images of a data set that are kept from training; `unseen` if the whole set is."""

    ids: tuple[str, ...]
    unseen: bool


class ImageSet(NamedTuple):
    """Images of one data set of a store, and what the record says of them beside their number."""

    store: Path
    ids: tuple[str, ...]
    facts: Mapping[str, Any]


def evaluate_pools(
    predictor: nn.Module,
    pools: Mapping[str, Pool],
    run: Path,
    *,
    device: torch.device,
    temperature: float = 1.0,
    least_area: int = 0,
    workers: int = 1,
    advance: Advance = lambda name, done, total: None,
) -> None:
    """Score a predictor on each pool and write scores, masks and details to a run folder; see `compare_in_detail`."""
    with Workers(workers) as processes:
        for name, pool in pools.items():
            examined = []
            options: dict[str, Any] = {"device": device, "temperature": temperature, "least_area": least_area}
            for one in compare_in_detail(predictor, pool, workers=processes, **options):
                examined.append(one)
                advance(name, len(examined), len(pool))
            write_rows(scores_file(run, name), (one.scored.row for one in examined))
            write_masks(masks_file(run, name), np.stack([one.scored.packed for one in examined]))
            write_details(details_file(run, name), (one.details for one in examined))


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
    data, card = read_run(run)
    place, name = store or Path(data["store"]), str(data["split"])
    split = _read_split(run, place, name, card)
    held = held_out(split)
    header = make_header(card, Path(name).name, split.protocol, split.seed, split.left_out, split.draw)
    sets = {key: ImageSet(place, one.ids, {"unseen": one.unseen}) for key, one in held.items()}
    chosen = choose(sets, datasets, "the split has no test or unseen images of")
    evaluate_sets(run, header, sets, chosen, store=place, device=device, workers=workers, advance=advance)
    return RunFolder(run).evaluation


def evaluate_sets(
    run: Path,
    header: Evaluation,
    sets: Mapping[str, ImageSet],
    chosen: Collection[str],
    *,
    store: Path | None,
    device: torch.device,
    workers: int,
    advance: Advance,
) -> None:
    """Score what is not there yet of the chosen sets, and bring the record up to date.

    Args:
        run: run folder.
        header: what the record says of weights and split.
        sets: the sets that are described here; other ones that came after the training stay as they are.
        chosen: names of those to score.
        store: store with the run's split, for the counts of the model card.
        device: device of the network.
        workers: number of processes that compute metrics.
        advance: see `evaluate_run`.
    """
    from fpgm.model import load_model

    if not _kept(run, header, sets).issuperset(chosen):
        with sole_writer(run):
            kept = _kept(run, header, sets)
            todo = {name: sets[name] for name in chosen if name not in kept}
            pools = _pools(todo, header.size)
            predictor, card = load_model(run)
            _write_record(run, header, sets, kept, store)
            options: dict[str, Any] = {"device": device, "workers": workers, "advance": advance}
            options |= {"temperature": card.temperature, "least_area": card.least_pixels(card.size**2)}
            evaluate_pools(predictor.to(device), pools, run, **options)
            _write_record(run, header, sets, kept.union(todo), store)


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


def make_header(card: ModelCard, split: str, protocol: str, seed: int, left_out: str = "", draw: int = 0) -> Evaluation:
    """Return a record without data sets; `split` is the name of the split, or its folder."""
    return Evaluation(
        weights_sha256=card.weights_sha256,
        size=card.size,
        protocol=protocol,
        split=Path(split).name,
        split_seed=seed,
        left_out=left_out,
        draw=draw,
    )


def read_run(run: Path) -> tuple[Mapping[str, Any], ModelCard]:
    """Return the data section of a finished run's settings, and the card of its model."""
    folder = RunFolder(run)
    folder.require_config()
    if not (folder.model / CARD).is_file():
        raise FileNotFoundError(
            f"{run} is not finished: it has no model/{CARD}; go on with `fpgm train … --out {run} --resume`"
        )
    return read_config(run)["data"], read_card(folder.model)


def choose(sets: Mapping[str, Any], names: Sequence[str] | None, refusal: str) -> list[str]:
    """Return the keys of data sets given by name or alias, or all."""
    chosen = [known.key if (known := find(name)) else name for name in names or sets]
    if unknown := [name for name in chosen if name not in sets]:
        raise ValueError(f"{refusal} {', '.join(unknown)}, only of {', '.join(sets)}")
    return chosen


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
            "give the store of the run as --data, or for images that came after the training say --split all"
        )
    return split


def _kept(run: Path, header: Evaluation, sets: Mapping[str, ImageSet]) -> set[str]:
    """Return those of the sets that were evaluated before: same weights, same images, files unchanged."""
    known = _known(run, header)
    return {name for name in sets if name in known and known[name] == _entry(run, name, sets[name])}


def _known(run: Path, header: Evaluation) -> Mapping[str, EvaluatedSet]:
    """Return the data sets of the record, if it is of the same weights, split and format."""
    try:
        record = read_evaluation(run)
    except (OSError, ValueError):
        return {}  # none, or of another format
    return record.datasets if record.fits(header) else {}


def _entry(run: Path, name: str, images: ImageSet) -> EvaluatedSet | None:
    """Describe the files of a data set, and by `source_sha256` the images they were made of."""
    source = "\n".join((*images.ids, file_sha256(images.store / name / MANIFEST)))
    digest = hashlib.sha256(source.encode()).hexdigest()
    return describe_files(run, name, images=len(images.ids), source_sha256=digest, **images.facts)


def _pools(sets: Mapping[str, ImageSet], size: int) -> dict[str, Pool]:
    """Open the images of all sets, which are of one store."""
    from fpgm.data.batches.pool import Pool

    place = next(iter(sets.values())).store
    stores = open_stores(place, list(sets))
    pools = {name: Pool(stores, one.ids) for name, one in sets.items()}
    for name, pool in pools.items():
        if pool.size != size:
            raise ValueError(
                f"the model was trained on images of {size} x {size} pixels, but {place / name} holds "
                f"{pool.size} x {pool.size}: give a store made with --size {size} as --data"
            )
    return pools


def _write_record(
    run: Path, header: Evaluation, sets: Mapping[str, ImageSet], names: Collection[str], store: Path | None
) -> None:
    """List these data sets as evaluated beside those that stay, and remove the files of all others."""
    entries = _staying(run, header, sets)
    found = {name: _entry(run, name, one) for name, one in sets.items() if name in names}
    entries |= {name: entry for name, entry in found.items() if entry}
    record = header.model_copy(update={"datasets": entries})
    stale = (recorded_names(run) | sets.keys()) - entries.keys()
    write_evaluation(run, record, store=store, stale=stale)


def _staying(run: Path, header: Evaluation, sets: Mapping[str, ImageSet]) -> dict[str, EvaluatedSet]:
    """Return the entries that are none of the sets and whose files are unchanged.

    The run's own sets stay only beside sets that came after the training: else `sets` has all of them.
    """
    later = all(one.facts.get("after_training") for one in sets.values())
    entries = {}
    for name, entry in _known(run, header).items():
        now = describe_files(run, name, **_facts(entry))
        if name not in sets and (later or entry.after_training) and now == entry:
            entries[name] = entry
    return entries


def _facts(entry: EvaluatedSet) -> dict[str, Any]:
    return entry.model_dump(exclude={"sha256", "masks_sha256", "details_sha256"})
