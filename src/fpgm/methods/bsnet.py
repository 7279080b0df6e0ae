"""BSNet: bilateral supervision, as in He et al., TMI 2024.

B labelled and U unlabelled images; S the student (`net`), F the teacher, D the discriminator.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, Adam, Optimizer

from fpgm.data.batches.batch import Batch, Views
from fpgm.losses import consistency, cross_entropy, cross_entropy_dice
from fpgm.methods.arguments import NonNegative, Positive, Share
from fpgm.methods.base import Method, Step
from fpgm.methods.parts.pseudo_labels import kept_notes
from fpgm.methods.parts.ramps import staircase
from fpgm.methods.parts.teachers import fresh_copy, move_teacher, teacher_decay
from fpgm.spectrum.priors import sum_over_ranks

POWER = 0.9
WIDTHS = (16, 32, 64, 96, 128)


class Discriminator(nn.Module):
    """Tells labelled images (class 1) from unlabelled ones (class 0) by their predicted masks; 190,114 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.mask = nn.Conv2d(1, WIDTHS[0], 3, stride=2, padding=1)
        self.image = nn.Conv2d(3, WIDTHS[0], 3, stride=2, padding=1)
        self.trunk = nn.Sequential()
        for pair in itertools.pairwise(WIDTHS):
            self.trunk.extend((nn.Conv2d(*pair, 3, stride=2, padding=1), nn.LeakyReLU(0.2)))
        self.head = nn.Linear(WIDTHS[-1], 2)

    def forward(self, foreground: Tensor, image: Tensor) -> Tensor:
        """Verdicts (B, 2) on images (B, 3, H, W) with the probability (B, 1, H, W) of foreground in [0, 1]."""
        maps = self.trunk(self.mask(foreground) + self.image(image))
        verdict: Tensor = self.head(functional.adaptive_max_pool2d(maps, 1).flatten(1))
        return verdict


