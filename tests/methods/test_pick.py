"""PICK: the checks of its specification, both stages, every switch."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from monai.losses import DiceLoss
from torch import Tensor, nn
from torch.nn import functional

from fpgm.data.batches.batch import Batch
from fpgm.methods import Step, pick
from fpgm.methods.pick import PICK, inpainting_loss, patch_region, segmentation_loss
from fpgm.nets import UNet
from fpgm.training.schedules import first_steps
from tests.methods.drive import CHANNELS, make_stream


def step(stage: str, index: int = 0, total: int = 100) -> Step:
    return Step(index, total, stage, torch.Generator().manual_seed(0))


def build(**arguments: Any) -> PICK:
    torch.manual_seed(0)
    return PICK(UNet(channels=CHANNELS), **arguments).train()


@pytest.fixture
def batch(phantom_store: Path) -> Batch:
    return make_stream(phantom_store, build()).batch(0)


def losses(method: PICK, batch: Batch, stage: str, index: int = 0) -> dict[str, Tensor]:
    torch.manual_seed(1)  # dropout
    return method.losses(batch, step(stage, index))


def gradients(term: Tensor, module: nn.Module) -> list[Tensor | None]:
    return list(torch.autograd.grad(term, list(module.parameters()), retain_graph=True, allow_unused=True))


class Watched(UNet):
    """A UNet that remembers what it encoded, and whether with gradient."""

    def __init__(self) -> None:
        super().__init__(channels=CHANNELS)
        self.seen: list[tuple[Tensor, bool]] = []

    def encode(self, image: Tensor) -> list[Tensor]:
        self.seen.append((image, torch.is_grad_enabled()))
        return super().encode(image)


def watch(**arguments: Any) -> tuple[PICK, list[tuple[Tensor, bool]]]:
    torch.manual_seed(0)
    net = Watched()
    return PICK(net, **arguments).train(), net.seen


@pytest.fixture
def targets(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Every target that the segmentation loss is asked about."""
    asked: list[Tensor] = []

    def spy(logits: Tensor, target: Tensor) -> Tensor:
        asked.append(target)
        return segmentation_loss(logits, target)

    monkeypatch.setattr(pick, "segmentation_loss", spy)
    return asked


def test_check_1_unlabelled_images_do_not_reach_the_main_decoder(batch: Batch) -> None:
    other = dataclasses.replace(batch, weak_u=torch.rand_like(batch.weak_u))
    found = []
    for given in (batch, other):
        method = build()
        total = torch.stack(list(losses(method, given, "self-train").values())).sum()
        found.append((total, gradients(total, method.net.decoder)))
    assert not torch.equal(found[0][0], found[1][0])
    assert all(torch.equal(a, b) for a, b in zip(found[0][1], found[1][1], strict=True))


def test_check_2_inpainting_is_judged_inside_the_region_alone() -> None:
    image, painted = torch.zeros(2, 3, 4, 4), torch.full((2, 3, 4, 4), 0.5, requires_grad=True)
    region = torch.zeros(2, 4, 4, dtype=torch.bool)
    region[0, :2] = True
    loss = inpainting_loss(image, painted, region)
    assert float(loss.detach()) == pytest.approx(0.5)  # every value inside is wrong by 0.5
    elsewhere = torch.where(region.unsqueeze(1), painted, torch.rand(2, 3, 4, 4))
    assert torch.equal(inpainting_loss(image, elsewhere, region), loss)
    empty = inpainting_loss(image, painted, torch.zeros_like(region))
    assert float(empty.detach()) == 0
    assert torch.autograd.grad(empty, painted)[0].eq(0).all()


def test_check_3_restored_images_differ_inside_the_region_alone(batch: Batch) -> None:
    method, region = build(), torch.zeros(4, 64, 64, dtype=torch.bool)
    region[:, 10:30, 20:40] = True
    torch.manual_seed(1)
    restored, _ = method._restore(batch.weak_u, region)
    torch.manual_seed(1)
    painted = method.painter(method.net.encode(batch.weak_u * ~region.unsqueeze(1)))
    inside = region.unsqueeze(1).expand_as(restored)
    assert torch.equal(restored[~inside], batch.weak_u[~inside])
    assert torch.equal(restored[inside], painted[inside])


