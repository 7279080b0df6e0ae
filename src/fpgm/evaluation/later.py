"""Images that came after the training, from any hospital: scored with a run's model once none was trained on."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fpgm.data.image_facts import ImageHash, Overlap, find_overlap, image_hashes
from fpgm.data.parallel import Workers
from fpgm.data.raw.layouts import own_folders
from fpgm.data.raw.prepare import prepare
from fpgm.data.splits.split import Split, dataset_of, split_folder
from fpgm.data.store import open_stores
from fpgm.evaluation.run import Advance, ImageSet, choose, evaluate_run, evaluate_sets, held_out, make_header, read_run
from fpgm.files import sole_writer
from fpgm.runs.card import ModelCard
from fpgm.runs.evaluation import Evaluation, read_evaluation
from fpgm.runs.folder import RunFolder
from fpgm.runs.images import TrainingImages, describe_training_images, read_training_images

if TYPE_CHECKING:
    import torch

WHOLE = "all"  # the split that is none: every image with a mask
_SHOWN = 3  # ids in a message


def evaluate_any(
    run: Path,
    store: Path | None = None,
    images: Path | None = None,
    masks: Path | None = None,
    *,
    name: str | None = None,
    split: str | None = None,
    datasets: Sequence[str] | None = None,
    **options: Any,
) -> Sequence[str] | None:
    """Score what a user asks for, and return the names of the data sets; None for all of the run's split.

    Args:
        run: folder of a finished run.
        store: the store of the run, if not given, or another one, as `evaluate_later` takes it.
        images: folder of images that came after the training, as `evaluate_folders` takes it.
        masks: folder of their masks.
        name: name of these images; that of their folder if not given.
        split: split of another store.
        datasets: names of the data sets of a store.
        options: device, workers and advance of `evaluate_run`.
    """
    if (images is None) != (masks is None):
        raise ValueError("give --images and --masks together: scores compare predictions with masks")
    if images is not None and masks is not None:
        if store is not None or datasets is not None or split is not None:
            raise ValueError("give either --images with --masks, or --data: --datasets and --split choose from a store")
        name = name or images.resolve().name
        evaluate_folders(run, images, masks, name, **options)
        return [name]
    if name is not None:
        raise ValueError("--name names the images of --images and --masks: give these too")
    if split is not None and store is None:
        raise ValueError("--split is a split of another store: give that as --data")
    if store is not None and is_later(run, store, split):
        return evaluate_later(run, store, datasets, split=split, **options)
    evaluate_run(run, store, datasets, **options)
    return datasets


def is_later(run: Path, store: Path | None, split: str | None) -> bool:
    """Whether a store is not the one of the run's split: it is asked for by a split, or has none of that name."""
    if store is None or split is not None:
        return split is not None
    return store.is_dir() and not (store / "splits" / str(read_run(run)[0]["split"])).is_dir()


def evaluate_later(
    run: Path,
    store: Path,
    datasets: Sequence[str] | None = None,
    *,
    split: str | None = None,
    device: torch.device,
    workers: int = 1,
    advance: Advance = lambda name, done, total: None,
) -> list[str]:
    """Score a run's model on another store, of images that came after the training; return the names of the data sets.

    A store with an image the run was trained or validated with is refused. Near duplicates are listed in the record.

    Args:
        run: folder of a finished run.
        store: the store, of the model's size.
        datasets: names of its data sets; all if not given.
        split: name or folder of a split of the store, whose test and unseen images are scored; if not given or `all`,
            every image that has a mask is.
        device: see `evaluate_run`, as for all others.
        workers: number of processes.
        advance: called with the progress.
    """
    _, card = read_run(run)
    ids = _split_ids(store, split) if split not in (None, WHOLE) else _labeled_ids(store)
    chosen = choose(ids, datasets, f"{store} has no images with masks of")
    known = _known_images(run, card)
    header = _header(run, card, known)
    where = RunFolder(run).later_images
    place = where.relative_to(run).as_posix() if store == where else str(store.resolve())
    sets = {name: _image_set(run, name, store, ids[name], known, card, place) for name in chosen}
    evaluate_sets(run, header, sets, chosen, store=None, device=device, workers=workers, advance=advance)
    return chosen


