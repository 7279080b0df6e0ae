"""DyCON: consistency weighted by uncertainty and contrast of patches (Assefa et al., CVPR 2025).

B images, N patches of each, D numbers that describe a patch. Embeddings (B, N, D) have unit length, patch labels (B, N)
are bool, true for the lesion.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fpgm.data.batches.batch import Batch, Views
from fpgm.losses import consistency, cross_entropy, dice, entropy
from fpgm.methods.arguments import NonNegative, Positive, Share
from fpgm.methods.base import Method, Step
from fpgm.methods.parts.perturbations import noisy
from fpgm.methods.parts.ramps import ramp_up, staircase
from fpgm.methods.parts.teachers import frozen_copy, move_teacher, teacher_decay
from fpgm.nets import Backbone

PatchLabels = Literal["pseudo", "labeled_only"]
LEAST = 1e-8  # smallest argument of a logarithm


class Embedding(nn.Module):
    """A backbone with a projection head on its deepest map, which is first doubled in side.

    The head's convolutions start with Kaiming's normal weights, as officially the whole network; the backbone stays.
    """

    def __init__(self, net: Backbone) -> None:
        super().__init__()
        width = net.channels[-1]
        self.net = net
        self.head = nn.Sequential(
            nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
            nn.Conv2d(width, 2 * width, 1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(inplace=True),
            nn.Conv2d(2 * width, width, 1),
            nn.BatchNorm2d(width),
        )
        for layer in self.head:
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, K, H, W) of an image (B, C, H, W), and a map of embeddings (B, D, H/8, W/8) for the UNet."""
        features = self.net.encode(image)
        return self.net.decode(features), F.normalize(self.head(features[-1]).float(), dim=1)


