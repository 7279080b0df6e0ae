"""The paper's UNet as an encoder and a decoder, so that methods can use features and add decoders.

B images of H × W pixels and C channels; c0 … c4 channels of the encoder's maps; K output channels.
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fpgm.nets.norms import Norm, level_norms, norm_and_activation

CHANNELS = (16, 32, 64, 128, 256)
DROPOUT = (0.05, 0.1, 0.2, 0.3, 0.5)


class Backbone(nn.Module, abc.ABC):
    """A network whose features methods can use.

    Methods that only map images to logits take any `nn.Module`. To use a network of your own with all methods, derive
    it from this class and write `encode` and `decode`.

    Attributes:
        channels: channels of the feature maps, in the order of `encode`.
        norm: normalisation of the network; a `Decoder` that a method adds uses the same.
        decoder: decoder that `decode` calls, for methods that use its maps.
        multiple: number that the sides of an image must be divisible by.
        pretrained: whether `load_pretrained` was called.

    Examples:
        >>> net = UNet(channels=[4, 8, 8, 16, 16])
        >>> isinstance(net, Backbone), [features.shape[1] for features in net.encode(torch.rand(2, 3, 64, 64))]
        (True, [4, 8, 8, 16, 16])
    """

    channels: tuple[int, ...]
    multiple: int = 1
    norm: Norm = "batch"
    decoder: Decoder
    pretrained: bool = False

    def check_sides(self, image: Tensor) -> None:
        """Refuse an image (B, C, H, W) that cannot be halved as often as the network does."""
        height, width = image.shape[-2:]
        if height % self.multiple or width % self.multiple:
            raise ValueError(
                f"the image is {height} x {width}: resize or pad it until both sides are multiples of {self.multiple}"
            )

    def load_pretrained(self) -> None:
        """Load pretrained weights, if the network has some."""
        raise ValueError(f"{type(self).__name__} has no pretrained weights: set net.pretrained=false")

    @abc.abstractmethod
    def encode(self, image: Tensor) -> list[Tensor]:
        """Feature maps of an image (B, C, H, W), at full size first, each next one at half the side."""

    @abc.abstractmethod
    def decode(self, features: Sequence[Tensor]) -> Tensor:
        """Logits (B, K, H, W) from feature maps as `encode` gives them."""

    def forward(self, image: Tensor) -> Tensor:
        """Logits (B, K, H, W) of an image (B, C, H, W)."""
        return self.decode(self.encode(image))


class Dropout(nn.Dropout):
    """Dropout that draws 16 random bits per value: on a CPU, drawing is most of the cost of dropout.

    The probability is rounded to a multiple of 2⁻¹⁶. Elsewhere, and in compiled code, it is torch's own.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Drop each value with probability p and scale up the others; only in training mode."""
        if not (self.training and 0 < self.p < 1) or input.device.type != "cpu" or torch.compiler.is_compiling():
            return super().forward(input)
        count, strides = input.numel(), torch.empty_like(input).stride()
        draws = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        keep = draws.view(torch.int16).as_strided(input.shape, strides) >= round(self.p * 2**16) - 2**15
        return torch.where(keep, input / (1 - self.p), 0)


class Block(nn.Sequential):
    """Twice 3 × 3 convolution, normalisation and leaky ReLU, with dropout between: (B, C, H, W) → (B, K, H, W)."""

    def __init__(self, in_channels: int, out_channels: int, dropout: float = 0.0, norm: str = "batch") -> None:
        super().__init__(
            nn.Conv2d(in_channels, out_channels, 3, padding=1),
            *norm_and_activation(norm, out_channels),
            Dropout(dropout),
            nn.Conv2d(out_channels, out_channels, 3, padding=1),
            *norm_and_activation(norm, out_channels),
        )


class Encoder(nn.Module):
    """Blocks with 2 × 2 max-pooling between them: (B, C, H, W) → maps (B, c_i, H / 2^i, W / 2^i)."""

    def __init__(
        self, in_channels: int = 3, channels: Sequence[int] = CHANNELS, dropout: float = 1.0, norm: Norm = "batch"
    ) -> None:
        super().__init__()
        if len(channels) != len(DROPOUT):
            raise ValueError(f"channels are {tuple(channels)}: give {len(DROPOUT)} numbers, one per level")
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout is {dropout}: give a factor of the paper's probabilities, from 0 to 1")
        widths = itertools.pairwise((in_channels, *channels))
        levels = zip(widths, DROPOUT, level_norms(norm, len(channels)), strict=True)
        self.blocks = nn.ModuleList(Block(*width, dropout * p, own) for width, p, own in levels)
        self.pool = nn.MaxPool2d(2)

    def forward(self, image: Tensor) -> list[Tensor]:
        """Feature maps, at full size first."""
        maps: list[Tensor] = []
        for block in self.blocks:
            maps.append(block(self.pool(maps[-1]) if maps else image))
        return maps


