"""Views: the pixels against Pillow, colorsys, scipy and kornia; the draws against their distributions."""

from __future__ import annotations

import colorsys
import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kornia.augmentation import ColorJitter
from PIL import Image, ImageEnhance
from scipy.ndimage import affine_transform, gaussian_filter
from torch import Generator, Tensor

from fpgm.data.batches.batch import Geometry, Strength, Views
from fpgm.data.batches.views import (
    GeometryParams,
    StrongParams,
    WeakParams,
    apply_geometry,
    apply_strong,
    apply_weak,
    cut_out,
    draw_boxes,
    draw_geometry,
    draw_strong,
    draw_weak,
    inside,
    jitter,
    rows,
)

STILL = [1.0, 1.0, 1.0, 0.0]
ALWAYS = Strength(jitter=1, blur=1, cutout=1)


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def pictures(count: int, size: int, seed: int = 0) -> Tensor:
    """Noise, with black, grey, white and pure colours in the first rows."""
    image = torch.rand(count, 3, size, size, generator=generator(seed))
    image[..., 0, :] = 0
    image[..., 1, :] = 0.5
    image[..., 2, :] = 1
    image[..., 3:6, :] = image[..., 3:6, :].round()
    return image


def strong(
    count: int,
    factors: list[float] | None = None,
    order: tuple[int, ...] = (0, 1, 2, 3),
    sigma: float = 0.0,
    box: tuple[int, int, int, int] = (0, 0, 0, 0),
) -> StrongParams:
    """The same parameters for all images."""
    return StrongParams(
        box=torch.tensor(box).expand(count, 4),
        noise=torch.arange(count),
        factors=torch.tensor(factors or STILL).expand(count, 4),
        order=torch.tensor(order).expand(count, 4),
        sigma=torch.full((count,), sigma),
    )


# ---- weak


def test_weak_moves_by_hand() -> None:
    image = torch.tensor([[1, 2], [3, 4]]).expand(5, 2, 2)
    params = WeakParams(
        flip_x=torch.tensor([True, False, False, True, False]),
        flip_y=torch.tensor([False, True, False, True, False]),
        turn=torch.tensor([False, False, True, False, False]),
    )
    expected = [[[2, 1], [4, 3]], [[3, 4], [1, 2]], [[2, 4], [1, 3]], [[4, 3], [2, 1]], [[1, 2], [3, 4]]]
    assert apply_weak(image, params).tolist() == expected


def test_convention_flips_come_before_the_counter_clockwise_turn() -> None:
    # 1 2      2 1      1 3
    # 3 4  ->  4 3  ->  2 4; the other order would give 4 2 / 3 1
    params = WeakParams(torch.tensor([True]), torch.tensor([False]), torch.tensor([True]))
    assert apply_weak(torch.tensor([[[1, 2], [3, 4]]]), params).tolist() == [[[1, 3], [2, 4]]]


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_masks_follow_their_images(seed: int) -> None:
    image = torch.randint(256, (6, 3, 9, 9), dtype=torch.uint8, generator=generator(seed))
    mask = (image[:, 1] > 127).to(torch.uint8)
    params = draw_weak(6, generator(seed))
    assert torch.equal(apply_weak(mask, params), (apply_weak(image, params)[:, 1] > 127).to(torch.uint8))


def test_weak_probability_at_both_ends() -> None:
    image = pictures(4, 8)
    assert torch.equal(apply_weak(image, draw_weak(4, generator(), 0.0)), image)
    assert torch.stack(draw_weak(4, generator(), 1.0)).all()


def test_weak_positions_are_equally_likely_at_one_half() -> None:
    position = torch.arange(4).view(1, 2, 2).expand(8000, 2, 2)
    seen = apply_weak(position, draw_weak(8000, generator())).flatten(1).unique(dim=0, return_counts=True)[1]
    assert len(seen) == 8
    assert (seen - 1000).abs().max() < 150  # five standard deviations of Binomial(8000, 1/8)


def test_weak_probability_of_the_released_code() -> None:
    share = torch.stack(draw_weak(8000, generator(), 0.25)).float().mean(1)
    assert (share - 0.25).abs().max() < 0.025


# ---- strong


def test_nothing_drawn_changes_nothing() -> None:
    image = pictures(3, 16)
    assert torch.equal(apply_strong(image, strong(3)), image)


@pytest.mark.parametrize(("step", "neutral"), [(0, 1.0), (1, 1.0), (2, 1.0), (3, 0.0), (3, 1.0), (3, -1.0)])
def test_steps_near_their_neutral_factor_change_next_to_nothing(step: int, neutral: float) -> None:
    factors = STILL.copy()
    factors[step] = neutral + 1e-7
    image = pictures(1, 16)
    torch.testing.assert_close(apply_strong(image, strong(1, factors)), image, atol=1e-5, rtol=0)


