"""ABD: tiles, moves, and the objective of two networks."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fpgm.data.batches.batch import Batch
from fpgm.losses import cross_entropy_dice, dice
from fpgm.methods import Step
from fpgm.methods.abd import (
    ABD,
    cross_dice,
    displace,
    from_tiles,
    informative_moves,
    reliable_moves,
    tile_confidence,
    tile_logits,
    to_tiles,
)
from fpgm.nets import UNet
from tests.methods.drive import CHANNELS, make_stream, make_trainer, run


def step(index: int = 0, seed: int = 0) -> Step:
    return Step(index, 30_000, "train", torch.Generator().manual_seed(seed))


def abd(**arguments: Any) -> ABD:
    torch.manual_seed(0)
    return ABD(UNet(channels=CHANNELS), **arguments)


def batch_for(store: Path, method: ABD) -> Batch:
    return make_stream(store, method).batch(0)


def changed_tiles(new: Tensor, old: Tensor, grid: int = 4) -> Tensor:
    """Number of tiles of each image that are not what they were."""
    return (to_tiles(new, grid) != to_tiles(old, grid)).flatten(2).any(2).sum(1)


def divergence(first: Tensor, second: Tensor) -> float:
    """KL between the softmax of two rows of logits, term by term."""
    p, q = first.softmax(0).tolist(), second.softmax(0).tolist()
    return sum(a * (math.log(a) - math.log(b)) for a, b in zip(p, q, strict=True))


class TestTiles:
    """Check 1."""

    def test_check_1_come_together_again(self) -> None:
        image = torch.rand(2, 3, 32, 48)
        assert torch.equal(from_tiles(to_tiles(image, 4), 4), image)
        assert to_tiles(image, 4).shape == (2, 16, 3, 8, 12)

    def test_are_numbered_row_by_row(self) -> None:
        image = torch.arange(16.0).reshape(1, 1, 4, 4)
        assert to_tiles(image, 2)[0, :, 0].tolist() == [
            [[0, 1], [4, 5]],
            [[2, 3], [6, 7]],
            [[8, 9], [12, 13]],
            [[10, 11], [14, 15]],
        ]

    def test_check_1_reliable_displacement_changes_one_tile_of_each_image(self) -> None:
        generator = torch.Generator().manual_seed(0)
        views = [torch.rand(5, 3, 256, 256, generator=generator) for _ in range(2)]
        logits = [torch.randn(5, 2, 256, 256, generator=generator) for _ in range(2)]
        confidence = tile_confidence(logits[0], 4), tile_confidence(logits[1], 4)
        moves = reliable_moves(confidence, (tile_logits(logits[0], 4), tile_logits(logits[1], 4)), 4)
        displaced = displace(views[0], views[1], moves, 4)
        assert displaced.shape == (10, 3, 256, 256)
        assert changed_tiles(displaced, torch.cat(views)).tolist() == [1] * 10
        pixels = (displaced != torch.cat(views)).any(1).sum((1, 2))
        assert (pixels == 64 * 64).all()

    def test_scores_are_means_over_each_tile(self) -> None:
        logits = torch.randn(2, 2, 8, 8, generator=torch.Generator().manual_seed(0))
        confidence, mean = tile_confidence(logits, 2), tile_logits(logits, 2)
        for image in range(2):
            for tile, (top, left) in enumerate([(0, 0), (0, 4), (4, 0), (4, 4)]):
                part = logits[image, :, top : top + 4, left : left + 4]
                assert confidence[image, tile] == pytest.approx(float(part.softmax(0).amax(0).mean()), abs=1e-6)
                assert mean[image, tile].tolist() == pytest.approx(part.mean((1, 2)).tolist(), abs=1e-6)

    def test_an_image_that_cannot_be_cut_is_explained(self) -> None:
        with pytest.raises(ValueError, match="30 x 32 has no 4 x 4 equal tiles"):
            to_tiles(torch.zeros(1, 3, 30, 32), 4)


class TestReliableMoves:
    """Check 2."""

    # a grid of 2, candidates 2: view 1 is worst at tile 2, view 2 at tile 1; best of view 2: 3, 0; of view 1: 1, 3
    confidence = torch.tensor([[0.7, 0.9, 0.6, 0.8]]), torch.tensor([[0.8, 0.5, 0.7, 0.9]])

    def test_check_2_the_nearest_of_the_most_confident_replaces_the_least_confident(self) -> None:
        first = torch.tensor([[[0.0, 0], [0, 3], [0, 1], [0, -1]]])
        second = torch.tensor([[[0.0, 1.5], [0, -2], [0, 1], [0, 9]]])
        # view 2's tile 2 equals view 1's tile 2, but is no candidate; of 3 and 0, tile 0 is nearer to it
        # view 1's tile 3 (-1) is nearer than tile 1 (3) to view 2's tile 1 (-2)
        assert reliable_moves(self.confidence, (first, second), 2).tolist() == [[2, 0, 1, 3]]
        assert reliable_moves(self.confidence, (first, second), 3).tolist() == [[2, 2, 1, 3]]
        assert reliable_moves(self.confidence, (first, second), 1).tolist() == [[2, 3, 1, 1]]

    def test_convention_of_equally_near_tiles_the_most_confident_is_taken(self) -> None:
        equal = torch.ones(1, 4, 2)
        assert reliable_moves(self.confidence, (equal, equal), 4).tolist() == [[2, 3, 1, 1]]

    def test_check_2_against_a_plain_loop(self) -> None:
        generator = torch.Generator().manual_seed(3)
        confidence = [torch.rand(6, 16, generator=generator) for _ in range(2)]
        logits = [torch.randn(6, 16, 2, generator=generator) for _ in range(2)]
        found = reliable_moves((confidence[0], confidence[1]), (logits[0], logits[1]), 4)
        for i in range(6):
            for own, other in ((0, 1), (1, 0)):
                worst = min(range(16), key=lambda k: float(confidence[own][i, k]))
                candidates = sorted(range(16), key=lambda k: -float(confidence[other][i, k]))[:4]
                distances = [divergence(logits[own][i, worst], logits[other][i, k]) for k in candidates]
                nearest = candidates[distances.index(min(distances))]
                assert found[i, 2 * own : 2 * own + 2].tolist() == [worst, nearest]


class TestInformative:
    """Check 3."""

    def test_moves_the_least_confident_tile_over_the_most_confident_one(self) -> None:
        first, second = torch.tensor([[0.7, 0.9, 0.6, 0.8]]), torch.tensor([[0.8, 0.5, 0.7, 0.9]])
        assert informative_moves(first, second).tolist() == [[1, 1, 3, 2]]
        view1, view2 = torch.arange(4.0).reshape(1, 1, 2, 2), torch.arange(4.0).reshape(1, 1, 2, 2) + 10
        displaced = displace(view1, view2, informative_moves(first, second), 2)
        assert displaced.flatten(1).tolist() == [[0, 11, 2, 3], [10, 11, 12, 2]]

    def test_both_views_are_read_as_they_were(self) -> None:
        view1, view2 = torch.zeros(1, 1, 2, 2), torch.ones(1, 1, 2, 2)
        same = torch.zeros(1, 4, dtype=torch.int64)  # tile 0 of each goes over tile 0 of the other
        assert displace(view1, view2, same, 2).flatten(1).tolist() == [[1, 0, 0, 0], [0, 1, 1, 1]]

    def test_check_3_image_and_label_move_together(self, phantom_store: Path) -> None:
        method = abd()
        batch = batch_for(phantom_store, method)
        batch = dataclasses.replace(
            batch,
            mask_l=batch.image_l[:, 0].round().long(),
            strong_mask_l=(batch.strong_l[0][:, 0].round().long(),),
        )
        logits = torch.randn(2, 4, 2, 64, 64, generator=torch.Generator().manual_seed(0))
        moved = 0
        for seed in range(4):
            image, mask = method._informative(batch, logits[0], logits[1], torch.Generator().manual_seed(seed))
            assert torch.equal(mask, image[:, 0].round().long())
            moved += int(changed_tiles(image, torch.cat((batch.image_l, *batch.strong_l))).sum())
        assert moved > 0

    def test_touches_half_of_the_images_and_both_views_of_each(self, phantom_store: Path) -> None:
        method, changed = abd(), []
        batch = batch_for(phantom_store, method)
        before = torch.cat((batch.image_l, *batch.strong_l))
        logits = torch.randn(2, 4, 2, 64, 64, generator=torch.Generator().manual_seed(0))
        for seed in range(100):
            image, _ = method._informative(batch, logits[0], logits[1], torch.Generator().manual_seed(seed))
            changed.append(changed_tiles(image, before).reshape(2, -1))
        counts = torch.stack(changed)
        assert set(counts.unique().tolist()) == {0, 1} and torch.equal(counts[:, 0], counts[:, 1])
        assert counts.float().mean() == pytest.approx(0.5, abs=0.1)  # of 400 draws: 4 standard deviations


def test_check_4_weight_rises_from_almost_nothing_to_a_tenth() -> None:
    method = abd()
    weights = [method.weight(step(index)) for index in range(0, 30_001, 50)]
    assert weights[0] == pytest.approx(0.1 * math.exp(-5)) and weights[-1] == pytest.approx(0.1)
    assert weights == sorted(weights)
    assert method.weight(step(149)) == weights[0] < method.weight(step(150))
    assert method.weight(step(15_000)) == pytest.approx(0.1 * math.exp(-1.25))


def test_check_5_the_step_leaves_its_batch_as_it_was(phantom_store: Path) -> None:
    method = abd().train()
    batch, untouched = batch_for(phantom_store, method), batch_for(phantom_store, method)
    sum(method.losses(batch, step()).values()).backward()
    for field in dataclasses.fields(Batch):
        before, after = getattr(untouched, field.name), getattr(batch, field.name)
        pairs = zip(before, after, strict=True) if isinstance(before, tuple) else ((before, after),)
        assert all(torch.equal(a, b) if isinstance(a, Tensor) else a == b for a, b in pairs), field.name


def test_check_5_no_gradient_flows_into_pseudo_labels() -> None:
    z1, z2 = (torch.randn(2, 2, 4, 4, generator=torch.Generator().manual_seed(s)).requires_grad_() for s in (0, 1))
    both = torch.autograd.grad(cross_dice(z1, z2), (z1, z2))
    alone = torch.autograd.grad(dice(z1, z2.detach().argmax(1)), z1), torch.autograd.grad(dice(z2, z1.argmax(1)), z2)
    assert torch.allclose(both[0], alone[0][0]) and torch.allclose(both[1], alone[1][0])


def test_check_6_both_networks_move_and_differ_from_the_start(phantom_store: Path, tmp_path: Path) -> None:
    method = abd()
    assert any(not torch.equal(a, b) for a, b in zip(method.net.parameters(), method.other.parameters(), strict=True))
    before = [[value.detach().clone() for value in net.parameters()] for net in (method.net, method.other)]
    run(make_trainer(method, tmp_path), make_stream(phantom_store, method), 0, 1)
    for net, old in zip((method.net, method.other), before, strict=True):
        weights = [not torch.equal(a, b) for a, b in zip(net.parameters(), old, strict=True) if a.ndim == 4]
        assert all(weights)


class Passes(nn.Module):
    """A network that can be repeated and remembers which images it saw together."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Conv2d(3, 2, 1)
        self.seen: list[Tensor] = []

    def forward(self, image: Tensor) -> Tensor:
        self.seen.append(image)
        return self.net(image)


