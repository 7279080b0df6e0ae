"""AC-MT: the checks of its specification, and its objective against a formula written out."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fpgm.data.batches.batch import Batch
from fpgm.losses import cross_entropy_dice
from fpgm.methods import Step
from fpgm.methods.ac_mt import ACMT, ambiguous
from fpgm.methods.parts.perturbations import noisy
from fpgm.nets import UNet
from tests.methods.drive import CHANNELS, make_stream, make_trainer, run


def step(index: int = 0, total: int = 30_000) -> Step:
    return Step(index, total, "train", torch.Generator().manual_seed(0))


def ac_mt(**arguments: Any) -> ACMT:
    torch.manual_seed(0)
    return ACMT(UNet(channels=CHANNELS), **arguments).train()


def pointwise(gain: float) -> nn.Conv2d:
    """A network whose logits are ± gain × (red − 0.5): no pixel depends on another, no pass on chance."""
    net = nn.Conv2d(3, 2, 1)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[gain, 0, 0], [-gain, 0, 0]]).reshape(2, 3, 1, 1))
        net.bias.copy_(torch.tensor([-gain, gain]) / 2)
    return net


@pytest.fixture
def batch(phantom_store: Path) -> Batch:
    return make_stream(phantom_store, ac_mt()).batch(0)


def test_check_1_the_teacher_gets_no_gradient_and_is_in_no_optimiser(batch: Batch) -> None:
    method = ac_mt()
    teacher = list(method.teacher.parameters())
    sum(method.losses(batch, step()).values()).backward()
    assert all(parameter.grad is not None for parameter in method.net.parameters())
    assert not any(parameter.requires_grad or parameter.grad is not None for parameter in teacher)
    optimised = {id(parameter) for group in method.parameter_groups() for parameter in group["params"]}
    assert optimised == {id(parameter) for parameter in method.net.parameters()}


def test_check_2_the_first_step_copies_the_student_and_later_ones_one_hundredth(
    phantom_store: Path, tmp_path: Path
) -> None:
    method = ac_mt()
    trainer = make_trainer(method, tmp_path, iterations=200)
    stream = make_stream(phantom_store, method)
    run(trainer, stream, 0, 1)
    pairs = list(zip(method.teacher.parameters(), method.net.parameters(), strict=True))
    assert all(torch.equal(old, new) for old, new in pairs)
    before = [old.clone() for old, _ in pairs]
    run(trainer, stream, 99, 100)
    for start, (old, new) in zip(before, pairs, strict=True):
        assert torch.allclose(old, 0.99 * start + 0.01 * new, atol=1e-7)
    assert any(not torch.equal(old, new) for old, new in pairs)


def test_check_2_the_teacher_keeps_its_own_statistics(batch: Batch) -> None:
    method = ac_mt()
    method.losses(batch, step())
    before = [value.clone() for value in method.teacher.buffers()]
    method.after_step(batch, step())
    assert all(torch.equal(old, new) for old, new in zip(before, method.teacher.buffers(), strict=True))
    assert not torch.equal(
        torch.cat([value.flatten().float() for value in before]),
        torch.cat([value.flatten().float() for value in method.net.buffers()]),
    )


def test_check_3_a_certain_student_hears_nothing(batch: Batch) -> None:
    method = ACMT(pointwise(100), ramp=0)  # logits ± 50
    weak = (batch.weak_u > 0.5).float().requires_grad_()
    terms = method.losses(dataclasses.replace(batch, weak_u=weak), step())
    assert method.notes["ambiguous"] == 0 and terms["consistency"] == 0
    sum(terms.values()).backward()
    assert weak.grad is not None and not weak.grad.any()
    assert all(bool(parameter.grad.isfinite().all()) for parameter in method.net.parameters())


def test_check_4_an_undecided_student_hears_everything(batch: Batch) -> None:
    method = ACMT(pointwise(0), ramp=0)
    method.teacher.load_state_dict(pointwise(3).state_dict())
    terms = method.losses(batch, step())
    taught = method.teacher(noisy(batch.weak_u, step().generator)).softmax(1)
    assert method.notes["ambiguous"] == 1
    assert torch.allclose(terms["consistency"], 0.1 * (0.5 - taught).square().mean())


def test_check_5_the_threshold_rises_over_the_training() -> None:
    expected = {0: 0.7513, 7_500: 0.7620, 15_000: 0.8073, 22_500: 0.8963, 30_000: 0.95}
    assert {t: round(ac_mt().threshold(step(t)), 4) for t in expected} == expected
    assert ac_mt(ent_ramp="down").threshold(step(30_000)) == pytest.approx(0.60)
    assert ac_mt(ent_ramp="down").threshold(step(0)) == pytest.approx(0.749, abs=1e-4)  # 0.75 − 0.15 e^-5


@pytest.mark.parametrize(("threshold", "low", "high"), [(0.75, 0.2145, 0.7855), (0.95, 0.3691, 0.6309)])
def test_check_5_a_threshold_is_a_range_of_probabilities(threshold: float, low: float, high: float) -> None:
    p = torch.tensor([low - 1e-3, low + 1e-3, 0.5, high - 1e-3, high + 1e-3])
    logits = torch.stack((1 - p, p)).log().reshape(1, 2, 1, 5).requires_grad_()
    chosen = ambiguous(logits, threshold)
    assert chosen.flatten().tolist() == [False, True, True, True, False] and not chosen.requires_grad


def test_check_6_without_weight_it_is_supervised_training_on_the_same_pass(batch: Batch) -> None:
    method, supervised = ac_mt(consistency=0), ac_mt().net
    torch.manual_seed(5)
    terms = method.losses(batch, step())
    torch.manual_seed(5)
    logits = supervised(torch.cat((batch.image_l, batch.weak_u)))[: len(batch.image_l)]
    expected = cross_entropy_dice(logits, batch.mask_l)
    assert list(terms) == ["sup"] and torch.equal(terms["sup"], expected)
    terms["sup"].backward()
    expected.backward()
    pairs = zip(method.net.parameters(), supervised.parameters(), strict=True)
    assert all(torch.equal(ours.grad, theirs.grad) for ours, theirs in pairs)


def test_the_weight_of_consistency_rises_in_stairs() -> None:
    expected = {0: 6.74e-4, 15_000: 2.87e-2, 29_999: 9.999e-2}
    assert {t: ac_mt().weight(step(t)) for t in expected} == pytest.approx(expected, rel=2e-3)
    assert ac_mt().weight(step(149)) == ac_mt().weight(step(0)) < ac_mt().weight(step(150))
    assert ac_mt(ramp=0.2).weight(step(6_000)) == 0.1


def test_the_objective_is_the_formula(batch: Batch) -> None:
    net = pointwise(2)
    method = ACMT(net, consistency=0.2)
    method.teacher.load_state_dict(pointwise(5).state_dict())
    terms = method.losses(batch, step(20_000))
    p = net(batch.weak_u).softmax(1)
    q = method.teacher(noisy(batch.weak_u, step().generator)).softmax(1)
    ent = -(p * (p + 1e-6).log()).sum(1, keepdim=True) / math.log(2)
    tau = 0.75 + 0.2 * math.exp(-5 * (1 - 20_000 / 30_000) ** 2)
    mask = (ent >= tau).float().expand_as(p)
    expected = (mask * (p - q) ** 2).sum() / (mask.sum() + 1e-16)
    weight = 0.2 * math.exp(-5 * (1 - (20_000 // 150) / 200) ** 2)
    assert 0.05 < float(mask.mean()) < 0.95
    assert torch.allclose(terms["consistency"], weight * expected)
    assert torch.allclose(terms["sup"], cross_entropy_dice(net(batch.image_l), batch.mask_l))


def test_convention_the_teacher_sees_noisy_unlabelled_images_alone_in_training_mode(batch: Batch) -> None:
    seen: dict[str, list[tuple[Tensor, bool, bool]]] = {"net": [], "teacher": []}
    method = ac_mt()
    for name, passes in seen.items():
        getattr(method, name).register_forward_pre_hook(
            lambda module, given, passes=passes: passes.append((given[0], module.training, torch.is_grad_enabled()))
        )
    method.losses(batch, step())
    (image, training, graded), (noised, teaching, teacher_graded) = seen["net"][0], seen["teacher"][0]
    assert len(seen["net"]) == len(seen["teacher"]) == 1
    assert torch.equal(image, torch.cat((batch.image_l, batch.weak_u)))
    assert torch.equal(noised, noisy(batch.weak_u, step().generator))
    assert training and teaching and graded and not teacher_graded
