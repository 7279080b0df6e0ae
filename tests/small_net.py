"""A network of two levels in the place of the paper's UNet, where a test trains or exports and any network will do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from fpgm.model import save_model
from fpgm.nets import Backbone, Decoder, zoo
from fpgm.nets.norms import Norm, level_norms
from fpgm.nets.unet import Block
from fpgm.runs.card import ModelCard


class SmallNet(Backbone):
    """The two finest levels of a UNet; it takes the same arguments. Dropout is a tenth of what is asked for."""

    def __init__(
        self,
        in_channels: int = 3,
        classes: int = 2,
        channels: Sequence[int] = (2, 4),
        dropout: float = 0.0,
        norm: Norm = "batch",
    ) -> None:
        super().__init__()
        self.channels, self.multiple, self.norm = tuple(channels[:2]), 2, norm
        fine, coarse = self.channels
        norms = level_norms(norm, 2)
        self.fine = Block(in_channels, fine, dropout / 10, norms[0])
        self.coarse = Block(fine, coarse, dropout / 10, norms[1])
        self.decoder = Decoder(classes, self.channels, norm)

    def encode(self, image: Tensor) -> list[Tensor]:
        """Two maps: (B, c0, H, W) and (B, c1, H/2, W/2); H and W are even."""
        self.check_sides(image)
        fine = self.fine(image)
        return [fine, self.coarse(nn.functional.max_pool2d(fine, 2))]

    def decode(self, features: Sequence[Tensor]) -> Tensor:
        """Logits (B, K, H, W) from the two maps."""
        logits: Tensor = self.decoder(features)
        return logits


def use_small_net(patch: pytest.MonkeyPatch) -> None:
    """Build it in this process wherever a UNet is asked for by name."""
    patch.setattr(zoo, "UNet", SmallNet)


def save_small_model(folder: Path, size: int) -> Path:
    """Write a model folder with this network, its batch norm used to random images, as one called unet."""
    torch.manual_seed(0)
    net = SmallNet(channels=(4, 8)).train()
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = None  # the mean of all batches
    with torch.no_grad():
        net(torch.rand(8, 3, size, size))
    card = ModelCard(net="unet", arguments={"channels": [4, 8]}, size=size, training={"method": "supervised"})
    save_model(folder, net.eval(), card)
    return folder
