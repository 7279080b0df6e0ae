"""CVBM: the background as a target of its own beside the foreground (Cao, Li, Shi, IEEE TIP 2025)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from fpgm.data.batches.batch import Batch, Views
from fpgm.losses import consistency
from fpgm.methods.arguments import InnerShare, NonNegative, Share
from fpgm.methods.base import Method, Stage, Step
from fpgm.methods.parts.copy_paste import check_halves, copy_paste_halves, copy_paste_stages, paste_box, region_loss
from fpgm.methods.parts.pseudo_labels import keep_largest, kept_notes
from fpgm.methods.parts.ramps import ramp_up
from fpgm.methods.parts.teachers import frozen_copy, move_teacher
from fpgm.nets import Backbone, Decoder

STAIRS = 200  # of the whole training: the consistency's weight rises every 150 of 30,000 steps
SUP, UNSUP = ("sup", "sup_background"), ("unsup", "unsup_background")

# Foreground and background logits, their targets, and the pixels (H, W) that count
Area = tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor], Tensor]


class TwoDecoders(nn.Module):
    """A network with a second decoder beside its own, and a layer that fuses both; logits are (B, 2, H, W).

    Attributes:
        net: shared encoder and foreground decoder.
        background: the UNet's decoder, initialised independently; its class 1 means "background".
        mixing: 1 × 1 convolution from both logits to fused ones.
    """

    def __init__(self, net: Backbone) -> None:
        super().__init__()
        self.net = net
        self.background = Decoder(2, net.channels, net.norm)
        self.mixing = nn.Conv2d(4, 2, 1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of foreground and background for an image (B, 3, H, W)."""
        features = self.net.encode(image)
        return self.net.decode(features), self.background(features)

    def fuse(self, foreground: Tensor, background: Tensor) -> Tensor:
        """Fused logits."""
        fused: Tensor = self.mixing(torch.cat((foreground, background), dim=1))
        return fused


