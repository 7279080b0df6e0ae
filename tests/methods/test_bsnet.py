"""BSNet: the checks of its specification, and whole steps against the specification's own lines."""

from __future__ import annotations

import copy
import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fpgm.data.batches.batch import Batch
from fpgm.losses import cross_entropy, cross_entropy_dice
from fpgm.methods import Step, bsnet
from fpgm.methods.bsnet import BSNet, Discriminator, compound, descend
from fpgm.methods.parts.teachers import move_teacher
from fpgm.nets import UNet
from tests.methods.drive import CHANNELS, make_stream, make_trainer, run


def step(index: int = 0, total: int = 100) -> Step:
    return Step(index, total, "train", torch.Generator().manual_seed(0))


def build(**arguments: Any) -> BSNet:
    torch.manual_seed(0)
    return BSNet(UNet(channels=CHANNELS), **arguments).train()


@pytest.fixture
def batch(phantom_store: Path) -> Batch:
    return make_stream(phantom_store, build()).batch(0)


def state(module: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in module.parameters()]


def same(module: nn.Module, before: list[Tensor]) -> bool:
    return all(torch.equal(new, old) for new, old in zip(module.parameters(), before, strict=True))


def reached(term: Tensor, module: nn.Module) -> bool:
    gradients = torch.autograd.grad(term, list(module.parameters()), retain_graph=True, allow_unused=True)
    return any(gradient is not None and bool(gradient.abs().sum() > 0) for gradient in gradients)


def test_check_1_after_the_first_step_student_and_teacher_are_equal(phantom_store: Path, tmp_path: Path) -> None:
    trainer = make_trainer(build(warm_up=0), tmp_path)
    method, stream = trainer.method, make_stream(phantom_store, trainer.method)
    assert not same(method.teacher, state(method.net))
    run(trainer, stream, 0, 1)
    assert same(method.teacher, state(method.net))
    run(trainer, stream, 1, 2)
    assert not same(method.teacher, state(method.net))


def test_check_2_without_gradient_steps_the_gap_shrinks_by_alpha_squared() -> None:
    method, alpha = build(), 0.9
    gap = [a - b for a, b in zip(state(method.net), state(method.teacher), strict=True)]
    move_teacher(method.teacher, method.net, alpha, buffers=False)
    move_teacher(method.net, method.teacher, alpha, buffers=False)
    for old, a, b in zip(gap, method.net.parameters(), method.teacher.parameters(), strict=True):
        assert torch.allclose(a - b, alpha**2 * old, atol=1e-6)


def test_check_3_without_weight_before_the_warm_up_it_is_supervised(batch: Batch) -> None:
    method = build(weight=0.0)
    torch.manual_seed(1)
    sum(method.losses(batch, step(299, 30_000)).values()).backward()
    torch.manual_seed(1)
    labelled = method.net(torch.cat((batch.image_l, batch.weak_u)))[: len(batch.image_l)]
    expected = torch.autograd.grad(functional.cross_entropy(labelled, batch.mask_l), list(method.net.parameters()))
    for parameter, gradient in zip(method.net.parameters(), expected, strict=True):
        assert torch.allclose(parameter.grad, gradient, atol=1e-7)
    assert all(not parameter.grad.any() for parameter in method.teacher.parameters())


