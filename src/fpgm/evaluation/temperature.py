"""The temperature of a network's probabilities, fitted on validation images."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from fpgm.calibration import calibration_error, fit_temperature, reliability
from fpgm.evaluation.scoring import log_odds, passes
from fpgm.runs.card import Calibration

if TYPE_CHECKING:
    import torch
    from torch import nn

    from fpgm.data.batches.pool import Pool

MOST_PIXELS = 2**22  # of all images together; evenly spaced ones are taken if there are more


def calibrate(net: nn.Module, pool: Pool, *, device: torch.device) -> Calibration:
    """Put a network in evaluation mode, fit its temperature, and measure the calibration error before and after it.

    Args:
        net: (B, 3, H, W) in [0, 1] → logits.
        pool: validation images with masks.
        device: device of the network.
    """
    net.eval()
    step = -(-len(pool) * pool.size**2 // MOST_PIXELS)
    odds, truth = [], []
    for chosen, logits in passes(net, pool, device):
        odds.append(log_odds(logits).cpu().numpy().ravel()[::step])
        truth.append(pool.masks(chosen).ravel()[::step])
    values, true = np.concatenate(odds), np.concatenate(truth)
    temperature = round(fit_temperature(values, true), 4)
    before, after = (
        round(calibration_error(reliability(expit(values / np.float32(scale)), true)), 6) for scale in (1, temperature)
    )
    return Calibration(temperature=temperature, images=len(pool), error_before=before, error_after=after)
