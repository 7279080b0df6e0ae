"""Cross-validation: how well a setting does where there are too few masks to set some aside."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from fpgm.config import RunConfig
from fpgm.data.batches.pool import Pool
from fpgm.data.splits.folds import LabeledFold, labeled_folds
from fpgm.data.splits.split import Split, split_folder
from fpgm.data.store import open_stores
from fpgm.model import load_model
from fpgm.runs.cross_validation import CrossValidation, FoldScore, read_cross_validation, write_cross_validation
from fpgm.runs.folder import RunFolder
from fpgm.training.run import train

# settings that change no result, or that a run may give another name: `auto` becomes what it stands for
_FREE: Mapping[str, set[str] | bool] = {"version": True, "data": {"workers", "labeled"}, "train": {"precision"}}


def cross_validate(
    config: RunConfig,
    folder: Path,
    count: int,
    *,
    resume: bool = False,
    accelerator: str = "auto",
    console: Console | None = None,
) -> CrossValidation:
    """Train `count` times, each time without one fold of the labelled images, and score each network on its fold.

    The trainings are in a temporary folder; what is kept is ``cross_validation.json``, written after every fold. The
    weights are chosen as those of the run: by the validation images of the split if there are some.

    Args:
        config: the configuration of the run; `data.labeled` may be `auto`.
        folder: run folder.
        count: number of folds.
        resume: keep the folds that are done; one that was under way begins anew.
        accelerator: kind of device, as in Lightning Fabric.
        console: where progress is shown; None for nowhere.
    """
    split = Split.load(split_folder(config.data.store, config.data.split))
    folds = labeled_folds(open_stores(config.data.store), split, config.data.labeled, count)
    record = _begin(folder, CrossValidation(count=count, settings_sha256=_sha256(config, split)), resume)
    for number in range(len(record.folds), count):
        if console is not None:
            console.print(f"fold {number + 1} of {count}", highlight=False)
        score = _score(config, folds[number], accelerator, console)
        record = record.model_copy(update={"folds": (*record.folds, score)})
        write_cross_validation(folder, record)
    return record


def _begin(folder: Path, empty: CrossValidation, resume: bool) -> CrossValidation:
    """Return the record to go on with, and refuse a folder that holds something else."""
    known = read_cross_validation(folder)
    if not resume and (known or RunFolder(folder).config.is_file()):
        raise ValueError(f"{folder} holds a run already: continue it with --resume, or give another --out")
    if known and (known.count, known.settings_sha256) != (empty.count, empty.settings_sha256):
        raise ValueError(f"{folder} was cross-validated with other settings or images. Give it another --out")
    return known or empty


def _score(config: RunConfig, fold: LabeledFold, accelerator: str, console: Console | None) -> FoldScore:
    """Train without a fold and score its images."""
    with TemporaryDirectory() as name:
        place = Path(name)
        fold.split.save(place / "split")
        # an absolute name of a split stands for itself
        data = config.data.model_copy(update={"split": str(place / "split"), "labeled": str(fold.labeled)})
        trainer = train(
            config.model_copy(update={"data": data}), place / "run", accelerator=accelerator, console=console
        )
        pool = Pool(open_stores(config.data.store), fold.held_out)
        return FoldScore(images=len(pool), dice=trainer.score(pool, load_model(place / "run")[0]))


def _sha256(config: RunConfig, split: Split) -> str:
    """Return a hash of all that decides the folds and their scores."""
    labeled = len(split.labeled(config.data.labeled))
    record = config.model_dump(mode="json", serialize_as_any=True, exclude=_FREE)
    return hashlib.sha256(json.dumps([record, split.train_sha256(), labeled], sort_keys=True).encode()).hexdigest()
