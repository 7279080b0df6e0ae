"""Time estimate of a plan, from real steps on the real store."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fpgm.config import RunConfig
from fpgm.data.batches.pool import Pool
from fpgm.data.splits.split import Split
from fpgm.data.store import open_stores
from fpgm.evaluation import evaluate
from fpgm.experiments.cells import is_done
from fpgm.experiments.plan import Cell
from fpgm.experiments.work import trained
from fpgm.runs.metrics import read_metrics
from fpgm.training.run import build_method
from fpgm.training.trainer import Trainer

STEPS = 3  # measured per stage; the quickest counts, because the first ones warm up and others disturb
_IMAGES = 8


@dataclass(frozen=True)
class Cost:
    """Seconds of a training step, and of predicting and scoring an image."""

    step: float
    image: float

    def run_seconds(self, config: RunConfig, split: Split) -> float:
        """Seconds of a whole run: its steps, its validations, its evaluation."""
        validations = math.ceil(config.train.iterations / config.train.validate_every)
        images = validations * len(split.validation) + len(split.test) + len(split.unseen)
        return config.train.iterations * self.step + images * self.image


def kind(cell: Cell) -> tuple[str, ...]:
    """Return what decides the cost of a step: method and settings, without the guidance strength."""
    return (cell.variant.method, *(entry for entry in cell.variant.settings if not entry.startswith("method.gamma=")))


def times(
    cells: Iterable[Cell],
    splits: Mapping[str, Split],
    *,
    accelerator: str,
    before_measuring: Callable[[Cell], None] = lambda cell: None,
) -> dict[Cell, tuple[float, float]]:
    """Return the seconds of a step and of the whole run, for each cell that is not done.

    Args:
        cells: cells of a plan.
        splits: their splits by name.
        accelerator: accelerator of the training, as `fpgm train` takes it.
        before_measuring: called with a cell before its steps are measured, once for each kind.
    """
    costs: dict[tuple[str, ...], Cost] = {}
    found = {}
    for cell in cells:
        if not is_done(cell.folder):
            if kind(cell) not in costs:
                before_measuring(cell)
                split = splits[cell.split]
                costs[kind(cell)] = measure(cell, split, accelerator=accelerator)
            cost = costs[kind(cell)]
            found[cell] = cost.step, cost.run_seconds(cell.config(), splits[cell.split])
    return found


def measure(cell: Cell, split: Split, *, accelerator: str) -> Cost:
    """Train a cell for a few steps in a temporary folder; store and run folder are not touched."""
    count = math.ceil(STEPS / min(stage.share for stage in build_method(cell.config())[0].stages))
    few = [f"train.{name}={count}" for name in ("iterations", "validate_every", "save_every")]
    few += ["train.log_every=1", "train.pictures_every=0"]
    with TemporaryDirectory() as folder:
        place = Path(folder)
        replace(split, validation=split.validation[:_IMAGES]).save(place / "split")
        # an absolute name of a split stands for itself
        brief = replace(cell, folder=place, split=str(place / "split"), settings=(*cell.settings, *few))
        trainer = trained(brief, accelerator)
        quickest = _quickest(read_metrics(place))
    step = sum(stage.share * quickest[stage.name] for stage in trainer.method.stages)
    scored = split.validation or split.labeled("all")
    return Cost(step, _image_seconds(trainer, Pool(open_stores(cell.store), scored[:_IMAGES])))


def _quickest(rows: Iterable[Mapping[str, str]]) -> Mapping[str, float]:
    """Return the seconds of the quickest step of each stage."""
    quickest: dict[str, float] = {}
    for row in rows:
        quickest[row["stage"]] = min(1 / float(row["it/s"]), quickest.get(row["stage"], math.inf))
    return quickest


def _image_seconds(trainer: Trainer, pool: Pool) -> float:
    """Return the seconds to predict and score an image, as validation does it."""
    seconds = []
    for _ in range(STEPS):
        began = time.perf_counter()
        with trainer.fabric.autocast():
            evaluate(trainer.method.predictor(), pool, device=trainer.fabric.device)
        seconds.append(time.perf_counter() - began)
    return min(seconds) / len(pool)
