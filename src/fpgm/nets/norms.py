"""What follows a convolution: normalisation of its maps, and leaky ReLU.

B images, C channels, maps of H × W; a map is normalised to mean 0 and variance 1, then scaled and shifted by two
learnt numbers per channel. The choices differ in what mean and variance are computed over.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

Norm = Literal["batch", "instance", "mixed"]
NORMS: tuple[Norm, ...] = get_args(Norm)
FINE_LEVELS = 2  # how many levels "mixed" normalises by instance
SLOPE = 0.01  # of the leaky ReLU, torch's default
_SMALL = 2**16  # bytes per image up to which copying the maps costs less than a call per image


def level_norms(norm: str, levels: int) -> list[str]:
    """Return "batch" or "instance" for each level, the finest first.

    "mixed" takes instance norm on the two finest levels, whose maps hold most of what is particular to a scanner, and
    batch norm on the others, after Pan et al., Two at Once (IBN-Net), ECCV 2018. They mix both within a layer; by
    levels it needs no further layer, and every map stays contiguous in memory.
    """
    if norm not in NORMS:
        raise ValueError(f"norm is {norm!r}: give one of {', '.join(NORMS)}")
    if norm != "mixed":
        return [norm] * levels
    return ["instance" if level < FINE_LEVELS else "batch" for level in range(levels)]


def norm_and_activation(norm: str, channels: int) -> tuple[nn.Module, nn.Module]:
    """Return normalisation and activation after a convolution; with "instance" the first layer does both."""
    if norm == "instance":
        return InstanceNormLeakyReLU(channels), nn.Identity()
    return nn.BatchNorm2d(channels), nn.LeakyReLU(SLOPE, inplace=True)


class InstanceNormLeakyReLU(nn.InstanceNorm2d):
    """Instance norm with learnt scale and shift, then leaky ReLU: (B, C, H, W) → (B, C, H, W).

    Each map is normalised by its own mean and variance, in training and in evaluation: no image depends on the others
    of its batch, and there are no running statistics. torch's own layer first copies a channels-last batch plane by
    plane, and the next convolution copies it back; on a CPU that made a training step of the UNet 1.2 to 1.45 times as
    long. Here channels-last maps are not copied. On other devices, and in compiled code, it is torch's own.
    """

    def __init__(self, channels: int) -> None:
        super().__init__(channels, affine=True)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised maps, those below 0 scaled by the slope."""
        if input.shape[-2:].numel() == 1:
            raise ValueError("instance norm has nothing to normalise in a map of 1 x 1: give larger images")
        plain = input.ndim != 4 or input.device.type != "cpu" or input.is_contiguous()
        if plain or torch.compiler.is_compiling():
            return F.leaky_relu(super().forward(input), SLOPE)
        if len(input) == 1 or input.nbytes <= _SMALL * len(input):
            return F.leaky_relu_(_side_by_side(input, self.weight, self.bias, self.eps), SLOPE)
        maps = input.contiguous(memory_format=torch.channels_last)
        normalised: Tensor = _ImageByImage.apply(maps, self.weight, self.bias, self.eps)  # type: ignore[no-untyped-call]  # torch
        return normalised


def _side_by_side(maps: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Instance norm as one batch norm over a matrix with a column per image and channel: for small maps."""
    count, channels, height, width = maps.shape
    columns = maps.permute(2, 3, 0, 1).reshape(height * width, count * channels)
    scale, shift = weight.repeat(count), bias.repeat(count)
    normalised = torch.native_batch_norm(columns, scale, shift, None, None, True, 0.0, eps)[0]
    back = normalised.view(height, width, count, channels).permute(2, 3, 0, 1)
    return back.contiguous(memory_format=torch.channels_last)


class _ImageByImage(torch.autograd.Function):
    """Instance norm and leaky ReLU of channels-last maps, as the batch norm of one image after the other.

    A whole image then fits into the cache of torch's batch-norm kernels. Results are written in place; the gradient
    of the leaky ReLU and that of the maps share their memory.
    """

    @staticmethod
    def forward(ctx: Any, maps: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        output = torch.empty_like(maps)
        means, inverse_stds = torch.empty(2, *maps.shape[:2], dtype=weight.dtype)
        for image, *results in zip(_images(maps), _images(output), means, inverse_stds, strict=True):
            torch.native_batch_norm(image, weight, bias, None, None, True, 0.0, eps, out=tuple(results))
        F.leaky_relu_(output, SLOPE)
        ctx.save_for_backward(maps, output, weight, means, inverse_stds)
        ctx.eps = eps
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        maps, output, weight, means, inverse_stds = ctx.saved_tensors
        norm_backward = torch.ops.aten.native_batch_norm_backward.default
        result = torch.empty_like(maps)
        torch.ops.aten.leaky_relu_backward.grad_input(grad, output, SLOPE, True, grad_input=result)
        of_weights, of_biases = [], []
        for part, image, mean, inverse_std in zip(_images(result), _images(maps), means, inverse_stds, strict=True):
            of_image, of_weight, of_bias = norm_backward(
                part, image, weight, None, None, mean, inverse_std, True, ctx.eps, [True, True, True]
            )
            part.copy_(of_image)
            of_weights.append(of_weight)
            of_biases.append(of_bias)
        return result, torch.stack(of_weights).sum(0), torch.stack(of_biases).sum(0), None


def _images(maps: Tensor) -> tuple[Tensor, ...]:
    """Views (1, C, H, W) of the images of a batch."""
    return maps.chunk(len(maps))
