"""FPGM with a teacher: averaged weights label clean views, the student learns from strong, mixed, aligned ones."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from fpgm.data.batches.batch import Batch, Views
from fpgm.losses import cross_entropy_dice, pseudo_label
from fpgm.methods.arguments import NonNegative, PositiveShare, Share
from fpgm.methods.base import Method, Step
from fpgm.methods.parts.batchnorm import frozen_batchnorm_stats
from fpgm.methods.parts.cutmix import paste
from fpgm.methods.parts.pseudo_labels import kept_notes
from fpgm.methods.parts.teachers import averaging_decay, frozen_copy, move_teacher
from fpgm.spectrum import FrequencyPrior, SpectralAlignment, align, exchange
from fpgm.spectrum.align import Reconstruction

Selection = Literal["share", "threshold"]
Mix = Literal["none", "unlabeled", "labeled"]
Alignment = Literal["none", "augment", "view", "exchange"]
TeacherStatistics = Literal["clean", "student"]
LOOK_EVERY = 20  # steps between looks at the teacher's foreground, where the start depends on it


class FPGMTeacher(Method):
    """A teacher labels the weak views of unlabelled images; the student must find these labels in harder views.

    **Teacher.** Its weights are an average of the student's, with decay min(1 − 1 / (t / 4 + 1), `decay`), and so are
    its batch-norm statistics. It is what is validated and shipped.

    **Pseudo-labels.** The teacher's most likely class, of all pixels: a fixed threshold keeps hardly anything but
    background at first, because background passes it first, and then teaches nothing else. A young teacher finds too
    much foreground, and a student of such labels finds as much. So no more of it is kept than the labelled masks of the
    step have (`limit_foreground`), the most probable pixels; the others are neither foreground nor background.

    **Student.** One pass over labelled images and strong views together, of each kind a share of the batch (`images`):
    of the unlabelled ones those whose foreground the teacher is surest of, because its most probable masks are its
    best ones. With half of each, a step has as many images as one of supervised training. Boxes of the strong views
    come from other images (`cutmix`): from labelled ones, with their true masks, or from the unlabelled image before
    it, with its pseudo-labels.

    **Loss.** L = L_sup + λ(t) · L_unsup, both (cross-entropy + Dice) / 2. λ is 0 for the first `start` of the steps and
    then rises linearly to `weight` over `ramp` of them.

    **Frequency prior.** Learnt from the edges of labelled polyps as in FPGM (Stage I), and kept with the run.
    `alignment` says what is drawn towards it (Stage II): nothing; a share of the student's images, labelled and
    unlabelled (`augment`); or a third `view` of all unlabelled images with a loss of its own, as in the paper. Or that
    share of the images takes, in part, the radial profile of an unlabelled image instead of the prior's (`exchange`).

    Args:
        net: any network that maps (B, 3, H, W) to logits (B, 2, H, W).
        teacher: whether the teacher labels the weak views; if not, the student does, and the averaged weights are
            shipped all the same.
        decay: decay of the teacher's average, after the first steps.
        statistics: source of the teacher's batch-norm statistics: an average of the `student`'s; or `clean` images, in
            its own passes, once unlabelled images take part.
        images: share of the labelled and of the unlabelled images of a batch that the student sees once unlabelled ones
            take part. The teacher labels all unlabelled ones.
        selection: rule by which pseudo-labels are kept: a `share` of each class, or those that reach a `threshold`.
        share: share of the pixels of each class that is kept, the most confident ones of the batch.
        threshold: confidence that a pseudo-label needs, for all classes or (background, foreground).
        limit_foreground: most foreground that is kept, as a multiple of what the labelled masks of the step have; 0 for
            no limit.
        cutmix: source of the boxes pasted into the strong views: boxes of `labeled` or `unlabeled` images, or `none`.
        weight: λ at the end of its rise; 0 leaves the unlabelled images out.
        start: share of the steps before unlabelled images take part.
        start_foreground: where above 0, they take part as soon as the teacher finds this many times the foreground of
            the labelled masks, but after `start` of the steps at the latest.
        ramp: share of the steps over which λ rises.
        alignment: use of the aligned images: `none`, `augment`, `view` or `exchange`.
        aligned: share of the student's images that `augment` aligns and `exchange` changes.
        gamma: guidance strength γ, or the range (low, high) it is drawn from for each image.
        gamma_rises: multiply γ by the share of the steps done: gentle early, strong late.
        reconstruction: way to rebuild the amplitude: `radial` (the paper) or `ratio`; `exchange` has only `ratio`.
        momentum: momentum μ of the prior, whose weights are normalised.
    """

    began: Tensor

    def __init__(
        self,
        net: nn.Module,
        teacher: bool = True,
        decay: Share = 0.99,
        statistics: TeacherStatistics = "student",
        images: PositiveShare = 0.5,
        selection: Selection = "share",
        share: Share = 1.0,
        threshold: Share | tuple[Share, Share] = 0.95,
        limit_foreground: NonNegative = 1.0,
        cutmix: Mix = "labeled",
        weight: NonNegative = 1.0,
        start: Share = 0.4,
        start_foreground: NonNegative = 0.0,
        ramp: Share = 0.1,
        alignment: Alignment = "none",
        aligned: Share = 0.5,
        gamma: Share | tuple[Share, Share] = (0.0, 1.0),
        gamma_rises: bool = False,
        reconstruction: Reconstruction = "ratio",
        momentum: Share = 0.999,
    ) -> None:
        super().__init__()
        if alignment == "exchange" and reconstruction != "ratio":
            raise ValueError(
                f"reconstruction is {reconstruction!r}, but alignment 'exchange' keeps the directions of a spectrum: "
                "leave it out, or take 'augment' or 'view'"
            )
        self.net = net
        self.teacher = frozen_copy(net)
        self.taught, self.decay, self.statistics = teacher, decay, statistics
        self.images, self.selection, self.share = images, selection, share
        self.thresholds = threshold if isinstance(threshold, tuple) else (threshold, threshold)
        self.limit_foreground = limit_foreground
        self.cutmix: Mix = cutmix
        self.weight = weight
        self.start, self.start_foreground, self.ramp = start, start_foreground, ramp
        self.alignment, self.aligned_share, self.gamma_rises = alignment, aligned, gamma_rises
        self.align = SpectralAlignment(FrequencyPrior(momentum, debias=True), gamma, reconstruction)
        self.views = Views(
            unlabeled=weight > 0 or alignment == "exchange",
            strong=int(weight > 0),
            cutmix=weight > 0 and cutmix != "none",
        )
        self.register_buffer("began", torch.tensor(-1))  # the step at which unlabelled images began to take part

    def predictor(self) -> nn.Module:
        """The teacher."""
        return self.teacher

    def before_step(self, batch: Batch, step: Step) -> None:
        """Stage I, and whether the unlabelled images take part from now on."""
        assert isinstance(self.align.prior, FrequencyPrior)
        self.align.prior.update(batch.image_l, batch.mask_l)
        if self.weight > 0 and self.began < 0 and self._may_begin(batch, step):
            self.began.fill_(step.index)

    def _may_begin(self, batch: Batch, step: Step) -> bool:
        """After `start` of the steps; or earlier, once the teacher finds enough foreground."""
        if step.index >= round(self.start * step.total):
            return True
        if not self.start_foreground or step.index % LOOK_EVERY or not step.index:
            return False
        with frozen_batchnorm_stats(self.teacher):
            found = pseudo_label(self.teacher(batch.weak_u), 0.0)[0].float().mean()
        return bool(found >= self.start_foreground * batch.mask_l.float().mean())

    def lam(self, step: Step) -> float:
        """λ(t)."""
        if self.began < 0:
            return 0.0
        length = self.ramp * step.total
        done = step.index - int(self.began) + 1
        return self.weight * min(1.0, done / length if length else 1.0)

    def losses(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Labelled images alone at first; then both kinds."""
        if self.began < 0:
            image = self._augment(batch.image_l, batch, step)
            return {"sup": cross_entropy_dice(self.net(image), batch.mask_l)}
        logits = self._teach(batch.weak_u)
        chosen = surest(logits, self._count(logits))
        labels, keep = self.select(logits[chosen], batch.mask_l)
        self.notes = {"foreground": labels.float().mean(), **kept_notes(labels, keep)}
        view, target, kept = self._mix(batch, chosen, labels, keep)
        count = self._count(batch.image_l)
        image, mask = self._augment(batch.image_l[:count], batch, step), batch.mask_l[:count]
        logits = self.net(torch.cat((image, self._augment(view, batch, step))))
        terms = {
            "sup": cross_entropy_dice(logits[:count], mask),
            "unsup": self.lam(step) * cross_entropy_dice(logits[count:], target, mask=kept),
        }
        if self.alignment == "view":
            with frozen_batchnorm_stats(self.net):
                aligned = self.net(self.aligned(batch.weak_u[chosen], step))
            terms["freq"] = self.lam(step) * cross_entropy_dice(aligned, labels, mask=keep)
        return terms

    def _count(self, images: Tensor) -> int:
        """How many of these images the student sees, rounded up."""
        return math.ceil(self.images * len(images))

    @torch.no_grad()
    def _teach(self, weak: Tensor) -> Tensor:
        """Logits of weak views, from the teacher or the student."""
        self.teacher.train(self.statistics == "clean")
        logits: Tensor = self.teacher(weak) if self.taught else self.net(weak)
        return logits

    def select(self, logits: Tensor, masks: Tensor) -> tuple[Tensor, Tensor]:
        """Pseudo-labels and pixels to keep, each (B, H, W), of logits (B, K, H, W), given the labelled masks."""
        confidence, labels = logits.detach().float().softmax(1).max(1)
        if self.selection == "threshold":
            background, foreground = self.thresholds
            keep = confidence >= torch.where(labels > 0, foreground, background)
        else:
            keep = most_confident(confidence, labels, self.share)
        if self.limit_foreground:
            most = self.limit_foreground * (masks > 0).float().mean() * labels.numel()
            keep &= (labels == 0) | highest(confidence, keep & (labels > 0), round(float(most)))
        return labels, keep

    def _mix(self, batch: Batch, chosen: Tensor, labels: Tensor, keep: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """CutMix: strong views of the chosen images with boxes of others, their labels and the pixels that count."""
        view = batch.strong_u[0][chosen]
        if self.cutmix == "none":
            return view, labels, keep
        if self.cutmix == "labeled":  # those that the student does not see whole, as far as there are any
            first = self._count(batch.image_l)
            source = torch.arange(first, first + len(view), device=view.device) % len(batch.image_l)
            others = batch.image_l[source], batch.mask_l[source], torch.ones_like(keep)
        else:
            others = view.roll(1, 0), labels.roll(1, 0), keep.roll(1, 0)
        image, target, kept = (
            paste(*pair, batch.boxes_u[0][chosen]) for pair in zip(others, (view, labels, keep), strict=True)
        )
        return image, target, kept

    @torch.no_grad()
    def aligned(self, image: Tensor, step: Step) -> Tensor:
        """Stage II: images drawn towards the prior."""
        return align(image, self.align.profile, self._gamma(image, step), self.align.reconstruction, clamp=True)

    @torch.no_grad()
    def exchanged(self, image: Tensor, others: Tensor, step: Step) -> Tensor:
        """Images drawn towards the spectra of others, one each at random."""
        chosen = torch.randint(len(others), (len(image),), generator=step.generator).to(others.device)
        return exchange(image, others[chosen], self._gamma(image, step), clamp=True)

    def _gamma(self, image: Tensor, step: Step) -> float | Tensor:
        """Return γ of this step, one number or one per image."""
        return self.align.draw(len(image), step.generator) * (step.index / step.total if self.gamma_rises else 1.0)

    def _augment(self, image: Tensor, batch: Batch, step: Step) -> Tensor:
        """Change the spectra of a share of the images where that is an augmentation."""
        if self.alignment not in ("augment", "exchange"):
            return image
        chosen = torch.rand(len(image), 1, 1, 1, generator=step.generator).to(image) < self.aligned_share
        changed = (
            self.aligned(image, step) if self.alignment == "augment" else self.exchanged(image, batch.weak_u, step)
        )
        return torch.where(chosen, changed, image)

    def after_step(self, batch: Batch, step: Step) -> None:
        """The teacher follows the student; its statistics too, unless its own passes make them."""
        own = self.began >= 0 and self.taught and self.statistics == "clean"
        move_teacher(self.teacher, self.net, averaging_decay(step, self.decay), buffers=not own)

    def pictures(self, batch: Batch) -> dict[str, Tensor]:
        """Weak, strong and, where they are used, aligned views."""
        views = super().pictures(batch)
        if self.alignment != "none":
            step = Step(batch.index, batch.index + 1, "", torch.Generator().manual_seed(batch.index))
            weak = batch.weak_u
            views["aligned"] = (
                self.exchanged(weak, weak, step) if self.alignment == "exchange" else self.aligned(weak, step)
            )
        return views


def most_confident(confidence: Tensor, labels: Tensor, share: float) -> Tensor:
    """Pixels whose confidence is among the highest of their class: (B, H, W) bool.

    Of n pixels of a class, ⌈share · n⌉ are kept, and those that are equal to the last of them.

    Args:
        confidence: (B, H, W), probability of the label.
        labels: (B, H, W), integers from 0.
        share: in [0, 1].
    """
    keep = torch.zeros_like(labels, dtype=torch.bool)
    for label in range(int(labels.max()) + 1):
        own = labels == label
        keep |= highest(confidence, own, -int(-share * int(own.sum()) // 1))
    return keep


def highest(confidence: Tensor, among: Tensor, count: int) -> Tensor:
    """Pixels with the highest confidence among some, and those that are equal to the last of them.

    Args:
        confidence: (B, H, W).
        among: (B, H, W) bool, the pixels that are considered.
        count: how many are wanted; all if there are no more.
    """
    values = confidence[among]
    if count <= 0:
        return torch.zeros_like(among)
    return among & (confidence >= values.kthvalue(len(values) - count + 1).values) if count < len(values) else among


def surest(logits: Tensor, count: int) -> Tensor:
    """Images whose predicted foreground has the highest mean probability: (count,) indices, in ascending order.

    An image without predicted foreground has 0; of equal ones the first are taken.

    Args:
        logits: (B, K, H, W), class 0 is the background.
        count: number of images.
    """
    inside = 1 - logits.detach().float().softmax(1)[:, 0]
    found = inside > 0.5
    mean = (inside * found).sum((1, 2)) / found.sum((1, 2)).clamp(min=1)
    return mean.sort(descending=True, stable=True).indices[:count].sort().values
