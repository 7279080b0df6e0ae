"""Parts that two or more methods share."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeVar

import numpy as np
import torch
from scipy import ndimage
from torch import Tensor, nn

from fpgm.data.batches.batch import Batch
from fpgm.losses import cross_entropy_dice, pseudo_label
from fpgm.methods.base import Stage, Step
from fpgm.nets import Backbone

Module = TypeVar("Module", bound=nn.Module)
Statistics = Literal["all", "clean"]


def paste(inside: Tensor, outside: Tensor, box: Tensor) -> Tensor:
    """CutMix: `inside` where the box is true, `outside` elsewhere.

    Shape:
        inside, outside: (B, H, W) or (B, C, H, W); box: (B, H, W) bool.
    """
    return torch.where(box if inside.ndim == box.ndim else box.unsqueeze(1), inside, outside)


def channel_dropout(feature: Tensor, generator: torch.Generator, share: float = 0.5) -> Tensor:
    """Zero whole channels of (B, C, H, W) with probability `share` and scale the others up, as Dropout2d does."""
    keep = torch.rand(*feature.shape[:2], 1, 1, generator=generator) >= share
    return feature * (keep.to(feature) / (1 - share))


def decode_perturbed(
    net: Backbone, image: Tensor, generator: torch.Generator, share: float = 0.5
) -> tuple[Tensor, Tensor]:
    """Logits of clean features and of features with a share of the channels dropped, decoded in one pass.

    Batch norm in the decoder sees both halves together: the grouping is part of the recipe.
    """
    features = [torch.cat((map_, channel_dropout(map_, generator, share))) for map_ in net.encode(image)]
    clean, perturbed = net.decode(features).chunk(2)
    return clean, perturbed


def pass_together(
    net: nn.Module, batch: Batch, generator: torch.Generator, drop: float | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """One pass over labelled and weak unlabelled images: logits of the ones, of the others, and perturbed ones.

    Args:
        net: a `Backbone` if channels are to be dropped.
        batch: labelled images and weak views.
        generator: chooses the channels.
        drop: share of the channels dropped for a second decoding in the same pass, of which the logits of the
            unlabelled images are returned; None for no second decoding.
    """
    labelled, together = len(batch.image_l), torch.cat((batch.image_l, batch.weak_u))
    if drop is None:
        logits = net(together)
        return logits[:labelled], logits[labelled:], None
    assert isinstance(net, Backbone)
    logits, perturbed = decode_perturbed(net, together, generator, drop)
    return logits[:labelled], logits[labelled:], perturbed[labelled:]


@torch.no_grad()
def steady_labels(net: nn.Module, image: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """Pseudo-labels and pixels to keep, from the network in evaluation mode; then it is set back."""
    training = net.training
    net.eval()
    labels = pseudo_label(net(image), threshold)
    net.train(training)
    return labels


@contextmanager
def unremembered(net: nn.Module, active: bool = True) -> Iterator[None]:
    """Let batch norm normalise by the batch at hand without adding it to the statistics that evaluation uses."""
    norms = [layer for layer in net.modules() if active and isinstance(layer, nn.BatchNorm2d)]
    momenta = [layer.momentum for layer in norms]
    for layer in norms:
        layer.momentum = 0.0
    try:
        yield
    finally:
        for layer, momentum in zip(norms, momenta, strict=True):
            layer.momentum = momentum


def mix_views(
    batch: Batch, labels: tuple[Tensor, Tensor], partner: tuple[Tensor, Tensor]
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """CutMix the partners into the strong views: images, labels and pixels to keep, one of each per view.

    Args:
        batch: with strong views of images and partners, and boxes.
        labels: pseudo-labels and pixels to keep of the images, each (U, H, W); and
        partner: those of the mix partners.
    """
    images = [paste(*views) for views in zip(batch.strong_m, batch.strong_u, batch.boxes_u, strict=True)]
    targets = [paste(partner[0], labels[0], box) for box in batch.boxes_u]
    kept = [paste(partner[1], labels[1], box) for box in batch.boxes_u]
    return images, targets, kept


def ramp_up(step: Step, length: int, every: int = 1) -> float:
    """exp(−5 (1 − t)²) with t from 0 to 1 over `length` steps, in stairs of `every`; 1 at once if `length` is 0."""
    progress = min(1.0, step.index // every * every / length) if length else 1.0
    return math.exp(-5 * (1 - progress) ** 2)


def staircase(step: Step, share: float) -> float:
    """`ramp_up` over a share of the training, in 200 stairs (of 150 steps each in the paper's 30,000)."""
    length = round(share * step.total)
    return ramp_up(step, length, max(1, length // 200))


def noisy(image: Tensor, generator: torch.Generator, sigma: float = 0.1, limit: float = 0.2) -> Tensor:
    """Add Gaussian noise, cut off at ± `limit`, to each value of an image; the sum is not clamped."""
    noise = sigma * torch.randn(image.shape, generator=generator)
    return image + noise.clamp(-limit, limit).to(image)


def teacher_decay(step: Step, limit: float = 0.99) -> float:
    """min(1 − 1 / (t + 1), limit): 0 at the first step, so that what the teacher was before is forgotten."""
    return min(1 - 1 / (step.index + 1), limit)


def averaging_decay(step: Step, limit: float) -> float:
    """min(1 − 1 / (t / 4 + 1), limit): an average over the last quarter of the steps, until the limit."""
    return min(1 - 1 / (step.index / 4 + 1), limit)


def frozen_copy(module: Module) -> Module:
    """Return a copy that never learns by gradient: a teacher."""
    return copy.deepcopy(module).requires_grad_(False)


def fresh_copy(module: Module) -> Module:
    """Return a second network: the same layers, initialised anew by each layer's own scheme.

    Layers draw from torch's generator, which the run seeds before it builds: for the paper's UNet the weights are
    those of a second `UNet(...)` built right after the first. Trained weights of the original are not taken over.
    """
    other = copy.deepcopy(module)
    for layer in other.modules():
        reset = getattr(layer, "reset_parameters", None)
        if callable(reset):
            reset()
    pairs = zip(module.parameters(), other.parameters(), strict=True)
    if all(torch.equal(old, new) for old, new in pairs):
        raise ValueError(
            f"{type(module).__name__} cannot be initialised anew, and two equal networks teach each other nothing: "
            "give its layers a reset_parameters()"
        )
    return other


def kept_notes(labels: Tensor, keep: Tensor | None = None) -> dict[str, Tensor]:
    """For the log: the pseudo-labels that take part, as shares of all pixels, by class.

    Where `kept_foreground` stays at 0 the unlabelled images teach nothing but background.

    Args:
        labels: pseudo-labels (B, H, W), 0 for the background.
        keep: pixels that take part, (B, H, W) bool; all if not given.
    """
    foreground = labels > 0
    kept = torch.ones_like(foreground) if keep is None else keep
    shares = {"kept_background": kept & ~foreground, "kept_foreground": kept & foreground}
    return {name: share.float().mean() for name, share in shares.items()}


@torch.no_grad()
def label_notes(z1: Tensor, z2: Tensor) -> dict[str, Tensor]:
    """For the log: foreground share of the hard labels of two networks (B, K, H, W), and how many pixels agree."""
    first, second = z1.argmax(1), z2.argmax(1)
    shares = {"foreground_1": (first > 0).float().mean(), "foreground_2": (second > 0).float().mean()}
    return {**shares, "agreement": (first == second).float().mean(), **kept_notes(torch.cat((first, second)))}


@torch.no_grad()
def move_teacher(teacher: nn.Module, student: nn.Module, decay: float, *, buffers: bool) -> None:
    """Set teacher to decay · teacher + (1 − decay) · student, over the parameters and, if said, the buffers.

    Integer buffers (counts of batches) are copied. Without buffers the teacher keeps its own statistics.
    """
    pairs: list[tuple[Tensor, Tensor]] = list(zip(teacher.parameters(), student.parameters(), strict=True))
    if buffers:
        pairs += zip(teacher.buffers(), student.buffers(), strict=True)
    for old, new in pairs:
        if old.is_floating_point():
            old.mul_(decay).add_(new, alpha=1 - decay)
        else:
            old.copy_(new)


def copy_paste_stages(pretrain: float = 1 / 3) -> tuple[Stage, Stage]:
    """Pre-training on labelled images for a share of the steps; then self-training, from the best weights so far."""
    if not 0 < pretrain < 1:
        raise ValueError(f"pretrain is {pretrain}: give the share of the steps for labelled images alone, in (0, 1)")
    return Stage("pretrain", pretrain), Stage("self-train", 1 - pretrain, start="best")


def copy_paste_halves(batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """First and second half of the labelled images, of their masks and of the unlabelled images."""
    labelled, unlabelled = len(batch.image_l), len(batch.weak_u)
    if labelled % 2 or labelled != unlabelled:
        raise ValueError(
            f"a process has {labelled} labelled and {unlabelled} unlabelled images in a step, but copy-paste pairs "
            "halves of both: set data.batch_labeled and data.batch_unlabeled to one even number per process"
        )
    (a, b), (mask_a, mask_b) = batch.image_l.chunk(2), batch.mask_l.chunk(2)
    p, q = batch.weak_u.chunk(2)
    return a, b, mask_a, mask_b, p, q


def paste_box(image: Tensor, side: float, generator: torch.Generator) -> Tensor:
    """Draw one rectangle for a whole batch (…, H, W): true inside, (H, W) bool on the same device.

    It has int(side · H) × int(side · W) pixels. Its offsets are uniform from 0 to H − height − 1 and W − width − 1:
    as in the official code, the last place that would fit is never drawn.
    """
    if not 0 < side < 1:
        raise ValueError(f"side is {side}: give the rectangle's share of the image's side, in (0, 1)")
    box = torch.zeros(image.shape[-2:], dtype=torch.bool)
    height, width = (int(length * side) for length in box.shape)
    top = int(torch.randint(box.shape[0] - height, (), generator=generator))
    left = int(torch.randint(box.shape[1] - width, (), generator=generator))
    box[top : top + height, left : left + width] = True
    return box.to(image.device)


def region_loss(logits: Tensor, target: Tensor, region: Tensor) -> Tensor:
    """(Cross-entropy + Dice) / 2 within a region (H, W), every class masked; 0 for an empty one."""
    return cross_entropy_dice(logits, target, mask=region, smooth=1e-10)


def keep_largest(labels: Tensor) -> Tensor:
    """Keep of each image only its largest 8-connected component, the first of equals: (B, H, W) in {0, 1}."""
    kept = torch.zeros(labels.shape, dtype=labels.dtype)
    for image, largest in zip(labels.cpu().numpy(), kept, strict=True):
        numbers, count = ndimage.label(image, structure=np.ones((3, 3)))
        if count:
            chosen = np.bincount(numbers.ravel())[1:].argmax() + 1
            largest.copy_(torch.from_numpy(numbers == chosen))
    return kept.to(labels.device)
