"""Every stage of every method runs on two processes, and they stay together: all weights equal, bit for bit."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
import torch
from lightning_fabric import Fabric

from fpgm.data.batches.pool import Pool
from fpgm.data.batches.streams import Stream
from fpgm.data.splits.split import Split
from fpgm.methods import METHODS, Stage
from fpgm.training.devices import leave_process_group
from fpgm.training.trainer import Trainer
from tests.forks import run_ranks
from tests.methods.drive import build, opened

CASES = [(name, number) for name in sorted(METHODS) for number in range(len(METHODS[name].stages))]
STEPS = 2


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def on_a_rank(rank: int, port: int, store: str, folder: str) -> None:
    """Run all cases as torchrun would start them, and write what the weights of this rank are in the end."""
    where = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ |= {name: str(value) for name, value in where.items()} | {"TORCHELASTIC_RUN_ID": "test"}
    torch.set_num_threads(1)
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp_find_unused_parameters_true", precision="32-true")
    fabric.launch()
    sums = {}
    for name, number in CASES:
        stage = METHODS[name].stages[number]
        sums[f"{name}-{stage.name}"] = weights_after(fabric, name, stage, Path(store), Path(folder))
    (Path(folder) / f"rank-{rank}.json").write_text(json.dumps(sums))
    leave_process_group()


def weights_after(fabric: Fabric, name: str, stage: Stage, store: Path, folder: Path) -> dict[str, float]:
    """Return the sum of every parameter after a few steps of a stage, in double precision."""
    method = build(name)
    stores, split = opened(store), Split.load(store / "splits" / "strict-0")
    stream = Stream(
        Pool(stores, split.labeled("20")),
        Pool(stores, split.unlabeled("20")),
        method.views,
        seed=0,
        batch_labeled=4,
        batch_unlabeled=4,
        rank=fabric.global_rank,
        world_size=2,
    )
    optimizer = torch.optim.SGD(method.parameter_groups(), lr=0.05, momentum=0.9)
    trainer = Trainer(fabric, method, optimizer, folder, iterations=100, average=0.5)
    method.enter(stage)
    for t in range(STEPS):
        trainer.step(stream.batch(t), stage)
    named = [*method.named_parameters(), *trainer.predictor().named_parameters(prefix="shipped")]
    return {key: float(value.detach().double().sum()) for key, value in named}


@pytest.fixture(scope="module")
def ranks(small_store: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, float]]]:
    folder = tmp_path_factory.mktemp("ranks")
    run_ranks(on_a_rank, free_port(), str(small_store), str(folder))
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("case", [f"{name}-{METHODS[name].stages[number].name}" for name, number in CASES])
def test_two_processes_keep_the_same_weights(case: str, ranks: list[dict[str, dict[str, float]]]) -> None:
    first, second = (rank[case] for rank in ranks)
    assert all(value == value for value in first.values())  # no NaN
    assert {key for key in first if first[key] != second[key]} == set()