def evaluate_folders(
    run: Path,
    images: Path,
    masks: Path,
    name: str,
    *,
    device: torch.device,
    workers: int = 1,
    advance: Advance = lambda name, done, total: None,
) -> None:
    """Prepare folders of images and masks at the model's size in the run folder, and score them as `evaluate_later`.

    Args:
        run: folder of a finished run.
        images: folder of images.
        masks: folder of their masks, with the same names.
        name: name of the data set.
        device: see `evaluate_later`, as for all others.
        workers: number of processes that decode, and then compute the metrics.
        advance: called with the progress.
    """
    _, card = read_run(run)
    found, place = own_folders(name, images, masks), RunFolder(run).later_images
    new = not (place / name).exists()
    try:
        with sole_writer(run), Workers(workers) as pool:
            outcome = prepare(found, place, card.size, pool, advance, replace=True)
        if outcome.manifest is None:
            first = f": {outcome.problems[0].file}: {outcome.problems[0].reason}" if outcome.problems else ""
            raise ValueError(f"nothing usable in {images} and {masks}{first}")
        evaluate_later(run, place, [name], device=device, workers=workers, advance=advance)
    except ValueError:
        if new:
            shutil.rmtree(place / name, ignore_errors=True)
        raise


def _split_ids(store: Path, split: str | None) -> dict[str, tuple[str, ...]]:
    """Return the test and unseen images of a split by data set."""
    return {name: held.ids for name, held in held_out(Split.load(split_folder(store, split))).items()}


def _labeled_ids(store: Path) -> dict[str, tuple[str, ...]]:
    """Return the images with masks of each data set that has any."""
    if not store.is_dir():
        raise FileNotFoundError(
            f"there is no store {store}; make one with `fpgm data prepare`, or give --images and --masks"
        )
    found: dict[str, tuple[str, ...]] = {}
    for name, one in open_stores(store).items():
        ids = tuple(f"{name}/{id_}" for id_, has in zip(one.ids, one.has_mask, strict=True) if has)
        found |= {name: ids} if ids else {}
    if not found:
        raise ValueError(f"{store} has no image with a mask: there is nothing to compare a prediction with")
    return found


def _known_images(run: Path, card: ModelCard) -> TrainingImages | None:
    """Return the images of the training: as the run lists them, or from its store; None where neither is there."""
    if (listed := read_training_images(run)) is not None:
        return listed
    data, _ = read_run(run)
    try:
        split = Split.load(split_folder(Path(data["store"]), str(data["split"])))
        if split.train_sha256() != card.training.get("train_sha256"):
            return None
        return _hash_training_images(Path(data["store"]), split, str(data["labeled"]))
    except (OSError, ValueError):
        return None


def _hash_training_images(store: Path, split: Split, labeled: str) -> TrainingImages:
    """Hash all images of a store that a run with this split was trained or validated with."""
    from fpgm.data.batches.pool import Pool

    stores = open_stores(store)
    parts = {"labeled": split.labeled(labeled), "unlabeled": split.unlabeled(labeled), "validation": split.validation}
    return describe_training_images(split, {name: Pool(stores, ids) if ids else None for name, ids in parts.items()})


def _header(run: Path, card: ModelCard, known: TrainingImages | None) -> Evaluation:
    """Return the head of the record; where nothing tells the split, its protocol is `unknown`."""
    name = str(read_run(run)[0]["split"])
    if known is not None:
        return make_header(card, name, known.protocol, known.split_seed, known.left_out)
    try:
        record = read_evaluation(run)
    except (OSError, ValueError):
        return make_header(card, name, "unknown", 0)
    return make_header(card, name, record.protocol, record.split_seed, record.left_out)


def _image_set(
    run: Path,
    name: str,
    store: Path,
    ids: tuple[str, ...],
    known: TrainingImages | None,
    card: ModelCard,
    place: str,
) -> ImageSet:
    """Describe images that came later, once none of them turns out to be a training image."""
    facts: dict[str, Any] = {"unseen": True, "after_training": True, "store": place, "near_duplicates": None}
    if known is not None:
        _refuse_name(run, name, known.images)
        overlap = _overlap(store, name, ids, known)
        _refuse_overlap(run, name, len(ids), overlap)
        facts["near_duplicates"] = overlap.near
    return ImageSet(store, ids, facts)


def _overlap(store: Path, name: str, ids: tuple[str, ...], known: TrainingImages) -> Overlap:
    from fpgm.data.batches.pool import Pool

    return find_overlap(image_hashes(Pool(open_stores(store, [name]), ids)), known.images)


def _refuse_name(run: Path, name: str, known: Sequence[ImageHash]) -> None:
    if name in {dataset_of(one.id) for one in known}:
        raise ValueError(
            f"{run} was trained with a data set {name}: give the new images another name, with --name for folders, "
            "or by `fpgm data prepare … --name`"
        )


def _refuse_overlap(run: Path, name: str, count: int, overlap: Overlap) -> None:
    if overlap.exact:
        pairs = ", ".join(f"{new} is {old}" for new, old in overlap.exact[:_SHOWN])
        raise ValueError(
            f"{len(overlap.exact)} of {count} images of {name} are training or validation images of {run} ({pairs}"
            f"{', …' * (len(overlap.exact) > _SHOWN)}): scores on them would say nothing; leave them out"
        )
