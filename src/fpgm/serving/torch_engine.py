"""A model folder, computed by torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fpgm.model import choose_device, load_model
from fpgm.nets.ensemble import Ensemble
from fpgm.serving.findings import check_finite


class TorchEngine:
    """The network of a run folder or model folder.

    Args:
        path: the folder.
        device: auto, cpu, cuda, cuda:1, mps …
        precision: float32, as in evaluation; bfloat16; or auto, which takes bfloat16 where the processor has it.

    Attributes:
        name: name of the engine.
        disagrees: whether it has members that can disagree.
    """

    def __init__(self, path: Path, device: str = "auto", precision: str = "float32") -> None:
        self.device = choose_device(device)
        self.bfloat16 = _bfloat16(precision, self.device)
        net, self.card = load_model(path)
        self.name = "torch-bfloat16" if self.bfloat16 else "torch"
        self.identity = self.card.weights_sha256 + (" bfloat16" if self.bfloat16 else "")
        self._net = net.to(self.device)
        self.disagrees = isinstance(net, Ensemble)
        self._net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing from torch's stubs

    def probabilities(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Foreground probabilities (B, S, S) of images (B, 3, S, S) in [0, 1]."""
        images = torch.from_numpy(batch).to(self.device).contiguous(memory_format=torch.channels_last)
        with torch.inference_mode(), torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self._net(images)
        return check_finite(foreground(logits).cpu().numpy())

    def with_disagreement(self, batch: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Probabilities, and the standard deviation (B, S, S) of those of the members of a combined model."""
        assert isinstance(self._net, Ensemble)
        images = torch.from_numpy(batch).to(self.device).contiguous(memory_format=torch.channels_last)
        with torch.inference_mode(), torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits, spread = self._net.with_disagreement(images)
        return check_finite(foreground(logits).cpu().numpy()), spread.float().cpu().numpy()


def foreground(logits: torch.Tensor) -> torch.Tensor:
    """Foreground probabilities (B, H, W) of logits (B, K, H, W): the sum over all classes but the first."""
    return logits.float().softmax(1)[:, 1:].sum(1)


def _bfloat16(precision: str, device: torch.device) -> bool:
    if precision not in ("float32", "bfloat16", "auto"):
        raise ValueError(f"the precision is {precision!r}: expected float32, bfloat16 or auto")
    if precision != "auto":
        return precision == "bfloat16"
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    return device.type == "cpu" and has_bfloat16()


def has_bfloat16() -> bool:
    """Whether the processor computes in bfloat16 itself."""
    able = torch.cpu.get_capabilities()
    return bool(able.get("avx512_bf16") or able.get("amx_bf16"))