@pytest.mark.parametrize("stage", ["pretrain", "self-train"])
def test_check_3_which_term_teaches_whom(batch: Batch, stage: str) -> None:
    method = build()
    reached = {}
    for name, term in losses(method, batch, stage).items():
        parts = {"main": method.net.decoder, "painter": method.painter, "auxiliary": method.auxiliary}
        reached[name] = {part for part, module in parts.items() if gradients(term, module)[0] is not None}
        assert gradients(term, method.net.encoder)[0].abs().sum() > 0, name
    assert reached == {"sup": {"main"}, "inpaint": {"painter"}, "aux": {"auxiliary"}}


def test_check_4_random_patches() -> None:
    region = patch_region(torch.rand(3, 3, 256, 256), torch.Generator().manual_seed(0))
    assert region.shape == (3, 256, 256) and region.dtype == torch.bool
    patches = region.float().unfold(1, 16, 16).unfold(2, 16, 16).mean((3, 4)).flatten(1)
    assert set(patches.unique().tolist()) == {0.0, 1.0}
    assert patches.sum(1).tolist() == [154.0] * 3
    assert not torch.equal(region[0], region[1])


def test_check_5_nothing_pasted_leaves_the_first_argument(
    batch: Batch, targets: list[Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pick, "paste_box", lambda image, *_: torch.zeros(image.shape[-2:], dtype=torch.bool))
    method, seen = watch()
    losses(method, batch, "pretrain")
    assert torch.equal(seen[0][0], torch.cat((batch.image_l, batch.image_l)))
    assert torch.equal(targets[0], torch.cat((batch.mask_l, batch.mask_l)))
    losses(method, batch, "self-train")
    assert torch.equal(seen[4][0], batch.image_l[:2]) and torch.equal(targets[2], batch.mask_l[:2])


@pytest.mark.parametrize(("stage", "main"), [("pretrain", 0), ("self-train", 1)])
def test_check_5_images_and_masks_are_cut_alike(batch: Batch, targets: list[Tensor], stage: str, main: int) -> None:
    image = batch.image_l.clone()
    image[:, 0] = batch.mask_l  # each image carries its mask
    method, seen = watch()
    losses(method, dataclasses.replace(batch, image_l=image), stage)
    mixed, target = seen[main][0], targets[0]
    assert torch.equal(mixed[:, 0].long(), target)
    first, second = (image, image.flip(0)) if stage == "pretrain" else image.chunk(2)
    pasted = (mixed[: len(first)] == second).all(1).all(0)
    assert pasted.sum() >= 42**2  # int(64 * 2 / 3); a pixel may be equal by chance
    assert torch.equal(torch.where(pasted, second, first), mixed[: len(first)])
    assert not torch.equal(mixed[: len(first)], second)


def test_check_6_only_the_main_decoder_ships(batch: Batch) -> None:
    method = build().eval()
    before = method.predictor()(batch.image_l)
    with torch.no_grad():
        for parameter in (*method.painter.parameters(), *method.auxiliary.parameters()):
            parameter.zero_()
    assert torch.equal(method.predictor()(batch.image_l), before)


def test_segmentation_loss_against_monai() -> None:
    logits, target = torch.randn(3, 2, 8, 8), torch.randint(2, (3, 8, 8))
    target[0] = 0
    dice = DiceLoss(to_onehot_y=True, softmax=True, smooth_nr=1e-5, smooth_dr=1e-5)(logits, target.unsqueeze(1))
    expected = (functional.cross_entropy(logits, target) + dice) / 2
    assert torch.allclose(segmentation_loss(logits, target), expected)


def test_network_size() -> None:
    method = PICK(UNet())
    whole = sum(parameter.numel() for parameter in method.parameters())
    assert whole == pytest.approx(1.18e6 + 3 * 0.63e6, rel=0.01)
    assert method.painter.head.out_channels == 3 and method.auxiliary.head.out_channels == 2
    assert not torch.equal(method.auxiliary.head.weight, method.net.decoder.head.weight)


def test_stages_are_a_quarter_and_the_rest() -> None:
    assert first_steps(PICK.stages, 30_000) == first_steps(build().stages, 30_000) == [0, 7_500]
    assert first_steps(build(pretrain=1 / 3).stages, 30_000) == [0, 10_000]


def test_convention_which_images_share_a_pass(batch: Batch) -> None:
    method, seen = watch()
    losses(method, batch, "pretrain")
    assert [(len(image), gradient) for image, gradient in seen] == [(8, True), (4, True), (4, True)]
    holes, restored = (seen[1][0] == 0).all(1), seen[2][0]
    differs = (restored != batch.image_l).any(1)
    assert differs[holes].float().mean() > 0.99 and not differs[~holes].any()
    seen.clear()
    losses(method, batch, "self-train")
    assert [(len(image), gradient) for image, gradient in seen] == [(4, False), (2, True), (4, True), (4, True)]
    assert torch.equal(seen[0][0], batch.weak_u)


def test_pretraining_does_not_see_unlabelled_images(batch: Batch) -> None:
    other = dataclasses.replace(batch, weak_u=torch.rand_like(batch.weak_u))
    first, second = (losses(build(), given, "pretrain") for given in (batch, other))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(("early", "index"), [("patches", 4), ("threshold", 4), ("patches", 5), ("threshold", 5)])
def test_region_of_the_pretraining(batch: Batch, early: Any, index: int) -> None:
    """Stage of 25 steps: the first fifth ends with step 4."""
    method, logits = build(early=early), torch.randn(4, 2, 64, 64)
    region = method._pretrain_region(batch.image_l, logits, step("pretrain", index))
    foreground = logits.softmax(1)[:, 1]
    if index == 5:
        assert torch.equal(region, foreground > 0.5)
    elif early == "threshold":
        assert torch.equal(region, foreground > 0.2)
    else:
        assert torch.equal(region, patch_region(batch.image_l, step("pretrain").generator))


def test_pseudo_label_is_the_region_and_the_class_of_larger_probability(batch: Batch, targets: list[Tensor]) -> None:
    method, seen = watch()
    losses(method, batch, "self-train")
    fresh = build()
    torch.manual_seed(1)
    label = fresh.net(batch.weak_u).argmax(1)
    assert 0 < label.sum() < label.numel()
    assert torch.equal(targets[1], label)
    assert torch.equal(seen[2][0], batch.weak_u * (1 - label).unsqueeze(1))


def test_switches(batch: Batch, targets: list[Tensor]) -> None:
    region = torch.zeros(4, 64, 64, dtype=torch.bool)
    region[:, :32] = True
    method, seen = watch(mask_fill="mean", clamp=True)
    restored, _ = method._restore(batch.weak_u, region)
    colours = batch.weak_u.mean((2, 3), keepdim=True).expand(-1, -1, 32, 64)
    assert torch.equal(seen[0][0][:, :, :32], colours) and torch.equal(seen[0][0][:, :, 32:], batch.weak_u[:, :, 32:])
    assert restored.min() >= 0 and restored.max() <= 1
    plain, _ = build()._restore(batch.weak_u, region)
    assert plain.min() < 0 or plain.max() > 1

    def auxiliary(**arguments: Any) -> tuple[Tensor, Tensor]:
        method, seen = watch(**arguments)
        losses(method, batch, "self-train")
        return seen[-1][0], targets[-1]

    image, label = auxiliary()
    flipped, flipped_label = auxiliary(aux_flip=True)
    assert torch.equal(flipped, image.flip(2)) and torch.equal(flipped_label, label.flip(1))
    joined, joined_label = auxiliary(aux_with_labeled=True)
    assert torch.equal(joined, torch.cat((image, batch.image_l)))
    assert torch.equal(joined_label, torch.cat((label, batch.mask_l)))


def test_weight_of_the_painting(batch: Batch) -> None:
    whole, part = (losses(build(inpaint=weight), batch, "self-train") for weight in (1.0, 0.2))
    assert torch.allclose(part["inpaint"], 0.2 * whole["inpaint"])
    assert torch.equal(part["sup"], whole["sup"]) and torch.equal(part["aux"], whole["aux"])


def test_notes_tell_of_empty_regions(batch: Batch) -> None:
    method, region = build(), torch.zeros(4, 64, 64, dtype=torch.bool)
    region[0, 0, :16] = True
    method._restore(batch.weak_u, region)
    assert {name: float(note) for name, note in method.notes.items()} == {"region": 16 / (4 * 64 * 64), "empty": 0.75}


def test_what_does_not_fit_is_explained(batch: Batch) -> None:
    with pytest.raises(ValueError, match="needs a Backbone, not Conv2d"):
        PICK(nn.Conv2d(3, 2, 1))
    with pytest.raises(ValueError, match="pretrain: Input should be less than 1"):
        build(pretrain=1.0)
    odd = dataclasses.replace(batch, image_l=batch.image_l[:3], mask_l=batch.mask_l[:3])
    with pytest.raises(ValueError, match=r"3 labelled images in a step.*an even number"):
        losses(build(), odd, "self-train")
