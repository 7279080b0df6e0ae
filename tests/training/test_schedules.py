"""What depends on the step alone."""

from __future__ import annotations

import pytest
import torch

from fpgm.methods import Stage
from fpgm.training.schedules import cosine, first_steps, learning_rate, poly, step_generator, step_seed


def test_poly_falls_from_the_base_to_nothing() -> None:
    assert poly(0.01, 0, 30_000, 0.9) == 0.01
    assert poly(0.01, 15_000, 30_000, 0.9) == pytest.approx(0.0053589, abs=1e-7)  # 0.01 * 0.5^0.9
    assert poly(0.01, 30_000, 30_000, 0.9) == 0
    assert poly(0.01, 10, 30, 0) == 0.01


def test_cosine_is_that_of_torch() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.3)
    peer = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
    for index in range(40):
        assert cosine(0.3, index, 40) == pytest.approx(peer.get_last_lr()[0], abs=1e-9)
        optimizer.step()
        peer.step()


def test_a_warm_up_rises_to_the_schedule() -> None:
    rates = [learning_rate(1.0, index, 100, "poly", 0.0, 4) for index in range(6)]
    assert rates == [0.25, 0.5, 0.75, 1, 1, 1]
    assert learning_rate(1.0, 50, 100, "cosine", 0.9, 4) == pytest.approx(0.5)
    assert learning_rate(0.01, 7, 30, "poly", 0.9, 0) == poly(0.01, 7, 30, 0.9)


def test_stages_begin_where_the_shares_say() -> None:
    assert first_steps([Stage("only")], 100) == [0]
    assert first_steps([Stage("a", 1 / 3), Stage("b", 2 / 3)], 300) == [0, 100]
    with pytest.raises(ValueError, match=r"add up to 0\.5, not 1"):
        first_steps([Stage("a", 0.5)], 10)


@pytest.mark.parametrize(("share", "name"), [(0.01, "a"), (0.99, "b")])
def test_a_stage_without_a_step_is_refused(share: float, name: str) -> None:
    with pytest.raises(ValueError, match=f"the stage '{name}' is 0.01 of 9 steps, less than one step"):
        first_steps([Stage("a", share), Stage("b", 1 - share)], 9)


def test_randomness_differs_by_seed_step_and_rank() -> None:
    seeds = {step_seed(seed, index, rank) for seed in range(3) for index in range(50) for rank in range(2)}
    assert len(seeds) == 300
    first, again, other = (torch.rand(3, generator=step_generator(0, t, 0)) for t in (4, 4, 5))
    assert torch.equal(first, again) and not torch.equal(first, other)
