"""Weak views, geometry, strong views and CutMix boxes: `draw_*` draws parameters, `apply_*` changes pixels.

B images of S × S pixels. Parameters have one row per image, so a view can be replayed, divided along the batch, and
applied to a mask. An image depends only on its own row, bit for bit, whatever its batch and the number of threads: a
run on two processes sees the pictures of a run on one.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeVar

import torch
from kornia.enhance import adjust_brightness_accumulative, adjust_saturation_with_gray_subtraction
from kornia.filters import gaussian_blur2d
from torch import Generator, Tensor
from torch.nn import functional as F

from fpgm.data.batches.batch import Geometry, Strength

WEAK = 0.5  # probability of each weak move; the released code's is 0.25
_SIGMA = (0.1, 2.0)  # of the blur, in pixels
_TAPS = 13  # of the blur's kernel: three times the largest sigma on either side
_AREA = (0.02, 0.4)  # of a box, as a share of the image
_RATIO = (0.3, 1 / 0.3)  # of a box, height over width


class WeakParams(NamedTuple):
    """Moves of the square, (B,) bool each, made in this order."""

    flip_x: Tensor
    flip_y: Tensor
    turn: Tensor


class GeometryParams(NamedTuple):
    """Where the pixels of a moved image come from.

    Attributes:
        moved: (B,) bool; the others are left as they are.
        source: (B, 2, 3); a pixel at (x, y) is taken from `source` · (x, y, 1), in halves of the side about the centre.
    """

    moved: Tensor
    source: Tensor


class StrongParams(NamedTuple):
    """Changes of a picture; rows of (1, 1, 1, 0), 0 and an empty box leave it as it is.

    Attributes:
        box: (B, 4) int64, the part cut out (see `draw_boxes`).
        noise: (B,) int64, seeds of the noise that fills it.
        factors: (B, 4), factors of brightness, contrast and saturation, and shift of the hue in turns.
        order: (B, 4) int64, order of the four changes.
        sigma: (B,), sigma of the blur in pixels.
    """

    box: Tensor
    noise: Tensor
    factors: Tensor
    order: Tensor
    sigma: Tensor


Params = TypeVar("Params", WeakParams, GeometryParams, StrongParams)


def rows(params: Params, part: slice | Tensor) -> Params:
    """Parameters of some of the images: a slice, or (B,) bool."""
    return type(params)(*(entry[part] for entry in params))


def draw_weak(count: int, generator: Generator, probability: float = WEAK) -> WeakParams:
    """Draw a horizontal flip, a vertical flip and a quarter turn, each with the same probability.

    At 0.5 each of the eight positions of a square is equally likely.
    """
    return WeakParams(*(torch.rand(3, count, generator=generator) < probability))


def apply_weak(image: Tensor, params: WeakParams) -> Tensor:
    """Move images (B, …, S, S) or masks (B, S, S) of any type; the quarter turn is counter-clockwise."""
    return torch.stack([_move(*entry) for entry in zip(image, *(moves.tolist() for moves in params), strict=True)])


def _move(picture: Tensor, flip_x: bool, flip_y: bool, turn: bool) -> Tensor:
    flips = [axis for axis, chosen in ((-1, flip_x), (-2, flip_y)) if chosen]
    picture = picture.flip(flips) if flips else picture
    return picture.rot90(1, (-2, -1)) if turn else picture


def draw_geometry(count: int, generator: Generator, geometry: Geometry) -> GeometryParams:
    """Draw which images are moved, and how: stretch, then rotation, then shift."""
    moved, size, aspect, angle, x, y = torch.rand(6, count, generator=generator)
    low, high = map(math.log, geometry.scale)
    size = torch.exp(low + size * (high - low))
    stretch = torch.exp((aspect - 0.5) * math.log(geometry.aspect))  # the root of width over height
    angle = math.radians(geometry.rotation) * (2 * angle - 1)
    x, y = geometry.shift * (2 * x - 1), geometry.shift * (2 * y - 1)
    # backwards from a pixel to where it comes from: undo the shift, turn back, shrink back
    to_x = torch.stack((angle.cos(), angle.sin()), 1) / (size * stretch)[:, None]
    to_y = torch.stack((-angle.sin(), angle.cos()), 1) * (stretch / size)[:, None]
    turn = torch.stack((to_x, to_y), 1)
    offset = -(turn[..., 0] * x[:, None] + turn[..., 1] * y[:, None])
    return GeometryParams(moved < geometry.probability, torch.cat((turn, offset[..., None]), 2))


def apply_geometry(image: Tensor, params: GeometryParams) -> Tensor:
    """Move 8-bit images (B, 3, S, S), interpolating, or masks (B, S, S), taking the nearest pixel."""
    if not params.moved.any():
        return image
    chosen, source = image[params.moved], params.source[params.moved]
    planes = chosen if image.ndim == 4 else chosen[:, None]
    centre = (torch.arange(image.shape[-1]) + 0.5) * (2 / image.shape[-1]) - 1
    across, down, still = (source[..., k, None, None] for k in range(3))  # (B, 2, 1, 1) each
    grid = across * centre[None, :] + down * centre[:, None] + still
    mode = "bilinear" if image.ndim == 4 else "nearest"
    found = F.grid_sample(planes.float(), grid.movedim(1, -1), mode, "zeros", align_corners=False)
    result = image.clone()
    result[params.moved] = found.round_().to(image.dtype).view_as(chosen)
    return result


def draw_boxes(count: int, size: int, generator: Generator, probability: float = 0.5) -> Tensor:
    """Draw boxes (B, 4) int64 of top, left, bottom, right (both exclusive); all 0 where there is none.

    The area is U(0.02, 0.4) of the image and kept while the ratio of the sides, U(0.3, 1 / 0.3), and the corner are
    drawn until the box lies inside the image.
    """
    boxes = torch.zeros(count, 4, dtype=torch.int64)
    for i in range(count):
        chosen, share = torch.rand(2, generator=generator).tolist()
        area = (_AREA[0] + share * (_AREA[1] - _AREA[0])) * size**2
        while chosen < probability:
            u, y, x = torch.rand(3, generator=generator).tolist()
            ratio, top, left = _RATIO[0] + u * (_RATIO[1] - _RATIO[0]), int(y * size), int(x * size)
            bottom, right = top + int(math.sqrt(area * ratio)), left + int(math.sqrt(area / ratio))
            if bottom <= size and right <= size:
                boxes[i] = torch.tensor((top, left, bottom, right))
                break
    return boxes


def inside(boxes: Tensor, size: int) -> Tensor:
    """The pixels in boxes (B, 4) as (B, S, S) bool."""
    pixel = torch.arange(size)
    top, left, bottom, right = boxes.view(-1, 4, 1).unbind(1)
    row, column = (pixel >= top) & (pixel < bottom), (pixel >= left) & (pixel < right)
    return row[:, :, None] & column[:, None, :]


def draw_strong(count: int, size: int, generator: Generator, strength: Strength) -> StrongParams:
    """Draw the parameters that turn weak views of S × S pixels into strong ones."""
    jittered, blurred, sigma = torch.rand(3, count, generator=generator)
    reach = torch.tensor((strength.brightness, strength.contrast, strength.saturation, strength.hue))
    still = torch.tensor((1.0, 1.0, 1.0, 0.0))
    factors = still + reach * (2 * torch.rand(count, 4, generator=generator) - 1)
    return StrongParams(
        order=torch.rand(count, 4, generator=generator).argsort(1),
        factors=torch.where(jittered[:, None] < strength.jitter, factors, still),
        sigma=torch.where(blurred < strength.blur, _SIGMA[0] + sigma * (_SIGMA[1] - _SIGMA[0]), 0.0),
        noise=torch.randint(2**31, (count,), generator=generator),
        box=draw_boxes(count, size, generator, strength.cutout),
    )


def apply_strong(image: Tensor, params: StrongParams) -> Tensor:
    """Change images (B, 3, S, S) in [0, 1]; the result stays in [0, 1]."""
    image = cut_out(image, params)
    pictures = zip(image, params.factors.tolist(), params.order.tolist(), strict=True)
    # each picture has an order of its own; one at a time costs no more, because it stays in the processor's cache
    image = torch.stack([jitter(*entry) for entry in pictures])
    blurred = params.sigma > 0
    if blurred.any():
        sigma = params.sigma[blurred, None].expand(-1, 2)
        image[blurred] = gaussian_blur2d(image[blurred], _TAPS, sigma).clamp_(0, 1)
    return image


def cut_out(image: Tensor, params: StrongParams) -> Tensor:
    """Fill each image's box with noise of 0 and 1, drawn for every pixel and channel."""
    if not params.box.any():
        return image
    shape = image.shape[1:]
    noise = [torch.randint(2, shape, generator=Generator().manual_seed(seed)) for seed in params.noise.tolist()]
    return torch.where(inside(params.box, shape[-1])[:, None], torch.stack(noise).to(image.dtype), image)


