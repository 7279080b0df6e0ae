"""Entropy minimisation (Grandvalet and Bengio, NeurIPS 2004): the network is to be sure on unlabelled images."""

from __future__ import annotations

from torch import Tensor, nn

from fpgm.data.batches.batch import Batch, Views
from fpgm.losses import cross_entropy_dice, entropy
from fpgm.methods import Method, Step
from fpgm.methods.arguments import NonNegative

__all__ = ["EntropyMinimisation"]


class EntropyMinimisation(Method):
    """Cross-entropy and Dice on the labelled images, mean entropy of the pixels of the unlabelled ones.

    Args:
        net: any network that maps (B, 3, H, W) to logits (B, 2, H, W).
        weight: weight of the entropy.
    """

    views = Views()

    def __init__(self, net: nn.Module, weight: NonNegative = 0.01) -> None:
        super().__init__()
        self.net, self.weight = net, weight

    def predictor(self) -> nn.Module:
        """The network."""
        return self.net

    def losses(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """One pass over the labelled images, one over the unlabelled ones."""
        return {
            "sup": cross_entropy_dice(self.net(batch.image_l), batch.mask_l),
            "entropy": self.weight * entropy(self.net(batch.weak_u)).mean(),
        }