class Up(nn.Module):
    """Halve the channels, double the side, join the skip map: (B, C, H, W), (B, K, 2H, 2W) → (B, K, 2H, 2W)."""

    def __init__(self, in_channels: int, out_channels: int, norm: str = "batch") -> None:
        super().__init__()
        self.reduce = nn.Conv2d(in_channels, out_channels, 1)
        self.upsample = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.block = Block(2 * out_channels, out_channels, norm=norm)

    def forward(self, deep: Tensor, skip: Tensor) -> Tensor:
        """The map one level up."""
        joined: Tensor = self.block(torch.cat((skip, self.upsample(self.reduce(deep))), dim=1))
        return joined


class Decoder(nn.Module):
    """From the encoder's maps to an output (B, K, H, W); a method may have several for one encoder.

    Args:
        out_channels: K, the number of classes, or 3 for an RGB image.
        channels: channels of the encoder's maps.
        norm: normalisation, that of the network: `net.norm`.

    Attributes:
        head: the last 3 × 3 convolution, from the finest map to the output.

    Examples:
        >>> net = UNet(channels=[4, 8, 8, 16, 16])
        >>> second = Decoder(3, net.channels, net.norm)
        >>> second(net.encode(torch.rand(2, 3, 64, 64))).shape
        torch.Size([2, 3, 64, 64])
    """

    def __init__(self, out_channels: int = 2, channels: Sequence[int] = CHANNELS, norm: Norm = "batch") -> None:
        super().__init__()
        norms = level_norms(norm, len(channels))[-2::-1]  # of all levels but the deepest, coarsest first
        widths = itertools.pairwise(reversed(channels))
        self.ups = nn.ModuleList(Up(deep, skip, own) for (deep, skip), own in zip(widths, norms, strict=True))
        self.head = nn.Conv2d(channels[0], out_channels, 3, padding=1)

    def maps(self, features: Sequence[Tensor]) -> list[Tensor]:
        """Decoder maps, coarsest first: (B, c3, H/8, W/8), (B, c2, H/4, W/4), (B, c1, H/2, W/2), (B, c0, H, W)."""
        maps: list[Tensor] = []
        for up, skip in zip(self.ups, reversed(features[:-1]), strict=True):
            maps.append(up(maps[-1] if maps else features[-1], skip))
        return maps

    def forward(self, features: Sequence[Tensor]) -> Tensor:
        """The output (B, K, H, W)."""
        output: Tensor = self.head(self.maps(features)[-1])
        return output


class UNet(Backbone):
    """The paper's UNet, 1,813,762 parameters for 3 → 2, with PyTorch's default initialisation.

    Dropout draws from torch's default generator, as every torch layer does.

    Args:
        in_channels: channels of the image.
        classes: K.
        channels: c0 … c4; smaller numbers make a small network for quick trials.
        dropout: factor of the paper's dropout probabilities; 0 for a short training.
        norm: "batch", the paper's; "instance", each map by its own mean and variance, so that no image depends on the
            others of its batch; or "mixed", instance norm on the two finest levels and batch norm on the others.

    Examples:
        >>> UNet()(torch.rand(2, 3, 64, 64)).shape
        torch.Size([2, 2, 64, 64])
    """

    def __init__(
        self,
        in_channels: int = 3,
        classes: int = 2,
        channels: Sequence[int] = CHANNELS,
        dropout: float = 1.0,
        norm: Norm = "batch",
    ) -> None:
        super().__init__()
        self.channels = tuple(channels)
        self.multiple = 2 ** (len(self.channels) - 1)
        self.norm = norm
        self.encoder = Encoder(in_channels, self.channels, dropout, norm)
        self.decoder = Decoder(classes, self.channels, norm)

    def encode(self, image: Tensor) -> list[Tensor]:
        """Five maps: (B, c0, H, W), (B, c1, H/2, W/2) … (B, c4, H/16, W/16); H and W divisible by 16."""
        self.check_sides(image)
        maps: list[Tensor] = self.encoder(image)
        return maps

    def decode(self, features: Sequence[Tensor]) -> Tensor:
        """Logits (B, K, H, W) from the five maps."""
        logits: Tensor = self.decoder(features)
        return logits
