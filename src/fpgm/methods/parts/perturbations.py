"""Perturbed images and features."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fpgm.data.batches.batch import Batch
from fpgm.nets import Backbone


def noisy(image: Tensor, generator: torch.Generator, sigma: float = 0.1, limit: float = 0.2) -> Tensor:
    """Add Gaussian noise, cut off at ± `limit`, to each value of an image; the sum is not clamped."""
    noise = sigma * torch.randn(image.shape, generator=generator)
    return image + noise.clamp(-limit, limit).to(image)


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
