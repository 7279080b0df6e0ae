"""AC-MT: a mean teacher heard only where the student hesitates (Xu et al., Medical Image Analysis 2023)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from fpgm.data.batches.batch import Batch, Views
from fpgm.losses import consistency, cross_entropy_dice, entropy
from fpgm.methods.arguments import NonNegative, Share
from fpgm.methods.base import Method, Step
from fpgm.methods.parts.perturbations import noisy
from fpgm.methods.parts.ramps import ramp_up, staircase
from fpgm.methods.parts.teachers import frozen_copy, move_teacher, teacher_decay

EntropyRamp = Literal["up", "down"]
START, RISE, FALL = 0.75, 0.20, 0.15  # the threshold's first value, and how far it goes up or down


class ACMT(Method):
    """Student and teacher must agree on the ambiguous pixels of unlabelled images, and on no others.

    L = L_sup + λ(t) L_con. A pixel is ambiguous where the entropy of the student's prediction, in units of its largest
    value, reaches τ(t). L_con is the mean of (p − q)² over classes and ambiguous pixels, 0 if there is none, with p the
    student's and q the teacher's prediction, the teacher looking through noise.

    Labelled and unlabelled images share the student's pass; the teacher sees the noisy unlabelled images alone, without
    gradient, in training mode. It is an average of the student's parameters and keeps its own batch-norm statistics.
    The student is what is validated and shipped.

    Of the authors' four ways to find ambiguous pixels this is the one by entropy. Differences from their code:
    the entropy is exact, without 1e-6 in the logarithm (the values differ by less than 3e-6); the teacher begins as a
    copy of the student, which the first step, a full copy, would make it anyway; its unused pass over clean images is
    left out; λ rises over the whole training, not over 6,000 of 8,000 steps.

    Args:
        net: any network that maps (B, 3, H, W) to logits (B, 2, H, W).
        consistency: λ at the end of its rise; 0 leaves the teacher's pass out.
        ramp: share of the training over which λ rises; 0.75 in the authors' code.
        ent_ramp: direction of the threshold τ: `up`, from 0.75 to 0.95, or `down`, to 0.60, over the whole training.
        noise: standard deviation σ of the noise, which is cut off at ± 2 σ.
        decay: decay of the teacher's average, after the first steps.
    """

    views = Views()

    def __init__(
        self,
        net: nn.Module,
        consistency: NonNegative = 0.1,
        ramp: NonNegative = 1.0,
        ent_ramp: EntropyRamp = "up",
        noise: NonNegative = 0.1,
        decay: Share = 0.99,
    ) -> None:
        super().__init__()
        self.net = net
        self.teacher = frozen_copy(net)
        self.consistency, self.ramp = consistency, ramp
        self.ent_ramp = ent_ramp
        self.noise = noise
        self.decay = decay

    def predictor(self) -> nn.Module:
        """The student."""
        return self.net

    def threshold(self, step: Step) -> float:
        """τ(t), the least share of the largest entropy at which a pixel is ambiguous."""
        change = RISE if self.ent_ramp == "up" else -FALL
        return START + change * ramp_up(step, step.total)

    def weight(self, step: Step) -> float:
        """λ(t)."""
        return self.consistency * staircase(step, self.ramp)

    def losses(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """One pass of the student over all images, one of the teacher over the unlabelled ones."""
        logits = self.net(torch.cat((batch.image_l, batch.weak_u)))
        labelled, unlabelled = logits.tensor_split([len(batch.image_l)])
        terms = {"sup": cross_entropy_dice(labelled, batch.mask_l)}
        if self.consistency > 0:
            with torch.no_grad():
                taught = self.teacher(noisy(batch.weak_u, step.generator, self.noise, 2 * self.noise))
            chosen = ambiguous(unlabelled, self.threshold(step))
            terms["consistency"] = self.weight(step) * consistency(unlabelled, taught, mask=chosen)
            self.notes = {
                "ambiguous": chosen.float().mean(),
                "foreground": unlabelled.detach().argmax(1).float().mean(),
            }
        return terms

    def after_step(self, batch: Batch, step: Step) -> None:
        """Move the teacher's parameters towards the student's."""
        move_teacher(self.teacher, self.net, teacher_decay(step, self.decay), buffers=False)


def ambiguous(logits: Tensor, threshold: float) -> Tensor:
    """Pixels whose entropy reaches a share of its largest value: (B, K, H, W) → (B, H, W) bool, without gradient."""
    return entropy(logits.detach()) / math.log(logits.shape[1]) >= threshold
