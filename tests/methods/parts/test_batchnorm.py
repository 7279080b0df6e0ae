"""Which passes make the batch-norm statistics of evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from fpgm.methods import Step
from fpgm.methods.parts.batchnorm import frozen_batchnorm_stats
from tests.methods.drive import build, make_stream


def test_passes_with_frozen_stats_normalise_alike_and_leave_the_statistics() -> None:
    net, image = nn.Sequential(nn.Conv2d(3, 2, 1), nn.BatchNorm2d(2)).train(), torch.rand(4, 3, 4, 4)
    before = net[1].running_mean.clone()
    with frozen_batchnorm_stats(net):
        inside = net(image)
    assert torch.equal(net[1].running_mean, before) and net[1].momentum == 0.1
    assert torch.equal(net(image), inside) and not torch.equal(net[1].running_mean, before)
    with frozen_batchnorm_stats(net, active=False):
        net(image)
    assert not torch.equal(net[1].running_mean, before)


@pytest.mark.parametrize("name", ["fpgm", "unimatch"])
def test_clean_statistics_change_evaluation_alone(name: str, phantom_store: Path) -> None:
    """Weights and losses are those of `all`; the running statistics are those of labelled and weak images."""
    found = {}
    for statistics in ("all", "clean"):
        method = build(name, statistics=statistics).train()
        batch = make_stream(phantom_store, method).batch(0)
        torch.manual_seed(0)
        terms = method.losses(batch, Step(0, 30_000, "train", torch.Generator().manual_seed(0)))
        sum(terms.values()).backward()
        first = method.net.encoder.blocks[0]
        found[statistics] = (
            float(sum(terms.values()).detach()),
            first[0].weight.grad.clone(),
            first[1].running_mean.clone(),
        )
        if statistics == "clean":  # one batch of 8, whose weight is a tenth
            seen = first[0](torch.cat((batch.image_l, batch.weak_u))).mean((0, 2, 3))
            assert torch.allclose(first[1].running_mean, 0.1 * seen, atol=1e-6)
    assert found["all"][0] == found["clean"][0] and torch.equal(found["all"][1], found["clean"][1])
    assert not torch.equal(found["all"][2], found["clean"][2])