class DyCON(Method):
    """A mean teacher whose student also learns from uncertainty (UnCL) and from patches (FeCL).

    L = L_ce + L_dice + λ(t) L_con + weight · (L_fe + L_un). L_un counts the disagreement of student and teacher less
    where they are uncertain, and penalises the uncertainty; L_fe = L_st + L_cr draws patches with one label together,
    the hard ones more, and pushes those of the student from those of the teacher with the other label.

    All images share the student's pass, and with noise the teacher's, which runs without gradient and in training mode.
    The teacher averages the student's parameters, the head included, and keeps its own batch-norm statistics. The
    gradient is cut to norm 1, because the entropy penalty is large at first. The student is validated and shipped.

    Differences from the official code: it takes patch labels from the true masks of unlabelled images; here these come
    from the teacher, and FeCL looks at the labelled images too, as it did at first. Softmax is applied once in L_con.
    The entropy is exact, without 1e-6 in the logarithm. Logarithms in FeCL are guarded by a bound, which cannot give
    NaN; a loss that is not finite stops the run instead of being skipped. FeCL's exponents are not shifted, and need
    not be. The hard negatives' bar rises over a share of the iterations, not over 1,500 epochs. Left out, because they
    change no loss: the signed distance output, the limit for hard positives, which every positive keeps, and the factor
    for hard negatives, which multiplies zeros.

    Args:
        net: the backbone.
        fecl_labels: source of patch labels: `pseudo` lets the teacher label the patches of unlabelled images;
            `labeled_only` leaves them out.
        weight: weight of UnCL and FeCL.
        consistency: λ at the end of its rise.
        ramp: share of the training over which λ rises.
        double_softmax: apply softmax twice in L_con, as the official code does.
        beta: first and last scale β of the entropies in UnCL; it falls by the same factor in every step.
        temperature: temperature τ of FeCL.
        focus: exponent γ of FeCL, which makes hard positives count more.
        hard: first and last similarity above which a teacher's patch is a hard negative.
        hard_ramp: share of the iterations over which that bar rises.
        noise: standard deviation σ of the teacher's noise, which is cut off at ± 2 σ.
        decay: decay of the teacher's average, after the first steps.
    """

    views = Views()
    gradient_clip = 1.0

    def __init__(
        self,
        net: Backbone | nn.Module,
        fecl_labels: PatchLabels = "pseudo",
        weight: NonNegative = 0.5,
        consistency: NonNegative = 0.1,
        ramp: NonNegative = 1.0,
        double_softmax: bool = False,
        beta: tuple[Positive, Positive] = (5.0, 0.5),
        temperature: Positive = 0.6,
        focus: NonNegative = 2.0,
        hard: tuple[Share, Share] = (0.3, 0.5),
        hard_ramp: NonNegative = 0.45,
        noise: NonNegative = 0.1,
        decay: Share = 0.99,
    ) -> None:
        super().__init__()
        if not isinstance(net, Backbone):
            raise ValueError(f"DyCON compares features and needs a Backbone, not {type(net).__name__}")
        self.student = Embedding(net)
        self.teacher = frozen_copy(self.student)
        self.fecl_labels, self.double_softmax = fecl_labels, double_softmax
        self.weight, self.consistency, self.ramp = weight, consistency, ramp
        self.betas, self.hard, self.hard_ramp = beta, hard, hard_ramp
        self.temperature, self.focus = temperature, focus
        self.noise, self.decay = noise, decay

    def predictor(self) -> nn.Module:
        """The student without its head."""
        return self.student.net

    def beta(self, step: Step) -> float:
        """β(t), which falls geometrically from the first to the last value."""
        first, last = self.betas
        return first * (last / first) ** (step.index / step.total)

    def bar(self, step: Step) -> float:
        """The similarity above which a teacher's patch with another label is a hard negative."""
        first, last = self.hard
        return first + (last - first) * ramp_up(step, round(self.hard_ramp * step.total))

    def losses(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """One pass of the student and one of the teacher over all images."""
        image, labelled = torch.cat((batch.image_l, batch.weak_u)), len(batch.image_l)
        logits, embedded = self.student(image)
        with torch.no_grad():
            taught, taught_embedded = self.teacher(noisy(image, step.generator, self.noise, 2 * self.noise))
            lesion = torch.cat((batch.mask_l.float(), taught[labelled:].float().softmax(1)[:, 1]))
        rows = slice(labelled if self.fecl_labels == "labeled_only" else None)
        seen = logits.detach()
        self.notes = {"entropy": entropy(seen).mean(), "foreground": seen.argmax(1).float().mean()}
        return {
            "sup": cross_entropy(logits[:labelled], batch.mask_l) + dice(logits[:labelled], batch.mask_l, classes=(1,)),
            "consistency": self._consistency(logits[labelled:], taught[labelled:], step),
            "uncl": self.weight * uncertain_consistency(logits, taught, self.beta(step)),
            "fecl": self.weight * self._contrast(embedded[rows], taught_embedded[rows], lesion[rows], step),
        }

    def _contrast(self, embedded: Tensor, taught: Tensor, lesion: Tensor, step: Step) -> Tensor:
        """L_fe of embeddings (B, D, h, w) and the lesion (B, H, W) in [0, 1], in full precision also under autocast."""
        labels = patch_labels(lesion, embedded.shape[-2:])
        patches, taught_patches = embedded.flatten(2).mT, taught.flatten(2).mT
        with torch.autocast(embedded.device.type, enabled=False):
            among = focal_contrast(patches, labels, self.temperature, self.focus)
            return among + hard_negatives(patches, taught_patches, labels, self.bar(step))

    def _consistency(self, logits: Tensor, taught: Tensor, step: Step) -> Tensor:
        """λ(t) L_con."""
        if self.double_softmax:
            logits, taught = logits.float().softmax(1), taught.float().softmax(1)
        return self.consistency * staircase(step, self.ramp) * consistency(logits, taught)

    def after_step(self, batch: Batch, step: Step) -> None:
        """Move the teacher's parameters towards the student's."""
        move_teacher(self.teacher, self.student, teacher_decay(step, self.decay), buffers=False)


def uncertain_consistency(logits: Tensor, taught: Tensor, beta: float) -> Tensor:
    """UnCL: mean of Σ (p − q)² / (exp(β H_p) + exp(β H_q)) + β (H_p + H_q) over pixels, with H in nats."""
    uncertainty, taught_uncertainty = entropy(logits), entropy(taught)
    gap = (logits.float().softmax(1) - taught.float().softmax(1)).square().sum(1)
    trust = (beta * uncertainty).exp() + (beta * taught_uncertainty).exp()
    return (gap / trust).mean() + beta * (uncertainty + taught_uncertainty).mean()


def patch_labels(lesion: Tensor, grid: torch.Size) -> Tensor:
    """Whether more than half of a patch is lesion: (B, H, W) in [0, 1], a grid h × w → (B, N = h w) bool."""
    return F.adaptive_avg_pool2d(lesion, (grid[0], grid[1])).flatten(1) > 0.5


def focal_contrast(patches: Tensor, labels: Tensor, temperature: float = 0.6, focus: float = 2.0) -> Tensor:
    """FeCL among the patches of each image: mean of (1 − s)^γ (−log s) over the others with the same label.

    s is the similarity's part in itself and the similarities to all patches with the other label, so it is 1, and the
    loss 0, where there are none. Mean over patches and images; 0 for a patch that is alone with its label. Sums over
    patches of a label are products with the membership: masks of N × N would take twice the time.
    """
    own, members = labels.long().unsqueeze(2), F.one_hot(labels.long(), 2).to(patches)
    logits = (patches / temperature) @ patches.mT
    against = (logits.exp() @ members).gather(2, 1 - own)
    odds = against.clamp_min(LEAST).log() - logits  # log((1 − s) / s)
    loss = odds.sigmoid() ** focus * F.softplus(odds)
    total = (loss @ members).gather(2, own) - loss.diagonal(dim1=1, dim2=2).unsqueeze(2)
    others = (members @ members.sum(1).unsqueeze(2) - 1).clamp_min(1)
    return (total / others * (against > 0)).mean()


def hard_negatives(patches: Tensor, taught: Tensor, labels: Tensor, bar: float) -> Tensor:
    """Mean of −log(1 − cosine) over pairs of a student's and a teacher's patch, labels unlike, cosine above the bar."""
    cosines = patches @ taught.mT
    hard = (labels.unsqueeze(2) != labels.unsqueeze(1)) & (cosines > bar)
    return (-(1 - cosines).clamp_min(LEAST).log() * hard).sum() / hard.sum().clamp_min(1)
