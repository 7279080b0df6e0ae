"""Batch-norm statistics of a trained network: estimated from other images, or blended with each image's own.

N images of S × S pixels, B in a batch; C channels of all batch-norm layers, one layer after the other. The weights
stay as they are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

Advance = Callable[[int, int], None]
Source = Literal["training", "clean"]
Batches = Iterable[Tensor]
_PART = 16  # images whose differences from the mean are in memory at once


class BlendedBatchNorm(_BatchNorm):
    """Batch norm that mixes its running statistics with those of each image's own pixels, when it evaluates.

    Mean and variance are both (1 - own) × running + own × the image's. In training it is plain batch norm. Its state
    has the names of the layer it replaces.

    Args:
        layer: the plain layer, whose weights and statistics it takes.
        own: share of the image's own statistics, above 0 and up to 1.
    """

    def __init__(self, layer: _BatchNorm, own: float) -> None:
        super().__init__(layer.num_features, layer.eps, layer.momentum, layer.affine)
        self.own, self.plain = own, type(layer)
        _take(self, layer)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise (B, C, …), each image by itself."""
        if self.training or input.dim() < 3:  # without pixels an image has no statistics
            return super().forward(input)
        assert self.running_mean is not None and self.running_var is not None
        shape, value = (1, -1, *(1 for _ in range(input.dim() - 2))), input.float()
        mean, variance = _mean_variance(value, tuple(range(2, input.dim())))
        mean = (1 - self.own) * self.running_mean.view(shape) + self.own * mean
        variance = (1 - self.own) * self.running_var.view(shape) + self.own * variance
        scale = torch.rsqrt(variance + self.eps)
        if self.affine:
            scale = scale * self.weight.view(shape)
        shift = -mean * scale
        if self.affine:
            shift = shift + self.bias.view(shape)
        return torch.addcmul(shift, value, scale).to(input.dtype)

    def _check_input_dim(self, input: Tensor) -> None:
        """Take any number of dimensions."""


