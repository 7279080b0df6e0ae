"""What depends on the step alone."""

from __future__ import annotations

import pytest
import torch

from fpgm.methods import Stage
from fpgm.training.schedules import first_steps, poly, step_generator, step_seed


def test_poly_falls_from_the_base_to_nothing() -> None:
    assert poly(0.01, 0, 30_000, 0.9) == 0.01
    assert poly(0.01, 15_000, 30_000, 0.9) == pytest.approx(0.0053589, abs=1e-7)  # 0.01 * 0.5^0.9
    assert poly(0.01, 30_000, 30_000, 0.9) == 0
    assert poly(0.01, 10, 30, 0) == 0.01


def test_stages_begin_where_the_shares_say() -> None:
    assert first_steps([Stage("only")], 100) == [0]
    assert first_steps([Stage("a", 1 / 3), Stage("b", 2 / 3)], 300) == [0, 100]
    with pytest.raises(ValueError, match=r"add up to 0\.5, not 1"):
        first_steps([Stage("a", 0.5)], 10)


def test_chance_differs_by_seed_step_and_rank() -> None:
    seeds = {step_seed(seed, index, rank) for seed in range(3) for index in range(50) for rank in range(2)}
    assert len(seeds) == 300
    first, again, other = (torch.rand(3, generator=step_generator(0, t, 0)) for t in (4, 4, 5))
    assert torch.equal(first, again) and not torch.equal(first, other)
