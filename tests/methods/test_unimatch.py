"""UniMatch: the checks of its specification, by number, and the grouping of its passes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fpgm.data.batches.batch import Batch
from fpgm.data.batches.views import draw_boxes, inside
from fpgm.losses import cross_entropy_dice, dice, pseudo_label
from fpgm.methods import Step
from fpgm.methods.parts.cutmix import mix_views
from fpgm.methods.parts.perturbations import channel_dropout, decode_perturbed
from fpgm.methods.unimatch import UniMatch
from fpgm.nets import Backbone, UNet
from tests.methods.drive import CHANNELS, make_stream

UNSUPERVISED = ("strong_1", "strong_2", "feature")


def step() -> Step:
    return Step(0, 100, "train", torch.Generator().manual_seed(0))


def unimatch(**arguments: Any) -> UniMatch:
    torch.manual_seed(0)
    return UniMatch(UNet(channels=CHANNELS), **arguments).train()


def batch_for(store: Path, method: UniMatch) -> Batch:
    return make_stream(store, method).batch(0)


class Plain(Backbone):
    """One convolution, so that a pass can be repeated; remembers what it saw together, and in which mode."""

    channels = (3,)

    def __init__(self) -> None:
        super().__init__()
        self.only = nn.Conv2d(3, 2, 1)
        self.seen: list[tuple[Tensor, bool]] = []

    def encode(self, image: Tensor) -> list[Tensor]:
        self.seen.append((image, self.training))
        return [image]

    def decode(self, features: Sequence[Tensor]) -> Tensor:
        return self.only(features[0])


def test_check_1_nothing_confident_gives_no_loss_and_no_gradient(phantom_store: Path) -> None:
    method = unimatch()
    with torch.no_grad():
        method.net.decoder.head.weight.mul_(0.1)  # so that no pixel happens to be confident
    batch = batch_for(phantom_store, method)
    terms = method.losses(batch, step())
    assert method.notes["kept_background"] == method.notes["kept_foreground"] == 0
    assert [float(terms[name].detach()) for name in UNSUPERVISED] == [0, 0, 0]
    parameters = list(method.parameters())
    gradients = torch.autograd.grad(sum(terms[name] for name in UNSUPERVISED), parameters)
    assert not any(bool(gradient.any()) for gradient in gradients)


def test_check_2_a_box_as_large_as_the_image_takes_all_from_the_partner(phantom_store: Path) -> None:
    batch = batch_for(phantom_store, unimatch())
    boxes = (torch.ones_like(batch.boxes_u[0]), torch.zeros_like(batch.boxes_u[1]))
    batch = dataclasses.replace(batch, boxes_u=boxes)
    labels, partner = torch.zeros_like(boxes[0]).long(), torch.ones_like(boxes[0]).long()
    keep, partner_keep = torch.rand(boxes[0].shape) < 0.5, torch.rand(boxes[0].shape) < 0.5
    images, targets, kept = mix_views(batch, (labels, keep), (partner, partner_keep))
    assert torch.equal(images[0], batch.strong_m[0]) and torch.equal(images[1], batch.strong_u[1])
    assert torch.equal(targets[0], partner) and torch.equal(targets[1], labels)
    assert torch.equal(kept[0], partner_keep) and torch.equal(kept[1], keep)


def test_check_3_clean_half_is_an_ordinary_pass_and_the_other_is_not() -> None:
    net, image = unimatch().net.eval(), torch.rand(2, 3, 64, 64)
    with torch.no_grad():
        clean, perturbed = decode_perturbed(net, image, step().generator)
        same = decode_perturbed(net, image, step().generator, share=0.0)
        expected = net(image)
    assert torch.allclose(clean, expected, atol=1e-6) and not torch.allclose(perturbed, expected, atol=1e-3)
    assert torch.allclose(*same, atol=1e-6)


def test_check_4_unit_losses_add_up_to_one(phantom_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("dice", "cross_entropy_dice"):
        monkeypatch.setattr(f"fpgm.methods.unimatch.{name}", lambda *_, **__: torch.ones(()))
    method = unimatch()
    terms = method.losses(batch_for(phantom_store, method), step())
    assert {name: float(term) for name, term in terms.items()} == {
        "sup": 0.5,
        "strong_1": 0.125,
        "strong_2": 0.125,
        "feature": 0.25,
    }
    assert sum(terms.values()) == 1


def test_check_5_an_ignored_pixel_does_not_count() -> None:
    logits, labels = torch.randn(2, 2, 8, 8), torch.randint(0, 2, (2, 8, 8))
    keep = torch.ones_like(labels, dtype=torch.bool)
    keep[0, 3, 4] = False
    other = logits.clone()
    other[0, :, 3, 4] += torch.tensor([5.0, -5.0])
    assert torch.equal(dice(logits, labels, mask=keep), dice(other, labels, mask=keep))
    assert not torch.equal(dice(logits, labels), dice(other, labels))


def test_check_6_half_of_the_boxes_are_empty_and_the_others_of_the_stated_size() -> None:
    share = inside(draw_boxes(2000, 128, step().generator), 128).float().mean((1, 2))
    filled = share[share > 0]
    assert len(filled) / len(share) == pytest.approx(0.5, abs=0.05)
    assert 0.015 < filled.min() < 0.05 and 0.35 < filled.max() <= 0.4


def test_convention_which_images_share_a_pass(phantom_store: Path) -> None:
    method = UniMatch(Plain()).train()
    batch = batch_for(phantom_store, method)
    before = [view.clone() for view in batch.strong_u]
    method.losses(batch, step())
    mixed = [
        torch.where(box[:, None], partner, strong)
        for strong, partner, box in zip(batch.strong_u, batch.strong_m, batch.boxes_u, strict=True)
    ]
    expected = [batch.weak_m, torch.cat((batch.image_l, batch.weak_u)), torch.cat(mixed)]
    assert isinstance(method.net, Plain)
    assert [training for _, training in method.net.seen] == [False, True, True]
    assert all(torch.equal(seen, want) for (seen, _), want in zip(method.net.seen, expected, strict=True))
    assert method.net.training
    assert all(torch.equal(*pair) for pair in zip(before, batch.strong_u, strict=True))  # pasting is on a copy


def test_objective_term_by_term(phantom_store: Path) -> None:
    net = Plain()
    method = UniMatch(net, strong=0.3, feature=0.7, threshold=0.5, drop=0.25)
    batch = batch_for(phantom_store, method)
    terms = method.losses(batch, step())
    labels, keep = pseudo_label(net(batch.weak_u), 0.5)
    partner_labels, partner_keep = pseudo_label(net(batch.weak_m), 0.5)
    assert torch.allclose(terms["sup"], cross_entropy_dice(net(batch.image_l), batch.mask_l) / 2)
    for number in (0, 1):
        box = batch.boxes_u[number]
        logits = net(torch.where(box[:, None], batch.strong_m[number], batch.strong_u[number]))
        kept = torch.where(box, partner_keep, keep)
        expected = 0.3 * dice(logits, torch.where(box, partner_labels, labels), mask=kept) / 2
        assert torch.allclose(terms[f"strong_{number + 1}"], expected)
    features = channel_dropout(torch.cat((batch.image_l, batch.weak_u)), step().generator, 0.25)
    perturbed = net.only(features)[len(batch.image_l) :]
    assert torch.allclose(terms["feature"], 0.7 * dice(perturbed, labels, mask=keep) / 2)
    assert method.notes["foreground"] == labels.float().mean()
    assert method.notes["kept_foreground"] == (keep & (labels == 1)).float().mean()
    assert method.notes["kept_background"] == (keep & (labels == 0)).float().mean()


def test_the_weak_view_of_the_partners_matters_once_statistics_are_learnt(phantom_store: Path) -> None:
    """A fresh network in evaluation mode gives all pixels one label; so the contract cannot see this view."""

    def strong_terms(change: bool) -> list[float]:
        method = unimatch(threshold=0.0)
        batch = batch_for(phantom_store, method)
        with torch.no_grad():
            for _ in range(20):
                method.net(batch.image_l)
        torch.manual_seed(0)
        given = dataclasses.replace(batch, weak_m=1 - batch.weak_m) if change else batch
        terms = method.losses(given, step())
        return [float(terms[name].detach()) for name in ("strong_1", "strong_2")]

    assert strong_terms(False) == strong_terms(False)
    assert all(one != other for one, other in zip(strong_terms(False), strong_terms(True), strict=True))


@pytest.mark.parametrize(
    ("arguments", "terms", "strong"),
    [
        ({"strong": 0}, {"sup", "feature"}, 0),
        ({"feature": 0}, {"sup", "strong_1", "strong_2"}, 2),
        ({"strong": 0, "feature": 0}, {"sup"}, 0),
    ],
)
def test_a_weight_of_zero_leaves_term_and_view_out(
    phantom_store: Path, arguments: dict[str, Any], terms: set[str], strong: int
) -> None:
    method = unimatch(**arguments)
    batch = batch_for(phantom_store, method)
    assert set(method.losses(batch, step())) == terms
    assert len(batch.strong_u) == len(batch.strong_m) == len(batch.boxes_u) == strong


def test_mistakes_are_explained() -> None:
    with pytest.raises(ValueError, match="needs a Backbone, not Conv2d"):
        UniMatch(nn.Conv2d(3, 2, 1))  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ValueError, match="drop: Input should be less than 1"):
        UniMatch(Plain(), drop=1)
