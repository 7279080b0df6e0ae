"""The contract of a method: one module, all state in submodules and buffers, named losses out."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from fpgm.data.batches.batch import Batch, Views


@dataclass(frozen=True)
class Stage:
    """A part of the training.

    Attributes:
        name: what `Step.stage` says during it.
        share: of all iterations.
        start: what it starts from: the last weights; or the best by validation of the stage before, with the state of
            the main optimiser at that time. Then the search for the best begins anew.
    """

    name: str
    share: float = 1.0
    start: Literal["last", "best"] = "last"


@dataclass(frozen=True)
class Step:
    """Where the training stands.

    Attributes:
        index: of this step, from 0.
        total: number of steps.
        stage: name of the stage.
        generator: chance for this step alone, on the CPU; a function of seed, index and rank.
    """

    index: int
    total: int
    stage: str
    generator: torch.Generator


class Given:
    """Batch and step as one argument of `forward`; no dataclass, so that no wrapper copies it or looks inside."""

    def __init__(self, batch: Batch, step: Step) -> None:
        self.batch = batch
        self.step = step


class Method(nn.Module, abc.ABC):
    """A way to train a segmenter from labelled and unlabelled images.

    Attributes:
        stages: in order, shares adding up to 1.
        views: what the stream draws for it.
        gradient_clip: largest norm of the main optimiser's gradient; None for no limit.
        notes: what the last step saw, by name, for the log alone.
    """

    stages: tuple[Stage, ...] = (Stage("train"),)
    views: Views
    gradient_clip: float | None = None
    notes: Mapping[str, Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.notes = {}

    @abc.abstractmethod
    def losses(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Weighted scalar terms by name; the trainer adds, logs and back-propagates them."""

    @abc.abstractmethod
    def predictor(self) -> nn.Module:
        """What is validated and shipped: (B, 3, H, W) → logits (B, K, H, W)."""

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Parameter groups of the main optimiser; frozen teachers and inner players stay outside."""
        return [{"params": [parameter for parameter in self.parameters() if parameter.requires_grad]}]

    def inner_optimizers(self) -> dict[str, Optimizer]:
        """Optimisers of inner players, which the method steps itself; by name, kept in the checkpoint."""
        return {}

    def enter(self, stage: Stage) -> None:
        """A stage begins; called once, after its starting weights are in place."""

    def before_step(self, batch: Batch, step: Step) -> None:
        """Called before the losses of a step, without gradient."""

    def after_step(self, batch: Batch, step: Step) -> None:
        """Called after the optimiser's step, without gradient."""

    def pictures(self, batch: Batch) -> dict[str, Tensor]:
        """Views of the unlabelled images of a batch, by name, for a person to look at."""
        views = {"weak": batch.weak_u} if len(batch.weak_u) else {}
        return views | {f"strong {number}": view for number, view in enumerate(batch.strong_u, 1)}

    def forward(self, given: Given) -> dict[str, Tensor]:
        """Return `losses`; this is what the trainer wraps for precision and ranks."""
        return self.losses(given.batch, given.step)
