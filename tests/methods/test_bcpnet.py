"""BCPNet: the checks of its specification, by number, and the objective of both stages against a naive one."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fpgm.data.batches.batch import Batch
from fpgm.methods import Step
from fpgm.methods.bcpnet import BCPNet
from fpgm.methods.parts.copy_paste import paste_box
from fpgm.methods.parts.pseudo_labels import keep_largest
from fpgm.nets import UNet
from tests.methods.copying import (
    assert_moved_by_one_percent,
    clone,
    naive_mix,
    paste_mask,
    states_at_switch,
    teacher_before_its_last_move,
)
from tests.methods.drive import CHANNELS, make_stream, make_trainer, run


def step(stage: str = "self-train", seed: int = 0) -> Step:
    return Step(0, 100, stage, torch.Generator().manual_seed(seed))


def bcpnet(**arguments: Any) -> BCPNet:
    torch.manual_seed(0)
    return BCPNet(UNet(channels=CHANNELS), **arguments)


def plain(image: Tensor) -> nn.Module:
    """A network without dropout and batch norm, so that passes can be repeated; half of the image is foreground."""
    torch.manual_seed(0)
    net = nn.Conv2d(3, 2, 3, padding=1)
    with torch.no_grad():
        background, foreground = net(image).unbind(1)
        net.bias[0] += (foreground - background).median()
    return net


@pytest.fixture
def batch(phantom_store: Path) -> Batch:
    return make_stream(phantom_store, bcpnet()).batch(0)


class Recorder(nn.Module):
    """A network that remembers what it saw, whether it was training, and whether with gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 2, 1)
        self.seen: list[tuple[Tensor, bool, bool]] = []

    def forward(self, image: Tensor) -> Tensor:
        self.seen.append((image, self.training, torch.is_grad_enabled()))
        return self.conv(image)


class TestMask:
    """Check 1."""

    def test_is_one_rectangle_of_170_pixels_side(self) -> None:
        for seed in range(20):
            box = paste_box(torch.zeros(2, 3, 256, 256), 2 / 3, torch.Generator().manual_seed(seed))
            assert box.shape == (256, 256) and int(box.sum()) == 28_900
            rows, columns = box.any(1).nonzero().flatten(), box.any(0).nonzero().flatten()
            assert int(rows[-1] - rows[0]) == int(columns[-1] - columns[0]) == 169

    def test_offsets_are_all_of_0_to_85(self) -> None:
        generator = torch.Generator().manual_seed(0)
        boxes = [paste_box(torch.zeros(256, 256), 2 / 3, generator) for _ in range(1500)]
        for axis in (0, 1):
            assert {int(box.any(axis).nonzero()[0]) for box in boxes} == set(range(86))

    def test_a_side_that_does_not_fit_is_explained(self) -> None:
        with pytest.raises(ValueError, match=r"side is 1.0: .* in \(0, 1\)"):
            paste_box(torch.zeros(8, 8), 1.0, torch.Generator())


class TestMixing:
    """Check 2, and the objective against the naive one."""

    def test_inputs_and_passes_of_self_training(self, batch: Batch) -> None:
        method = BCPNet(Recorder()).train()
        method.losses(batch, step())
        (a, b), (p, q), m = batch.image_l.chunk(2), batch.weak_u.chunk(2), paste_mask(batch.image_l)
        outward, inward = p * m + a * (1 - m), b * m + q * (1 - m)
        for net, expected, gradient in ((method.net, (outward, inward), True), (method.teacher, (p, q), False)):
            assert all(torch.equal(seen[0], want) for seen, want in zip(net.seen, expected, strict=True))
            assert [seen[1:] for seen in net.seen] == [(True, gradient)] * 2

    def test_targets_follow_the_same_pattern(self, batch: Batch) -> None:
        method = BCPNet(plain(batch.weak_u))
        (a, b), (p, q), m = batch.image_l.chunk(2), batch.weak_u.chunk(2), paste_mask(batch.image_l)
        mask_a, mask_b = batch.mask_l.chunk(2)
        label_p, label_q = (keep_largest(method.net(image).argmax(1)) for image in (p, q))
        assert 0.1 < label_p.float().mean() < 0.9
        terms = method.losses(batch, step())
        outward = naive_mix(method.net(p * m + a * (1 - m)), label_p, mask_a, m, 0.5, 1)
        inward = naive_mix(method.net(b * m + q * (1 - m)), mask_b, label_q, m, 1, 0.5)
        assert set(terms) == {"sup", "unsup"}
        assert torch.allclose(sum(terms.values()), (outward + inward) / 2, rtol=1e-4)

    def test_pretraining_pastes_labelled_images(self, batch: Batch) -> None:
        method = bcpnet().eval()
        (a, b), (mask_a, mask_b), m = batch.image_l.chunk(2), batch.mask_l.chunk(2), paste_mask(batch.image_l)
        terms = method.losses(batch, step("pretrain"))
        expected = naive_mix(method.net(a * m + b * (1 - m)), mask_a, mask_b, m, 1, 1) / 2
        assert set(terms) == {"sup"} and torch.allclose(terms["sup"], expected, rtol=1e-4)

    def test_unequal_halves_are_explained(self, batch: Batch) -> None:
        for field, rows in (("image_l", 3), ("weak_u", 2)):
            short = dataclasses.replace(batch, **{field: getattr(batch, field)[:rows]})
            with pytest.raises(ValueError, match="batch_unlabeled to one even number"):
                bcpnet().losses(short, step())


