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
from fpgm.runs.card import LeastArea, ModelCard
from fpgm.serving.export import export_onnx
from tests.sharing import shared

SIZE = 64
CHANNELS = [4, 8, 8, 16, 16]
SPECKS = LeastArea(
    share=0.004,
    images=9,
    dice_before=0.5,
    dice_after=0.5,
    alarms_before=7,
    alarms_after=3,
    found_before=5,
    found_after=5,
)
TURNS: tuple[tuple[int, ...], ...] = ((), (-1,), (-2,), (-1, -2))  # axes that are flipped
_FOLDER = tempfile.TemporaryDirectory()  # until the tests end


@functools.cache
def model() -> Path:
    """Return the model folder of a small UNet that finds something in every phantom, and never in all of it."""
    return shared("model", _train, Path(_FOLDER.name) / "run") / "model"


def _train(folder: Path) -> None:
    """Train in float64: in float32 the kernels of another processor would round to another model after a few steps."""
    torch.manual_seed(0)
    net = UNet(channels=CHANNELS, dropout=0).double()
    samples = [phantom(name, index, seed=1, size=SIZE) for name in DOMAINS for index in range(2)]
    images = torch.from_numpy(np.stack([sample.image for sample in samples])).permute(0, 3, 1, 2).double() / 255
    masks = torch.from_numpy(np.stack([sample.mask for sample in samples])).long()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    for step in range(24):
        turned = TURNS[step % 4]  # else it learns places, and averaged over flips finds nothing
        optimizer.zero_grad()
        cross_entropy_dice(net(images.flip(turned)), masks.flip(turned)).backward()
        optimizer.step()
    _spread(net.eval(), torch.cat((images, _tensor(pictures(24)))))
    card = ModelCard(net="unet", arguments={"channels": CHANNELS}, size=SIZE, training={"method": "supervised"})
    save_model(folder / "model", net.float(), card)


@torch.no_grad()
def _spread(net: UNet, images: torch.Tensor) -> None:
    """Scale and shift the logits: they fill a range, and 5 % of each image are foreground, however it is flipped.

    By this, and not by what the training found, which differs between machines, every image has both classes.
    """
    logits = torch.stack([net(images.flip(turned)).flip(turned) for turned in TURNS])
    contrast = logits[:, :, 1] - logits[:, :, 0]
    scale, head = 2 / contrast.std(), net.decoder.head
    assert head.bias is not None
    head.weight *= scale
    head.bias *= scale
    head.bias[1] -= scale * torch.quantile(contrast.amin(0).flatten(1), 0.95, dim=1).min()
    foreground = (net(images).argmax(1) == 1).float().mean((1, 2))
    assert foreground.min() > 0.04 and foreground.max() < 0.9


def _tensor(images: list[Image.Image]) -> torch.Tensor:
    """As float64 (B, 3, H, W) in [0, 1]."""
    return torch.from_numpy(np.stack([np.array(image) for image in images])).permute(0, 3, 1, 2).double() / 255


@functools.cache
def onnx_file() -> Path:
    """Return the same model as ONNX."""
    folder = shared("onnx", lambda to: export_onnx(model(), to / "model.onnx"), Path(_FOLDER.name) / "onnx")
    return folder / "model.onnx"


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