class ImageBatches:
    """Prepared images as batches (B, 3, S, S) in [0, 1]; can be iterated over several times.

    Args:
        images: uint8 (N, S, S, 3), as stores hold them.
        batch_size: B.
        device: device of the batches.
    """

    def __init__(self, images: Tensor, batch_size: int = 16, device: torch.device | str = "cpu") -> None:
        if images.dtype != torch.uint8 or images.dim() != 4 or images.shape[-1] != 3 or not len(images):
            raise ValueError(f"images are {images.dtype} {tuple(images.shape)}: give uint8 (N, S, S, 3), N at least 1")
        self.images, self.batch_size, self.device = images, batch_size, device

    def __iter__(self) -> Iterator[Tensor]:
        for start in range(0, len(self.images), self.batch_size):
            part = self.images[start : start + self.batch_size]
            yield part.to(self.device).permute(0, 3, 1, 2).float().div_(255)

    def __len__(self) -> int:
        return -(-len(self.images) // self.batch_size)


class Moments(NamedTuple):
    """Mean and variance of what reaches the batch-norm layers, per image and channel: (N, C) each, float64."""

    mean: Tensor
    variance: Tensor

    def pooled(self, chosen: slice = slice(None)) -> Moments:
        """Mean and variance (1, C) over all pixels of the chosen images, which are of one size."""
        mean = self.mean[chosen].mean(0, keepdim=True)
        spread = (self.mean[chosen] - mean).square().mean(0, keepdim=True)
        return Moments(mean, self.variance[chosen].mean(0, keepdim=True) + spread)


class Choice(NamedTuple):
    """The batch-norm statistics with the highest score.

    Attributes:
        source: "training", those of the training, or "clean", estimated from clean training images.
        own: share of each image's own statistics.
        net: a copy of the network with these statistics, in evaluation mode.
        scores: score of each candidate, by name.
    """

    source: Source
    own: float
    net: nn.Module
    scores: dict[str, float]


def has_batchnorm(net: nn.Module) -> bool:
    """Whether the network has batch-norm layers with running statistics."""
    return bool(_layers(net))


@torch.no_grad()
def estimate(net: nn.Module, batches: Batches, advance: Advance = lambda done, total: None) -> nn.Module:
    """Return a copy of the network, in evaluation mode, whose batch-norm statistics are those of the images.

    Each layer gets the mean and the unbiased variance of its input over all pixels of all images, while the layers
    before it use their new statistics already. So neither the order of the images nor the batch size matters, and the
    statistics are exactly those of evaluating these images. All images pass at once, which takes about as much memory
    for 128 of them as a training step of 16; layers that are not reached are not changed.

    Args:
        net: any network with batch norm.
        batches: images (B, 3, S, S) as the network takes them.
        advance: called with the number of layers done and the number of all layers.
    """
    made = copy.deepcopy(_need(net)).eval()
    held = tuple(batches)
    layers = _in_order(made, held)

    def fit(layer: _BatchNorm, value: Tensor, done: int) -> None:
        count = value.numel() // value.shape[1]
        if count < 2:
            raise ValueError("one image of one pixel per channel has no variance: give more images, or larger ones")
        value, dims = value.float(), (0, *range(2, value.dim()))
        mean = value.mean(dims, keepdim=True)
        squares = torch.stack([(part - mean).square_().sum(dims) for part in torch.split(value, _PART)]).sum(0)
        assert layer.running_mean is not None and layer.running_var is not None
        layer.running_mean.copy_(mean.flatten())
        layer.running_var.copy_(squares / (count - 1))
        advance(done, len(layers))

    with _looking(layers, fit):
        made(torch.cat(held))
    return made


def blend(net: nn.Module, own: float) -> nn.Module:
    """Return a copy of the network whose batch-norm layers mix running statistics with each image's own.

    Args:
        net: any network with batch norm, blended before or not.
        own: share of the image's own statistics: 0 is the plain network, 1 the image alone.
    """
    if not 0 <= own <= 1:
        raise ValueError(f"own is {own}: give the share of an image's own statistics, from 0 to 1")
    made = copy.deepcopy(_need(net))
    if isinstance(made, _BatchNorm):
        return _blended(made, own)
    for parent in list(made.modules()):
        for name, child in parent.named_children():
            if isinstance(child, _BatchNorm) and child.running_mean is not None:
                setattr(parent, name, _blended(child, own))
    return made


@torch.no_grad()
def moments(net: nn.Module, batches: Batches) -> Moments:
    """Mean and variance, per image, of what reaches each batch-norm layer while the network evaluates the images."""
    made = copy.deepcopy(_need(net)).eval()
    rows = [_image_moments(made, batch) for batch in batches]
    mean, variance = (torch.cat(side).double().cpu() for side in zip(*rows, strict=True))
    return Moments(mean, variance)


def _image_moments(net: nn.Module, batch: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance (B, C) of what reaches each layer, per image of a batch."""
    pairs: list[tuple[Tensor, Tensor]] = []

    def look(layer: _BatchNorm, value: Tensor, done: int) -> None:
        pairs.append(_mean_variance(value.float().unsqueeze(-1).flatten(2), (2,)))

    with _looking(_layers(net), look):
        net(batch)
    mean, variance = (torch.cat(side, dim=1).squeeze(2) for side in zip(*pairs, strict=True))
    return mean, variance


def running(net: nn.Module, batches: Batches) -> Moments:
    """Return the running statistics (1, C) of the layers that the network reaches, in the order of `moments`."""
    layers = _in_order(_need(net), batches)
    sides = [[getattr(layer, name) for layer in layers] for name in ("running_mean", "running_var")]
    mean, variance = (torch.cat(side).double().cpu()[None] for side in sides)
    return Moments(mean, variance)


def distance(first: Moments, second: Moments, unit: Moments) -> float:
    """Distance between two statistics (1, C), in standard deviations of a third; the median over channels.

    For one channel it is √((μ₁ − μ₂)² + (σ₁ − σ₂)²) / σ, the 2-Wasserstein distance of two normal distributions.
    """
    apart = torch.hypot(first.mean - second.mean, first.variance.sqrt() - second.variance.sqrt())
    return float((apart / (unit.variance + 1e-5).sqrt()).quantile(0.5))


def shift(net: nn.Module, batches: Batches) -> float:
    """Distance between the statistics of the images and the running ones, in standard deviations; see `distance`."""
    held = tuple(batches) if isinstance(batches, Iterator) else batches
    expected = running(net, held)
    return distance(moments(net, held).pooled(), expected, expected)


def choose_statistics(
    net: nn.Module,
    clean_batches: Batches,
    score: Callable[[nn.Module], float],
    *,
    owns: Sequence[float] = (0.0, 0.2, 0.5),
    advance: Advance = lambda done, total: None,
) -> Choice:
    """Compare a network's own statistics with those of clean images, each with several shares of an image's own.

    Nothing is drawn at random; of equal scores the earlier candidate is kept, and the statistics of the training come
    first. A network without batch norm is scored and returned as it is.

    Args:
        net: the trained network; it is not changed.
        clean_batches: training images without augmentation, labelled and unlabelled; see `ImageBatches`.
        score: function from a network in evaluation mode to a score, higher is better, such as the validation Dice.
        owns: shares of the image's own statistics to try; see `blend`.
        advance: called with the number of candidates scored and the number of all candidates.
    """
    if not has_batchnorm(net):
        plain = copy.deepcopy(net).eval()
        return Choice("training", 0.0, plain, {"training": score(plain)})
    bases: dict[Source, nn.Module] = {"training": net, "clean": estimate(net, clean_batches)}
    candidates = [(source, own) for source in bases for own in owns]
    scores: dict[str, float] = {}
    for source, own in candidates:
        scores[_name(source, own)] = score(blend(bases[source], own).eval())
        advance(len(scores), len(candidates))
    source, own = max(candidates, key=lambda one: scores[_name(*one)])  # of equal ones the first
    return Choice(source, own, blend(bases[source], own).eval(), scores)


def _mean_variance(value: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Mean and biased variance over some dimensions, which are kept. On a CPU `var_mean` takes 20 times as long."""
    mean = value.mean(dims, keepdim=True)
    return mean, (value - mean).square_().mean(dims, keepdim=True)


def _name(source: Source, own: float) -> str:
    return f"{source}, {own:g} own" if own else source


def _layers(net: nn.Module) -> list[_BatchNorm]:
    return [layer for layer in net.modules() if isinstance(layer, _BatchNorm) and layer.running_mean is not None]


def _need(net: nn.Module) -> nn.Module:
    if not has_batchnorm(net):
        raise ValueError(
            "the network has no batch norm with running statistics, so there are none to replace: it normalises each "
            "image by itself or not at all; use it as it is, or train one with batch norm, such as unet"
        )
    return net


def _take(layer: _BatchNorm, other: _BatchNorm) -> None:
    """Give a new layer the weights, statistics, device and mode of another."""
    assert other.running_mean is not None
    layer.to(other.running_mean.device, other.running_mean.dtype)
    layer.load_state_dict(other.state_dict())
    layer.train(other.training)


def _blended(layer: _BatchNorm, own: float) -> _BatchNorm:
    if isinstance(layer, BlendedBatchNorm):
        plain = layer.plain(layer.num_features, layer.eps, layer.momentum, layer.affine)
        _take(plain, layer)
        layer = plain
    return BlendedBatchNorm(layer, own) if own else layer


@contextmanager
def _looking(layers: Iterable[_BatchNorm], look: Callable[[_BatchNorm, Tensor, int], None]) -> Iterator[None]:
    """Call a function with each layer, what reaches it first, and how many were reached, before the layer computes."""
    reached: set[nn.Module] = set()

    def hook(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        assert isinstance(layer, _BatchNorm)
        if layer not in reached:
            reached.add(layer)
            look(layer, inputs[0], len(reached))

    hooks = [layer.register_forward_pre_hook(hook) for layer in layers]
    try:
        yield
    finally:
        for one in hooks:
            one.remove()


@torch.no_grad()
def _in_order(net: nn.Module, batches: Batches) -> list[_BatchNorm]:
    """Return the layers that the network reaches, in the order of computation."""
    first = next(iter(batches), None)
    if first is None:
        raise ValueError("there are no images to estimate statistics from: give at least one batch")
    reached: list[_BatchNorm] = []
    with _looking(_layers(net), lambda layer, value, done: reached.append(layer)):
        net(first[:1])
    return reached
