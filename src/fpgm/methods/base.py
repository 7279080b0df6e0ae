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
from fpgm.methods.arguments import checked


@dataclass(frozen=True)
class Stage:
    """A part of the training.

    Attributes:
        name: name of the stage, which `Step.stage` repeats.
        share: share of all iterations.
        start: weights it starts from: the last; or the best by validation of the stage before, with the state of the
            main optimiser at that time. Then the search for the best begins anew.

    Examples:
        >>> [Stage("pretrain", share=0.2), Stage("self-train", share=0.8, start="best")][1].start
        'best'
    """

    name: str
    share: float = 1.0
    start: Literal["last", "best"] = "last"


@dataclass(frozen=True)
class Step:
    """Where the training stands.

    Attributes:
        index: index of this step, from 0.
        total: number of steps.
        stage: name of the stage.
        generator: random generator of this step, on the CPU; a function of seed, index and rank.

    Examples:
        >>> step = Step(index=50, total=200, stage="train", generator=torch.Generator().manual_seed(0))
        >>> step.index / step.total
        0.25
    """

    index: int
    total: int
    stage: str
    generator: torch.Generator


class StepInput:
    """Batch and step as one argument of `forward`; not a dataclass, so that no wrapper copies it or looks inside."""

    def __init__(self, batch: Batch, step: Step) -> None:
        self.batch = batch
        self.step = step


class Method(nn.Module, abc.ABC):
    """A way to train a segmenter from labelled and unlabelled images.

    Attributes:
        stages: parts of the training in order, their shares adding up to 1.
        views: views of the images that the stream prepares.
        gradient_clip: largest norm of the main optimiser's gradient; None for no limit.
        notes: figures of the last step by name, for the log alone.

    Examples:
        >>> class Mine(Method):
        ...     def __init__(self, net):
        ...         super().__init__()
        ...         self.net = net
        ...
        ...     def losses(self, batch, step):
        ...         return {"sup": nn.functional.cross_entropy(self.net(batch.image_l), batch.mask_l)}
        ...
        ...     def predictor(self):
        ...         return self.net
        >>> Mine(nn.Conv2d(3, 2, 1)).predictor()
        Conv2d(3, 2, kernel_size=(1, 1), stride=(1, 1))
    """

    stages: tuple[Stage, ...] = (Stage("train"),)
    views: Views
    gradient_clip: float | None = None
    notes: Mapping[str, Tensor]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let `__init__` check its arguments against their annotated ranges."""
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = checked(cls.__init__)  # type: ignore[method-assign]  # same signature

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

    def check_batch(self, labelled: int, unlabelled: int, size: int) -> None:
        """Refuse batches that the method cannot use; called before a run writes anything.

        Args:
            labelled: number of labelled images of a step on one process.
            unlabelled: number of unlabelled images of a step on one process.
            size: side of the images in pixels.
        """

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

    def forward(self, inputs: StepInput) -> dict[str, Tensor]:
        """Return `losses`; this is what the trainer wraps for precision and ranks."""
        return self.losses(inputs.batch, inputs.step)
