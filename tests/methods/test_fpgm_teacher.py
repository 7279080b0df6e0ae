"""FPGM with a teacher: what is kept by hand, who teaches, when it begins, what the prior does."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fpgm.data.batches.batch import Batch
from fpgm.losses import cross_entropy_dice
from fpgm.methods import Step
from fpgm.methods.fpgm_teacher import FPGMTeacher, highest, most_confident, surest
from fpgm.nets import UNet
from fpgm.spectrum import FrequencyPrior
from tests.methods.drive import CHANNELS, make_stream, make_trainer, run


def build(**arguments: Any) -> FPGMTeacher:
    torch.manual_seed(0)
    early = {"start": 0.0, "ramp": 0.0}
    return FPGMTeacher(UNet(channels=CHANNELS, dropout=0.0), **{**early, **arguments}).train()


def step(index: int = 0, total: int = 100) -> Step:
    return Step(index, total, "train", torch.Generator().manual_seed(index))


@pytest.fixture
def batch(phantom_store: Path) -> Batch:
    return make_stream(phantom_store, build()).batch(0)


def statistics(net: nn.Module) -> list[Tensor]:
    return [buffer.clone() for name, buffer in net.named_buffers() if "running" in name]


def test_the_most_confident_of_each_class_by_hand() -> None:
    labels = torch.tensor([[[0, 0, 0, 0], [1, 1, 1, 0]]])
    confidence = torch.tensor([[[0.9, 0.8, 0.99, 0.7], [0.51, 0.6, 0.55, 0.95]]])
    # 0.4 of five background pixels are two, 0.4 of three foreground pixels are 1.2, so two
    kept = most_confident(confidence, labels, 0.4)
    assert kept.tolist() == [[[False, False, True, False], [False, True, True, True]]]
    assert most_confident(confidence, labels, 1.0).all() and not most_confident(confidence, labels, 0.0).any()
    assert most_confident(torch.ones(1, 2, 2), torch.zeros(1, 2, 2, dtype=torch.int64), 0.5).all(), "ties are kept"


def test_a_share_keeps_foreground_where_a_threshold_keeps_none() -> None:
    """Background at 0.98, foreground at 0.6: the state in which FPGM's threshold teaches background alone."""
    margin = torch.full((1, 4, 4), -3.9)
    margin[:, 1:3, 1:3] = 0.4
    logits = torch.stack((torch.zeros_like(margin), margin), 1)
    masks = torch.ones(1, 4, 4)
    labels, keep = build(share=0.5).select(logits, masks)
    assert (keep & (labels == 1)).any() and (keep & (labels == 0)).any()
    labels, keep = build(selection="threshold", threshold=0.95).select(logits, masks)
    assert not (keep & (labels == 1)).any() and keep[labels == 0].all()
    labels, keep = build(selection="threshold", threshold=(0.99, 0.55)).select(logits, masks)
    assert keep[labels == 1].all() and not keep[labels == 0].any()


def test_no_more_foreground_is_kept_than_the_labelled_masks_have() -> None:
    """Sixteen pixels, six of them foreground; what is beyond the limit is not background either."""
    margin = torch.tensor([[[3.0, 2.5, 2.0, 1.5], [1.0, 0.5, -1, -1], [-1] * 4, [-1] * 4]])
    logits = torch.stack((torch.zeros_like(margin), margin), 1)
    masks = torch.zeros(2, 4, 4)
    masks[0, 0] = 1  # an eighth of the pixels, which is two of sixteen
    for limit, count in ((0.0, 6), (0.5, 1), (1.0, 2), (1.5, 3), (9.0, 6)):
        labels, keep = build(limit_foreground=limit).select(logits, masks)
        assert keep[0].flatten().tolist() == [True] * count + [False] * (6 - count) + [True] * 10
        assert labels.sum() == 6
    labels, keep = build(share=0.5, limit_foreground=1.5).select(logits, masks)
    assert (keep & (labels == 1)).sum() == 3 and (keep & (labels == 0)).sum() == 10, "ties of background are kept"
    _, keep = build().select(logits, torch.zeros(2, 4, 4))
    assert not keep[0].flatten()[:6].any(), "no foreground where the masks have none"


def test_the_highest_among_some_pixels_by_hand() -> None:
    confidence, among = torch.tensor([[[0.9, 0.8, 0.8, 0.7]]]), torch.tensor([[[False, True, True, True]]])
    assert [int(highest(confidence, among, count).sum()) for count in (-1, 0, 1, 2, 3, 9)] == [0, 0, 2, 2, 3, 3]


