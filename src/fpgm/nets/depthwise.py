"""The gradients of depthwise convolutions, some of which torch computes slowly on a CPU.

B images, C channels, maps of H × W, kernels of k × k. oneDNN has no fast kernel for the weights' gradient where the map
is smaller than the kernel, and in bfloat16 none for 5 × 5 kernels and strides of 2: there it takes 10 to 100 times the
time of float32. So both gradients are computed in float32, that of the weights tap by tap where the map is small.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

_BACKWARD = torch.ops.aten.convolution_backward


def applies(image: Tensor, weight: Tensor) -> bool:
    """Whether `DepthwiseConv` is for these (B, C, H, W) and (C, 1, k, k), whose gradients are asked for."""
    return (
        weight.shape[1] == 1
        and image.device.type == "cpu"
        and {image.dtype, weight.dtype} <= {torch.float32, torch.bfloat16}
        and torch.is_grad_enabled()
        and weight.requires_grad
        and not torch.compiler.is_compiling()
    )


class DepthwiseConv(torch.autograd.Function):
    """Depthwise convolution, (B, C, H, W), (C, 1, k, k) → (B, C, H', W'), with gradients computed in float32."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
        """Convolve as torch does."""
        ctx.save_for_backward(image, weight)
        ctx.stride, ctx.padding = stride, padding
        return F.conv2d(image, weight, stride=stride, padding=padding, groups=len(weight))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        """Gradients of the image and of the weights."""
        image, weight = ctx.saved_tensors
        values = gradient.float(), image.float(), weight.float()
        for_image, for_weight = None, None
        if ctx.needs_input_grad[0]:
            for_image = _gradients(*values, ctx.stride, ctx.padding, (True, False))[0].to(image.dtype)
        if ctx.needs_input_grad[1]:
            small = min(gradient.shape[-2:]) < weight.shape[-1]
            for_weight = (
                weight_gradient(*values, ctx.stride, ctx.padding)
                if small
                else _gradients(*values, ctx.stride, ctx.padding, (False, True))[1]
            ).to(weight.dtype)
        return for_image, for_weight, None, None


def weight_gradient(gradient: Tensor, image: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
    """Return the gradient (C, 1, k, k) of the weights: of each tap, the sum over what it met times the gradient.

    Shape:
        gradient: (B, C, H', W'); image: (B, C, H, W); weight: (C, 1, k, k).
    """
    height, width = gradient.shape[-2:]
    rows, padded = gradient.permute(0, 2, 3, 1), F.pad(image, (padding,) * 4).permute(0, 2, 3, 1)
    found = torch.empty_like(weight)
    for y in range(weight.shape[-2]):
        for x in range(weight.shape[-1]):
            met = padded[:, y : y + height * stride : stride, x : x + width * stride : stride]
            found[:, 0, y, x] = (rows * met[:, :height, :width]).sum((0, 1, 2))
    return found


def _gradients(
    gradient: Tensor, image: Tensor, weight: Tensor, stride: int, padding: int, wanted: tuple[bool, bool]
) -> tuple[Tensor, Tensor]:
    """Return torch's gradients of image and weights; those that are not wanted are undefined."""
    found = _BACKWARD(
        gradient, image, weight, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], len(weight), [*wanted, False]
    )
    return found[0], found[1]
