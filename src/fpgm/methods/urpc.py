"""Uncertainty Rectified Pyramid Consistency (Luo et al., Medical Image Analysis 2022)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from fpgm.data.batches.batch import Batch, Views
from fpgm.losses import cross_entropy_dice, kl_divergence
from fpgm.methods.arguments import NonNegative
from fpgm.methods.base import Method, Step
from fpgm.methods.parts.ramps import staircase
from fpgm.nets import Backbone

LOWEST = -18.0  # log-probability; without a floor one depth that is confidently wrong makes the KL endless


class URPC(Method):
    """Four depths of one decoder predict; on unlabelled images each is pulled towards their average.

    L = L_sup + λ(t) · L_con. L_sup is the supervised loss averaged over the depths. In L_con a pixel counts less the
    more a depth departs from the average there, and that departure, KL(average ‖ depth), is minimised too; gradients
    flow through average and weights. λ rises from e⁻⁵ of its final value over the whole training. Labelled and
    unlabelled images share the one pass of a step, and the finest depth is what is validated and shipped.

    Where code and paper are said to differ, in the direction of the KL and in what the weights are normalised over, it
    follows the authors' code (SSL4MIS). Deviations from that: log-probabilities are held above −18, so that the KL is
    bounded; λ rises over a share of the iterations, not over 30,000 of them, so that a shorter training sees all of it;
    the code's fifth head, never used, is left out; weak views are those of all methods here, without odd angles.

    Args:
        net: a network whose decoder has four depths or more; the three before the finest get heads of their own, with
            PyTorch's default initialisation.
        consistency: final λ; 0 leaves the term out, but unlabelled images stay in the pass for batch norm.
        ramp: share of the training over which λ rises; 0 for the final value from the start.
    """

    views = Views()

    def __init__(self, net: Backbone, consistency: NonNegative = 0.1, ramp: NonNegative = 1.0) -> None:
        super().__init__()
        if not isinstance(net, Backbone):
            raise ValueError(f"urpc predicts at several depths of a decoder: give unet, not {type(net).__name__}")
        self.net = net
        self.consistency, self.ramp = consistency, ramp
        classes = net.decoder.head.out_channels
        self.heads = nn.ModuleList(nn.Conv2d(width, classes, 3, padding=1) for width in net.channels[1:4])

    def predictor(self) -> nn.Module:
        """The network, whose own head is the finest depth."""
        return self.net

    def pyramid(self, image: Tensor, generator: Generator | None = None) -> list[Tensor]:
        """Logits (B, K, H, W) of the four depths, finest first; coarse ones repeat their pixels.

        Args:
            image: (B, C, H, W).
            generator: perturbs what the three coarse heads see, as in training; without it all is clean. The decoder
                itself always goes on with clean maps.
        """
        *coarse, finest = self.net.decoder.maps(self.net.encode(image))
        seen = coarse[:-4:-1]
        if generator is not None:
            moves: Sequence[Callable[[Tensor, Generator], Tensor]] = (multiply_noise, drop_attention, drop_values)
            seen = [move(map_, generator) for move, map_ in zip(moves, seen, strict=True)]
        logits = [head(map_) for head, map_ in zip(self.heads, seen, strict=True)]
        return [self.net.decoder.head(finest), *(F.interpolate(map_, size=image.shape[-2:]) for map_ in logits)]

    def losses(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """One pass over labelled and unlabelled images together."""
        labelled = len(batch.image_l)
        depths = self.pyramid(torch.cat((batch.image_l, batch.weak_u)), step.generator)
        supervised = [cross_entropy_dice(logits[:labelled], batch.mask_l) for logits in depths]
        terms = {"sup": torch.stack(supervised).mean()}
        self.notes = {"foreground": depths[0][labelled:].argmax(1).float().mean()}
        if self.consistency > 0:
            loss, weights = rectified_consistency([logits[labelled:] for logits in depths])
            terms["consistency"] = self.weight(step) * loss
            self.notes["certainty"] = weights.detach().mean()
        return terms

    def weight(self, step: Step) -> float:
        """λ(t) = λ · r(t), in stairs."""
        return self.consistency * staircase(step, self.ramp)


def rectified_consistency(depths: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Distance of S depths from their average prediction, less where they disagree, plus the disagreement.

    Args:
        depths: S of logits (B, K, H, W).

    Returns:
        L_con = mean over depths of Σ w (P̄ − P)² / Σ w + mean D, with D = KL(P̄ ‖ P) and w = exp(−D) of each pixel;
        and the weights w (S, B, H, W) in (0, 1].
    """
    logs = torch.stack([logits.float().log_softmax(dim=1).clamp_min(LOWEST) for logits in depths])
    average = logs.logsumexp(dim=0) - math.log(len(logs))
    divergence = torch.stack([kl_divergence(average, log) for log in logs])
    weights = torch.exp(-divergence)
    squared = (average.exp() - logs.exp()).square().mean(dim=2)
    pixels = (1, 2, 3)
    rectified = (weights * squared).mean(dim=pixels) / (weights.mean(dim=pixels) + 1e-8)
    return (rectified + divergence.mean(dim=pixels)).mean(), weights


def multiply_noise(feature: Tensor, generator: Generator, limit: float = 0.3) -> Tensor:
    """Multiply (B, C, H, W) by 1 + ε, ε ~ U(−limit, limit) of shape (C, H, W) for all images alike."""
    noise = (2 * torch.rand(feature.shape[1:], generator=generator) - 1) * limit
    return feature * (1 + noise).to(feature)


def drop_attention(feature: Tensor, generator: Generator, low: float = 0.7, high: float = 0.9) -> Tensor:
    """Zero the most active positions of (B, C, H, W): whose channel mean reaches u of the image's largest.

    One u ~ U(low, high) is drawn for all images; what is left is not scaled.
    """
    share = low + (high - low) * float(torch.rand((), generator=generator))
    attention = feature.detach().mean(dim=1, keepdim=True)
    return feature * (attention < share * attention.amax(dim=(2, 3), keepdim=True))


def drop_values(feature: Tensor, generator: Generator, share: float = 0.5) -> Tensor:
    """Zero each value of (B, C, H, W) with probability `share` and scale the others up, as Dropout does."""
    keep = torch.rand(feature.shape, generator=generator) >= share
    return feature * (keep.to(feature) / (1 - share))
