"""The temperature of a network on validation images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fpgm.calibration import calibration_error, reliability
from fpgm.data.batches.pool import Pool
from fpgm.data.splits.split import Split
from fpgm.data.store import open_stores
from fpgm.evaluation import temperature
from fpgm.evaluation.scoring import log_odds
from fpgm.evaluation.temperature import calibrate

CPU = torch.device("cpu")


class Sure(nn.Module):
    """Takes red for log-odds, `scale` times too sure."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, image: Tensor) -> Tensor:
        assert not self.training
        odds = self.scale * (6 * image[:, 0] - 4)
        return torch.stack([torch.zeros_like(odds), odds], 1)


@pytest.fixture
def pool(phantom_store: Path) -> Pool:
    return Pool(open_stores(phantom_store), Split.load(phantom_store / "splits" / "strict-0").validation)


def test_a_network_twice_as_sure_has_twice_the_temperature(pool: Pool) -> None:
    once, twice = (calibrate(Sure(scale).train(), pool, device=CPU) for scale in (1.0, 2.0))
    assert twice.temperature == pytest.approx(2 * once.temperature, rel=2e-3) and once.images == len(pool)
    assert twice.error_after == pytest.approx(once.error_after, abs=1e-4) and twice.error_before > once.error_after


def test_the_errors_are_those_of_all_pixels(pool: Pool) -> None:
    found = calibrate(Sure(3.0), pool, device=CPU)
    rows = np.arange(len(pool))
    odds = 3 * (6 * pool.images(rows)[..., 0].astype(np.float64) / 255 - 4)
    for scale, error in ((1.0, found.error_before), (found.temperature, found.error_after)):
        counts = reliability(1 / (1 + np.exp(-odds / scale)), pool.masks(rows))
        assert error == pytest.approx(calibration_error(counts), abs=1e-4)


def test_of_many_pixels_some_are_enough(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = calibrate(Sure(2.0), pool, device=CPU)
    monkeypatch.setattr(temperature, "MOST_PIXELS", len(pool) * 64**2 // 7)
    assert calibrate(Sure(2.0), pool, device=CPU).temperature == pytest.approx(whole.temperature, rel=0.05)


def test_log_odds_are_of_all_classes_but_the_first() -> None:
    logits = torch.randn(2, 4, 3, 3, generator=torch.Generator().manual_seed(0))
    foreground = logits.softmax(1)[:, 1:].sum(1)
    assert torch.allclose(log_odds(logits).sigmoid(), foreground, atol=1e-6)