@pytest.mark.parametrize("factor", [0.2, 0.5, 1.3, 1.8])
@pytest.mark.parametrize(
    ("step", "enhance"), [(0, ImageEnhance.Brightness), (1, ImageEnhance.Contrast), (2, ImageEnhance.Color)]
)
def test_brightness_contrast_and_saturation_as_in_pillow(step: int, enhance: type, factor: float) -> None:
    bits = (pictures(1, 32)[0] * 255).byte()
    picture = enhance(Image.fromarray(bits.permute(1, 2, 0).numpy())).enhance(factor)
    expected = torch.from_numpy(np.array(picture)).permute(2, 0, 1) / 255
    factors = STILL.copy()
    factors[step] = factor
    result = jitter(bits / 255, factors, [step])
    torch.testing.assert_close(result, expected, atol=1.6 / 255, rtol=0)  # Pillow rounds grey, its mean and the result


@pytest.mark.parametrize("turns", [-0.25, -0.1, 0.07, 0.25, 0.5])
def test_hue_as_in_colorsys(turns: float) -> None:
    picture = pictures(1, 8)[0]
    expected = torch.empty_like(picture)
    for y, x in itertools.product(range(8), range(8)):
        h, s, v = colorsys.rgb_to_hsv(*picture[:, y, x].tolist())
        expected[:, y, x] = torch.tensor(colorsys.hsv_to_rgb((h + turns) % 1, s, v))
    torch.testing.assert_close(jitter(picture, [1, 1, 1, turns], [3]), expected, atol=2e-6, rtol=0)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_every_order_of_the_jitter_as_in_kornia(order: tuple[int, ...]) -> None:
    image = pictures(2, 16)
    factors = [0.6, 1.4, 1.3, -0.2]
    names = ("brightness_factor", "contrast_factor", "saturation_factor", "hue_factor")
    params = {name: torch.full((2,), factor) for name, factor in zip(names, factors, strict=True)}
    expected = ColorJitter().apply_transform(image, params | {"order": torch.tensor(order)}, {})
    torch.testing.assert_close(apply_strong(image, strong(2, factors, order)), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("sigma", [0.1, 0.7, 2.0])
def test_blur_as_in_scipy(sigma: float) -> None:
    image = pictures(2, 20)
    expected = gaussian_filter(image.numpy(), (0, 0, sigma, sigma), mode="mirror", radius=(0, 0, 6, 6))
    torch.testing.assert_close(
        apply_strong(image, strong(2, sigma=sigma)), torch.from_numpy(expected), atol=1e-6, rtol=0
    )


def test_cut_out_is_noise_inside_and_nothing_outside() -> None:
    image = torch.full((2, 3, 16, 16), 0.5)
    result = apply_strong(image, strong(2, box=(2, 3, 10, 15)))
    box = result[:, :, 2:10, 3:15]
    assert set(box.unique().tolist()) == {0.0, 1.0}
    assert 0.4 < box.mean() < 0.6
    assert not torch.equal(box[0], box[1]) and not torch.equal(box[0, 0], box[0, 1])
    assert (result == 0.5).sum() == result.numel() - box.numel()
    assert torch.equal(result, apply_strong(image, strong(2, box=(2, 3, 10, 15))))


def test_convention_cut_out_then_jitter_then_blur() -> None:
    image = pictures(3, 32)
    params = draw_strong(3, 32, generator(4), ALWAYS)
    step = cut_out(image, params)
    factors, order = params.factors.tolist(), params.order.tolist()
    step = torch.stack([jitter(step[i], factors[i], order[i]) for i in range(3)])
    sigmas = params.sigma.tolist()
    step = torch.cat([apply_strong(step[i : i + 1], strong(1, sigma=sigmas[i])) for i in range(3)])
    assert torch.equal(apply_strong(image, params), step)


@given(seed=st.integers(0, 2**32 - 1), reach=st.floats(0, 1), hue=st.floats(0, 0.5))
@settings(max_examples=40, deadline=None)
def test_strong_views_stay_in_range(seed: int, reach: float, hue: float) -> None:
    strength = Strength(brightness=reach, contrast=reach, saturation=reach, hue=hue, jitter=1, blur=0.5, cutout=0.5)
    result = apply_strong(pictures(4, 12, seed), draw_strong(4, 12, generator(seed), strength))
    assert result.isfinite().all() and result.min() >= 0 and result.max() <= 1


@pytest.mark.parametrize("size", [24, 256])  # from 182 pixels torch splits a sum over threads
def test_an_image_is_changed_alike_in_any_batch_and_by_any_number_of_threads(size: int) -> None:
    image = pictures(5, size)
    weak, params = draw_weak(5, generator(1)), draw_strong(5, size, generator(1), Strength(jitter=1, cutout=0.5))
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        whole = apply_strong(apply_weak(image, weak), params)
        torch.set_num_threads(2)
        for part in [slice(i, i + 1) for i in range(5)] + [slice(0, 2), slice(2, 5)]:
            assert torch.equal(apply_strong(apply_weak(image[part], rows(weak, part)), rows(params, part)), whole[part])
    finally:
        torch.set_num_threads(threads)


# ---- draws


def test_draws_come_from_the_generator_alone() -> None:
    before = torch.get_rng_state()
    first = draw_strong(6, 32, generator(3), ALWAYS)
    image = apply_strong(pictures(6, 32), first)
    assert torch.equal(torch.get_rng_state(), before)
    second = draw_strong(6, 32, generator(3), ALWAYS)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert torch.equal(image, apply_strong(pictures(6, 32), second))
    other = draw_strong(6, 32, generator(4), ALWAYS)
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_strong_draws_have_the_stated_distribution() -> None:
    params = draw_strong(6000, 32, generator(), Strength())
    jittered = (params.factors != torch.tensor(STILL)).any(1)
    blurred = params.sigma > 0
    assert abs(jittered.float().mean() - 0.8) < 0.03
    assert abs(blurred.float().mean() - 0.5) < 0.03
    low, high = params.factors[jittered].amin(0), params.factors[jittered].amax(0)
    torch.testing.assert_close(low, torch.tensor([0.5, 0.5, 0.5, -0.25]), atol=0.01, rtol=0)
    torch.testing.assert_close(high, torch.tensor([1.5, 1.5, 1.5, 0.25]), atol=0.01, rtol=0)
    assert 0.1 <= params.sigma[blurred].min() < 0.11 and 1.99 < params.sigma.max() <= 2.0
    assert len(params.order.unique(dim=0)) == 24
    assert not params.box.any()


@pytest.mark.parametrize("name", ["jitter", "blur", "cutout"])
def test_strong_probabilities_at_both_ends(name: str) -> None:
    def happens(probability: float) -> Tensor:
        params = draw_strong(50, 32, generator(), Strength(**{name: probability}))
        seen = {
            "jitter": params.factors != torch.tensor(STILL),
            "blur": params.sigma[:, None] > 0,
            "cutout": params.box,
        }
        return seen[name].any(1)

    assert not happens(0.0).any()
    assert happens(1.0).all()


def test_boxes_have_the_stated_distribution() -> None:
    boxes = draw_boxes(4000, 128, generator())
    height, width = (boxes[:, 2:] - boxes[:, :2]).unbind(1)
    drawn = height > 0
    assert abs(drawn.float().mean() - 0.5) < 0.04
    assert boxes.min() >= 0 and boxes.max() <= 128
    share, ratio = (height * width)[drawn] / 128**2, (height / width)[drawn]
    assert 0.017 < share.min() < 0.03 and 0.36 < share.max() <= 0.4  # sides are rounded down
    assert abs(share.mean() - 0.21) < 0.01  # the area is kept while corners are drawn again
    assert 0.28 < ratio.min() < 0.35 and 3.0 < ratio.max() < 3.6


def test_boxes_scale_with_the_image() -> None:
    shares = []
    for size in (32, 512):
        boxes = draw_boxes(2000, size, generator(), 1.0)
        shares.append(((boxes[:, 2:] - boxes[:, :2]).prod(1) / size**2).mean())
    assert abs(shares[0] - shares[1]) < 0.02


def test_no_box_and_always_a_box() -> None:
    assert not draw_boxes(50, 64, generator(), 0.0).any()
    assert draw_boxes(50, 64, generator(), 1.0).any(1).all()


def test_inside_by_hand() -> None:
    mask = inside(torch.tensor([[1, 0, 3, 2], [0, 0, 0, 0]]), 4)
    assert mask[0].int().tolist() == [[0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]]
    assert not mask[1].any()


# ---- what may be declared


@pytest.mark.parametrize("values", [{"hue": 0.6}, {"brightness": 1.1}, {"blur": -0.1}, {"jitter": math.nan}])
def test_impossible_strengths_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(values))):
        Strength(**values)


