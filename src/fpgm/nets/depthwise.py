"""The gradient of depthwise 5 × 5 convolutions on small maps, which torch computes slowly on a CPU.

B images, C channels, maps of H × W. oneDNN has no fast kernel for the weights' gradient where the map is hardly larger
than the kernel: on 4 × 4 maps of 1,152 channels it takes seven times as long as four gradients of 3 × 3 kernels, which
together hold every tap of the 5 × 5 kernel.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional as F

KERNEL = 5
SMALL = 16  # pixels of a map, from which on torch's own gradient is as fast
_BACKWARD = torch.ops.aten.convolution_backward


def is_slow(image: Tensor, weight: Tensor) -> bool:
    """Whether torch's gradient for these (B, C, H, W) and (C, 1, k, k) is the slow one, and is asked for."""
    return (
        weight.shape[1:] == (1, KERNEL, KERNEL)
        and image.shape[-2] * image.shape[-1] <= SMALL
        and image.device.type == "cpu"
        and image.dtype == weight.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and torch.is_grad_enabled()
        and weight.requires_grad
    )


class DepthwiseConv(torch.autograd.Function):
    """Depthwise 5 × 5 convolution of stride 1 that keeps the size: (B, C, H, W), (C, 1, 5, 5) → (B, C, H, W)."""

    @staticmethod
    def forward(ctx: FunctionCtx, image: Tensor, weight: Tensor) -> Tensor:
        """Convolve as torch does."""
        ctx.save_for_backward(image, weight)
        return F.conv2d(image, weight, padding=KERNEL // 2, groups=len(weight))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Gradients of the image, by torch, and of the weights, by parts."""
        image, weight = ctx.saved_tensors
        wanted_image, wanted_weight = ctx.needs_input_grad
        for_image = _gradients(gradient, image, weight, KERNEL // 2, (True, False))[0] if wanted_image else None
        return for_image, weight_gradient(gradient, image) if wanted_weight else None


def weight_gradient(gradient: Tensor, image: Tensor) -> Tensor:
    """Return the gradient (C, 1, 5, 5) of the weights, put together from those of four 3 × 3 kernels.

    Shape:
        gradient, image: (B, C, H, W).
    """
    height, width = image.shape[-2:]
    padded = F.pad(image, (KERNEL // 2,) * 4)
    part = image.new_empty(image.shape[1], 1, 3, 3)
    whole = image.new_empty(image.shape[1], 1, KERNEL, KERNEL)
    for y in (0, 2):
        for x in (0, 2):
            seen = padded[..., y : y + height + 2, x : x + width + 2].contiguous(memory_format=torch.channels_last)
            whole[..., y : y + 3, x : x + 3] = _gradients(gradient, seen, part, 0, (False, True))[1]
    return whole


def _gradients(
    gradient: Tensor, image: Tensor, weight: Tensor, padding: int, wanted: tuple[bool, bool]
) -> tuple[Tensor, Tensor]:
    """Return torch's gradients of image and weights; those that are not wanted are undefined."""
    found = _BACKWARD(
        gradient, image, weight, None, [1, 1], [padding] * 2, [1, 1], False, [0, 0], len(weight), [*wanted, False]
    )
    return found[0], found[1]
