"""Which passes make the batch-norm statistics of evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from torch import nn

Statistics = Literal["all", "clean"]


@contextmanager
def frozen_batchnorm_stats(net: nn.Module, active: bool = True) -> Iterator[None]:
    """Let batch norm normalise by the batch at hand without adding it to the statistics that evaluation uses."""
    norms = [layer for layer in net.modules() if active and isinstance(layer, nn.BatchNorm2d)]
    momenta = [layer.momentum for layer in norms]
    for layer in norms:
        layer.momentum = 0.0
    try:
        yield
    finally:
        for layer, momentum in zip(norms, momenta, strict=True):
            layer.momentum = momentum
