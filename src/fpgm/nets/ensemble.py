"""Several networks as one: their probabilities are averaged, and where they differ they disagree.

B images of H × W pixels, K classes, M members.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fpgm.nets.statistics import blend

_LEAST = 1e-12  # probability whose logarithm is still finite


class Ensemble(nn.Module):
    """Networks of the same classes, whose mean probability counts.

    Args:
        members: M networks, (B, 3, H, W) → logits (B, K, H, W).
        own: share of each image's own batch-norm statistics of each member; see `blended`.
    """

    def __init__(self, members: Sequence[nn.Module], own: Sequence[float] = ()) -> None:
        super().__init__()
        if len(members) < 2:
            raise ValueError(f"{len(members)} network cannot be averaged: give two or more")
        self.members, self.own = nn.ModuleList(members), tuple(own) or (0.0,) * len(members)

    def blended(self) -> Ensemble:
        """Return the ensemble with the shares of an image's own statistics applied; its state has the same names."""
        pairs = zip(self.members, self.own, strict=True)
        return Ensemble([blend(member, own) if own else member for member, own in pairs])

    def forward(self, image: Tensor) -> Tensor:
        """Logits (B, K, H, W) whose softmax is the mean of the members' probabilities."""
        return self._probabilities(image).mean(0).clamp_min(_LEAST).log()

    def with_disagreement(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, K, H, W), and the standard deviation (B, H, W) of the members' foreground probabilities."""
        each = self._probabilities(image)
        foreground = each[:, :, 1:].sum(2)
        return each.mean(0).clamp_min(_LEAST).log(), foreground.std(0, correction=0)

    def _probabilities(self, image: Tensor) -> Tensor:
        return torch.stack([member(image).float().softmax(1) for member in self.members])
