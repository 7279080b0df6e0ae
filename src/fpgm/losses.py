"""Losses that two or more methods share: pure functions from logits to a scalar or a map.

Legend: B images, K classes, H × W pixels.

* logits (B, K, H, W), before softmax, of any floating type. All is computed in float32, also under autocast;
  float64 stays float64.
* target: labels (B, H, W) of an integer type or bool, in 0 … K−1; or soft targets (B, K, H, W) in [0, 1].
* mask (B, H, W), or (H, W) for all images alike: true or 1 where a pixel counts, false or 0 where it is left out.

Gradients reach every argument that requires them: detach the others. With no pixel kept, every scalar
below is 0 and so is its gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


def dice(
    logits: Tensor,
    target: Tensor,
    *,
    mask: Tensor | None = None,
    classes: Sequence[int] | None = None,
    squared: bool = True,
    smooth: float = 1e-5,
) -> Tensor:
    """Dice loss: mean over classes of 1 − (2 Σ p t + s) / (Σ p² + Σ t² + s), sums over batch and kept pixels.

    Args:
        logits: (B, K, H, W).
        target: (B, H, W) labels or (B, K, H, W) soft targets.
        mask: (B, H, W) or (H, W), pixels to keep; all by default.
        classes: classes to average over; all by default, (1,) for the foreground alone.
        squared: True for the denominator above (the released code's), False for the plain Σ p + Σ t.
        smooth: s, above 0.

    Returns:
        Scalar in [0, 1]; exactly 0 where no pixel is kept, as 1 − s / s.
    """
    if not smooth > 0:
        raise ValueError(f"smooth is {smooth}: it must be above 0, or a class without pixels divides by 0")
    _check(logits, target)
    p, t = _full(logits).softmax(dim=1), _soft(target, logits)
    kept_p, kept_t = p, t
    if mask is not None:
        weight = _weight(mask, p).unsqueeze(1)
        kept_p, kept_t = p * weight, t * weight
    size = kept_p * p + kept_t * t if squared else kept_p + kept_t
    common, total = (kept_p * t).sum(dim=(0, 2, 3)), size.sum(dim=(0, 2, 3))
    losses = 1 - (2 * common + smooth) / (total + smooth)
    return losses.mean() if classes is None else losses[list(classes)].mean()


def cross_entropy(logits: Tensor, target: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """Mean cross-entropy of the kept pixels, in nats: a scalar, 0 or more.

    Args:
        logits: (B, K, H, W).
        target: (B, H, W) labels or (B, K, H, W) soft targets.
        mask: (B, H, W) or (H, W), pixels to keep; all by default.
    """
    _check(logits, target)
    full = _full(logits)
    target = target.long() if target.ndim == 3 else target.to(full.dtype)
    return _mean(F.cross_entropy(full, target, reduction="none"), mask)


def cross_entropy_dice(
    logits: Tensor,
    target: Tensor,
    *,
    mask: Tensor | None = None,
    classes: Sequence[int] | None = None,
    squared: bool = True,
    smooth: float = 1e-5,
) -> Tensor:
    """The supervised loss, (cross-entropy + Dice) / 2 (Eq. 14); arguments as in `dice`.

    `classes` limits only the Dice loss; cross-entropy always uses all classes.
    """
    overlap = dice(logits, target, mask=mask, classes=classes, squared=squared, smooth=smooth)
    return (cross_entropy(logits, target, mask=mask) + overlap) / 2


def consistency(logits: Tensor, other: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """Mean squared difference of two softmax outputs over classes and kept pixels: a scalar in [0, 1].

    Args:
        logits: (B, K, H, W).
        other: (B, K, H, W), for example a teacher's logits, detached.
        mask: (B, H, W) or (H, W), pixels to keep; all by default.
    """
    if logits.shape != other.shape:
        raise ValueError(f"logits have shapes {tuple(logits.shape)} and {tuple(other.shape)}: they must be equal")
    difference = _full(logits).softmax(dim=1) - _full(other).softmax(dim=1)
    return _mean(difference.square().mean(dim=1), mask)


def entropy(logits: Tensor) -> Tensor:
    """Entropy −Σ p log p of the softmax, in nats: (B, K, …) → (B, …) in [0, log K]."""
    log_p = _full(logits).log_softmax(dim=1)
    return -(log_p.exp() * log_p).sum(dim=1)


def kl_divergence(logits: Tensor, other: Tensor) -> Tensor:
    """KL(p ‖ q) = Σ p (log p − log q) with p, q the softmax of `logits`, `other`: (B, K, …) → (B, …) from 0 up.

    Logarithms of probabilities are valid logits, so the logarithm of an averaged prediction can be given.
    """
    log_p, log_q = _full(logits).log_softmax(dim=1), _full(other).log_softmax(dim=1)
    return (log_p.exp() * (log_p - log_q)).sum(dim=1)


def pseudo_label(logits: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """The most likely class of each pixel, and whether its probability reaches the threshold (Eq. 15).

    The paper would set pixels below the threshold to class 0; as in the released code, they are left out instead.

    Args:
        logits: (B, K, H, W).
        threshold: τ in [0, 1]; 0 keeps every pixel.

    Returns:
        Labels (B, H, W) int64 and the pixels to keep (B, H, W) bool, without gradient.
    """
    confidence, labels = _full(logits.detach()).softmax(dim=1).max(dim=1)
    return labels, confidence >= threshold


def _full(logits: Tensor) -> Tensor:
    """At least float32."""
    return logits if logits.dtype == torch.float64 else logits.float()


def _soft(target: Tensor, logits: Tensor) -> Tensor:
    """Targets (B, K, H, W) in the type of the computation, from labels or soft targets."""
    dtype = torch.float64 if logits.dtype == torch.float64 else torch.float32
    if target.ndim == 4:
        return target.to(dtype)
    number = torch.arange(logits.shape[1], device=target.device).view(1, -1, 1, 1)
    return (target.unsqueeze(1) == number).to(dtype)


def _weight(mask: Tensor, like: Tensor) -> Tensor:
    """The mask as numbers (B, H, W), in the type of `like`, whose shape is (B, …, H, W)."""
    shape = (like.shape[0], *like.shape[-2:])
    if mask.shape not in (shape, shape[1:]):
        raise ValueError(f"mask has shape {tuple(mask.shape)}: give (B, H, W) = {shape} or (H, W) = {shape[1:]}")
    return mask.to(like.dtype).expand(shape)


def _mean(values: Tensor, mask: Tensor | None) -> Tensor:
    """Mean of (B, H, W) over the kept pixels; 0 if no pixel is kept."""
    if mask is None:
        return values.mean()
    weight = _weight(mask, values)
    return (values * weight).sum() / weight.sum().clamp_min(1)


def _check(logits: Tensor, target: Tensor) -> None:
    """Refuse shapes and types that would broadcast into a wrong number, and labels that are not a class."""
    if logits.ndim != 4:
        raise ValueError(f"logits have shape {tuple(logits.shape)}: give (B, K, H, W)")
    batch, classes, *size = logits.shape
    if target.is_floating_point() and target.shape == logits.shape:
        return
    if target.is_floating_point() or target.shape != (batch, *size):
        raise ValueError(
            f"target is {target.dtype} of shape {tuple(target.shape)}: give integer labels {(batch, *size)} "
            f"or floating soft targets {tuple(logits.shape)}"
        )
    # Elsewhere than on the CPU this look would make the host wait for the device.
    if target.device.type == "cpu":
        low, high = (int(value) for value in target.long().aminmax())
        if low < 0 or high >= classes:
            raise ValueError(
                f"labels run from {low} to {high}, but there are {classes} classes: give 0 to {classes - 1}, "
                f"for example (picture > 127) for a 0/255 mask"
            )
