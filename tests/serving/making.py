"""A small model that was trained for a moment, the same in all tests; engines that need no network."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from fpgm.data.synthetic import DOMAINS, phantom
from fpgm.losses import cross_entropy_dice
from fpgm.model import save_model
from fpgm.nets import UNet
from fpgm.runs.card import ModelCard
from fpgm.serving.export import export_onnx

SIZE = 64
CHANNELS = [4, 8, 8, 16, 16]
_FOLDER = tempfile.TemporaryDirectory()  # until the tests end


@functools.cache
def model() -> Path:
    """Return the model folder of a small UNet that finds something in every phantom."""
    torch.manual_seed(0)
    net = UNet(channels=CHANNELS, dropout=0)
    samples = [phantom(name, index, seed=1, size=SIZE) for name in DOMAINS for index in range(2)]
    images = torch.from_numpy(np.stack([sample.image for sample in samples])).permute(0, 3, 1, 2) / 255
    masks = torch.from_numpy(np.stack([sample.mask for sample in samples])).long()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    for _ in range(12):
        optimizer.zero_grad()
        cross_entropy_dice(net(images), masks).backward()
        optimizer.step()
    _spread(net.eval(), images)
    card = ModelCard(net="unet", arguments={"channels": CHANNELS}, size=SIZE, training={"method": "supervised"})
    save_model(Path(_FOLDER.name) / "run" / "model", net, card)
    return Path(_FOLDER.name) / "run" / "model"


@torch.no_grad()
def _spread(net: UNet, images: torch.Tensor) -> None:
    """Scale and shift the logits so that they fill a range and 15 % of the pixels are foreground."""
    logits = net(images)
    contrast = logits[:, 1] - logits[:, 0]
    scale, head = 2 / contrast.std(), net.decoder.head
    assert head.bias is not None
    head.weight *= scale
    head.bias *= scale
    head.bias[1] -= scale * torch.quantile(contrast.flatten(), 0.85)


@functools.cache
def onnx_file() -> Path:
    """Return the same model as ONNX."""
    return export_onnx(model(), Path(_FOLDER.name) / "model.onnx").path


def pictures(count: int, size: int = SIZE) -> list[Image.Image]:
    """Return phantoms that the model was not trained on."""
    names = list(DOMAINS)
    return [Image.fromarray(phantom(names[i % 6], i, size=size).image) for i in range(count)]


class Red:
    """An engine whose probability is the red of the image; remembers how many came together."""

    card = ModelCard(net="unet", arguments={}, size=16, training={})
    identity = "red"

    def __init__(self, size: int = 16) -> None:
        self.size, self.classes = size, ("background", "polyp")
        self.batches: list[int] = []

    def probabilities(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        assert batch.dtype == np.float32 and batch.shape[1:] == (3, self.size, self.size)
        assert batch.min() >= 0 and batch.max() <= 1
        self.batches.append(len(batch))
        return batch[:, 0].copy()


def run_without(modules: str, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process in which modules, given with spaces between, cannot be imported."""
    blocking = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if any(name == one or name.startswith(one + ".") for one in {modules.split()}):
            raise ImportError(f"{{name}} is blocked")
sys.meta_path.insert(0, Blocked())
"""
    command = [sys.executable, "-c", blocking + script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)
