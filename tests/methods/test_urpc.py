"""URPC: the checks of its specification, by number, and its parts."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fpgm.losses import cross_entropy_dice
from fpgm.methods import Step
from fpgm.methods.urpc import URPC, drop_attention, drop_values, multiply_noise, rectified_consistency
from fpgm.nets import UNet
from tests.methods.drive import CHANNELS, make_stream

CHECK_4 = {1: 2, 2: 4, 3: 8}  # depth: side of the blocks of equal pixels


def step(index: int = 0, total: int = 30_000) -> Step:
    return Step(index, total, "train", generator())


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def urpc(**arguments: Any) -> URPC:
    torch.manual_seed(0)
    return URPC(UNet(channels=CHANNELS), **arguments)


def four(scale: float = 1.0, seed: int = 0) -> list[Tensor]:
    return list(scale * torch.randn(4, 2, 2, 3, 5, generator=generator(seed)))


def test_check_1_equal_depths_agree_and_have_weight_one() -> None:
    loss, weights = rectified_consistency([four(3)[0]] * 4)
    assert float(loss) == pytest.approx(0, abs=1e-6)
    assert weights.shape == (4, 2, 3, 5) and torch.allclose(weights, torch.ones(()), atol=1e-6)


def test_check_2_without_weight_only_the_supervised_loss_is_left(
    phantom_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def totals(consistency: float) -> list[float]:
        method = urpc(consistency=consistency, ramp=0)
        batch = make_stream(phantom_store, method).batch(0)
        labelled, image = len(batch.image_l), torch.cat((batch.image_l, batch.weak_u))
        with torch.no_grad():
            depths = method.pyramid(image, generator())
        results = []
        for seed in (1, 2):
            draws = generator(seed)
            noise = [torch.randn(logits[labelled:].shape, generator=draws) for logits in depths]
            fake = [torch.cat((logits[:labelled], other)) for logits, other in zip(depths, noise, strict=True)]
            monkeypatch.setattr(method, "pyramid", lambda *_, fake=fake: fake)
            results.append(float(sum(method.losses(batch, step()).values())))
        supervised = sum(float(cross_entropy_dice(logits[:labelled], batch.mask_l)) for logits in depths) / 4
        return [*results, supervised]

    first, second, supervised = totals(0.0)
    assert first == second == pytest.approx(supervised)
    first, second, supervised = totals(0.1)
    assert first != second and first > supervised


def test_check_3_clean_passes_are_equal_and_of_full_size() -> None:
    method, image = urpc().eval(), torch.rand(2, 3, 256, 256)
    with torch.no_grad():
        first, again = method.pyramid(image), method.pyramid(image)
        assert torch.equal(first[0], method.predictor()(image))
    assert [logits.shape for logits in first] == [(2, 2, 256, 256)] * 4
    assert all(torch.equal(*pair) for pair in zip(first, again, strict=True))


def test_check_3_perturbed_passes_differ_in_the_coarse_depths_alone() -> None:
    method, draws, image = urpc().train(), generator(), torch.rand(2, 3, 128, 128)
    norms = [module for module in method.modules() if isinstance(module, nn.BatchNorm2d)]
    for module in norms:
        module.momentum = 1.0  # one pass sets the statistics; with the first ones all positions are equally active
    method.net(image)
    for module in (*norms, *(module for module in method.modules() if isinstance(module, nn.Dropout))):
        module.eval()
    with torch.no_grad():
        first, second = method.pyramid(image, draws), method.pyramid(image, draws)
    assert [torch.equal(*pair) for pair in zip(first, second, strict=True)] == [True, False, False, False]


@pytest.mark.parametrize(("depth", "side"), CHECK_4.items())
def test_check_4_coarse_depths_are_constant_on_aligned_blocks(depth: int, side: int) -> None:
    logits = urpc().pyramid(torch.rand(1, 3, 64, 64), generator())[depth].detach()
    corners = logits[..., ::side, ::side]
    assert torch.equal(logits, corners.repeat_interleave(side, 2).repeat_interleave(side, 3))
    assert not torch.equal(corners[..., ::2, ::2], corners[..., 1::2, 1::2])  # and on no larger ones


def test_check_5_extreme_logits_give_finite_losses_and_gradients() -> None:
    depths = four()
    depths[1] = 100 * depths[1].sign()
    depths[2] = -depths[1]
    leaves = [logits.requires_grad_() for logits in depths]
    loss, _ = rectified_consistency(leaves)
    gradients = torch.autograd.grad(loss, leaves)
    assert math.isfinite(float(loss.detach())) and all(bool(gradient.isfinite().all()) for gradient in gradients)


def test_check_6_the_weight_rises_in_stairs_over_the_whole_training() -> None:
    method = urpc()
    weights = [method.weight(step(index)) for index in range(0, 30_000, 50)]
    assert all(earlier <= later for earlier, later in itertools.pairwise(weights))
    for index, expected in {0: 6.74e-4, 3000: 1.74e-3, 6000: 4.08e-3, 15_000: 0.02865, 29_999: 9.999e-2}.items():
        assert method.weight(step(index)) == pytest.approx(expected, rel=2e-3)
    assert method.weight(step(149)) == method.weight(step(0)) < method.weight(step(150))
    assert method.weight(step(50, 100)) == method.weight(step(15_000))  # a shorter training sees the same rise
    assert urpc(ramp=0).weight(step(0)) == 0.1 == urpc(ramp=0.5).weight(step(15_000))


def test_check_6_three_heads_are_all_that_is_added() -> None:
    net = UNet()
    before = sum(parameter.numel() for parameter in net.parameters())
    assert before == 1_813_762
    assert sum(parameter.numel() for parameter in URPC(net).parameters()) - before == 4_038


def test_consistency_against_a_loop_over_pixels() -> None:
    depths = four(2)
    p = np.stack([logits.double().softmax(1).numpy() for logits in depths])
    average, expected = p.mean(0), 0.0
    for s in range(4):
        top, weights, divergences = 0.0, [], []
        for b, y, x in np.ndindex(2, 3, 5):
            mean, own = average[b, :, y, x], p[s, b, :, y, x]
            divergences.append(sum(m * math.log(m / q) for m, q in zip(mean, own, strict=True)))
            weights.append(math.exp(-divergences[-1]))
            top += weights[-1] * ((mean - own) ** 2).sum() / 60  # 2 images x 2 classes x 15 pixels
        expected += (top / (np.mean(weights) + 1e-8) + np.mean(divergences)) / 4
    loss, certainty = rectified_consistency(depths)
    assert float(loss) == pytest.approx(expected, rel=1e-5)
    assert certainty[-1].flatten().tolist() == pytest.approx(weights, rel=1e-5)  # of the depth that came last


def test_gradients_flow_through_average_and_weights() -> None:
    leaves = [logits.requires_grad_() for logits in four(2)]
    p = [logits.softmax(1) for logits in leaves]
    average, expected = sum(p) / 4, torch.zeros(())
    for own in p:
        divergence = (average * (average / own).log()).sum(1, keepdim=True)
        weight = torch.exp(-divergence)
        expected = expected + (weight * (average - own) ** 2).mean() / weight.mean() + divergence.mean()
    ours = torch.autograd.grad(rectified_consistency(leaves)[0], leaves)
    theirs = torch.autograd.grad(expected / 4, leaves)
    assert all(torch.allclose(*pair, rtol=1e-3, atol=1e-6) for pair in zip(ours, theirs, strict=True))


def test_labelled_and_unlabelled_images_share_the_only_pass(phantom_store: Path) -> None:
    method = urpc()
    batch = make_stream(phantom_store, method).batch(0)
    seen: list[Tensor] = []
    method.net.encoder.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    terms = method.train().losses(batch, step())
    assert set(terms) == {"sup", "consistency"} and set(method.notes) == {"foreground", "certainty"}
    assert len(seen) == 1 and torch.equal(seen[0], torch.cat((batch.image_l, batch.weak_u)))


class TestPerturbations:
    def test_noise_is_the_same_for_all_images_and_bounded(self) -> None:
        first, second = multiply_noise(torch.ones(2, 8, 16, 16), generator())
        assert torch.equal(first, second)
        assert 0.7 <= first.min() < 0.71 and 1.29 < first.max() <= 1.3
        assert float(first.mean()) == pytest.approx(1, abs=0.02)

    def test_the_most_active_positions_are_dropped(self) -> None:
        # Channel means 1, 6, 9.5, 10: at u in (0.7, 0.9) the last two always reach u of the largest, and no other.
        feature = torch.tensor([[1.0, 5, 9, 10], [1.0, 7, 10, 10]]).view(1, 2, 1, 4)
        both = torch.cat((feature, 100 * feature))  # each image has its own largest
        for seed in range(20):
            kept = drop_attention(both, generator(seed))
            assert kept[0].tolist() == [[[1, 5, 0, 0]], [[1, 7, 0, 0]]]
            assert torch.equal(kept[1], 100 * kept[0])

    def test_the_limit_of_attention_is_drawn_between_its_ends(self) -> None:
        feature = torch.linspace(0, 1, 1001).view(1, 1, 1, -1)
        limits = [float(drop_attention(feature, generator(seed)).max()) for seed in range(50)]
        assert 0.698 < min(limits) < 0.73 and 0.87 < max(limits) < 0.901

    def test_dropout_takes_half_of_all_values_one_by_one(self) -> None:
        dropped = drop_values(torch.ones(4, 8, 16, 16), generator())
        assert set(dropped.unique().tolist()) == {0.0, 2.0}
        assert float(dropped.mean()) == pytest.approx(1, abs=0.05)
        assert bool((dropped.amin((2, 3)) < dropped.amax((2, 3))).all())


def test_another_network_is_refused() -> None:
    with pytest.raises(ValueError, match="give unet, not Conv2d"):
        URPC(nn.Conv2d(3, 2, 1))  # type: ignore[arg-type]  # wrong on purpose
