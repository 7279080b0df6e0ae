"""Oracles and probes that the tests of the copy-paste methods share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fpgm.data.batches.batch import Batch
from fpgm.data.batches.pool import Pool
from fpgm.data.splits.split import Split
from fpgm.data.store import open_stores
from fpgm.methods import Method, Stage, Step
from fpgm.methods.parts.copy_paste import paste_box
from fpgm.tensors import read_tensors
from fpgm.training import checkpoint
from fpgm.training.telemetry import Telemetry
from fpgm.training.trainer import Stopped
from tests.methods.drive import make_stream, make_trainer, run


def clone(module: nn.Module) -> dict[Any, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def paste_mask(image: Tensor) -> Tensor:
    """M of the specification, for a generator with seed 0: 0. inside the rectangle, 1. outside."""
    return (~paste_box(image, 2 / 3, torch.Generator().manual_seed(0))).float()


def naive_mix(z: Tensor, image: Tensor, patch: Tensor, m: Tensor, weight: float, patch_weight: float) -> Tensor:
    """Masked Dice and masked cross-entropy of the specification, written out; `image` counts where m = 1."""
    total = torch.zeros(())
    for target, mask, w in ((image, m, weight), (patch, 1 - m, patch_weight)):
        p, y = z.softmax(1), F.one_hot(target.long(), 2).movedim(-1, 1).float()
        dice = [
            1
            - (2 * (mask * p[:, c] * y[:, c]).sum() + 1e-10)
            / ((mask * p[:, c] ** 2).sum() + (mask * y[:, c] ** 2).sum() + 1e-10)
            for c in (0, 1)
        ]
        ce = -(z.log_softmax(1) * y).sum(1)
        weighed = mask.expand_as(ce)
        total = total + w * (sum(dice) / 2 + (ce * weighed).sum() / (weighed.sum() + 1e-16))
    return total


def teacher_before_its_last_move(method: Method, store: Path, folder: Path) -> dict[Any, Tensor]:
    """Two steps of self-training; the teacher as it was just before it moved last."""
    before: dict[Any, Tensor] = {}
    original = method.after_step

    def spy(batch: Batch, step: Step) -> None:
        before.update(clone(method.teacher))
        original(batch, step)

    method.after_step = spy  # type: ignore[method-assign]  # a spy
    run(make_trainer(method, folder), make_stream(store, method), 0, 2, method.stages[1])
    return before


def assert_moved_by_one_percent(before: dict[Any, Tensor], student: nn.Module, teacher: nn.Module) -> None:
    goal, moved = student.state_dict(), teacher.state_dict()
    for name, old in before.items():
        expected = old + 0.01 * (goal[name] - old) if old.is_floating_point() else goal[name]
        assert torch.allclose(moved[name], expected, atol=1e-7), name
        if name.endswith(("running_mean", "running_var", "head.weight")):
            assert not torch.allclose(moved[name], old, rtol=1e-6, atol=0), name
    assert all(parameter.grad is None for parameter in teacher.parameters())


def states_at_switch(method: Method, student: nn.Module, store: Path, folder: Path) -> list[dict[Any, Tensor]]:
    """Pre-train 5 steps, validated after 2 and 4; then student, teacher, best file and momentum at the switch."""
    trainer = make_trainer(method, folder, iterations=10)
    trainer.validate_every = 2
    found: list[dict[Any, Tensor]] = []
    original = method.enter

    def spy(stage: Stage) -> None:
        original(stage)
        if stage.name == "self-train":
            best, content = read_tensors(trainer.best(method.stages[0]), checkpoint.FORMAT)
            assert content["record"]["next_step"] in (2, 4)
            momentum = {n: s["momentum_buffer"].clone() for n, s in trainer.optimizer.state_dict()["state"].items()}
            found.extend([*map(clone, (student, method.teacher)), best, momentum])
            trainer.stop_requested = True

    method.enter = spy  # type: ignore[method-assign]  # a spy
    validation = Pool(open_stores(store), Split.load(store / "splits" / "strict-0").validation[:2])
    with Telemetry(folder, 0, 10, None) as telemetry, pytest.raises(Stopped):
        trainer.fit(make_stream(store, method), validation, telemetry, workers=0)
    return found
