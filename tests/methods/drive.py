"""Build and drive a method as the trainer does, small enough for tests."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from fpgm.data.batches.pool import Pool
from fpgm.data.batches.streams import Stream
from fpgm.data.splits.split import Split
from fpgm.data.store import Store, open_stores
from fpgm.methods import METHODS, Method, Stage
from fpgm.nets import UNet
from fpgm.training.trainer import Trainer
from tests.small_net import SmallNet

CHANNELS = (4, 8, 8, 16, 16)

# A fresh network is confident of nothing: the contract looks at all pixels, so that every view matters.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "fpgm": {"threshold": 0.0},
    # unlabelled images take part from the first step on, all pixels count, and the prior is used
    "fpgm_teacher": {"start": 0.0, "ramp": 0.0, "share": 1.0, "alignment": "augment"},
    "urpc": {"ramp": 0, "consistency": 1.0},  # large enough to see
    "bsnet": {"warm_up": 0, "weight": 10.0},  # all terms from the first step on, large enough to see
    "ac_mt": {"ramp": 0, "consistency": 1.0},  # large enough to see
    # all terms and the inner players from the first step on
    "caussl": {"ramp": 0, "cross_start": 0, "independence_start": 0, "inner_every": 2, "inner_steps": 3},
    "unimatch": {"threshold": 0.0},
    # with its whole weight, a tile that rounding chooses moves the golden losses
    "abd": {"ramp": 0, "informative": 0.2},
    # with β = 5 the penalty of entropy holds the supervised loss up in the first steps: begin with the last β
    "dycon": {"beta": (0.5, 0.5), "ramp": 0, "consistency": 1.0},
    "cvbm": {"ramp": 0},  # the whole consistency from the first step on
}


def build(name: str, seed: int = 0, **arguments: Any) -> Method:
    torch.manual_seed(seed)
    return METHODS[name](UNet(channels=CHANNELS), **{**ARGUMENTS.get(name, {}), **arguments})


def build_light(name: str, seed: int = 0) -> Method:
    """A method with a network of two levels, which takes half the time, where it can have one.

    URPC needs four levels, and DyCON compares all pairs of pixels of the coarsest one.
    """
    if name in ("urpc", "dycon"):
        return build(name, seed)
    torch.manual_seed(seed)
    return METHODS[name](SmallNet(channels=CHANNELS, dropout=1.0), **ARGUMENTS.get(name, {}))


@functools.cache
def opened(store: Path) -> dict[str, Store]:
    """The data sets of a store, each file opened once: a method needs a stream in every test."""
    return open_stores(store)


def make_stream(store: Path, method: Method, seed: int = 0, labeled: str = "20") -> Stream:
    stores, split = opened(store), Split.load(store / "splits" / "strict-0")
    pools = Pool(stores, split.labeled(labeled)), Pool(stores, split.unlabeled(labeled))
    return Stream(*pools, method.views, seed=seed, batch_labeled=4, batch_unlabeled=4)


def make_trainer(method: Method, folder: Path, iterations: int = 100, seed: int = 0, average: float = 0.0) -> Trainer:
    fabric = Fabric(accelerator="cpu", devices=1, precision="32-true")
    optimizer = torch.optim.SGD(method.parameter_groups(), lr=0.05, momentum=0.9)
    return Trainer(fabric, method, optimizer, folder, iterations=iterations, seed=seed, average=average)


def run(trainer: Trainer, stream: Stream, start: int, stop: int, stage: Stage | None = None) -> list[dict[str, float]]:
    """Run steps of a stage, the first if not given, and return their terms."""
    stage = stage or trainer.method.stages[0]
    return [values(trainer.step(stream.batch(t), stage)) for t in range(start, stop)]


def values(terms: Mapping[str, Tensor]) -> dict[str, float]:
    return {name: float(term.detach()) for name, term in terms.items()}
