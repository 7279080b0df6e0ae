"""Losses against torch, MONAI, plain numpy and numbers worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from monai.losses import DiceLoss
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from fpgm import losses

B, K, H, W = 3, 2, 6, 5
Array = NDArray[np.float64]


def rand(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def logits() -> Tensor:
    return 2 * rand(B, K, H, W, seed=1)


@pytest.fixture
def labels() -> Tensor:
    return (rand(B, H, W, seed=2) > 0.5).long()


@pytest.fixture
def mask() -> Tensor:
    return rand(B, H, W, seed=3) > 0


def naive_dice(
    logits: Tensor, target: Tensor, mask: Tensor, classes: tuple[int, ...], squared: bool, smooth: float
) -> float:
    """The formula of the specification, pixel by pixel."""
    z: Array = logits.numpy().astype(np.float64)
    scores = []
    for c in classes:
        common = total = 0.0
        for b, y, x in np.ndindex(*mask.shape):
            if not mask[b, y, x]:
                continue
            e = np.exp(z[b, :, y, x] - z[b, :, y, x].max())
            p = e[c] / e.sum()
            t = float(target[b, y, x] == c) if target.ndim == 3 else float(target[b, c, y, x])
            common += p * t
            total += p * p + t * t if squared else p + t
        scores.append(1 - (2 * common + smooth) / (total + smooth))
    return float(np.mean(scores))


# Dice


@pytest.mark.parametrize("squared", [True, False])
@pytest.mark.parametrize("smooth", [1e-5, 1e-10, 1.0])
@pytest.mark.parametrize("classes", [None, (1,), (0, 2)])
def test_dice_equals_naive(squared: bool, smooth: float, classes: tuple[int, ...] | None, mask: Tensor) -> None:
    logits, labels = 2 * rand(B, 3, H, W), torch.arange(B * H * W).view(B, H, W) % 3
    soft = rand(B, 3, H, W, seed=5).softmax(1)
    for target in (labels, soft):
        for kept in (None, mask):
            whole = torch.ones(B, H, W) if kept is None else kept
            expected = naive_dice(logits, target, whole, classes or (0, 1, 2), squared, smooth)
            got = losses.dice(logits, target, mask=kept, classes=classes, squared=squared, smooth=smooth)
            assert got.item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("squared", [True, False])
@pytest.mark.parametrize("background", [True, False])
def test_dice_equals_monai(logits: Tensor, labels: Tensor, squared: bool, background: bool) -> None:
    oracle = DiceLoss(
        softmax=True,
        to_onehot_y=True,
        batch=True,
        squared_pred=squared,
        include_background=background,
        smooth_nr=1e-5,
        smooth_dr=1e-5,
    )
    got = losses.dice(logits, labels, squared=squared, classes=None if background else (1,))
    torch.testing.assert_close(got, oracle(logits, labels.unsqueeze(1)))


def test_dice_by_hand() -> None:
    # softmax(0, log 3) = (1/4, 3/4) at both pixels; one is foreground, one background
    logits = torch.tensor([0.0, math.log(3)]).view(1, 2, 1, 1).expand(1, 2, 1, 2)
    labels = torch.tensor([[[1, 0]]])
    # foreground: 2 · 3/4 / (2 · 9/16 + 1) = 12/17; background: 2 · 1/4 / (2 · 1/16 + 1) = 4/9
    assert losses.dice(logits, labels).item() == pytest.approx(1 - (12 / 17 + 4 / 9) / 2, abs=1e-5)
    # plain: foreground 1.5 / (1.5 + 1), background 0.5 / (0.5 + 1)
    assert losses.dice(logits, labels, squared=False).item() == pytest.approx(1 - (3 / 5 + 1 / 3) / 2, abs=1e-5)
    assert losses.dice(logits, labels, classes=(1,)).item() == pytest.approx(5 / 17, abs=1e-5)


def test_dice_ends_of_the_scale(labels: Tensor) -> None:
    sure = 60.0 * F.one_hot(labels, 2).permute(0, 3, 1, 2).float()
    assert losses.dice(sure, labels).item() == pytest.approx(0, abs=1e-6)
    assert losses.dice(sure, 1 - labels).item() == pytest.approx(1, abs=1e-6)


def test_dice_of_all_background_sits_at_a_half() -> None:
    # the plateau of the released logs: the pseudo-label has no foreground, the prediction is nearly background
    logits = torch.tensor([3.0, -3.0]).view(1, 2, 1, 1).expand(2, 2, 64, 64)
    assert losses.dice(logits, torch.zeros(2, 64, 64, dtype=torch.long)).item() == pytest.approx(0.5, abs=0.02)


def test_convention_dice_sums_over_the_batch(logits: Tensor, labels: Tensor) -> None:
    each = torch.stack([losses.dice(logits[i : i + 1], labels[i : i + 1]) for i in range(B)]).mean()
    side_by_side = losses.dice(torch.cat(tuple(logits), 1)[None], torch.cat(tuple(labels), 0)[None])
    torch.testing.assert_close(losses.dice(logits, labels), side_by_side)
    assert abs(losses.dice(logits, labels) - each) > 1e-3


# cross-entropy and the two together


def test_cross_entropy_equals_torch(logits: Tensor, labels: Tensor, mask: Tensor) -> None:
    torch.testing.assert_close(losses.cross_entropy(logits, labels), F.cross_entropy(logits, labels))
    ignored = torch.where(mask, labels, -100)
    expected = F.cross_entropy(logits, ignored, ignore_index=-100)
    torch.testing.assert_close(losses.cross_entropy(logits, labels, mask=mask), expected)
    soft = rand(B, K, H, W, seed=5).softmax(1)
    torch.testing.assert_close(losses.cross_entropy(logits, soft), F.cross_entropy(logits, soft))


def test_cross_entropy_by_hand() -> None:
    logits = torch.tensor([0.0, math.log(3)]).view(1, 2, 1, 1).expand(1, 2, 1, 2)
    labels = torch.tensor([[[1, 0]]])
    assert losses.cross_entropy(logits, labels).item() == pytest.approx((math.log(4 / 3) + math.log(4)) / 2)
    only_first = torch.tensor([[1.0, 0.0]])
    assert losses.cross_entropy(logits, labels, mask=only_first).item() == pytest.approx(math.log(4 / 3))


@pytest.mark.parametrize(
    "options", [{}, {"classes": (1,)}, {"squared": False, "smooth": 1e-10}, {"mask": torch.eye(H, W)}]
)
def test_cross_entropy_dice_is_the_mean_of_both(logits: Tensor, labels: Tensor, options: dict[str, Any]) -> None:
    ce = losses.cross_entropy(logits, labels, mask=options.get("mask"))
    expected = (ce + losses.dice(logits, labels, **options)) / 2
    torch.testing.assert_close(losses.cross_entropy_dice(logits, labels, **options), expected)


# consistency, entropy, divergence


def test_consistency(logits: Tensor, mask: Tensor) -> None:
    other = rand(B, K, H, W, seed=4)
    p, q = logits.softmax(1), other.softmax(1)
    torch.testing.assert_close(losses.consistency(logits, other), F.mse_loss(p, q))
    both_classes = mask.unsqueeze(1).expand_as(p)
    expected = F.mse_loss(p[both_classes], q[both_classes])
    torch.testing.assert_close(losses.consistency(logits, other, mask=mask), expected)
    assert losses.consistency(logits, logits) == 0
    opposite = torch.tensor([90.0, -90.0]).view(1, 2, 1, 1)
    assert losses.consistency(opposite, -opposite) == 1


def test_consistency_moves_both_sides_unless_detached(logits: Tensor) -> None:
    a, b = logits.clone().requires_grad_(), rand(B, K, H, W, seed=4).requires_grad_()
    losses.consistency(a, b).backward()
    assert a.grad is not None and a.grad.abs().max() > 0
    assert b.grad is not None and b.grad.abs().max() > 0


def test_entropy() -> None:
    logits = torch.tensor([[[0.0, 300.0, math.log(3)], [0.0, -300.0, 0.0]]])  # (1, 2, 3)
    # even: log 2; certain: 0; (3/4, 1/4)
    expected = [math.log(2), 0, 0.75 * math.log(4 / 3) + 0.25 * math.log(4)]
    torch.testing.assert_close(losses.entropy(logits), torch.tensor([expected]))
    p = (rand(B, 4, H, W)).softmax(1)
    oracle = torch.distributions.Categorical(p.permute(0, 2, 3, 1)).entropy()
    torch.testing.assert_close(losses.entropy(p.log()), oracle)


def test_kl_divergence() -> None:
    a, b = rand(B, 4, H, W, seed=1), rand(B, 4, H, W, seed=2)
    oracle = F.kl_div(b.log_softmax(1), a.log_softmax(1), reduction="none", log_target=True).sum(1)
    torch.testing.assert_close(losses.kl_divergence(a, b), oracle)
    torch.testing.assert_close(losses.kl_divergence(a, a), torch.zeros(B, H, W))
    # p = (1/2, 1/2), q = (1/4, 3/4), and the other way round
    even, odd = torch.zeros(1, 2), torch.tensor([[0.0, math.log(3)]])
    assert losses.kl_divergence(even, odd).item() == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3))
    assert losses.kl_divergence(odd, even).item() == pytest.approx(0.25 * math.log(0.5) + 0.75 * math.log(1.5))


@pytest.mark.parametrize("function", [losses.entropy, lambda z: losses.kl_divergence(z, -z)])
def test_maps_stay_finite_at_certain_logits(function: Callable[[Tensor], Tensor]) -> None:
    logits = torch.tensor([[[300.0]], [[-300.0]]]).view(1, 2, 1, 1).requires_grad_()
    value = function(logits)
    value.sum().backward()
    assert value.isfinite().all()
    assert logits.grad is not None and logits.grad.isfinite().all()


# pseudo-labels


def test_pseudo_label() -> None:
    # foreground probability 0.96, 0.94, 0.06, 0.04
    p = torch.tensor([0.96, 0.94, 0.06, 0.04])
    logits = torch.stack((1 - p, p)).log().view(1, 2, 2, 2).requires_grad_()
    labels, keep = losses.pseudo_label(logits, 0.95)
    assert labels.dtype == torch.int64 and labels.tolist() == [[[1, 1], [0, 0]]]
    assert keep.dtype == torch.bool and keep.tolist() == [[[True, False], [False, True]]]
    assert not labels.requires_grad and not keep.requires_grad
    assert losses.pseudo_label(logits, 0.0)[1].all()
    assert not losses.pseudo_label(logits, 1.0)[1].any()


def test_convention_threshold_itself_is_kept() -> None:
    logits = torch.zeros(1, 2, 1, 1)  # both classes at exactly 1/2; the first one wins
    labels, keep = losses.pseudo_label(logits, 0.5)
    assert labels.item() == 0 and keep.item()


def test_pixels_below_the_threshold_leave_the_dice_sums(logits: Tensor) -> None:
    labels, keep = losses.pseudo_label(logits, 0.8)
    assert 0 < int(keep.sum()) < keep.numel()
    view = rand(B, K, H, W, seed=7)
    changed = torch.where(keep.unsqueeze(1), view, 9 * rand(B, K, H, W, seed=8))
    got = losses.dice(view, labels, mask=keep)
    torch.testing.assert_close(got, losses.dice(changed, labels, mask=keep), rtol=0, atol=0)
    assert losses.dice(view, labels) != losses.dice(changed, labels)


# masks


SCALARS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "dice": lambda z, y, m: losses.dice(z, y, mask=m),
    "dice plain": lambda z, y, m: losses.dice(z, y, mask=m, squared=False),
    "dice with the smallest smoothing in use": lambda z, y, m: losses.dice(z, y, mask=m, smooth=1e-10),
    "cross_entropy": lambda z, y, m: losses.cross_entropy(z, y, mask=m),
    "cross_entropy_dice": lambda z, y, m: losses.cross_entropy_dice(z, y, mask=m),
    "consistency": lambda z, y, m: losses.consistency(z, z.detach().flip(1), mask=m),
}
scalars = pytest.mark.parametrize("loss", SCALARS.values(), ids=SCALARS.keys())


@scalars
def test_convention_no_pixel_kept_is_zero_without_gradient(
    loss: Callable[[Tensor, Tensor, Tensor], Tensor], logits: Tensor, labels: Tensor
) -> None:
    logits.requires_grad_()
    value = loss(logits, labels, torch.zeros(B, H, W, dtype=torch.bool))
    value.backward()
    assert value.item() == 0
    assert logits.grad is not None and torch.equal(logits.grad, torch.zeros_like(logits))


@scalars
def test_mask_of_one_picture_serves_all_and_types_agree(
    loss: Callable[[Tensor, Tensor, Tensor], Tensor], logits: Tensor, labels: Tensor
) -> None:
    shared = rand(H, W, seed=6) > 0
    expected = loss(logits, labels, shared.expand(B, H, W))
    for mask in (shared, shared.float(), shared.long(), shared.expand(B, H, W).float()):
        assert torch.equal(loss(logits, labels, mask), expected)
    assert torch.allclose(loss(logits, labels, torch.ones(H, W)), loss(logits, labels, torch.ones(B, H, W)))


@scalars
def test_left_out_pixels_do_not_matter_and_get_no_gradient(
    loss: Callable[[Tensor, Tensor, Tensor], Tensor], logits: Tensor, labels: Tensor, mask: Tensor
) -> None:
    logits.requires_grad_()
    value = loss(logits, labels, mask)
    value.backward()
    assert logits.grad is not None
    moved = logits.grad.abs().sum(1) > 0
    assert torch.equal(moved, mask)
    other = torch.where(mask, labels, 1 - labels)
    assert torch.equal(loss(logits, other, mask), value)


# numbers


@scalars
def test_gradients(loss: Callable[[Tensor, Tensor, Tensor], Tensor], labels: Tensor, mask: Tensor) -> None:
    logits = rand(B, K, H, W).double().requires_grad_()
    if loss is SCALARS["consistency"]:
        other = rand(B, K, H, W, seed=9).double()
        assert torch.autograd.gradcheck(lambda z: losses.consistency(z, other, mask=mask), logits)
    else:
        assert torch.autograd.gradcheck(lambda z: loss(z, labels, mask), logits)


def test_gradients_of_maps() -> None:
    a, b = rand(2, 3, 4).double().requires_grad_(), rand(2, 3, 4, seed=1).double().requires_grad_()
    assert torch.autograd.gradcheck(losses.entropy, a)
    assert torch.autograd.gradcheck(losses.kl_divergence, (a, b))


@scalars
def test_half_precision_logits_are_computed_in_float32(
    loss: Callable[[Tensor, Tensor, Tensor], Tensor], labels: Tensor, mask: Tensor
) -> None:
    logits = rand(B, K, H, W, seed=1).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = loss(logits, labels, mask)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, loss(logits.float(), labels, mask), rtol=0, atol=0)


@given(st.integers(0, 10_000), st.floats(-50, 50), st.booleans())
def test_invariants(seed: int, shift: float, squared: bool) -> None:
    z = 3 * rand(2, 2, 4, 4, seed=seed)
    y = (rand(2, 4, 4, seed=seed + 1) > 0).long()
    value = losses.dice(z, y, squared=squared)
    assert 0 <= value <= 1
    # softmax does not see a constant; swapping classes or pixels changes nothing
    torch.testing.assert_close(losses.dice(z + shift, y, squared=squared), value, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(losses.dice(z.flip(1), 1 - y, squared=squared), value)
    torch.testing.assert_close(losses.dice(z.flip(-1), y.flip(-1), squared=squared), value)
    one_hot = F.one_hot(y, 2).permute(0, 3, 1, 2).float()
    torch.testing.assert_close(losses.dice(z, one_hot, squared=squared), value)
    torch.testing.assert_close(losses.cross_entropy(z, one_hot), losses.cross_entropy(z, y))
    assert (losses.kl_divergence(z, z.flip(0)) > -1e-5).all()
    assert (losses.entropy(z) <= math.log(2) + 1e-6).all()


# mistakes


@pytest.mark.parametrize("kind", [torch.bool, torch.uint8, torch.int32])
def test_labels_of_any_integer_type(logits: Tensor, labels: Tensor, kind: torch.dtype) -> None:
    expected = losses.cross_entropy_dice(logits, labels)
    assert torch.equal(losses.cross_entropy_dice(logits, labels.to(kind)), expected)


@pytest.mark.parametrize("loss", [losses.dice, losses.cross_entropy, losses.cross_entropy_dice])
@pytest.mark.parametrize(
    ("target", "message"),
    [
        (torch.full((B, H, W), 255), r"labels run from 255 to 255, but there are 2 classes.*picture > 127"),
        (torch.full((B, H, W), -100), "labels run from -100"),
        (torch.zeros(B, 1, H, W, dtype=torch.long), r"target is torch.int64 of shape \(3, 1, 6, 5\)"),
        (torch.zeros(B, 1, H, W), r"give integer labels \(3, 6, 5\) or floating soft targets \(3, 2, 6, 5\)"),
        (torch.zeros(B, H, W), r"target is torch.float32 of shape \(3, 6, 5\)"),
        (torch.zeros(B, W, H, dtype=torch.long), r"of shape \(3, 5, 6\)"),
    ],
)
def test_wrong_targets_are_explained(loss: Callable[..., Tensor], logits: Tensor, target: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        loss(logits, target)


def test_other_mistakes_are_explained(logits: Tensor, labels: Tensor) -> None:
    with pytest.raises(ValueError, match=r"logits have shape \(3, 2\): give \(B, K, H, W\)"):
        losses.dice(torch.zeros(3, 2), torch.zeros(3, dtype=torch.long))
    for loss in (losses.dice, losses.cross_entropy):
        with pytest.raises(ValueError, match=r"mask has shape \(3, 1, 6, 5\).*\(3, 6, 5\) or \(H, W\) = \(6, 5\)"):
            loss(logits, labels, mask=torch.ones(B, 1, H, W))
    with pytest.raises(ValueError, match="smooth is 0"):
        losses.dice(logits, labels, smooth=0)
    with pytest.raises(ValueError, match=r"\(3, 2, 6, 5\) and \(3, 1, 6, 5\)"):
        losses.consistency(logits, logits[:, :1])
