"""CVBM: the checks of its specification, by number, and the objective of both stages against a naive one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from scipy import ndimage
from torch import Tensor, nn

from fpgm.data.batches.batch import Batch
from fpgm.methods import Step
from fpgm.methods.cvbm import CVBM
from fpgm.methods.parts.copy_paste import region_loss
from fpgm.methods.parts.pseudo_labels import keep_largest
from fpgm.nets import UNet
from tests.methods.copying import (
    assert_moved_by_one_percent,
    naive_mix,
    paste_mask,
    states_at_switch,
    teacher_before_its_last_move,
)
from tests.methods.drive import CHANNELS, make_stream, make_trainer, run


def step(stage: str = "self-train", index: int = 0, total: int = 100) -> Step:
    return Step(index, total, stage, torch.Generator().manual_seed(0))


def cvbm(**arguments: Any) -> CVBM:
    torch.manual_seed(0)
    return CVBM(UNet(channels=CHANNELS), **arguments)


def balanced(image: Tensor, **arguments: Any) -> CVBM:
    """In evaluation mode, so that passes can be repeated; each decoder says class 1 for half of the image."""
    method = cvbm(**arguments).eval()
    with torch.no_grad():
        heads = method.student.net.decoder.head, method.student.background.head
        for logits, head in zip(method.student(image), heads, strict=True):
            head.bias[0] += (logits[:, 1] - logits[:, 0]).median()
    method.enter(method.stages[1])
    return method


@pytest.fixture
def batch(phantom_store: Path) -> Batch:
    return make_stream(phantom_store, cvbm()).batch(0)


class TestConsistency:
    """Check 1."""

    def test_inverted_background_is_the_background_with_classes_swapped(self) -> None:
        z = torch.randn(2, 2, 5, 5)
        assert torch.allclose((1 - z).softmax(1), z.softmax(1).flip(1))
        assert torch.allclose((-z).softmax(1), (1 - z).softmax(1))

    def test_vanishes_when_all_three_agree(self) -> None:
        method, z = cvbm().requires_grad_(False), torch.randn(2, 2, 5, 5)
        with torch.no_grad():
            method.student.mixing.weight.copy_(torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 0]]).view(2, 4, 1, 1))
            method.student.mixing.bias.zero_()  # the mixing layer now gives back the foreground
        assert float(method.disagreement(z, -z)) == pytest.approx(0, abs=1e-12)
        assert float(method.disagreement(z, z)) > 0.01

    def test_is_two_mean_squared_differences_with_gradient_everywhere(self) -> None:
        method = cvbm()
        front, back = (torch.randn(2, 2, 5, 5, requires_grad=True) for _ in range(2))
        fused = method.student.mixing(torch.cat((front, back), 1))
        p, inverse, mixed = front.softmax(1), (1 - back).softmax(1), fused.softmax(1)
        expected = ((p - inverse) ** 2).mean() + ((mixed - p) ** 2).mean()
        found = method.disagreement(front, back)
        assert torch.allclose(found, expected)
        inputs = (front, back, method.student.mixing.weight)
        pairs = zip(torch.autograd.grad(found, inputs), torch.autograd.grad(expected, inputs), strict=True)
        assert all(torch.allclose(one, other, atol=1e-7) for one, other in pairs)


class TestRegions:
    """Checks 2 and 3."""

    @pytest.mark.parametrize("everywhere", [True, False])
    def test_a_target_without_pixels_has_no_influence(self, everywhere: bool) -> None:
        logits = torch.randn(2, 2, 6, 6, requires_grad=True)
        outside = torch.full((6, 6), everywhere)  # M = 1 everywhere, or nowhere
        image, patch, other = torch.randint(0, 2, (3, 2, 6, 6))

        def mix(image: Tensor, patch: Tensor) -> Tensor:
            return region_loss(logits, image, outside) + region_loss(logits, patch, ~outside)

        assert torch.equal(mix(image, patch), mix(image, other) if everywhere else mix(other, patch))
        assert torch.allclose(mix(image, patch), naive_mix(logits, image, patch, outside.float(), 1, 1) / 2, rtol=1e-4)
        (gradient,) = torch.autograd.grad(mix(image, patch), logits)
        assert bool(gradient.isfinite().all()) and bool(gradient.any())

    def test_logits_outside_a_region_do_not_count(self) -> None:
        logits, target, region = torch.randn(2, 2, 6, 6), torch.randint(0, 2, (2, 6, 6)), torch.zeros(6, 6).bool()
        region[1:4, 2:5] = True
        other = torch.where(region, logits, torch.randn(2, 2, 6, 6))
        assert torch.equal(region_loss(other, target, region), region_loss(logits, target, region))
        assert not torch.equal(region_loss(other, target, ~region), region_loss(logits, target, ~region))


class TestTeacher:
    """Check 4."""

    def test_moves_by_one_percent_of_the_gap_with_its_statistics(self, phantom_store: Path, tmp_path: Path) -> None:
        method = cvbm()
        before = teacher_before_its_last_move(method, phantom_store, tmp_path)
        assert {name.partition(".")[0] for name in before} == {"net", "background", "mixing"}
        assert_moved_by_one_percent(before, method.student, method.teacher)

    def test_begins_with_the_student_at_the_best_pretrained_weights(self, phantom_store: Path, tmp_path: Path) -> None:
        method = cvbm(pretrain=0.5)
        student, teacher, best, momentum = states_at_switch(method, method.student, phantom_store, tmp_path)
        assert all(torch.equal(value, best[f"method.student.{name}"]) for name, value in student.items())
        assert all(torch.equal(value, teacher[name]) for name, value in student.items())
        assert momentum and all(
            torch.equal(value, best[f"optimizer.main.{n}.momentum_buffer"]) for n, value in momentum.items()
        )


class TestPseudoLabels:
    """Check 5."""

    def test_have_one_component_each_unless_told_otherwise(self, batch: Batch) -> None:
        raw = balanced(batch.weak_u, largest_component=False).pseudo_labels(batch.weak_u)
        cleaned = balanced(batch.weak_u).pseudo_labels(batch.weak_u)
        structure = [[1] * 3] * 3
        assert max(ndimage.label(labels.numpy(), structure)[1] for labels in raw[0]) > 1
        for maps in cleaned:
            assert all(ndimage.label(labels.numpy(), structure)[1] == 1 for labels in maps)
        assert all(torch.equal(keep_largest(one), other) for one, other in zip(raw, cleaned, strict=True))

    def test_the_background_has_its_own_from_one_half_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        method = cvbm()
        back = torch.tensor([[-1.0, 0.0, 2.0]]).view(1, 1, 1, 3)  # class 1 minus class 0
        logits = torch.cat((torch.zeros_like(back), back), 1)
        monkeypatch.setattr(method.teacher, "forward", lambda image: (-logits, logits))
        foreground, background = method.pseudo_labels(torch.zeros(1, 3, 1, 3))
        assert foreground.tolist() == [[[1, 0, 0]]] and background.tolist() == [[[False, True, True]]]


def test_check_6_the_predictor_is_the_foreground_alone(batch: Batch) -> None:
    method = cvbm().eval()
    before = method.predictor()(batch.weak_u)
    assert torch.equal(before, method.student(batch.weak_u)[0])
    with torch.no_grad():
        for parameter in (*method.student.background.parameters(), *method.student.mixing.parameters()):
            parameter.add_(1)
    assert torch.equal(method.predictor()(batch.weak_u), before)
    assert isinstance(method.predictor(), UNet)


class TestObjective:
    def test_of_pretraining(self, batch: Batch) -> None:
        method = cvbm().eval()
        (a, b), (mask_a, mask_b), m = batch.image_l.chunk(2), batch.mask_l.chunk(2), paste_mask(batch.image_l)
        terms = method.losses(batch, step("pretrain"))
        front, back = method.student(a * m + b * (1 - m))
        assert set(terms) == {"sup", "sup_background"}
        assert torch.allclose(terms["sup"], naive_mix(front, mask_a, mask_b, m, 1, 1) / 2, rtol=1e-4)
        expected = naive_mix(back, mask_a == 0, mask_b == 0, m, 1, 1) / 2
        assert torch.allclose(terms["sup_background"], expected, rtol=1e-4)

    def test_of_self_training(self, batch: Batch) -> None:
        method = balanced(batch.weak_u)
        (a, b), (p, q), m = batch.image_l.chunk(2), batch.weak_u.chunk(2), paste_mask(batch.image_l)
        mask_a, mask_b = batch.mask_l.chunk(2)
        (front_p, back_p), (front_q, back_q) = method.pseudo_labels(p), method.pseudo_labels(q)
        terms = method.losses(batch, step(total=30_000))
        outward, inward = method.student(p * m + a * (1 - m)), method.student(b * m + q * (1 - m))
        front = naive_mix(outward[0], front_p, mask_a, m, 0.5, 1) + naive_mix(inward[0], mask_b, front_q, m, 1, 0.5)
        back = naive_mix(outward[1], back_p, mask_a == 0, m, 0.5, 1)
        back = back + naive_mix(inward[1], mask_b == 0, back_q, m, 1, 0.5)
        agree = method.lam(step(total=30_000)) * (method.disagreement(*outward) + method.disagreement(*inward))
        assert torch.allclose(terms["sup"] + terms["unsup"], front, rtol=1e-4)
        assert torch.allclose(terms["sup_background"] + terms["unsup_background"], back, rtol=1e-4)
        assert torch.allclose(terms["consistency"], agree, rtol=1e-4)
        assert torch.allclose(sum(terms.values()), front + back + agree, rtol=1e-4)

    def test_halved_as_in_the_binary_code(self, batch: Batch) -> None:
        whole = balanced(batch.weak_u).losses(batch, step())
        half = balanced(batch.weak_u, region=0.5).losses(batch, step())
        expected = {name: value / (1 if name == "consistency" else 2) for name, value in whole.items()}
        assert all(torch.allclose(half[name], value) for name, value in expected.items())

    def test_a_weight_of_zero_leaves_term_and_pass_out(self, batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
        assert "consistency" not in cvbm(weight=0.0).losses(batch, step())
        method = cvbm(unsup=0.0)
        monkeypatch.setattr(method.teacher, "forward", None)  # a pass would fail
        assert set(method.losses(batch, step())) == {"sup", "sup_background", "consistency"}

    def test_teacher_passes_have_halves_and_no_gradient(self, batch: Batch) -> None:
        method = cvbm().train()
        seen: list[tuple[Tensor, bool, bool]] = []
        for net in (method.student, method.teacher):
            net.register_forward_pre_hook(lambda m, x: seen.append((x[0], m.training, torch.is_grad_enabled())))
        method.losses(batch, step())
        (a, b), (p, q), m = batch.image_l.chunk(2), batch.weak_u.chunk(2), paste_mask(batch.image_l)
        expected = [p * m + a * (1 - m), b * m + q * (1 - m), p, q]
        assert all(torch.equal(entry[0], want) for entry, want in zip(seen, expected, strict=True))
        assert [entry[1:] for entry in seen] == [(True, True)] * 2 + [(True, False)] * 2


class TestLam:
    @pytest.mark.parametrize(
        ("index", "expected"),
        [
            (10_000, 0.003369),  # 0.5 e^-5
            (10_149, 0.003369),  # still the first stair
            (10_150, 0.003631),  # k = 1: 0.5 exp(-5 (132 / 133)^2)
            (19_975, 0.140575),  # k = 66: 0.5 exp(-5 (67 / 133)^2)
            (29_950, 0.5),  # k = 133
            (29_999, 0.5),
        ],
    )
    def test_rises_over_the_second_stage(self, index: int, expected: float) -> None:
        assert cvbm().lam(step(index=index, total=30_000)) == pytest.approx(expected, abs=2e-6)

    def test_of_the_authors(self) -> None:
        flat = cvbm(pretrain=0.25)  # 10,000 + 30,000: 200 stairs
        assert flat.lam(step(index=25_000, total=40_000)) == pytest.approx(0.143252, abs=1e-6)  # 0.5 e^-1.25
        binary = cvbm(pretrain=0.25, ramp=0.4, weight=1.0)  # 5,000 + 15,000: 40 stairs
        assert binary.lam(step(index=8_000, total=20_000)) == pytest.approx(0.286505, abs=1e-6)  # e^-1.25
        assert binary.lam(step(index=11_000, total=20_000)) == 1

    @pytest.mark.parametrize("total", [30, 300, 3000])
    def test_rises_in_a_short_training_too(self, total: int) -> None:
        method = cvbm()
        course = [method.lam(step(index=index, total=total)) for index in range(total // 3, total)]
        assert course == sorted(course)
        assert course[0] == pytest.approx(0.003369, abs=1e-6) and 0.4 < course[-1] <= 0.5


def test_parts_are_those_of_the_specification() -> None:
    method = CVBM(UNet())
    sizes = [
        sum(p.numel() for p in part.parameters())
        for part in (method.student.net.decoder, method.student.background, method.student.mixing)
    ]
    assert sizes[0] == sizes[1] and sizes[2] == 10
    assert not torch.equal(method.student.net.decoder.head.weight, method.student.background.head.weight)


def test_pretraining_leaves_the_mixing_layer_alone(phantom_store: Path, tmp_path: Path) -> None:
    method = cvbm()
    before = method.student.mixing.weight.clone()
    run(make_trainer(method, tmp_path), make_stream(phantom_store, method), 0, 2)
    assert torch.equal(method.student.mixing.weight, before)


def test_other_networks_are_refused() -> None:
    with pytest.raises(ValueError, match="needs a Backbone, not Conv2d"):
        CVBM(nn.Conv2d(3, 2, 1))