def test_check_3_pretraining_does_not_see_unlabelled_images(batch: Batch) -> None:
    found = []
    for given in (batch, dataclasses.replace(batch, weak_u=1 - batch.weak_u)):
        method = bcpnet().train()
        torch.manual_seed(3)
        loss = method.losses(given, step("pretrain"))["sup"]
        found.append([loss, *torch.autograd.grad(loss, list(method.net.parameters()))])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


class TestPseudoLabels:
    """Check 4."""

    def test_without_weight_they_are_not_made(self, batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
        method = bcpnet(unsup=0.0).eval()
        terms = method.losses(batch, step())
        assert set(terms) == {"sup"}
        assert torch.equal(terms["sup"], bcpnet().eval().losses(batch, step())["sup"])
        monkeypatch.setattr(method.teacher, "forward", None)  # a pass would fail
        assert torch.equal(method.losses(batch, step())["sup"], terms["sup"])

    def test_with_full_weight_and_true_labels_each_way_is_a_pretraining_loss(
        self, batch: Batch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        method = bcpnet(unsup=1.0).eval()
        (a, b), (p, q), (mask_a, mask_b) = batch.image_l.chunk(2), batch.weak_u.chunk(2), batch.mask_l.chunk(2)
        truth = {id_: torch.rand(p.shape[0], *p.shape[-2:]) > 0.7 for id_ in ("p", "q")}
        monkeypatch.setattr(method, "pseudo_labels", lambda image: truth["p" if torch.equal(image, p) else "q"].long())
        both = sum(method.losses(batch, step()).values())
        pairs = ((p, a), (truth["p"].long(), mask_a)), ((b, q), (mask_b, truth["q"].long()))
        alone = [
            method.losses(
                dataclasses.replace(batch, image_l=torch.cat(images), mask_l=torch.cat(masks)), step("pretrain")
            )["sup"]
            for images, masks in pairs
        ]
        assert torch.allclose(both, sum(alone), rtol=1e-5)


class TestTeacher:
    """Check 5."""

    def test_moves_by_one_percent_of_the_gap_with_its_statistics(self, phantom_store: Path, tmp_path: Path) -> None:
        method = bcpnet()
        before = teacher_before_its_last_move(method, phantom_store, tmp_path)
        assert_moved_by_one_percent(before, method.net, method.teacher)

    def test_stands_still_during_pretraining(self, phantom_store: Path, tmp_path: Path) -> None:
        method = bcpnet()
        before = clone(method.teacher)
        run(make_trainer(method, tmp_path), make_stream(phantom_store, method), 0, 2, method.stages[0])
        assert all(torch.equal(value, before[name]) for name, value in method.teacher.state_dict().items())

    def test_begins_with_the_student_at_the_best_pretrained_weights(self, phantom_store: Path, tmp_path: Path) -> None:
        method = bcpnet(pretrain=0.5)
        student, teacher, best, momentum = states_at_switch(method, method.net, phantom_store, tmp_path)
        assert all(torch.equal(value, best[f"method.net.{name}"]) for name, value in student.items())
        assert all(torch.equal(value, teacher[name]) for name, value in student.items())
        assert momentum and all(
            torch.equal(value, best[f"optimizer.main.{n}.momentum_buffer"]) for n, value in momentum.items()
        )


class TestComponents:
    """Check 6."""

    def test_the_larger_of_two_blobs_stays(self) -> None:
        labels = torch.zeros(1, 12, 12, dtype=torch.long)
        labels[0, 1, 1:6] = 1  # 5 pixels
        labels[0, 6:9, 6:9] = 1  # 9 pixels
        kept = keep_largest(labels)
        assert int(kept.sum()) == 9 and bool(kept[0, 6:9, 6:9].all()) and kept.dtype == labels.dtype

    def test_diagonal_neighbours_are_one_blob(self) -> None:
        labels = torch.zeros(1, 6, 6, dtype=torch.bool)
        labels[0, 1, 1] = labels[0, 2, 2] = labels[0, 5, 0] = True
        assert keep_largest(labels).nonzero().tolist() == [[0, 1, 1], [0, 2, 2]]

    def test_each_image_for_itself_and_empty_stays_empty(self) -> None:
        labels = torch.zeros(2, 5, 5, dtype=torch.long)
        labels[1, 0, 0] = 1
        assert torch.equal(keep_largest(labels), labels)

    def test_can_be_left_out(self, batch: Batch) -> None:
        net = plain(batch.weak_u)
        raw = BCPNet(net, largest_component=False).pseudo_labels(batch.weak_u)
        cleaned = BCPNet(net).pseudo_labels(batch.weak_u)
        assert torch.equal(keep_largest(raw), cleaned) and not torch.equal(raw, cleaned)


def test_the_pretrained_share_can_be_chosen() -> None:
    assert [stage.share for stage in BCPNet.stages] == pytest.approx([1 / 3, 2 / 3])
    assert [stage.share for stage in bcpnet(pretrain=0.25).stages] == [0.25, 0.75]
    with pytest.raises(ValueError, match=r"pretrain: Input should be less than 1 \(got 1\)"):
        bcpnet(pretrain=1)