@pytest.mark.parametrize(
    "values", [{"strong": 3}, {"unlabeled": False, "strong": 1}, {"unlabeled": False, "mix": True}, {"cutmix": True}]
)
def test_contradictory_views_are_refused(values: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="declare"):
        Views(**values)


def moves(**values: Any) -> GeometryParams:
    """Parameters of one image, drawn with the ranges given and nothing else."""
    still = {"scale": (1.0, 1.0), "aspect": 1.0, "rotation": 0.0, "shift": 0.0}
    return draw_geometry(1, generator(values.pop("seed", 0)), Geometry(probability=1, **{**still, **values}))


def test_geometry_that_moves_nothing_changes_no_bit() -> None:
    image = torch.randint(256, (1, 3, 16, 16), dtype=torch.uint8)
    assert torch.equal(apply_geometry(image, moves()), image)
    assert torch.equal(apply_geometry(image[:, 0], moves()), image[:, 0])


def test_geometry_scales_about_the_centre_and_is_black_outside() -> None:
    """An 8 x 8 square in 16 x 16 pixels at half the scale is 4 x 4; a white picture gets a black frame."""
    mask = torch.zeros(1, 16, 16, dtype=torch.uint8)
    mask[:, 4:12, 4:12] = 1
    half = apply_geometry(mask, moves(scale=(0.5, 0.5)))
    assert half[0, 6:10, 6:10].all() and half.sum() == 16
    white = apply_geometry(torch.full((1, 3, 16, 16), 255, dtype=torch.uint8), moves(scale=(0.5, 0.5)))
    assert (white[..., 5:11, 5:11] == 255).all() and (white[..., :4, :] == 0).all() and (white[..., 12:] == 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_geometry_is_scipys_affine_transform(seed: int) -> None:
    """Each pixel is where the stretch, the rotation and the shift, in this order, bring it: compared inside."""
    size = 33
    soft = gaussian_filter(np.random.default_rng(seed).random((size, size)), 3)
    picture = torch.from_numpy(255 * (soft - soft.min()) / np.ptp(soft)).byte()
    params = draw_geometry(1, generator(seed), Geometry(probability=1))
    matrix = params.source[0].double().numpy()
    half = size / 2
    # scipy counts pixels by row, column from the corner's centre; `source` by x, y in half sides from the middle
    turn = matrix[::-1, 1::-1]
    offset = matrix[::-1, 2] * half + (half - 0.5) - turn @ np.full(2, half - 0.5)
    expected = affine_transform(picture.numpy().astype(float), turn, offset, order=1)
    found = apply_geometry(picture.expand(1, 3, -1, -1), params)[0, 0].numpy()
    inner = affine_transform(np.ones((size, size)), turn, offset, order=1) > 0.999
    assert inner.sum() > 100 and np.abs(found - expected)[inner].max() <= 0.51


def test_geometry_of_a_point_by_hand() -> None:
    """A quarter turn, then a shift: the source of (x, y) is (y, 0.25 - x)."""
    params = GeometryParams(torch.tensor([True]), torch.tensor([[[0.0, 1.0, 0.0], [-1.0, 0.0, 0.25]]]))
    image = torch.zeros(1, 8, 8, dtype=torch.uint8)
    image[0, 3, 6] = 1  # x = 0.625, y = -0.125
    # so it goes to y = 0.625 and x = 0.375
    assert apply_geometry(image, params).nonzero().tolist() == [[0, 6, 5]]


def test_geometry_draws_have_the_stated_distribution() -> None:
    geometry = Geometry(probability=0.25, scale=(0.5, 2.0), aspect=1.5, rotation=30, shift=0.1)
    moved, source = draw_geometry(20_000, generator(), geometry)
    assert moved.float().mean() == pytest.approx(0.25, abs=0.01)
    turn = source[..., :2].double()
    size = turn.det().rsqrt()  # the area of a pixel's source is 1 / size²
    assert size.min() > 0.499 and size.max() < 2.001 and size.log().mean() == pytest.approx(0, abs=0.02)
    width, height = turn[:, 0].norm(dim=1), turn[:, 1].norm(dim=1)
    aspect = height / width
    assert aspect.max() < 1.501 and aspect.min() > 1 / 1.501 and aspect.log().std() == pytest.approx(0.234, abs=0.005)
    angle = torch.rad2deg(torch.atan2(turn[:, 0, 1], turn[:, 0, 0]))
    assert angle.abs().max() < 30.01 and angle.std() == pytest.approx(30 / 3**0.5, abs=0.3)
    shift = -torch.linalg.solve(turn, source[..., 2:].double())
    assert shift.abs().max() < 0.1001 and shift.std() == pytest.approx(0.1 / 3**0.5, abs=0.002)


@pytest.mark.parametrize("size", [16, 96])
def test_geometry_is_alike_in_any_batch_and_by_any_number_of_threads(size: int) -> None:
    image = (pictures(6, size) * 255).byte()
    params = draw_geometry(6, generator(), Geometry(probability=0.8))
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        together = apply_geometry(image, params)
        torch.set_num_threads(1)
        for i in range(6):
            assert torch.equal(apply_geometry(image[i : i + 1], rows(params, slice(i, i + 1))), together[i : i + 1])
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize(
    "values",
    [
        {"probability": 1.5},
        {"scale": (0.0, 1.0)},
        {"scale": (1.2, 1.0)},
        {"aspect": 0.9},
        {"rotation": 181},
        {"shift": -1},
    ],
)
def test_impossible_geometry_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="give"):
        Geometry(**values)