def jitter(picture: Tensor, factors: list[float], order: list[int]) -> Tensor:
    """Change brightness, contrast, saturation and hue of a picture (3, S, S) in [0, 1], in the order given.

    The formulas are those of torchvision's ColorJitter, which draws one order per picture; kornia's class draws one
    per batch, therefore its functions are called here.
    """
    for step in order:
        factor = factors[step]
        if factor == (0.0 if step == 3 else 1.0):
            continue
        if step == 0:
            picture = adjust_brightness_accumulative(picture, factor)
        elif step == 1:
            picture = _contrast(picture, factor)
        elif step == 2:
            picture = adjust_saturation_with_gray_subtraction(picture, factor)
        else:
            picture = _hue(picture, factor)
    return picture


def _contrast(picture: Tensor, factor: float) -> Tensor:
    """Blend with the mean grey value, summed row by row: kornia's mean depends on the number of threads."""
    grey = picture.new_tensor((0.299, 0.587, 0.114)) @ picture.mean(-1).mean(-1)
    return (factor * picture + (1 - factor) * grey).clamp_(0, 1)


def _hue(picture: Tensor, turns: float) -> Tensor:
    """Turn the hue in HSV space; in closed form, a third of the time of kornia's way there and back."""
    r, g, b = picture
    value = picture.amax(0)
    chroma = value - picture.amin(0)
    scale = 1 / chroma.clamp(min=1e-12)  # grey has no hue, and no chroma to show it
    hue = torch.where(b >= g, 4 + (r - g) * scale, 2 + (b - r) * scale)
    hue = torch.where((r >= g) & (r >= b), (g - b) * scale, hue).add_(6 * turns)
    return torch.stack([value - chroma * _lack(hue + offset) for offset in (5, 3, 1)])


def _lack(hue: Tensor) -> Tensor:
    """How far a channel stays below the value, in [0, 1]: a trapezium over the six sixths of the colour circle."""
    sixth = hue - 6 * (hue / 6).floor_()
    return torch.minimum(sixth, 4 - sixth).clamp_(0, 1)
