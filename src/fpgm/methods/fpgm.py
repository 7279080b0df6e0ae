"""Frequency Prior Guided Matching, as the paper writes it and as the released code does it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from fpgm.data.batches.batch import Batch, Views
from fpgm.losses import cross_entropy_dice, dice, pseudo_label
from fpgm.methods.arguments import NonNegative, Share
from fpgm.methods.base import Method, Step
from fpgm.methods.parts.batchnorm import Statistics, frozen_batchnorm_stats
from fpgm.methods.parts.cutmix import mix_views
from fpgm.methods.parts.perturbations import pass_together
from fpgm.methods.parts.pseudo_labels import eval_pseudo_labels, kept_notes
from fpgm.methods.parts.ramps import staircase
from fpgm.nets import Backbone
from fpgm.spectrum import FrequencyPrior, SpectralAlignment, align, generic_profile, low_pass
from fpgm.spectrum.align import Reconstruction
from fpgm.spectrum.radial import bins

Recipe = Literal["paper", "released"]
Prior = Literal["learned", "generic", "low-pass"]
FEATURE = 0.5  # weight of the feature-perturbed pass
FEATURE_DROP = 0.5  # share of the feature channels


class FPGM(Method):
    """Confident predictions on the weak view teach the strong view and the spectrally aligned view.

    Recipe `paper`: one strong view; L = L_sup + unsup · L_unsup + freq · L_freq (Eq. 13 to 17).
    Recipe `released`: two strong views with CutMix, passed one by one and scored in one Dice, and a pass with half of
    all feature channels dropped; L = L_sup + unsup · L_hc + feature · L_fp + freq · L_freq.

    Which images share a pass is part of the recipe, because batch norm sees the group: labelled and weak images go
    together, strong and aligned views each by themselves. Pseudo-labels come from that shared pass, in training mode.
    In both recipes the prior moves before it is used, and pixels below the threshold are left out of the Dice sums.

    Args:
        net: the backbone; recipe `released` needs its `encode` and `decode`.
        recipe: recipe to follow, `paper` or `released`.
        unsup: weight of the strong views' loss; 0 leaves their passes out.
        freq: weight of the aligned view's loss; 0 leaves its pass out.
        feature: weight of the feature-perturbed pass; refused in recipe `paper`, which has none.
        threshold: confidence τ that a pseudo-label needs.
        gamma: guidance strength γ, or the range (low, high) it is drawn from for each image.
        prior: kind of prior: `learned`, `generic` (1/(r+1) at any size) or `low-pass` (a filter).
        prior_file: file of a prior learnt before, used as it is instead of learning one along the way.
        momentum: momentum μ of the learnt prior.
        debias: normalise the weights of the learnt prior, as Adam does.
        reconstruction: way to rebuild the amplitude: `radial` (the paper) or `ratio`.
        ramp: share of the training over which the unsupervised weights rise; 0 for none, as in the paper.
        statistics: passes that make the batch-norm statistics of evaluation: `all`, as in the released code, or
            `clean`, labelled and weak images alone, which look like what the network will meet. Training is the same.
    """

    def __init__(
        self,
        net: Backbone | nn.Module,
        recipe: Recipe = "paper",
        unsup: NonNegative = 0.5,
        freq: NonNegative = 0.5,
        feature: NonNegative = FEATURE,
        threshold: Share = 0.95,
        gamma: Share | tuple[Share, Share] = 0.05,
        prior: Prior = "learned",
        prior_file: Path | None = None,
        momentum: Share = 0.999,
        debias: bool = False,
        reconstruction: Reconstruction = "radial",
        ramp: NonNegative = 0.0,
        statistics: Statistics = "all",
    ) -> None:
        super().__init__()
        if recipe == "released" and not isinstance(net, Backbone):
            raise ValueError(f"recipe 'released' drops feature channels and needs a Backbone, not {type(net).__name__}")
        if recipe == "paper" and feature != FEATURE:
            raise ValueError(
                f"feature is {feature}, but recipe 'paper' has no such pass: leave it out, or take 'released'"
            )
        if prior_file is not None and prior != "learned":
            raise ValueError(f"prior_file holds a learned prior, but prior is {prior!r}: leave one of the two out")
        self.net = net
        self.recipe = recipe
        self.unsup, self.freq = unsup, freq
        self.feature = feature if recipe == "released" else 0.0
        self.threshold = threshold
        self.prior_kind = prior
        self.ramp, self.statistics = ramp, statistics
        self.learns = prior == "learned" and prior_file is None and freq > 0
        source = FrequencyPrior.load(prior_file) if prior_file else FrequencyPrior(momentum, debias)
        self.align = SpectralAlignment(source, gamma, reconstruction)
        mixes = recipe == "released" and unsup > 0
        self.views = Views(
            unlabeled=unsup > 0 or freq > 0 or self.feature > 0,
            strong=0 if unsup == 0 else 2 if mixes else 1,
            cutmix=mixes,
            mix=mixes,
        )

    def predictor(self) -> nn.Module:
        """The network."""
        return self.net

    def before_step(self, batch: Batch, step: Step) -> None:
        """Stage I: move the prior by the labelled batch."""
        if self.learns:
            assert isinstance(self.align.prior, FrequencyPrior)
            self.align.prior.update(batch.image_l, batch.mask_l)

    @torch.no_grad()
    def aligned(self, image: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Stage II: the second view of weak unlabelled images, or their low-pass version."""
        if self.prior_kind == "low-pass":
            return low_pass(image)
        if self.prior_kind == "generic":
            profile = generic_profile(bins(*image.shape[-2:]))
            return align(image, profile, self.align.draw(len(image), generator), self.align.reconstruction)
        view: Tensor = self.align(image, generator)
        return view

    def losses(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """All passes and terms of one step."""
        if not self.views.unlabeled:
            return {"sup": cross_entropy_dice(self.net(batch.image_l), batch.mask_l)}
        partner = eval_pseudo_labels(self.net, batch.weak_m, self.threshold) if self.views.mix else None
        drop = FEATURE_DROP if self.feature > 0 else None
        labelled, weak, perturbed = pass_together(self.net, batch, step.generator, drop)
        labels, keep = pseudo_label(weak, self.threshold)
        terms = {"sup": cross_entropy_dice(labelled, batch.mask_l)}
        weight = staircase(step, self.ramp)
        agreement = None
        if self.unsup > 0:
            strong, target, kept = self._strong(batch, labels, keep, partner)
            terms["unsup"] = weight * self.unsup * dice(strong, target, mask=kept)
            agreement = (strong.argmax(1) == target).float().mean()
        if perturbed is not None:
            terms["feature"] = weight * self.feature * dice(perturbed, labels, mask=keep)
        if self.freq > 0:
            view = self._pass(self.aligned(batch.weak_u, step.generator))
            terms["freq"] = weight * self.freq * dice(view, labels, mask=keep)
            agreement = (view.argmax(1) == labels).float().mean()
        self.notes = {"foreground": labels.float().mean(), **kept_notes(labels, keep)}
        if agreement is not None:
            self.notes["agreement"] = agreement
        return terms

    def _strong(
        self, batch: Batch, labels: Tensor, keep: Tensor, partner: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of the strong views, each passed by itself, with the labels and pixels that judge them."""
        if partner is None:
            return torch.cat([self._pass(view) for view in batch.strong_u]), labels, keep
        mixed, targets, kept = mix_views(batch, (labels, keep), partner)
        return torch.cat([self._pass(view) for view in mixed]), torch.cat(targets), torch.cat(kept)

    def _pass(self, view: Tensor) -> Tensor:
        """Logits of a strong or aligned view."""
        with frozen_batchnorm_stats(self.net, self.statistics == "clean"):
            logits: Tensor = self.net(view)
        return logits

    def pictures(self, batch: Batch) -> dict[str, Tensor]:
        """Weak, strong and aligned views."""
        views = super().pictures(batch)
        if self.freq > 0:
            views["aligned"] = self.aligned(batch.weak_u, torch.Generator().manual_seed(batch.index))
        return views
