"""The baseline: labelled images alone."""

from __future__ import annotations

from torch import Tensor, nn

from fpgm.data.batches.batch import Batch, Views
from fpgm.losses import cross_entropy_dice
from fpgm.methods.base import Method, Step


class Supervised(Method):
    """Cross-entropy and Dice on the labelled images (Eq. 14), nothing else.

    Args:
        net: any network that maps (B, 3, H, W) to logits (B, 2, H, W).
    """

    views = Views(unlabeled=False)

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def losses(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """One pass over the labelled images."""
        return {"sup": cross_entropy_dice(self.net(batch.image_l), batch.mask_l)}

    def predictor(self) -> nn.Module:
        """The network."""
        return self.net
