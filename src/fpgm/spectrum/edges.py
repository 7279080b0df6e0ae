"""From a mask to the image content on the lesion's edge (Eq. 1, 2)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

GREY_WEIGHTS = (0.299, 0.587, 0.114)
DILATION = 3
THRESHOLD = 0.5


def to_grey(image: Tensor) -> Tensor:
    """Return the luminance of ``image``.

    Shape:
        image: (B, C, H, W), C = 1 (taken as it is) or 3 (RGB). Returns (B, H, W).

    Examples:
        >>> to_grey(torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1, 1).expand(1, 3, 8, 8))[0, 0, 0]
        tensor(0.2990)
    """
    check_image(image)
    if image.shape[1] == 1:
        return image[:, 0]
    red, green, blue = image.unbind(1)
    return torch.add(red * GREY_WEIGHTS[0], green, alpha=GREY_WEIGHTS[1]).add(blue, alpha=GREY_WEIGHTS[2])


def gradient(mask: Tensor) -> Tensor:
    """Return the Sobel gradient magnitude of a mask, zero outside the frame (Eq. 1).

    Shape:
        mask: (B, H, W) with values in [0, 1]. Returns float (B, H, W).

    Examples:
        >>> mask = torch.zeros(1, 8, 8)
        >>> mask[:, :, 4:] = 1
        >>> gradient(mask)[0, 4]
        tensor([0., 0., 0., 4., 4., 0., 0., 4.])
    """
    padded = F.pad(mask if mask.is_floating_point() else mask.float(), (1, 1, 1, 1))
    top, middle, bottom = padded[:, :-2], padded[:, 1:-1], padded[:, 2:]
    down = bottom - top
    across = torch.add(top + bottom, middle, alpha=2)
    left_right = across[..., 2:] - across[..., :-2]
    up_down = torch.add(down[..., 2:] + down[..., :-2], down[..., 1:-1], alpha=2)
    return torch.addcmul(left_right * left_right, up_down, up_down).sqrt()


def edge_mask(mask: Tensor) -> Tensor:
    """Return the dilated edge band of a mask: a 3x3 maximum of its gradient, above 0.5.

    Shape:
        mask: (B, H, W) or (B, 1, H, W), boolean or with values in [0, 1]. Returns bool (B, H, W).

    Examples:
        >>> mask = torch.zeros(1, 16, 16)
        >>> mask[:, :, 8:12] = 1
        >>> edge_mask(mask)[0, 8].nonzero().flatten()
        tensor([ 6,  7,  8,  9, 10, 11, 12, 13])
    """
    magnitude = gradient(check_mask(mask))
    return F.max_pool2d(magnitude, DILATION, stride=1, padding=DILATION // 2) > THRESHOLD


def edge_region(image: Tensor, mask: Tensor) -> Tensor:
    """Return the grey image on the edge band and zero elsewhere (Eq. 2).

    Shape:
        image: (B, C, H, W) in [0, 1]; mask: (B, H, W) or (B, 1, H, W). Returns (B, H, W).

    Examples:
        >>> image, mask = torch.full((1, 3, 16, 16), 0.5), torch.zeros(1, 16, 16)
        >>> mask[:, :, :8] = 1
        >>> edge_region(image, mask)[0, 8, 5:11]
        tensor([0.0000, 0.5000, 0.5000, 0.5000, 0.5000, 0.0000])
    """
    grey, mask = to_grey(image), check_mask(mask)
    if grey.shape != mask.shape:
        raise ValueError(
            f"image {tuple(image.shape)} and mask {tuple(mask.shape)} do not belong together: "
            "expected one mask per image, of the same height and width"
        )
    return grey * edge_mask(mask)


def check_image(image: Tensor) -> None:
    """Refuse what is not a batch of grey or RGB images of at least 8x8 pixels."""
    shape = tuple(image.shape)
    if image.ndim != 4:
        raise ValueError(f"expected images of shape (B, C, H, W), got {shape}; add the missing axes, e.g. image[None]")
    if shape[1] not in (1, 3):
        raise ValueError(f"expected 1 (grey) or 3 (RGB) channels on axis 1, got {shape[1]} in {shape}")
    if not image.is_floating_point():
        raise ValueError(f"expected floating-point images in [0, 1], got {image.dtype}; divide by 255 first")
    check_size(*shape[-2:])


def check_size(height: int, width: int) -> None:
    """Refuse images that are too small for a radial profile."""
    if min(height, width) < 8:
        raise ValueError(f"expected images of at least 8x8 pixels, got {height}x{width}")


def check_mask(mask: Tensor) -> Tensor:
    """Return the mask as (B, H, W), refusing other ranks and values outside [0, 1]."""
    shape = tuple(mask.shape)
    if mask.ndim == 4 and shape[1] == 1:
        mask = mask[:, 0]
    if mask.ndim != 3:
        raise ValueError(f"expected masks of shape (B, H, W) or (B, 1, H, W), got {shape}")
    if not torch.compiler.is_compiling() and mask.dtype is not torch.bool and mask.numel():
        low, high = (float(bound) for bound in torch.aminmax(mask))
        if not (low >= 0 and high <= 1):
            raise ValueError(
                f"expected mask values in [0, 1], got {low:g} to {high:g}; "
                "a mask stored as 0/255 becomes one with mask > 127"
            )
    return mask