def descend(optimizer: Optimizer, loss: Tensor) -> None:
    """Step an inner player down its loss, by the mean gradient of all ranks; no other parameter gets a gradient."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    gradients = torch.autograd.grad(loss, parameters)
    total = sum_over_ranks(torch.cat([loss.new_ones(1), *(gradient.flatten() for gradient in gradients)]))
    shares = (total[1:] / total[0]).split_with_sizes([parameter.numel() for parameter in parameters])
    for parameter, share in zip(parameters, shares, strict=True):
        parameter.grad = share.view_as(parameter)
    optimizer.step()
    optimizer.zero_grad()


class BSNet(Method):
    """Student and teacher learn from labels and from each other, and after each update leak into each other.

    L = L_sup + w (L_adv + L_mse + L_pseudo) moves student and teacher together. Then, in `after_step`, the teacher
    takes 1 − α of the student, the discriminator learns to tell labelled from unlabelled images, the teacher learns
    from labels and the student's pseudo-labels, and the student takes 1 − α of the teacher, as in the official
    `BSNet.py`. α = min(1 − 1/(t + 1), 0.99), over parameters alone; w rises to `weight` over the whole training. All
    passes are in training mode and see labelled and unlabelled images together, except the teacher's first one, on
    unlabelled images alone.

    What differs from the official script:
        * Both networks are the common UNet with PyTorch's initialisation, instead of a ResNet-34 encoder with ImageNet
          weights in the student. The teacher's own start is forgotten after the first step, where α = 0.
        * The student has the run's optimiser, the teacher SGD at a tenth of the paper's rate (the official ratio),
          instead of Adam for both; the discriminator keeps Adam at a tenth of the official rate. All inner rates fall
          as (1 − t/T)^0.9. The official teacher's decay is written into the student's optimiser by mistake and its
          discriminator all but stops after 1,000 iterations (`disc_decay="compound"`); we copy neither by default.
        * The teacher's pass for the discriminator's step is reused for its own step: its weights do not move between
          the two. That spares a pass, a draw of dropout and an update of running statistics.
        * Images in [0, 1] with the common weak augmentation, instead of 0–255 without any.

    Args:
        net: student; the teacher has the same layers, initialised anew.
        weight: weight w at the end of its rise.
        warm_up: share of the training without L_mse and without pseudo-labels for either network: 300 of 30,000 steps.
        sup_loss: loss on the labels, for both networks: `ce` (official), or `ce_dice`, half cross-entropy and half
            Dice.
        teacher_optimizer: optimiser of the teacher: `sgd`, with momentum 0.9; or `adam` (official), with betas 0.9 and
            0.99.
        teacher_lr: first learning rate of the teacher; the official one is 1e-4, with Adam. The preset `mini`, whose
            student has AdamW at the official student's rate, takes both.
        disc_lr: first learning rate of the discriminator; the official one is 1e-3.
        disc_decay: schedule of the discriminator's rate: `poly`, or `compound`: multiplied by the poly factor at every
            step, as the official script does.
    """

    views = Views()

    def __init__(
        self,
        net: nn.Module,
        weight: NonNegative = 0.1,
        warm_up: Share = 0.01,
        sup_loss: Literal["ce", "ce_dice"] = "ce",
        teacher_optimizer: Literal["sgd", "adam"] = "sgd",
        teacher_lr: Positive = 1e-3,
        disc_lr: Positive = 1e-4,
        disc_decay: Literal["poly", "compound"] = "poly",
    ) -> None:
        super().__init__()
        self.net, self.teacher = net, fresh_copy(net)
        # Frozen but in its own step: in `losses`, gradients pass through it and leave it alone.
        self.discriminator = Discriminator().requires_grad_(False)
        self.weight, self.warm_up = weight, warm_up
        self.supervised = cross_entropy if sup_loss == "ce" else cross_entropy_dice
        self.teacher_lr, self.disc_lr, self.disc_decay = teacher_lr, disc_lr, disc_decay
        self.teacher_player: Optimizer
        if teacher_optimizer == "sgd":
            self.teacher_player = SGD(self.teacher.parameters(), teacher_lr, momentum=0.9, weight_decay=1e-4)
        else:
            self.teacher_player = Adam(self.teacher.parameters(), teacher_lr, betas=(0.9, 0.99), weight_decay=1e-4)
        self.disc_player = Adam(self.discriminator.parameters(), disc_lr, betas=(0.9, 0.99), weight_decay=1e-4)

    def predictor(self) -> nn.Module:
        """The student."""
        return self.net

    def parameter_groups(self) -> list[dict[str, Any]]:
        """The student's parameters."""
        return [{"params": list(self.net.parameters())}]

    def inner_optimizers(self) -> dict[str, Optimizer]:
        """The teacher's, which moves twice per step, and the discriminator's."""
        return {"teacher": self.teacher_player, "discriminator": self.disc_player}

    def losses(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Phase A: the joint loss of student and teacher."""
        _refuse_half_precision(batch.image_l.device.type)
        labelled = len(batch.image_l)
        logits = self.net(torch.cat((batch.image_l, batch.weak_u)))
        student, teacher = logits[labelled:], self.teacher(batch.weak_u)
        weight = self.weight * staircase(step, 1.0)
        real = torch.ones(len(batch.weak_u), dtype=torch.long, device=batch.weak_u.device)
        terms = {
            "sup": self.supervised(logits[:labelled], batch.mask_l),
            "adv": weight * self._discriminate(batch.weak_u, (student, teacher), real)[0],
        }
        if self._is_warm(step):
            terms["mse"] = weight * consistency(student, teacher)
            terms["pseudo"] = weight * cross_entropy(student, teacher.argmax(1))
        return terms

    def after_step(self, batch: Batch, step: Step) -> None:
        """The rest of phase A, then phases B and C."""
        self._set_rates(step)
        self.teacher_player.step()
        self.teacher_player.zero_grad()
        move_teacher(self.teacher, self.net, teacher_decay(step), buffers=False)
        image = torch.cat((batch.image_l, batch.weak_u))
        student = self.net(image)
        with torch.enable_grad():
            teacher = self.teacher(image)
        labelled = torch.arange(len(image), device=image.device) < len(batch.image_l)
        loss, accuracy = self._train_discriminator(image, (student, teacher.detach()), labelled.long())
        self.notes = {
            "disc_loss": loss,
            "disc_accuracy": accuracy,
            "teacher_loss": self._train_teacher(batch, step, teacher, student.argmax(1)),
            "foreground": student[len(batch.image_l) :].argmax(1).float().mean(),
            **(kept_notes(teacher.argmax(1)) if self._is_warm(step) else {}),
        }
        move_teacher(self.net, self.teacher, teacher_decay(step), buffers=False)

    def _discriminate(self, image: Tensor, outputs: tuple[Tensor, Tensor], target: Tensor) -> tuple[Tensor, Tensor]:
        """The discriminator's cross-entropy, added over both networks' logits (B, 2, H, W), and its accuracy."""
        verdicts = [self.discriminator(logits.float().softmax(1)[:, 1:2], image).float() for logits in outputs]
        first, second = (functional.cross_entropy(verdict, target) for verdict in verdicts)
        return first + second, (torch.stack(verdicts).argmax(2) == target).float().mean()

    @torch.enable_grad()
    def _train_discriminator(
        self, image: Tensor, outputs: tuple[Tensor, Tensor], labelled: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Phase B: tell which rows are labelled; both networks stand still."""
        self.discriminator.requires_grad_(True)
        loss, accuracy = self._discriminate(image, outputs, labelled)
        descend(self.disc_player, loss)
        self.discriminator.requires_grad_(False)
        return loss.detach(), accuracy

    @torch.enable_grad()
    def _train_teacher(self, batch: Batch, step: Step, logits: Tensor, labels: Tensor) -> Tensor:
        """Phase C: the teacher's second step, on labels and, at full weight, the student's pseudo-labels."""
        labelled = len(batch.image_l)
        loss = self.supervised(logits[:labelled], batch.mask_l)
        if self._is_warm(step):
            loss = loss + cross_entropy(logits[labelled:], labels[labelled:])
        descend(self.teacher_player, loss)
        return loss.detach()

    def _is_warm(self, step: Step) -> bool:
        return step.index >= round(self.warm_up * step.total)

    def _set_rates(self, step: Step) -> None:
        factor = (1 - step.index / step.total) ** POWER
        rates = {
            "teacher": self.teacher_lr * factor,
            "discriminator": self.disc_lr * (factor if self.disc_decay == "poly" else compound(step)),
        }
        for name, player in self.inner_optimizers().items():
            for group in player.param_groups:
                group["lr"] = rates[name]


def compound(step: Step) -> float:
    """Return the product of all poly factors (1 − i/T)^0.9 for i = 0 … t, as a function of the step alone."""
    total = step.total
    logarithm = math.lgamma(total + 1) - math.lgamma(total - step.index) - (step.index + 1) * math.log(total)
    return math.exp(POWER * logarithm)


def _refuse_half_precision(device: str) -> None:
    if torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) == torch.float16:
        raise ValueError(
            "BSNet steps its teacher itself and cannot undo the loss scaling of --precision 16-mixed: "
            "use bf16-mixed or 32-true"
        )