class CVBM(Method):
    """Copy-paste as in BCPNet, judged twice: the foreground decoder by the mask, the background decoder by its inverse.

    * pretrain: `sup` and `sup_background`, the two decoders' losses on labelled images pasted into each other.
    * self-train: the same on labelled areas; `unsup` and `unsup_background`, on areas with the teacher's pseudo-labels;
      and λ(t) times `consistency`: foreground must agree with inverted background, and fused with foreground, on
      both mixed batches. Nothing in it is detached, and it alone trains the mixing layer.

    The teacher is a copy of all of the student, begins at the best pre-trained weights as the student does, and
    follows it in parameters and batch-norm statistics. Its pseudo-labels, one map per decoder, are reduced to the
    largest component of each image. The halves of a batch pass one by one, in training mode, the teacher without
    gradient and without the mixing layer. What is validated and shipped is the foreground network: one UNet.

    Weights and ramp are those of the authors' 2-D code, the background target that of their binary 3-D code: the
    multi-class handling in 2-D is at fault (targets scaled by the class index, softmax twice), and so is softmax
    within softmax in the binary pre-training. Other differences: Dice is masked in both classes, theirs in the
    foreground alone; stages, learning rate and batch as in BCPNet here. λ rises over the whole second stage in stairs
    of 1/200 of the training, 150 of 30,000 steps as theirs, but the stage is a share of the run: 133 stairs in 20,000
    steps, not 200 in 30,000. The specification's `pretrain_iterations` and `lam_ramp` are therefore the shares
    `pretrain` and `ramp`; its `lcc` is called `largest_component` as in BCPNet.

    For the weights of the binary 3-D code set `region` 0.5, `weight` 1 and `ramp` 0.4 (40 of 100 stairs).

    Args:
        net: the backbone; its `encode` also feeds the second decoder.
        unsup: weight of pseudo-labelled areas; 0 leaves the teacher's passes out.
        region: weight of Dice + cross-entropy of all areas in self-training.
        weight: λ at the end of its rise; 0 leaves consistency and mixing layer out.
        ramp: share of the second stage over which λ rises; 0 for the full λ at once.
        side: side of the rectangle, as a share of the image's.
        largest_component: reduce pseudo-labels to the largest component of each image.
        decay: decay of the teacher's average.
        pretrain: share of the steps for pre-training.
    """

    stages = copy_paste_stages()
    views = Views()

    def __init__(
        self,
        net: Backbone | nn.Module,
        unsup: NonNegative = 0.5,
        region: NonNegative = 1.0,
        weight: NonNegative = 0.5,
        ramp: NonNegative = 1.0,
        side: InnerShare = 2 / 3,
        largest_component: bool = True,
        decay: Share = 0.99,
        pretrain: InnerShare = 1 / 3,
    ) -> None:
        super().__init__()
        if not isinstance(net, Backbone):
            raise ValueError(
                f"cvbm puts a second decoder on the encoder and needs a Backbone, not {type(net).__name__}"
            )
        self.stages = copy_paste_stages(pretrain)
        self.student = TwoDecoders(net)
        self.teacher = frozen_copy(self.student)
        self.unsup, self.region = unsup, region
        self.weight, self.ramp = weight, ramp
        self.side = side
        self.largest_component = largest_component
        self.decay = decay

    def predictor(self) -> nn.Module:
        """Encoder and foreground decoder of the student."""
        return self.student.net

    def check_batch(self, labelled: int, unlabelled: int, size: int) -> None:
        """Copy-paste pairs halves of both kinds of images."""
        check_halves(labelled, unlabelled)

    def enter(self, stage: Stage) -> None:
        """Self-training: the teacher begins as the pre-trained student."""
        if stage.name == "self-train":
            self.teacher.load_state_dict(self.student.state_dict())

    def losses(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Draw the rectangle; paste, pass and judge what the stage says."""
        a, b, mask_a, mask_b, p, q = copy_paste_halves(batch)
        inside = paste_box(a, self.side, step.generator)
        true_a, true_b = (mask_a, mask_a == 0), (mask_b, mask_b == 0)
        if step.stage == "pretrain":
            mixed = self.student(torch.where(inside, b, a))
            return _region_terms(SUP, 1.0, (mixed, true_a, ~inside), (mixed, true_b, inside))
        outward = self.student(torch.where(inside, a, p))
        inward = self.student(torch.where(inside, q, b))
        whole = 2 * self.region  # region_loss is half of Dice + cross-entropy
        terms = _region_terms(SUP, whole, (outward, true_a, inside), (inward, true_b, ~inside))
        if self.unsup > 0:
            label_p, label_q = self.pseudo_labels(p), self.pseudo_labels(q)
            areas = (outward, label_p, ~inside), (inward, label_q, inside)
            terms |= _region_terms(UNSUP, self.unsup * whole, *areas)
            self.notes = kept_notes(torch.cat((label_p[0], label_q[0])))
        if self.weight > 0:
            terms["consistency"] = self.lam(step) * (self.disagreement(*outward) + self.disagreement(*inward))
        return terms

    def disagreement(self, foreground: Tensor, background: Tensor) -> Tensor:
        """Squared differences foreground – inverted background and fused – foreground, of logits (B, 2, H, W)."""
        fused = self.student.fuse(foreground, background)
        return consistency(foreground, -background) + consistency(fused, foreground)  # softmax(1 − z) = softmax(−z)

    def lam(self, step: Step) -> float:
        """λ(t), by the clock of the second stage."""
        first = round(self.stages[0].share * step.total)
        stair = max(1, round(step.total / STAIRS))
        length = int(self.ramp * (step.total - first)) // stair * stair
        return self.weight * ramp_up(replace(step, index=step.index - first), length, stair)

    @torch.no_grad()
    def pseudo_labels(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """The teacher's maps (B, H, W) of "foreground" and of "background", cleaned."""
        foreground, background = self.teacher(image)
        maps = foreground.argmax(1), background.float().softmax(1)[:, 1] >= 0.5
        return (keep_largest(maps[0]), keep_largest(maps[1])) if self.largest_component else maps

    def after_step(self, batch: Batch, step: Step) -> None:
        """Self-training: the teacher follows the student, batch-norm statistics included."""
        if step.stage == "self-train":
            move_teacher(self.teacher, self.student, self.decay, buffers=True)


def _region_terms(names: tuple[str, str], weight: float, *areas: Area) -> dict[str, Tensor]:
    """Weighted sum over areas for each decoder, by name."""
    return {
        name: weight * torch.stack([region_loss(z[k], target[k], area) for z, target, area in areas]).sum()
        for k, name in enumerate(names)
    }