def test_objective_term_by_term(phantom_store: Path) -> None:
    method = ABD(Passes(), informative=2.0, informative_until=20_000)
    batch, f1, f2 = batch_for(phantom_store, method), method.net.net, method.other.net
    terms = method.losses(batch, step(15_000))
    weak, strong = torch.cat((batch.image_l, batch.weak_u)), torch.cat((*batch.strong_l, *batch.strong_u))
    own1, mixed, displaced = method.net.seen
    assert torch.equal(own1, weak) and torch.equal(method.other.seen[0], strong)
    assert torch.equal(mixed, method.other.seen[1]) and torch.equal(displaced, method.other.seen[2])
    assert len(mixed) == len(displaced) == 8
    sup = cross_entropy_dice(f1(batch.image_l), batch.mask_l) + cross_entropy_dice(
        f2(batch.strong_l[0]), batch.strong_mask_l[0]
    )
    _, mask = method._informative(batch, f1(batch.image_l), f2(batch.strong_l[0]), step().generator)
    informative = 2.0 * (cross_entropy_dice(f1(mixed), mask) + cross_entropy_dice(f2(mixed), mask))
    weight = 0.1 * math.exp(-1.25)
    u1, u2 = f1(batch.weak_u), f2(batch.strong_u[0])
    cross = weight * (dice(u1, u2.argmax(1)) + dice(u2, u1.argmax(1)))
    r1, r2 = f1(displaced), f2(displaced)
    reliable = weight * (dice(r1, r2.argmax(1)) + dice(r2, r1.argmax(1)))
    expected = {"sup": sup, "informative": informative, "cross": cross, "reliable": reliable}
    assert terms.keys() == expected.keys()
    assert all(torch.allclose(terms[name], value) for name, value in expected.items())
    assert float(method.notes["foreground_1"]) == pytest.approx(float(u1.argmax(1).float().mean()))


def test_informative_displacement_can_end(phantom_store: Path) -> None:
    method = ABD(Passes(), informative=2.0, informative_until=20_000)
    batch = batch_for(phantom_store, method)
    assert "informative" in method.losses(batch, step(20_000))
    method.net.seen.clear()
    assert "informative" not in method.losses(batch, step(20_001)) and len(method.net.seen) == 2


def test_a_weight_of_zero_leaves_terms_and_passes_out(phantom_store: Path) -> None:
    method = ABD(Passes(), informative=0, consistency=0)
    assert method.losses(batch_for(phantom_store, method), step()).keys() == {"sup"}
    assert len(method.net.seen) == len(method.other.seen) == 1


def test_numbers_of_labelled_and_unlabelled_images_may_differ(phantom_store: Path) -> None:
    method = abd().train()
    batch = batch_for(phantom_store, method)
    batch = dataclasses.replace(batch, weak_u=batch.weak_u[:2], strong_u=(batch.strong_u[0][:2],))
    assert len(method.losses(batch, step())) == 4


def test_candidates_must_be_tiles() -> None:
    with pytest.raises(ValueError, match="candidates is 5: a grid of 2 has 4 tiles"):
        ABD(Passes(), grid=2, candidates=5)