def test_check_4_each_phase_moves_its_own_player(
    phantom_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer(build(warm_up=0), tmp_path)
    method = trainer.method
    players = (method.net, method.teacher, method.discriminator)
    history = [[state(player) for player in players]]

    def watched(name: str) -> None:
        original = getattr(method, name)

        def phase(*arguments: Any) -> Any:
            history.append([state(player) for player in players])
            result = original(*arguments)
            history.append([state(player) for player in players])
            return result

        monkeypatch.setattr(method, name, phase)

    watched("_train_discriminator")
    watched("_train_teacher")
    run(trainer, make_stream(phantom_store, method), 0, 1)
    moved = [
        [any(not torch.equal(a, b) for a, b in zip(*pair, strict=True)) for pair in zip(old, new, strict=True)]
        for old, new in itertools.pairwise(history)
    ]
    # phase A with its blend; phase B; nothing between; phase C up to the blend back
    assert moved == [[True, True, False], [False, False, True], [False, False, False], [False, True, False]]


def test_check_5_which_term_teaches_whom(batch: Batch) -> None:
    method = build()
    terms = method.losses(batch, step(300, 1000))
    who = {name: (reached(term, method.net), reached(term, method.teacher)) for name, term in terms.items()}
    both, student = (True, True), (True, False)
    assert who == {"sup": student, "adv": both, "mse": both, "pseudo": student}
    sum(terms.values()).backward()
    assert all(parameter.grad is None for parameter in method.discriminator.parameters())


def test_check_6_discriminator() -> None:
    discriminator = Discriminator()
    assert sum(parameter.numel() for parameter in discriminator.parameters()) == 190_114
    assert discriminator(torch.rand(2, 1, 256, 256), torch.rand(2, 3, 256, 256)).shape == (2, 2)
    sizes: list[int] = []
    for layer in (discriminator.image, *discriminator.trunk):
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(lambda _, __, output: sizes.append(output.shape[-1]))
    discriminator(torch.rand(1, 1, 256, 256), torch.rand(1, 3, 256, 256))
    assert sizes == [128, 64, 32, 16, 8]


class Reference:
    """The specification's pseudo-code, with optimisers of its own; for networks without chance or statistics."""

    def __init__(self, method: BSNet, rate: float) -> None:
        self.s, self.f, self.d = (copy.deepcopy(m) for m in (method.net, method.teacher, method.discriminator))
        self.d.requires_grad_(True)
        self.rates = {"s": rate, "f": 1e-3, "d": 1e-4}
        self.players = {
            "s": torch.optim.SGD(self.s.parameters(), rate, momentum=0.9),
            "f": torch.optim.SGD(self.f.parameters(), 1e-3, momentum=0.9, weight_decay=1e-4),
            "d": torch.optim.Adam(self.d.parameters(), 1e-4, betas=(0.9, 0.99), weight_decay=1e-4),
        }

    def minimise(self, loss: Tensor, *names: str) -> None:
        for player in self.players.values():
            player.zero_grad()
        loss.backward()
        for name in names:
            self.players[name].step()

    def see(self, logits: Tensor, image: Tensor) -> Tensor:
        return self.d(logits.softmax(1)[:, 1:2], image)

    def step(self, batch: Batch, t: int, total: int, warm_up: int) -> None:
        for name, player in self.players.items():
            player.param_groups[0]["lr"] = self.rates[name] * (1 - t / total) ** 0.9
        xl, y, xu, ce = batch.image_l, batch.mask_l, batch.weak_u, functional.cross_entropy
        n, x, on = len(xl), torch.cat((xl, xu)), t >= warm_up
        w = 0.1 * math.exp(-5 * (1 - t / total) ** 2)
        zs, zf = self.s(x), self.f(xu)
        ps, pf = zs.softmax(1), zf.softmax(1)
        ones = torch.ones(len(xu), dtype=torch.long)
        loss = ce(zs[:n], y) + w * (ce(self.see(zs[n:], xu), ones) + ce(self.see(zf, xu), ones))
        if on:
            loss = loss + w * (((ps[n:] - pf) ** 2).mean() + ce(zs[n:], pf.argmax(1)))
        self.minimise(loss, "s", "f")
        alpha = min(1 - 1 / (t + 1), 0.99)
        self.blend(self.f, self.s, alpha)
        zs, zf = self.s(x).detach(), self.f(x).detach()
        target = torch.tensor([1] * n + [0] * len(xu))
        self.minimise(ce(self.see(zs, x), target) + ce(self.see(zf, x), target), "d")
        zf = self.f(x)
        self.minimise(ce(zf[:n], y) + (ce(zf[n:], zs[n:].argmax(1)) if on else 0), "f")
        self.blend(self.s, self.f, alpha)

    @staticmethod
    def blend(left: nn.Module, right: nn.Module, alpha: float) -> None:
        for a, b in zip(left.parameters(), right.parameters(), strict=True):
            a.data = alpha * a.data + (1 - alpha) * b.data


def test_whole_steps_follow_the_specification(phantom_store: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    method = BSNet(nn.Conv2d(3, 2, 3, padding=1), warm_up=0.5)  # without dropout and batch norm
    trainer = make_trainer(method, tmp_path, iterations=10)
    stream, reference = make_stream(phantom_store, method), Reference(method, trainer.rates[0])
    for index in range(3, 8):  # not from 0 on, which would make both networks equal
        trainer.step(stream.batch(index), method.stages[0])
        reference.step(stream.batch(index), index, 10, warm_up=5)
    for ours, theirs in ((method.net, reference.s), (method.teacher, reference.f), (method.discriminator, reference.d)):
        for name, value in theirs.named_parameters():
            assert torch.allclose(ours.get_parameter(name), value, atol=1e-5), name


def test_each_network_labels_for_the_other(
    phantom_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    method = BSNet(nn.Conv2d(3, 2, 3, padding=1), warm_up=0, weight=1.0)
    batch = make_stream(phantom_store, method).batch(50)
    student, teacher = method.net(batch.weak_u), method.teacher(batch.weak_u)
    term = method.losses(batch, step(99))["pseudo"]
    assert torch.allclose(term, functional.cross_entropy(student, teacher.argmax(1)), rtol=1e-3)

    def phase(batch: Batch, step: Step, logits: Tensor, labels: Tensor) -> Tensor:
        assert torch.equal(labels[4:], method.net(batch.weak_u).argmax(1))
        assert not torch.equal(labels, logits.argmax(1))
        return torch.zeros(())

    monkeypatch.setattr(method, "_train_teacher", phase)
    make_trainer(method, tmp_path).step(batch, method.stages[0])


def test_warm_up_leaves_both_pseudo_terms_out(batch: Batch) -> None:
    method = build()
    for last, total in ((299, 30_000), (2, 300)):
        assert set(method.losses(batch, step(last, total))) == {"sup", "adv"}
        assert set(method.losses(batch, step(last + 1, total))) == {"sup", "adv", "mse", "pseudo"}
    logits, labels = method.teacher(torch.cat((batch.image_l, batch.weak_u))), torch.ones(8, 64, 64, dtype=torch.long)
    before = cross_entropy(logits[:4], batch.mask_l)
    assert torch.equal(method._train_teacher(batch, step(299, 30_000), logits, labels), before)
    logits = method.teacher(torch.cat((batch.image_l, batch.weak_u)))
    after = cross_entropy(logits[:4], batch.mask_l) + cross_entropy(logits[4:], labels[4:])
    assert torch.equal(method._train_teacher(batch, step(300, 30_000), logits, labels), after)


@pytest.mark.parametrize(("index", "weight"), [(0, 6.74e-4), (149, 6.74e-4), (15_000, 2.87e-2), (29_999, 0.1)])
def test_weight_over_the_training(batch: Batch, index: int, weight: float) -> None:
    torch.manual_seed(0)
    method = BSNet(nn.Conv2d(3, 2, 1))
    terms = method.losses(batch, step(index, 30_000))
    outputs, ones = (method.net(batch.weak_u), method.teacher(batch.weak_u)), torch.ones(4, dtype=torch.long)
    loss, _ = method._discriminate(batch.weak_u, outputs, ones)
    assert float((terms["adv"] / loss).detach()) == pytest.approx(weight, rel=2e-3)


def test_rates_of_the_inner_players() -> None:
    method = build(disc_lr=1e-3)
    method._set_rates(step(50, 100))
    rates = {name: player.param_groups[0]["lr"] for name, player in method.inner_optimizers().items()}
    assert rates == pytest.approx({"teacher": 1e-3 * 0.5**0.9, "discriminator": 1e-3 * 0.5**0.9})
    method = build(disc_lr=1e-3, disc_decay="compound")
    for index, rate, rounding in ((500, 2.3e-5, 5e-7), (1000, 3e-10, 5e-11)):  # the specification's figures
        method._set_rates(step(index, 30_000))
        assert method.disc_player.param_groups[0]["lr"] == pytest.approx(rate, abs=rounding)
    assert compound(step(2, 10)) == pytest.approx((1 * 0.9 * 0.8) ** 0.9)


def test_official_alternatives(batch: Batch) -> None:
    assert isinstance(build(teacher_optimizer="adam").teacher_player, torch.optim.Adam)
    method = build(sup_loss="ce_dice")
    torch.manual_seed(1)
    found = method.losses(batch, step())["sup"]
    torch.manual_seed(1)
    logits = method.net(torch.cat((batch.image_l, batch.weak_u)))
    assert torch.equal(found, cross_entropy_dice(logits[:4], batch.mask_l))


def test_notes_tell_of_a_lazy_teacher_and_a_saturated_discriminator(phantom_store: Path, tmp_path: Path) -> None:
    trainer = make_trainer(build(), tmp_path)
    run(trainer, make_stream(phantom_store, trainer.method), 0, 1)
    notes = trainer.method.notes
    assert set(notes) == {"disc_loss", "disc_accuracy", "teacher_loss", "foreground"}
    assert all(0 <= float(notes[name]) <= 1 for name in ("disc_accuracy", "foreground"))
    assert not any(note.requires_grad for note in notes.values())


def test_no_gradient_is_left_for_the_next_step(phantom_store: Path, tmp_path: Path) -> None:
    trainer = make_trainer(build(warm_up=0), tmp_path)
    run(trainer, make_stream(phantom_store, trainer.method), 0, 1)
    inner = (*trainer.method.teacher.parameters(), *trainer.method.discriminator.parameters())
    assert all(parameter.grad is None for parameter in inner)


def test_an_inner_player_follows_the_mean_gradient_of_all_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    other = torch.tensor([1.0, 6.0, 8.0])  # another rank: one loss, gradient (6, 8)
    monkeypatch.setattr(bsnet, "sum_over_ranks", lambda values: values + other)
    weight = nn.Parameter(torch.zeros(2))
    descend(torch.optim.SGD([weight], lr=1.0), (weight * torch.tensor([2.0, 4.0])).sum())
    assert weight.tolist() == [-4.0, -6.0]  # minus the mean of (2, 4) and (6, 8)


def test_half_precision_is_refused(batch: Batch) -> None:
    with (
        torch.autocast("cpu", dtype=torch.float16),
        pytest.raises(ValueError, match="use bf16-mixed or 32-true"),
    ):
        build().losses(batch, step())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert all(math.isfinite(float(term.detach())) for term in build().losses(batch, step()).values())


def test_convention_which_images_share_a_pass(phantom_store: Path, tmp_path: Path) -> None:
    class Passes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(3, 2, 1)
            self.seen: list[tuple[int, bool, bool]] = []

        def forward(self, image: Tensor) -> Tensor:
            self.seen.append((len(image), torch.is_grad_enabled(), self.training))
            return self.layer(image)

    trainer = make_trainer(BSNet(Passes(), warm_up=0), tmp_path)
    run(trainer, make_stream(phantom_store, trainer.method), 0, 1)
    assert trainer.method.net.seen == [(8, True, True), (8, False, True)]
    assert trainer.method.teacher.seen == [(4, True, True), (8, True, True)]
