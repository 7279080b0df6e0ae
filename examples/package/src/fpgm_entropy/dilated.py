"""A small network without down-sampling: dilated convolutions see far and keep every pixel."""

from __future__ import annotations

from torch import Tensor, nn


class DilatedNet(nn.Module):
    """3 × 3 convolutions whose dilation doubles from layer to layer.

    Args:
        in_channels: C of the images (B, C, H, W).
        classes: K of the logits (B, K, H, W).
        width: channels between the layers.
        depth: number of layers.
    """

    def __init__(self, in_channels: int, classes: int, width: int = 16, depth: int = 4) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for level in range(depth):
            channels = width if level else in_channels
            layers += [
                nn.Conv2d(channels, width, 3, padding=2**level, dilation=2**level),
                nn.BatchNorm2d(width),
                nn.ReLU(),
            ]
        self.layers = nn.Sequential(*layers, nn.Conv2d(width, classes, 1))

    def forward(self, image: Tensor) -> Tensor:
        """Logits (B, K, H, W) of an image (B, C, H, W)."""
        logits: Tensor = self.layers(image)
        return logits
