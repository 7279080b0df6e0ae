"""CauSSL, causality-inspired co-training (Miao et al., ICCV 2023): two networks whose kernels must stay independent.

Legend: a kernel is the weight of a convolution as a matrix (c, d), c output channels, d input channels times kernel
area; f_1, f_2 the networks, W_1, W_2 their kernels, A_1, A_2 coefficients (c, c) that rebuild one from the other.

* The variant is CPS-CauSSL, two networks; the one with three decoders would change the backbone.
* The authors released code for 3D alone. Learning rate and length of λ's rise are those of the 2D benchmark.
* One optimiser holds both networks; SGD moves each parameter by its own gradient, so it equals one for each.
* Cross-supervision and independence set in after a share of the training, at the official steps in one of 30,000.
* f_1 is validated and shipped. f_2's figures beside it are not kept: the trainer validates one predictor. f_2 is in
  every checkpoint, as `other`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Adam, Optimizer

from fpgm.data.batches.batch import Batch, Views
from fpgm.losses import cross_entropy, cross_entropy_dice
from fpgm.methods.arguments import Count, NonNegative, Positive, Share
from fpgm.methods.base import Method, Step
from fpgm.methods.parts.pseudo_labels import label_notes
from fpgm.methods.parts.ramps import staircase
from fpgm.methods.parts.teachers import fresh_copy

SPREAD = 1e-3  # standard deviation of the first coefficients


class CauSSL(Method):
    """Two networks teach each other by hard labels, and are kept apart by an independence term on their kernels.

    L_k = S_k + λ(t) U_k + independence · I_k, k = 1, 2: S_k is cross-entropy and foreground Dice on the labelled
    images, U_k cross-entropy with the labels of the other network on the unlabelled ones, I_k how well the other's
    kernels rebuild those of f_k. From time to time, before a step, the coefficients are trained to rebuild as well as
    they can, with the networks fixed; within a step they are fixed, and so are the kernels of the other network.

    Both networks pass over the same weak views, labelled and unlabelled together from the first step on.

    Args:
        net: any network of convolutions that maps (B, 3, H, W) to logits (B, 2, H, W).
        cross: λ at the end of its rise, the official 0.3 · 0.1; 0 leaves the cross term out.
        ramp: share of the training over which λ rises; 1.2 in the official run.
        cross_start: share of the training before the cross term sets in: the official 401 steps, of 30,000.
        independence: weight of the independence term; 0 leaves it out.
        independence_start: share of the training before the coefficients are first trained, at the next multiple of
            `inner_every`: the official 501 of 30,000 steps, so in effect 540. Before that the term is 0.
        inner_every: number of steps between two trainings of the coefficients.
        inner_steps: number of steps of their Adam each time.
        inner_lr: learning rate of that Adam, which never decays.
    """

    views = Views()

    def __init__(
        self,
        net: nn.Module,
        cross: NonNegative = 0.03,
        ramp: NonNegative = 1.0,
        cross_start: Share = 401 / 30_000,
        independence: NonNegative = 3.0,
        independence_start: Share = 501 / 30_000,
        inner_every: Count = 60,
        inner_steps: Count = 60,
        inner_lr: Positive = 0.02,
    ) -> None:
        super().__init__()
        self.net = net
        self.other = fresh_copy(net)
        self.cross, self.ramp, self.cross_start = cross, ramp, cross_start
        self.independence, self.independence_start = independence, independence_start
        self.inner_every, self.inner_steps = inner_every, inner_steps
        self.coefficients_1, self.coefficients_2 = first_coefficients(net), first_coefficients(net)
        self._players = {
            "rebuild_1": Adam(self.coefficients_1, lr=inner_lr, maximize=True),
            "rebuild_2": Adam(self.coefficients_2, lr=inner_lr, maximize=True),
        }

    def predictor(self) -> nn.Module:
        """f_1."""
        return self.net

    def inner_optimizers(self) -> dict[str, Optimizer]:
        """One Adam for each direction's coefficients."""
        return dict(self._players)

    def before_step(self, batch: Batch, step: Step) -> None:
        """Train the coefficients when it is time."""
        if self._is_independent(step) and step.index % self.inner_every == 0:
            self.maximise()

    def _is_independent(self, step: Step) -> bool:
        """Whether the independence term counts: from the first step on at which the coefficients are trained."""
        start = round(self.independence_start * step.total)
        return self.independence > 0 and step.index >= math.ceil(start / self.inner_every) * self.inner_every

    @torch.enable_grad()
    def maximise(self) -> None:
        """Train the coefficients of both directions; the networks neither change nor get a gradient."""
        one, two = ([kernel.detach() for kernel in kernels(net)] for net in (self.net, self.other))
        directions = (*shorten(one, two), self.coefficients_1), (*shorten(two, one), self.coefficients_2)
        for player, (own, partner, coefficients) in zip(self._players.values(), directions, strict=True):
            coefficients.requires_grad_(True)
            for _ in range(self.inner_steps):
                player.zero_grad()
                torch.autograd.backward(independence(own, partner, list(coefficients)))
                player.step()
            player.zero_grad()
            coefficients.requires_grad_(False)

    def losses(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """One pass of each network over all images; terms of both networks added up."""
        image = torch.cat((batch.image_l, batch.weak_u))
        z1, z2 = self.net(image), self.other(image)
        first, second = self.objectives(z1, z2, batch.mask_l, step)
        self.notes = label_notes(z1[len(batch.image_l) :], z2[len(batch.image_l) :])
        return {name: first[name] + second[name] for name in first}

    def objectives(self, z1: Tensor, z2: Tensor, mask: Tensor, step: Step) -> tuple[dict[str, Tensor], ...]:
        """L_1 and L_2 by terms, from the logits of both networks, the labelled images first."""
        labelled = len(mask)
        first, second = ({"sup": cross_entropy_dice(z[:labelled], mask, classes=(1,))} for z in (z1, z2))
        if self.cross and step.index >= round(self.cross_start * step.total):
            weight = self.cross * staircase(step, self.ramp)
            u1, u2 = z1[labelled:], z2[labelled:]
            first["cross"] = weight * cross_entropy(u1, u2.argmax(1))
            second["cross"] = weight * cross_entropy(u2, u1.argmax(1))
        if self._is_independent(step):
            one, two = kernels(self.net), kernels(self.other)
            fixed_one, fixed_two = ([kernel.detach() for kernel in own] for own in (one, two))
            first["independence"] = self.independence * independence(one, fixed_two, list(self.coefficients_1))
            second["independence"] = self.independence * independence(two, fixed_one, list(self.coefficients_2))
        return first, second


def kernels(net: nn.Module) -> list[Tensor]:
    """The weights of all 2D convolutions as matrices (c, d), in the order of the modules."""
    return [layer.weight.flatten(1) for layer in net.modules() if isinstance(layer, nn.Conv2d)]


def first_coefficients(net: nn.Module) -> nn.ParameterList:
    """A small random matrix (c, c) for each kernel; frozen, because the main optimiser must not move it."""
    sizes = [len(kernel) for kernel in kernels(net)]
    if not sizes:
        raise ValueError(f"{type(net).__name__} has no 2D convolution whose kernels could be kept independent")
    return nn.ParameterList(nn.Parameter(SPREAD * torch.randn(size, size), requires_grad=False) for size in sizes)


def shorten(own: Sequence[Tensor], partner: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Both lists of kernels (c, d) in fewer columns, at most c + 1, with the same `independence` for any coefficients.

    Columns are coordinates in the partner's row space, and one for the length of what lies outside of it. Sixty inner
    steps with the result take about a third of the time.
    """
    short_own, short_partner = [], []
    for w, v in zip(own, partner, strict=True):
        basis, coordinates = torch.linalg.qr(v.mT)
        inside = w @ basis
        outside = (w - inside @ basis.mT).norm(dim=1, keepdim=True)
        short_own.append(torch.cat((inside, outside), dim=1))
        short_partner.append(F.pad(coordinates.mT, (0, 1)))
    return short_own, short_partner


def independence(own: Sequence[Tensor], partner: Sequence[Tensor], coefficients: Sequence[Tensor]) -> Tensor:
    """I(W, V; A): cos² between rows of W and of A V, averaged over the rows of a layer, then over the layers.

    Computed without autocast, because a short mantissa would blur what the coefficients were trained for.

    Args:
        own: W, (c, d) for each layer.
        partner: V, (c, d) for each layer.
        coefficients: A, (c, c) for each layer.

    Returns:
        Scalar in [0, 1]: 1 if the partner's kernels rebuild all directions of one's own, 0 if none.
    """
    with torch.autocast(own[0].device.type, enabled=False):
        layers = [
            (F.normalize(w, eps=1e-12) * F.normalize(a @ v, eps=1e-12)).sum(1).square().mean()
            for w, v, a in zip(own, partner, coefficients, strict=True)
        ]
        return torch.stack(layers).mean()
