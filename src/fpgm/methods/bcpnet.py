"""BCPNet: bidirectional copy-paste between labelled and unlabelled images (Bai et al., CVPR 2023)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fpgm.data.batches.batch import Batch, Views
from fpgm.methods.arguments import InnerShare, NonNegative, Share
from fpgm.methods.base import Method, Stage, Step
from fpgm.methods.parts.copy_paste import check_halves, copy_paste_halves, copy_paste_stages, paste_box, region_loss
from fpgm.methods.parts.pseudo_labels import keep_largest, kept_notes
from fpgm.methods.parts.teachers import frozen_copy, move_teacher


class BCPNet(Method):
    """Labelled and unlabelled images are never shown apart: a large rectangle of one is pasted into the other.

    Halves of a batch: labelled a and b, unlabelled p and q. One rectangle per step serves all images and both ways.

    * pretrain: b is pasted into a; the loss is that of a's mask outside the rectangle and of b's inside.
    * self-train: outward, a is pasted into p; inward, q into b. Masks judge the labelled area (`sup`), pseudo-labels
      of the teacher the rest (`unsup`, weighted without ramp). Each area has (cross-entropy + Dice) / 2 of its own.

    Pseudo-labels are the teacher's most likely classes, without threshold, reduced to the largest component of each
    image: of several polyps one stays. The stage begins with student and teacher at the best pre-trained weights, and
    the optimiser as it was then; the teacher follows the student in parameters and batch-norm statistics.

    Which images share a pass is part of the recipe: the four halves of self-training, two through the student and two
    through the teacher, go one by one, all in training mode, the teacher without gradient. The student is what is
    validated and shipped, without the component step.

    Formulas follow the authors' 2-D code, after its correction that masks the background class too. Differences: 10,000
    and 20,000 of 30,000 steps instead of 10,000 and 30,000 (theirs: `pretrain` 0.25 and 40,000 iterations), 4 images
    per pass instead of 6 and a decaying learning rate instead of a constant one, as for all compared methods here
    (theirs: batches of 12 and `optimizer.power` 0); integer counts of batch norm are copied, not averaged; heads that
    are declared there and never used are left out.

    Args:
        net: any network that maps (B, 3, H, W) to logits (B, 2, H, W).
        unsup: weight u of the pseudo-labelled area; 0 leaves the teacher's passes out.
        side: side of the rectangle, as a share of the image's.
        largest_component: reduce pseudo-labels to the largest component of each image.
        decay: decay of the teacher's average.
        pretrain: share of the steps for pre-training.
    """

    stages = copy_paste_stages()
    views = Views()

    def __init__(
        self,
        net: nn.Module,
        unsup: NonNegative = 0.5,
        side: InnerShare = 2 / 3,
        largest_component: bool = True,
        decay: Share = 0.99,
        pretrain: InnerShare = 1 / 3,
    ) -> None:
        super().__init__()
        self.stages = copy_paste_stages(pretrain)
        self.net = net
        self.teacher = frozen_copy(net)
        self.unsup = unsup
        self.side = side
        self.largest_component = largest_component
        self.decay = decay

    def predictor(self) -> nn.Module:
        """The student."""
        return self.net

    def check_batch(self, labelled: int, unlabelled: int, size: int) -> None:
        """Copy-paste pairs halves of both kinds of images."""
        check_halves(labelled, unlabelled)

    def enter(self, stage: Stage) -> None:
        """Self-training: the teacher begins as the pre-trained student."""
        if stage.name == "self-train":
            self.teacher.load_state_dict(self.net.state_dict())

    def losses(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Draw the rectangle; paste, pass and judge what the stage says."""
        a, b, mask_a, mask_b, p, q = copy_paste_halves(batch)
        inside = paste_box(a, self.side, step.generator)
        if step.stage == "pretrain":
            logits = self.net(torch.where(inside, b, a))
            return {"sup": region_loss(logits, mask_a, ~inside) + region_loss(logits, mask_b, inside)}
        outward = self.net(torch.where(inside, a, p))
        inward = self.net(torch.where(inside, q, b))
        terms = {"sup": region_loss(outward, mask_a, inside) + region_loss(inward, mask_b, ~inside)}
        if self.unsup > 0:
            label_p, label_q = self.pseudo_labels(p), self.pseudo_labels(q)
            unsup = region_loss(outward, label_p, ~inside) + region_loss(inward, label_q, inside)
            terms["unsup"] = self.unsup * unsup
            self.notes = kept_notes(torch.cat((label_p, label_q)))
        return terms

    @torch.no_grad()
    def pseudo_labels(self, image: Tensor) -> Tensor:
        """The teacher's labels (B, H, W) of images (B, 3, H, W), cleaned."""
        labels: Tensor = self.teacher(image).argmax(1)
        return keep_largest(labels) if self.largest_component else labels

    def after_step(self, batch: Batch, step: Step) -> None:
        """Self-training: the teacher follows the student, batch-norm statistics included."""
        if step.stage == "self-train":
            move_teacher(self.teacher, self.net, self.decay, buffers=True)
