"""DyCON: the checks of its specification, and its losses against double loops."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fpgm.data.batches.batch import Batch
from fpgm.data.store import Store
from fpgm.losses import entropy
from fpgm.methods import Step
from fpgm.methods.dycon import (
    DyCON,
    Embedding,
    focal_contrast,
    hard_negatives,
    patch_labels,
    uncertain_consistency,
)
from fpgm.methods.parts.perturbations import noisy
from fpgm.nets import UNet
from tests.methods.drive import CHANNELS, make_stream, make_trainer, run


def step(index: int = 0, total: int = 30_000) -> Step:
    return Step(index, total, "train", torch.Generator().manual_seed(0))


def dycon(**arguments: Any) -> DyCON:
    torch.manual_seed(0)
    return DyCON(UNet(channels=CHANNELS), **arguments).train()


def losses(batch: Batch, index: int = 0, **arguments: Any) -> dict[str, Tensor]:
    method = dycon(**arguments)
    torch.manual_seed(7)
    return method.losses(batch, step(index))


@pytest.fixture
def batch(phantom_store: Path) -> Batch:
    return make_stream(phantom_store, dycon()).batch(0)


def unit(*shape: int, seed: int = 0) -> Tensor:
    return F.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=-1)


HALVES = torch.tensor([[True] * 3 + [False] * 5])


class TestUncertainty:
    def test_check_1_of_equals_is_their_entropy_alone(self) -> None:
        logits = torch.randn(2, 2, 4, 4, generator=torch.Generator().manual_seed(0))
        assert torch.allclose(uncertain_consistency(logits, logits, 3.0), 2 * 3.0 * entropy(logits).mean())

    def test_check_1_of_certain_agreement_is_nothing(self) -> None:
        certain = 200.0 * torch.tensor([1.0, -1.0]).reshape(1, 2, 1, 1).expand(1, 2, 3, 3)
        assert uncertain_consistency(certain, certain, 5.0) == pytest.approx(0, abs=1e-6)
        assert uncertain_consistency(certain, -certain, 5.0) == pytest.approx(1)  # Σ (±1)² / (e⁰ + e⁰)

    def test_a_pixel_by_hand(self) -> None:
        p, q, beta = (0.8, 0.2), (0.6, 0.4), 2.0
        logits, taught = (torch.tensor(values).log().reshape(1, 2, 1, 1) for values in (p, q))
        h, g = (-sum(value * math.log(value) for value in values) for values in (p, q))
        expected = 2 * 0.2**2 / (math.exp(beta * h) + math.exp(beta * g)) + beta * (h + g)
        assert uncertain_consistency(logits, taught, beta) == pytest.approx(expected, rel=1e-5)


def test_check_2_schedules() -> None:
    beta, bar = dycon().beta, dycon().bar
    assert [beta(step(t)) for t in (0, 15_000, 30_000)] == pytest.approx([5, 1.581, 0.5], abs=1e-3)
    assert [bar(step(t)) for t in (0, 13_500, 30_000)] == pytest.approx([0.3013, 0.5, 0.5], abs=1e-4)


class TestContrast:
    def test_check_3_is_nothing_where_all_labels_agree(self) -> None:
        patches = unit(2, 8, 4).requires_grad_()
        labels = torch.tensor([[True], [False]]).expand(2, 8)
        loss = focal_contrast(patches, labels)
        loss.backward()
        assert loss == 0 and patches.grad is not None and not patches.grad.any()

    def test_check_3_falls_when_like_patches_move_together(self) -> None:
        patches = unit(1, 8, 4)
        centres = torch.stack([patches[HALVES].mean(0), patches[~HALVES].mean(0)])
        aim = torch.where(HALVES[..., None], centres[0], centres[1])
        found = [float(focal_contrast(F.normalize(patches.lerp(aim, t), dim=2), HALVES)) for t in (0, 0.4, 0.8)]
        assert found[0] > found[1] > found[2] > 0

    def test_a_patch_alone_with_its_label_counts_as_nothing(self) -> None:
        patches, lone = unit(1, 3, 4), torch.tensor([[True, False, False]])
        among = _loop(patches[0], lone[0].tolist(), 0.6, 2.0)
        assert among[0] == 0 and focal_contrast(patches, lone) == pytest.approx(sum(among) / 3, rel=1e-5)

    @pytest.mark.parametrize(("temperature", "focus"), [(0.6, 2.0), (1.0, 0.0)])
    def test_equals_the_double_loop(self, temperature: float, focus: float) -> None:
        patches, labels = unit(2, 8, 4), torch.cat((HALVES, HALVES.roll(2, 1)))
        rows = [_loop(*image, temperature, focus) for image in zip(patches, labels.tolist(), strict=True)]
        expected = float(np.mean(rows))
        assert focal_contrast(patches, labels, temperature, focus) == pytest.approx(expected, rel=1e-5)

    def test_stays_finite_at_cosines_that_rounding_puts_above_one(self) -> None:
        patches = (unit(1, 1, 4).expand(1, 8, 4) * 1.001).requires_grad_()
        loss = focal_contrast(patches, HALVES) + hard_negatives(patches, patches.detach(), HALVES, 0.3)
        loss.backward()
        assert bool(loss.isfinite()) and patches.grad is not None and bool(patches.grad.isfinite().all())


def _loop(patches: Tensor, labels: list[bool], temperature: float, focus: float) -> list[float]:
    """FeCL of each patch of one image, as the formula reads."""
    rows, count = [], len(labels)
    for i in range(count):
        similar = [math.exp(float(patches[i] @ patches[j]) / temperature) for j in range(count)]
        against = sum(similar[k] for k in range(count) if labels[k] != labels[i])
        shares = [similar[j] / (similar[j] + against) for j in range(count) if j != i and labels[j] == labels[i]]
        rows.append(sum((1 - s) ** focus * -math.log(s) for s in shares) / max(len(shares), 1))
    return rows


class TestHardNegatives:
    def test_check_4_is_nothing_below_the_bar(self) -> None:
        # like labels agree fully, unlike ones at cosine 0.3
        a, b = torch.tensor([1.0, 0.0]), torch.tensor([0.3, math.sqrt(1 - 0.09)])
        patches, labels = torch.stack((a, a, b))[None], torch.tensor([[True, True, False]])
        assert hard_negatives(patches, patches, labels, 0.31) == 0
        assert hard_negatives(patches, patches, labels, 0.29) == pytest.approx(-math.log(0.7), rel=1e-5)

    def test_check_4_grows_with_the_cosine(self) -> None:
        labels, found = torch.tensor([[True, False]]), []
        for cosine in (0.4, 0.6, 0.9):
            patches = torch.tensor([[[1.0, 0.0], [cosine, math.sqrt(1 - cosine**2)]]])
            found.append(float(hard_negatives(patches, patches, labels, 0.3)))
        assert found == pytest.approx([-math.log(1 - cosine) for cosine in (0.4, 0.6, 0.9)], rel=1e-5)

    def test_only_the_student_learns(self) -> None:
        patches, taught = unit(1, 8, 2).requires_grad_(), unit(1, 8, 2, seed=1)
        cosines = patches.detach()[0] @ taught[0].T
        unlike = HALVES[0][:, None] != HALVES[0][None]
        expected = -(1 - cosines[unlike & (cosines > 0.3)]).log().mean()
        assert torch.allclose(hard_negatives(patches, taught, HALVES, 0.3), expected)


def test_check_5_the_teacher_copies_the_student_once_and_then_lags(phantom_store: Path, tmp_path: Path) -> None:
    method = dycon()
    trainer = make_trainer(method, tmp_path)
    stream = make_stream(phantom_store, method)
    run(trainer, stream, 0, 1)
    pairs = list(zip(method.teacher.parameters(), method.student.parameters(), strict=True))
    assert all(torch.equal(old, new) for old, new in pairs)
    statistics = [value.clone() for value in method.teacher.buffers()]
    method.after_step(stream.batch(0), step(1))
    assert all(torch.equal(old, new) for old, new in zip(statistics, method.teacher.buffers(), strict=True))
    run(trainer, stream, 1, 2)
    assert any(not torch.equal(old, new) for old, new in pairs)
    assert all(old.grad is None and not old.requires_grad for old, _ in pairs)


def test_check_6_masks_of_unlabelled_images_change_nothing(
    phantom_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = make_stream(phantom_store, dycon())
    before = losses(stream.batch(0))
    labeled, original = set(stream.batch(0).id_l), Store.masks

    def scrambled(store: Store, indices: Any) -> Any:
        masks = np.array(original(store, indices))
        for mask, index in zip(masks, indices, strict=True):
            if f"{store.name}/{store.ids[int(index)]}" not in labeled:
                mask[:] = np.random.default_rng(0).integers(0, 2, mask.shape)
        return masks

    monkeypatch.setattr(Store, "masks", scrambled)
    after = losses(make_stream(phantom_store, dycon()).batch(0))
    assert all(torch.equal(before[term], after[term]) for term in before)


class TestObjective:
    def test_terms_are_weighted_as_specified(self, batch: Batch) -> None:
        whole, index = losses(batch, 10_000), 10_000
        half = losses(batch, index, weight=0.25, consistency=0.05)
        for term, factor in {"sup": 1, "consistency": 2, "uncl": 2, "fecl": 2}.items():
            assert torch.allclose(whole[term], factor * half[term]), term
        method = dycon()
        torch.manual_seed(7)
        image, count = torch.cat((batch.image_l, batch.weak_u)), len(batch.image_l)
        logits, _ = method.student(image)
        with torch.no_grad():
            taught, _ = method.teacher(noisy(image, step().generator))
        p, q, t = logits.softmax(1), taught.softmax(1), batch.mask_l.float()
        overlap = (2 * (p[:count, 1] * t).sum() + 1e-5) / ((p[:count, 1] ** 2).sum() + t.sum() + 1e-5)
        assert torch.allclose(whole["sup"], F.cross_entropy(logits[:count], batch.mask_l) + 1 - overlap)
        weight = 0.1 * math.exp(-5 * (1 - (index // 150) / 200) ** 2)
        assert torch.allclose(whole["consistency"], weight * (p - q)[count:].square().mean())
        expected = uncertain_consistency(logits, taught, 5 * 0.1 ** (index / 30_000))
        assert torch.allclose(whole["uncl"], 0.5 * expected)

    def test_the_second_softmax_shrinks_consistency_at_least_fourfold(self, batch: Batch) -> None:
        once, twice = (losses(batch, double_softmax=flag)["consistency"] for flag in (False, True))
        assert 0 < twice <= once / 4 * (1 + 1e-5)

    def test_patches_of_unlabelled_images_may_be_left_out(self, batch: Batch) -> None:
        method = dycon(fecl_labels="labeled_only")
        torch.manual_seed(7)
        found = method.losses(batch, step())["fecl"]
        method = dycon()
        torch.manual_seed(7)
        image, count = torch.cat((batch.image_l, batch.weak_u)), len(batch.image_l)
        _, embedded = method.student(image)
        _, taught = method.teacher(noisy(image, step().generator))
        patches, others = (map_[:count].flatten(2).mT for map_ in (embedded, taught))
        labels = F.avg_pool2d(batch.mask_l.float(), 8).flatten(1) > 0.5
        assert 0 < int(labels.sum()) < labels.numel()
        expected = focal_contrast(patches, labels) + hard_negatives(patches, others, labels, method.bar(step()))
        assert torch.allclose(found, 0.5 * expected)
        assert not torch.equal(found, losses(batch)["fecl"])

    def test_patches_of_unlabelled_images_are_labelled_by_the_teacher(self, batch: Batch) -> None:
        logits = torch.zeros(8, 2, 64, 64)
        logits[:, 1, :, :27], logits[:, 0, :, 27:] = 1, 1  # lesion in three columns of patches and in 3/8 of a fourth
        marked = torch.tensor([True] * 3 + [False] * 5).repeat(4, 8)
        image, count = torch.cat((batch.image_l, batch.weak_u)), len(batch.image_l)
        method = dycon()
        method.teacher.net.decoder.head.register_forward_hook(lambda *_: logits)
        torch.manual_seed(7)
        found = method.losses(batch, step())["fecl"]
        method = dycon()
        torch.manual_seed(7)
        patches, others = (
            network(view)[1].flatten(2).mT
            for network, view in ((method.student, image), (method.teacher, noisy(image, step().generator)))
        )
        labels = torch.cat((F.avg_pool2d(batch.mask_l.float(), 8).flatten(1) > 0.5, marked))
        assert len(labels) == 2 * count
        expected = focal_contrast(patches, labels) + hard_negatives(patches, others, labels, method.bar(step()))
        assert torch.allclose(found, 0.5 * expected)

    def test_full_precision_inside_contrast_under_autocast(self, batch: Batch) -> None:
        method = dycon()
        maps = unit(2, 2, 2, 16).movedim(3, 1), unit(2, 2, 2, 16, seed=1).movedim(3, 1)
        lesion = torch.tensor([[[1.0, 0], [0, 0]], [[1, 1], [0, 0]]])
        plain = method._contrast(*maps, lesion, step())
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(method._contrast(*maps, lesion, step()), plain)
            terms = method.losses(batch, step())
        assert all(term.dtype == torch.float32 and bool(term.isfinite()) for term in terms.values())


def test_patch_labels_are_majorities() -> None:
    lesion = torch.zeros(1, 16, 16)
    lesion[0, :8, :4] = 1  # half of the first patch: not more than half
    lesion[0, 8:, 8:13] = 1  # five eighths of the last
    assert patch_labels(lesion, torch.Size((2, 2))).tolist() == [[False, False, False, True]]


def test_the_head_has_the_specified_size_and_learns_from_patches_alone(batch: Batch) -> None:
    head = Embedding(UNet()).head
    assert sum(parameter.numel() for parameter in head.parameters()) == 264_448
    assert head(torch.rand(2, 256, 16, 16)).shape == (2, 256, 32, 32)
    method = dycon()
    terms = method.losses(batch, step())
    weights = list(method.student.head.parameters())
    for term, value in terms.items():
        gradients = torch.autograd.grad(value, weights, retain_graph=True, allow_unused=True)
        assert all((gradient is not None) == (term == "fecl") for gradient in gradients), term


def test_convention_all_images_share_a_pass_of_each_network(batch: Batch) -> None:
    method, image = dycon(), torch.cat((batch.image_l, batch.weak_u))
    seen: list[tuple[Tensor, bool, bool]] = []
    for network in (method.student, method.teacher):
        network.register_forward_pre_hook(
            lambda module, given: seen.append((given[0], module.training, torch.is_grad_enabled()))
        )
    method.losses(batch, step())
    assert [flags for _, *flags in seen] == [[True, True], [True, False]]
    assert torch.equal(seen[0][0], image) and torch.equal(seen[1][0], noisy(image, step().generator))


def test_the_gradient_is_cut_to_one_and_the_student_ships() -> None:
    method = dycon()
    assert method.gradient_clip == 1 and method.predictor() is method.student.net
    with pytest.raises(ValueError, match="needs a Backbone, not Conv2d"):
        DyCON(nn.Conv2d(3, 2, 1))
