"""UniMatch (Yang et al., CVPR 2023) in its medical version, for a 2-D UNet."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fpgm.data.batches.batch import Batch, Views
from fpgm.losses import cross_entropy_dice, dice, pseudo_label
from fpgm.methods.arguments import NonNegative, Share, ShareBelowOne
from fpgm.methods.base import Method, Step
from fpgm.methods.parts.batchnorm import Statistics, frozen_batchnorm_stats
from fpgm.methods.parts.cutmix import mix_views
from fpgm.methods.parts.perturbations import pass_together
from fpgm.methods.parts.pseudo_labels import eval_pseudo_labels, kept_notes
from fpgm.methods.parts.ramps import staircase
from fpgm.nets import Backbone


class UniMatch(Method):
    """Confident predictions on the weak view teach two mixed strong views and a view with feature channels dropped.

    L = (L_sup + strong · L_s1 + strong · L_s2 + feature · L_fp) / 2. Each unsupervised term is a Dice loss of
    its own over the confident pixels. Which images share a pass is part of the recipe, because batch norm sees the
    group: the mix partners alone, in evaluation mode; labelled and weak images, whose features are decoded twice,
    clean and with channels dropped (the labelled half of the latter is not scored); and both strong views together.
    Pseudo-labels come from the clean half, in training mode.

    Deviations from the authors' code: weak views are those of all methods here; batches, iterations and evaluation
    are the trainer's; all random draws come from one seed. `FPGM` of the recipe `released` is this method with one more
    view, strong views passed one by one and scored in one Dice, and no division by 2.

    Args:
        net: the backbone.
        strong: weight of each strong view's loss; 0 leaves views and passes out.
        feature: weight of the feature-perturbed pass; 0 leaves its decoding out.
        threshold: confidence that a pseudo-label needs; pixels below are left out of the Dice sums.
        drop: probability that a feature channel is dropped.
        ramp: share of the training over which the unsupervised weights rise; 0 for none, as the authors have it.
        statistics: passes that make the batch-norm statistics of evaluation: `all`, as the authors have it, or
            `clean`, without that of the strong views. They label the mix partners too.
    """

    def __init__(
        self,
        net: Backbone,
        strong: NonNegative = 0.25,
        feature: NonNegative = 0.5,
        threshold: Share = 0.95,
        drop: ShareBelowOne = 0.5,
        ramp: NonNegative = 0.0,
        statistics: Statistics = "all",
    ) -> None:
        super().__init__()
        if not isinstance(net, Backbone):
            raise ValueError(f"unimatch drops feature channels and needs a Backbone, not {type(net).__name__}")
        self.net = net
        self.strong, self.feature = strong, feature
        self.threshold, self.drop = threshold, drop
        self.ramp, self.statistics = ramp, statistics
        mixes = strong > 0
        self.views = Views(strong=2 if mixes else 0, cutmix=mixes, mix=mixes)

    def predictor(self) -> nn.Module:
        """The network."""
        return self.net

    def losses(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """All passes and terms of one step, halved as the objective is."""
        partner = eval_pseudo_labels(self.net, batch.weak_m, self.threshold) if self.strong > 0 else None
        drop = self.drop if self.feature > 0 else None
        labelled, weak, perturbed = pass_together(self.net, batch, step.generator, drop)
        labels, keep = pseudo_label(weak, self.threshold)
        terms = {"sup": cross_entropy_dice(labelled, batch.mask_l) / 2}
        weight = staircase(step, self.ramp) / 2
        if partner is not None:
            views, targets, kept = mix_views(batch, (labels, keep), partner)
            with frozen_batchnorm_stats(self.net, self.statistics == "clean"):
                logits = self.net(torch.cat(views))
            scored = zip(logits.chunk(2), targets, kept, strict=True)
            for number, (view, target, mask) in enumerate(scored, 1):
                terms[f"strong_{number}"] = weight * self.strong * dice(view, target, mask=mask)
        if perturbed is not None:
            terms["feature"] = weight * self.feature * dice(perturbed, labels, mask=keep)
        self.notes = {"foreground": labels.float().mean(), **kept_notes(labels, keep)}
        return terms
