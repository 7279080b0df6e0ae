"""The loop: before_step → losses → backward → step → after_step, on any device, from any step on."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.optim import Optimizer

from fpgm.data.batches.batch import Batch
from fpgm.data.batches.pool import Array, Pool
from fpgm.data.batches.streams import Stream
from fpgm.evaluation import NonFiniteOutput, evaluate, predict_masks
from fpgm.files import write_text
from fpgm.methods import Method, Stage, Step
from fpgm.methods.base import StepInput
from fpgm.methods.parts.teachers import averaging_decay, frozen_copy, move_teacher
from fpgm.runs.folder import RunFolder
from fpgm.training import checkpoint
from fpgm.training.devices import on_rank_zero
from fpgm.training.schedules import Schedule, first_steps, learning_rate, step_generator, step_seed
from fpgm.training.telemetry import Telemetry

NOTHING_YET = {"dice": -1.0, "step": 0}


class Stopped(Exception):
    """The run was asked to stop; everything up to `step` is saved. `rank` is that of this process."""

    def __init__(self, step: int, rank: int) -> None:
        super().__init__(f"stopped before step {step}")
        self.step, self.rank = step, rank


class Trainer:
    """Trains a method and keeps its run folder so that it can be killed at any moment and go on.

    What a step computes depends on seed and step alone: batches, random draws and learning rate are functions of them,
    and all else is in the checkpoint. So a resumed run gives the weights of one that was never interrupted.

    Args:
        fabric: devices, precision and ranks, already launched.
        method: method to train, with the same weights on all ranks.
        optimizer: main optimiser, over `method.parameter_groups()`.
        folder: run folder.
        iterations: number of steps.
        schedule: schedule of the learning rate: `poly`, with `power`, or `cosine`.
        power: exponent of `poly`.
        warmup: number of steps over which the learning rate rises from 0.
        average: decay of the averaged weights that are validated and shipped instead of the raw ones; 0 for none. A
            method that ships a teacher has averaged them itself and is left alone.
        half_size: share of the steps, from the first on, whose losses see images of half the side, at a quarter of the
            cost. `before_step`, where priors are learnt, sees them whole.
        validate_every: number of steps between validations.
        save_every: number of steps between checkpoints.
        log_every: number of steps between rows of metrics.csv.
        pictures_every: number of steps between pictures of what the network sees; 0 for none.
        seed: seed of what is drawn within steps.
    """

    def __init__(
        self,
        fabric: Fabric,
        method: Method,
        optimizer: Optimizer,
        folder: Path,
        *,
        iterations: int,
        schedule: Schedule = "poly",
        power: float = 0.9,
        warmup: int = 0,
        average: float = 0.0,
        half_size: float = 0.0,
        validate_every: int = 200,
        save_every: int = 200,
        log_every: int = 10,
        pictures_every: int = 0,
        seed: int = 0,
    ) -> None:
        self.fabric, self.method, self.folder = fabric, method, folder
        self.iterations, self.seed = iterations, seed
        self.schedule: Schedule = schedule
        self.power, self.warmup = power, warmup
        self.half_size = half_size
        self.validate_every, self.save_every = validate_every, save_every
        self.log_every, self.pictures_every = log_every, pictures_every
        self.starts = dict(zip(first_steps(method.stages, iterations), method.stages, strict=True))
        self.rates = [group["lr"] for group in optimizer.param_groups]
        self.model, self.optimizer = fabric.setup(method, optimizer)
        taught = any(parameter.requires_grad for parameter in method.predictor().parameters())
        self.decay = average
        self.average = frozen_copy(method.predictor()) if average and taught else None
        self.next_step = 0
        self.best_score: dict[str, float] = dict(NOTHING_YET)
        self.stop_requested = False

    def resume(self) -> None:
        """Continue from the last checkpoint of the run folder."""
        try:
            record = checkpoint.load(self.last, self.method, self.optimizer, self.average)
            progress = checkpoint.read_progress(self.last, record, self.iterations)
        except ValueError as error:
            others = sorted(path.name for path in self.last.parent.glob("best*.safetensors"))
            advice = f"or copy {' or '.join(others)} over it to go on from there" if others else "nothing else is lost"
            raise ValueError(f"{error}. Delete it to begin anew, {advice}") from None
        self.next_step, self.best_score = progress

    def restore(self, path: Path) -> None:
        """Put back the weights of a checkpoint, to use them and not to go on."""
        checkpoint.load(path, self.method, average=self.average)

    def predictor(self) -> nn.Module:
        """What is validated and shipped: the averaged weights if there are any."""
        return self.average or self.method.predictor()

    def shipped(self) -> str:
        """Name the weights that are shipped."""
        taught = any(parameter.requires_grad for parameter in self.method.predictor().parameters())
        return "weights" if self.average is None and taught else "averaged weights"

    @property
    def last(self) -> Path:
        """The file of the newest checkpoint."""
        return RunFolder(self.folder).checkpoints / "last.safetensors"

    def best(self, stage: Stage | None = None) -> Path:
        """The file of the checkpoint with the best validation Dice of a stage, the last one if not given.

        Each stage has its own, so that a run taken up before a switch finds what the switch needs.
        """
        name = "best" if stage in (None, self.method.stages[-1]) else f"best-{stage.name}"
        return RunFolder(self.folder).checkpoints / f"{name}.safetensors"

    def fit(self, train: Stream, validation: Pool | None, telemetry: Telemetry, workers: int = 1) -> None:
        """Run all steps that are left; raise `Stopped` if asked to stop before the end.

        Without validation images nothing is scored, no weights are the best, and a stage that would start from the best
        weights of the one before starts from its last.
        """
        stage = self._stage_at(self.next_step)
        with closing(train.loop(self.next_step, self.iterations, workers)) as batches:
            for batch in self._until_stopped(batches):
                if batch.index in self.starts:
                    stage = self._enter(self.starts[batch.index])
                terms = self.step(batch.to(self.fabric.device), stage)
                self.next_step = batch.index + 1
                self._log_and_validate(telemetry, terms, stage, validation)
                if self.pictures_every and self._due(self.pictures_every) and self.fabric.is_global_zero:
                    self._draw(batch, validation)
                if self._due(self.save_every):
                    self.save(self.last)

    def _until_stopped(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield batches until the end, or until any process is asked to stop; then save and raise `Stopped`."""
        while self.next_step < self.iterations:
            batch = None
            if not self.stop_requested:
                try:
                    batch = next(batches)
                except ChildProcessError:
                    if not self.stop_requested:  # a signal to the whole job ends the workers too
                        raise
            if self._any_process(batch is None):
                self.save(self.last)
                raise Stopped(self.next_step, self.fabric.global_rank)
            assert batch is not None
            yield batch

    def _any_process(self, flag: bool) -> bool:
        """Whether a flag is set on any process: all get the same answer, so that none waits for another."""
        if self.fabric.world_size == 1:
            return flag
        flags = self.fabric.all_reduce(torch.tensor(float(flag), device=self.fabric.device), reduce_op="max")
        return bool(flags)

    def _log_and_validate(
        self, telemetry: Telemetry, terms: Mapping[str, Tensor], stage: Stage, validation: Pool | None
    ) -> None:
        """Log and validate when it is time."""
        values: dict[str, float | str] = {}
        if self._due(self.log_every):
            values = self._values(terms, stage) | {"it/s": telemetry.speed(self.next_step)}
        if validation is not None and self._due(self.validate_every):
            values |= {f"val_{name}": value for name, value in self._validate(validation, stage).items()}
        if values and self.fabric.is_global_zero:
            telemetry.log(self.next_step, values)
        telemetry.advance(self.next_step)

    def step(self, batch: Batch, stage: Stage) -> dict[str, Tensor]:
        """Compute one step and return its loss terms."""
        index, rank = batch.index, self.fabric.global_rank
        step = Step(index, self.iterations, stage.name, step_generator(self.seed, index, rank))
        torch.manual_seed(step_seed(self.seed, index, rank))  # dropout layers draw from torch's global generator
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = learning_rate(rate, index, self.iterations, self.schedule, self.power, self.warmup)
        with torch.no_grad():
            self.method.before_step(batch, step)
        if index < self.half_size * self.iterations:
            batch = batch.halved()
        self.model.train()
        terms: dict[str, Tensor] = self.model(StepInput(batch, step))
        loss = torch.stack(list(terms.values())).sum()
        self._check_finite(loss, terms, batch)
        self.optimizer.zero_grad()
        self.fabric.backward(loss)
        if self.method.gradient_clip is not None:
            self.fabric.clip_gradients(self.model, self.optimizer, max_norm=self.method.gradient_clip)
        self.optimizer.step()
        with torch.no_grad(), self.fabric.autocast():
            self.method.after_step(batch, step)
            if self.average is not None:
                decay = averaging_decay(step, self.decay)
                move_teacher(self.average, self.method.predictor(), decay, buffers=True)
        return terms

    def save(self, path: Path) -> None:
        """Write a checkpoint, on rank zero."""
        record = {"next_step": self.next_step, "best": self.best_score}
        on_rank_zero(self.fabric, lambda: checkpoint.save(path, self.method, self.optimizer, record, self.average))

    def _due(self, every: int) -> bool:
        return self.next_step % every == 0 or self.next_step == self.iterations

    def _stage_at(self, index: int) -> Stage:
        return self.starts[max(first for first in self.starts if first <= index)]

    def is_last_stage(self, index: int) -> bool:
        """Whether a step is of the method's last stage."""
        return self._stage_at(index) == self.method.stages[-1]

    def _enter(self, stage: Stage) -> Stage:
        stages = self.method.stages
        before = self.best(stages[stages.index(stage) - 1])
        if stage.start == "best" and before.is_file():
            checkpoint.load(before, self.method, self.optimizer, self.average)
            self.best_score = dict(NOTHING_YET)
        self.method.enter(stage)
        return stage

    def _values(self, terms: Mapping[str, Tensor], stage: Stage) -> dict[str, float | str]:
        values: dict[str, float | str] = {"stage": stage.name, "lr": float(self.optimizer.param_groups[0]["lr"])}
        values["loss"] = sum(float(term.detach()) for term in terms.values())
        return values | {name: float(value.detach()) for name, value in {**terms, **self.method.notes}.items()}

    def _validate(self, validation: Pool, stage: Stage) -> dict[str, float]:
        """Score the predictor on rank zero, save it if it is the best so far, and give all ranks the score."""
        score = math.nan
        if self.fabric.is_global_zero:
            with self.fabric.autocast(), suppress(NonFiniteOutput):
                score = self.score(validation, self.predictor())
        score = float(self.fabric.broadcast(score))
        if math.isnan(score):
            raise ValueError(
                f"after {self.next_step} steps the network gives values that are not finite. Lower optimizer.lr or use "
                "--precision 32-true; what was saved before is intact"
            )
        if score > self.best_score["dice"]:
            self.best_score = {"dice": score, "step": self.next_step}
            self.save(self.best(stage))
        return {"dice": score, "best_dice": self.best_score["dice"]}

    def score(self, pool: Pool, predictor: nn.Module) -> float:
        """Mean Dice of a predictor on a pool."""
        return fmean(row.dice for row in evaluate(predictor, pool, device=self.fabric.device))

    def _draw(self, batch: Batch, validation: Pool | None, rows: int = 4) -> None:
        """Write a picture of predictions on validation images, or else labelled ones, and of this step's views."""
        from fpgm.report.plots.predictions import (
            prediction_figure,
        )  # matplotlib, which a run without pictures does not load

        images, masks = _examples(batch, validation, rows)
        predictor = self.predictor().eval()
        with self.fabric.autocast():
            predicted = predict_masks(predictor, images, self.fabric.device)
        views = {
            name: view[:rows].float().permute(0, 2, 3, 1).cpu().numpy()
            for name, view in self.method.pictures(batch).items()
        }
        prediction_figure(
            images / 255,
            masks > 0,
            predicted,
            views,
            self.folder / "pictures" / f"step_{self.next_step:06d}.jpg",
            title=f"step {self.next_step}",
        )

    def _check_finite(self, loss: Tensor, terms: Mapping[str, Tensor], batch: Batch) -> None:
        """Stop at a loss that is not finite, and write down which images made it."""
        if bool(torch.isfinite(loss)):
            return
        bad = [name for name, term in terms.items() if not bool(torch.isfinite(term))]
        record: dict[str, Any] = {
            "step": batch.index,
            "terms": {name: str(float(term.detach())) for name, term in terms.items()},
        }
        record |= {"id_l": batch.id_l, "id_u": batch.id_u, "id_m": batch.id_m}
        path = self.folder / f"bad_batch_{batch.index}.json"
        write_text(path, json.dumps(record, indent=1) + "\n")
        raise ValueError(
            f"the loss of step {batch.index} is {float(loss.detach())} because of {', '.join(bad)}; its images are "
            f"listed in {path.name}. Lower optimizer.lr or use --precision 32-true; what was saved before is intact"
        )


def _examples(batch: Batch, validation: Pool | None, rows: int) -> tuple[Array, Array]:
    """Images as uint8 (n, S, S, 3) with their masks (n, S, S): of validation, or else the labelled ones of a batch."""
    if validation is None:
        images = batch.image_l[:rows].mul(255).round().byte().permute(0, 2, 3, 1)
        return images.cpu().numpy(), batch.mask_l[:rows].cpu().numpy()
    chosen = np.linspace(0, len(validation) - 1, min(rows, len(validation))).astype(int)
    return validation.images(chosen), validation.masks(chosen)