def test_the_surest_images_by_hand() -> None:
    foreground = torch.zeros(5, 2, 2)  # probability of each pixel
    foreground[0, 0] = torch.tensor([0.6, 0.8])  # mean 0.7 of two pixels, whatever the background is
    foreground[1, 0, 0], foreground[1, 1, 1] = 0.9, 0.4  # 0.9 of one
    foreground[2] = 0.45  # none
    foreground[3] = 0.7  # as the first
    logits = torch.stack((1 - foreground, foreground), 1).log()
    assert [surest(logits, count).tolist() for count in range(5)] == [[], [1], [0, 1], [0, 1, 3], [0, 1, 2, 3]]


@pytest.mark.parametrize("images", [1.0, 0.5, 0.01])
@pytest.mark.parametrize("cutmix", ["none", "unlabeled", "labeled"])
@pytest.mark.parametrize("source", ["student", "clean"])
def test_terms_are_those_of_a_plainly_written_step(batch: Batch, source: Any, cutmix: Any, images: float) -> None:
    method = build(share=0.8, weight=0.5, cutmix=cutmix, images=images, statistics=source, limit_foreground=0.5)
    method.teacher.load_state_dict(method.net.state_dict())
    other = copy.deepcopy(method)
    method.before_step(batch, step())
    terms = method.losses(batch, step())
    count = {1.0: 4, 0.5: 2, 0.01: 1}[images]
    with torch.no_grad():
        confidence, labels = other.teacher.train(source == "clean")(batch.weak_u).softmax(1).max(1)
    scores = [float(c[k > 0].mean()) if k.any() else 0.0 for c, k in zip(confidence, labels, strict=True)]
    chosen = sorted(sorted(range(4), key=lambda i: -scores[i])[:count])
    confidence, labels = confidence[chosen], labels[chosen]
    keep = torch.zeros_like(labels, dtype=torch.bool)
    for label in (0, 1):
        values = sorted(confidence[labels == label].tolist(), reverse=True)
        if values:
            keep |= (labels == label) & (confidence >= values[int(-(-0.8 * len(values) // 1)) - 1])
    values = sorted(confidence[keep & (labels == 1)].tolist(), reverse=True)
    most = round(0.5 * float(batch.mask_l.float().mean()) * labels.numel())
    assert images < 1 or 0 < most < len(values), "the limit counts"
    if most < len(values):
        keep &= (labels == 0) | (confidence >= values[most - 1])
    views = batch.strong_u[0][chosen]
    mixed, target, kept = views.clone(), labels.clone(), keep.clone()
    for i, box in enumerate(batch.boxes_u[0][chosen]):
        if cutmix == "unlabeled":
            mixed[i][:, box] = views[i - 1][:, box]
            target[i][box], kept[i][box] = labels[i - 1][box], keep[i - 1][box]
        elif cutmix == "labeled":
            other_image = (count + i) % 4
            mixed[i][:, box] = batch.image_l[other_image][:, box]
            target[i][box], kept[i][box] = batch.mask_l[other_image][box], True
    logits = other.net(torch.cat((batch.image_l[:count], mixed)))
    assert torch.equal(terms["sup"], cross_entropy_dice(logits[:count], batch.mask_l[:count]))
    assert torch.equal(terms["unsup"], 0.5 * cross_entropy_dice(logits[count:], target, mask=kept))
    assert method.notes["kept_foreground"] == (keep & (labels == 1)).float().mean()


def test_without_unlabelled_images_it_is_supervised_training_with_averaged_weights(batch: Batch) -> None:
    method = build(weight=0.0)
    method.before_step(batch, step())
    plain = dataclasses.replace(batch, weak_u=batch.weak_u[:0], strong_u=(), boxes_u=())
    assert not method.views.unlabeled and method.losses(plain, step()).keys() == {"sup"}


def test_unlabelled_images_take_part_after_their_share_of_the_steps(batch: Batch) -> None:
    method = build(start=0.4, ramp=0.2)
    weights = []
    for index in (0, 39, 40, 49, 59, 99):
        method.before_step(batch, step(index))
        weights.append(method.lam(step(index)))
        assert ("unsup" in method.losses(batch, step(index))) == (index >= 40)
    assert weights == pytest.approx([0, 0, 0.05, 0.5, 1, 1])


def test_they_may_begin_as_soon_as_the_teacher_finds_foreground(batch: Batch) -> None:
    method = build(start=0.9, start_foreground=0.5)
    with torch.no_grad():
        method.teacher.decoder.head.bias.copy_(torch.tensor([5.0, -5.0]))  # type: ignore[union-attr,operator]  # a UNet
    for index in (0, 20):
        method.before_step(batch, step(index))
    assert method.began == -1, "all is background"
    before = statistics(method.teacher)
    with torch.no_grad():
        method.teacher.decoder.head.bias.copy_(torch.tensor([-5.0, 5.0]))  # type: ignore[union-attr,operator]  # a UNet
    method.before_step(batch, step(39))
    assert method.began == -1, "between two looks"
    method.before_step(batch, step(40))
    assert method.began == 40
    assert all(map(torch.equal, before, statistics(method.teacher))), "a look leaves no trace"


def test_the_teachers_statistics_are_those_of_clean_views(phantom_store: Path, tmp_path: Path) -> None:
    for kind, own in (("clean", True), ("student", False)):
        trainer = make_trainer(build(statistics=kind), tmp_path / kind)
        method = trainer.method
        assert isinstance(method, FPGMTeacher)
        run(trainer, make_stream(phantom_store, method), 0, 1)  # the first step copies the student
        equal = all(map(torch.equal, statistics(method.teacher), statistics(method.net)))
        assert equal != own


def test_without_a_teacher_the_student_labels(batch: Batch) -> None:
    method = build(teacher=False)
    with torch.no_grad():
        for parameter in method.teacher.parameters():
            parameter.fill_(torch.nan)
    method.before_step(batch, step())
    assert all(torch.isfinite(term) for term in method.losses(batch, step()).values())


@pytest.mark.parametrize(("alignment", "terms"), [("none", 2), ("augment", 2), ("view", 3)])
def test_the_prior_is_learnt_and_used_as_said(batch: Batch, alignment: Any, terms: int) -> None:
    method = build(alignment=alignment)
    method.before_step(batch, step())
    assert isinstance(method.align.prior, FrequencyPrior) and method.align.prior.learnt
    assert len(method.losses(batch, step())) == terms


def test_guidance_may_rise_with_the_steps(batch: Batch) -> None:
    method = build(alignment="view", gamma=1.0, gamma_rises=True)
    method.before_step(batch, step())
    early, late = (method.aligned(batch.weak_u, step(index)) for index in (0, 99))
    assert torch.allclose(early, batch.weak_u, atol=1e-5)
    assert (late - batch.weak_u).abs().mean() > 0.01 and late.min() >= 0 and late.max() <= 1


def test_augmentation_aligns_a_share_of_the_images(batch: Batch) -> None:
    for share, changed in ((0.0, False), (1.0, True)):
        method = build(alignment="augment", aligned=share, gamma=1.0)
        method.before_step(batch, step())
        shown = method._augment(batch.image_l, batch, step())
        assert all(torch.equal(a, b) != changed for a, b in zip(shown, batch.image_l, strict=True))


@pytest.mark.parametrize(
    "arguments",
    [{"share": 1.5}, {"images": 0.0}, {"threshold": (0.5, 95)}, {"start": -0.1}, {"weight": -1.0}, {"decay": 2.0}],
)
def test_impossible_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Input should be"):
        build(**arguments)


def test_a_reconstruction_without_effect_is_refused() -> None:
    with pytest.raises(ValueError, match=r"keeps the directions of a spectrum.*'augment' or 'view'"):
        build(alignment="exchange", reconstruction="radial")


def test_exchange_takes_spectra_of_unlabelled_images_with_or_without_pseudo_labels(phantom_store: Path) -> None:
    for weight in (0.0, 1.0):
        method = build(alignment="exchange", aligned=1.0, gamma=1.0, weight=weight)
        assert method.views.unlabeled and method.views.strong == (weight > 0)
        drawn = make_stream(phantom_store, method).batch(0)
        method.before_step(drawn, step())
        terms = method.losses(drawn, step())
        assert terms.keys() == ({"sup", "unsup"} if weight else {"sup"})
        darker = dataclasses.replace(drawn, weak_u=drawn.weak_u / 2)
        assert not torch.equal(terms["sup"], method.losses(darker, step())["sup"])
        assert method.pictures(drawn)["aligned"].shape == drawn.weak_u.shape
