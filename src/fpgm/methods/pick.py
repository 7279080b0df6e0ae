"""PICK: predict and mask, as in Zeng et al., IJCV 2025, carried over to two dimensions.

B labelled images x with masks y, U unlabelled images u, of H × W pixels.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from fpgm.data.batches.batch import Batch, Views
from fpgm.losses import cross_entropy
from fpgm.methods.arguments import InnerShare, NonNegative
from fpgm.methods.base import Method, Step
from fpgm.methods.parts.copy_paste import copy_paste_stages, paste_box
from fpgm.methods.parts.pseudo_labels import kept_notes
from fpgm.nets import Backbone, Decoder

SIDE = 2 / 3  # of the pasted block
PATCH, PATCH_SHARE = 16, 0.6
EARLY = 0.2  # of the pre-training
SMOOTH = 1e-5


def segmentation_loss(logits: Tensor, target: Tensor) -> Tensor:
    """(Cross-entropy + Dice) / 2, the Dice of each image and class by itself, its denominator not squared.

    Shape:
        logits: (B, K, H, W); target: (B, H, W) labels.
    """
    p = logits.float().softmax(1)
    t = functional.one_hot(target, logits.shape[1]).permute(0, 3, 1, 2).to(p)
    overlap = (2 * (p * t).sum((2, 3)) + SMOOTH) / ((p + t).sum((2, 3)) + SMOOTH)
    return (cross_entropy(logits, target) + 1 - overlap.mean()) / 2


def inpainting_loss(image: Tensor, painted: Tensor, region: Tensor) -> Tensor:
    """Mean absolute error per value inside the region (B, H, W) of images (B, C, H, W); 0 if it is empty."""
    error = (image - painted.float()).abs() * region.unsqueeze(1)
    return error.sum() / (image.shape[1] * region.sum() + SMOOTH)


def patch_region(image: Tensor, generator: torch.Generator) -> Tensor:
    """Choose 60 % of the 16 × 16 patches of each image (B, C, H, W) at random, rounded up: (B, H, W) bool."""
    height, width = image.shape[-2:]
    rows, columns = -(-height // PATCH), -(-width // PATCH)
    order = torch.rand(len(image), rows * columns, generator=generator).argsort(1)
    chosen = (order < math.ceil(PATCH_SHARE * rows * columns)).view(-1, rows, columns)
    region = chosen.repeat_interleave(PATCH, 1).repeat_interleave(PATCH, 2)
    return region[:, :height, :width].to(image.device)


class PICK(Method):
    """What the main decoder takes for the lesion is cut out, painted anew by a second decoder, and found by a third.

    One encoder and three decoders, each initialised by itself. Unlabelled images train the encoder and the two further
    decoders; the main one learns from labels alone, and ships. In both stages L = L_sup + inpaint · L_1 + L_aux:

    * `pretrain`: all on labelled images. The main decoder sees them whole, and with a block of the image at the
      mirrored place of the batch pasted in, in one pass. Of the whole ones a region is cut out: random patches in the
      first fifth of the stage, then P > 0.5.
    * `self-train`: the main decoder sees the second half of the labelled images pasted into the first. The region
      P > 0.5 of an unlabelled image, predicted without gradient but in training mode, is cut out, and is the
      pseudo-label of the restored image as well.

    Each decoder's pass runs the encoder anew on images of its own; batch norm sees each of these groups by itself. The
    auxiliary decoder's gradient stops at the restored image.

    What differs from the official script `LA_PICK_train` (there is none in two dimensions):
        * Random patches come first, as in its sisters `LT` and `PA`, since early predictions of small polyps are
          empty; `early="threshold"` is the rule of `LA`, P > 0.2 in the same fifth.
        * L_1 has weight 1 instead of 0.2, because errors on images in [0, 1] are smaller than on z-scored volumes, and
          is a mean over the three channels too. Black, which fills the region, is not the mean here, as it is there.
        * Self-training starts from the best pre-trained weights by validation, and the best is sought anew in it; the
          official script means to, but takes the latest. The optimiser goes on instead of starting anew, and the
          learning rate falls once over the whole run.

    Args:
        net: the backbone, with its encoder and the main decoder.
        pretrain: share of the steps in the first stage; 1/3 would be that of the copy-paste methods.
        inpaint: weight of L_1; the official scripts have 0.2 and 1.
        early: region that is cut out in the first fifth of the pre-training: `patches` or `threshold`.
        mask_fill: colour that a region is filled with before it is painted: `zero`, or the `mean` colour of its image.
        clamp: clamp the painted region to [0, 1] before the auxiliary decoder sees it.
        aux_flip: turn restored images upside down for it, in self-training; and
        aux_with_labeled: let the labelled images join them. Both are of the official script `PA`.
    """

    stages = copy_paste_stages(0.25)
    views = Views()

    def __init__(
        self,
        net: Backbone,
        pretrain: InnerShare = 0.25,
        inpaint: NonNegative = 1.0,
        early: Literal["patches", "threshold"] = "patches",
        mask_fill: Literal["zero", "mean"] = "zero",
        clamp: bool = False,
        aux_flip: bool = False,
        aux_with_labeled: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(net, Backbone):
            raise ValueError(f"PICK adds decoders to an encoder and needs a Backbone, not {type(net).__name__}")
        self.stages = copy_paste_stages(pretrain)
        self.net = net
        self.painter = Decoder(3, net.channels, net.norm)
        self.auxiliary = Decoder(2, net.channels, net.norm)
        self.inpaint, self.early, self.mask_fill, self.clamp = inpaint, early, mask_fill, clamp
        self.aux_flip, self.aux_with_labeled = aux_flip, aux_with_labeled

    def predictor(self) -> nn.Module:
        """The encoder with the main decoder."""
        return self.net

    def check_batch(self, labelled: int, unlabelled: int, size: int) -> None:
        """One half of the labelled images is pasted into the other."""
        if labelled % 2:
            raise ValueError(
                f"a process has {labelled} labelled images in a step, but PICK pastes one half into the other: "
                "set data.batch_labeled to an even number per process"
            )

    def losses(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """The terms of the stage."""
        return self._pretrain(batch, step) if step.stage == self.stages[0].name else self._self_train(batch, step)

    def _pretrain(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        image, mask = batch.image_l, batch.mask_l
        box = paste_box(image, SIDE, step.generator)
        logits = self.net(torch.cat((torch.where(box, image.flip(0), image), image)))
        target = torch.cat((torch.where(box, mask.flip(0), mask), mask))
        region = self._pretrain_region(image, logits[len(image) :].detach(), step)
        restored, error = self._restore(image, region)
        return {
            "sup": segmentation_loss(logits, target),
            "inpaint": self.inpaint * error,
            "aux": segmentation_loss(self._find(restored), mask),
        }

    def _self_train(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        self.check_batch(len(batch.image_l), len(batch.weak_u), batch.image_l.shape[-1])
        with torch.no_grad():
            region = _foreground(self.net(batch.weak_u)) > 0.5
        box = paste_box(batch.image_l, SIDE, step.generator)
        (image_a, image_b), (mask_a, mask_b) = batch.image_l.chunk(2), batch.mask_l.chunk(2)
        logits = self.net(torch.where(box, image_b, image_a))
        restored, error = self._restore(batch.weak_u, region)
        self.notes = {**self.notes, **kept_notes(region)}
        target = region.long()
        if self.aux_flip:
            restored, target = restored.flip(2), target.flip(1)
        if self.aux_with_labeled:
            restored, target = torch.cat((restored, batch.image_l)), torch.cat((target, batch.mask_l))
        return {
            "sup": segmentation_loss(logits, torch.where(box, mask_b, mask_a)),
            "inpaint": self.inpaint * error,
            "aux": segmentation_loss(self._find(restored), target),
        }

    def _pretrain_region(self, image: Tensor, logits: Tensor, step: Step) -> Tensor:
        early = step.index < EARLY * round(self.stages[0].share * step.total)
        if early and self.early == "patches":
            return patch_region(image, step.generator)
        return _foreground(logits) > (0.2 if early else 0.5)

    def _restore(self, image: Tensor, region: Tensor) -> tuple[Tensor, Tensor]:
        """The images with their regions painted anew, without gradient, and the error of the painting."""
        hole = region.unsqueeze(1)
        fill = image.mean((2, 3), keepdim=True) if self.mask_fill == "mean" else image.new_zeros(())
        painted = self.painter(self.net.encode(torch.where(hole, fill, image)))
        paint = painted.detach().float()
        restored = torch.where(hole, paint.clamp(0, 1) if self.clamp else paint, image)
        self.notes = {"region": region.float().mean(), "empty": (~region.flatten(1).any(1)).float().mean()}
        return restored, inpainting_loss(image, painted, region)

    def _find(self, image: Tensor) -> Tensor:
        """Logits of the auxiliary decoder."""
        logits: Tensor = self.auxiliary(self.net.encode(image))
        return logits


def _foreground(logits: Tensor) -> Tensor:
    """Probability (B, H, W) of the foreground."""
    return logits.float().softmax(1)[:, 1]
