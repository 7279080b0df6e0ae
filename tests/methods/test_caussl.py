"""CauSSL: the independence of kernels, its inner maximisation, and the objectives of two networks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fpgm.data.batches.batch import Batch
from fpgm.losses import cross_entropy, cross_entropy_dice
from fpgm.methods import Step
from fpgm.methods.caussl import CauSSL, first_coefficients, independence, kernels, shorten
from fpgm.nets import UNet
from tests.methods.drive import CHANNELS, make_stream, make_trainer, run, values


def step(index: int) -> Step:
    return Step(index, 30_000, "train", torch.Generator().manual_seed(0))


def caussl(channels: tuple[int, ...] = CHANNELS, **arguments: Any) -> CauSSL:
    torch.manual_seed(0)
    return CauSSL(UNet(channels=channels), **arguments)


def batch_for(store: Path, method: CauSSL) -> Batch:
    return make_stream(store, method).batch(0)


def without_dropout(method: CauSSL) -> CauSSL:
    """Make passes that can be repeated."""
    for layer in method.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    return method


def objectives(method: CauSSL, batch: Batch, index: int) -> tuple[dict[str, Tensor], ...]:
    method.train()
    image = torch.cat((batch.image_l, batch.weak_u))
    return method.objectives(method.net(image), method.other(image), batch.mask_l, step(index))


def projection_maximum(own: list[Tensor], partner: list[Tensor]) -> float:
    """The largest possible independence loss: mean squared norm of unit rows projected on the partner's row space."""
    layers = []
    for w, v in zip(own, partner, strict=True):
        rows = nn.functional.normalize(w.double())
        basis = torch.linalg.svd(v.double(), full_matrices=False).Vh
        layers.append((rows @ basis.mT).square().sum(1).mean())
    return float(torch.stack(layers).mean())


class TestIndependence:
    """Check 1."""

    def test_check_1_is_one_for_equal_kernels_and_identity(self) -> None:
        own = [torch.randn(4, 9), torch.randn(2, 5)]
        assert float(independence(own, own, [torch.eye(4), torch.eye(2)])) == pytest.approx(1)

    def test_check_1_is_zero_for_orthogonal_kernels(self) -> None:
        own, partner = torch.zeros(3, 6), torch.zeros(3, 6)
        own[:, :3], partner[:, 3:] = torch.randn(3, 3), torch.randn(3, 3)
        assert float(independence([own], [partner], [torch.randn(3, 3)])) == 0

    def test_by_hand(self) -> None:
        # layer 1: cos² = 1/2 and 1, mean 3/4; layer 2: 0; mean of layers 3/8
        own = [torch.tensor([[1.0, 1], [0, 2]]), torch.tensor([[1.0, 0]])]
        partner = [torch.tensor([[3.0, 0], [0, 1]]), torch.tensor([[0.0, 1]])]
        assert float(independence(own, partner, [torch.eye(2), torch.ones(1, 1)])) == pytest.approx(3 / 8)

    @settings(max_examples=50, deadline=None)
    @given(st.integers(0, 2**31), st.floats(1e-6, 1e3), st.integers(1, 6), st.integers(1, 8))
    def test_check_1_lies_between_zero_and_one_whatever_the_scale(
        self, seed: int, scale: float, c: int, d: int
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        w, v = (torch.randn(c, d, generator=generator) for _ in range(2))
        a = torch.randn(c, c, generator=generator)
        value = float(independence([w], [v], [a]))
        assert 0 <= value <= 1 + 1e-6
        assert float(independence([scale * w], [v], [a])) == pytest.approx(value, abs=1e-4)

    @pytest.mark.parametrize(("c", "d"), [(4, 9), (4, 4), (5, 3), (1, 7)])
    def test_is_the_same_of_shortened_kernels(self, c: int, d: int) -> None:
        generator = torch.Generator().manual_seed(0)
        own, partner = ([torch.randn(c, d, generator=generator)] for _ in range(2))
        short_own, short_partner = shorten(own, partner)
        assert short_own[0].shape == short_partner[0].shape == (c, min(c, d) + 1)
        for _ in range(5):
            a = torch.randn(c, c, generator=generator)
            value = float(independence(own, partner, [a]))
            assert float(independence(short_own, short_partner, [a])) == pytest.approx(value, abs=1e-5)

    def test_coefficients_of_zero_give_zero_and_a_finite_gradient(self) -> None:
        a = torch.zeros(3, 3, requires_grad=True)
        value = independence([torch.randn(3, 4)], [torch.randn(3, 4)], [a])
        value.backward()
        assert float(value.detach()) == 0 and bool(torch.isfinite(a.grad).all())

    def test_is_computed_in_full_precision_under_autocast(self) -> None:
        own, partner, a = torch.randn(8, 9), torch.randn(8, 9), torch.randn(8, 8)
        with torch.autocast("cpu", torch.bfloat16):
            inside = independence([own], [partner], [a])
        assert torch.equal(inside, independence([own], [partner], [a]))


class TestMaximisation:
    """Check 2, on the paper's UNet."""

    def test_check_2_comes_near_the_exact_maximum_and_leaves_the_networks_alone(self) -> None:
        method = caussl(channels=(16, 32, 64, 128, 256))
        networks = [*method.net.state_dict().values(), *method.other.state_dict().values()]
        before = [value.clone() for value in networks]
        with torch.no_grad():
            one, two = kernels(method.net), kernels(method.other)
            start = float(independence(one, two, list(method.coefficients_1)))
            method.before_step(None, step(540))  # the batch is not looked at
            for own, partner, a in ((one, two, method.coefficients_1), (two, one, method.coefficients_2)):
                most = projection_maximum(own, partner)
                assert 0.95 * most < float(independence(own, partner, list(a))) <= most + 1e-6
        assert start < 0.02
        assert all(torch.equal(old, new) for old, new in zip(before, networks, strict=True))
        assert all(parameter.grad is None for parameter in method.parameters())
        assert not any(a.requires_grad for a in (*method.coefficients_1, *method.coefficients_2))

    @pytest.mark.parametrize(("index", "moves"), [(0, False), (480, False), (539, False), (540, True), (541, False)])
    def test_happens_at_multiples_of_60_after_500(self, index: int, moves: bool) -> None:
        method = caussl(inner_steps=1)
        before = method.coefficients_1[0].clone()
        method.before_step(None, step(index))
        assert torch.equal(before, method.coefficients_1[0]) is not moves

    def test_goes_on_where_it_stopped(self) -> None:
        method = caussl(inner_steps=3)
        for index in (540, 600):
            method.before_step(None, step(index))
        for player in method.inner_optimizers().values():
            assert {int(entry["step"]) for entry in player.state.values()} == {6}

    def test_without_weight_nothing_is_maximised(self, phantom_store: Path) -> None:
        method = caussl(independence=0, cross=0)
        method.before_step(batch_for(phantom_store, method), step(540))
        assert not method.inner_optimizers()["rebuild_1"].state
        assert objectives(method, batch_for(phantom_store, method), 540)[0].keys() == {"sup"}


def test_check_3_the_papers_unet_has_23_matrices_of_239876_coefficients() -> None:
    coefficients = first_coefficients(UNet())
    assert len(coefficients) == 23 and sum(a.numel() for a in coefficients) == 239_876
    shapes = [tuple(kernel.shape) for kernel in kernels(UNet())]
    assert shapes[:2] == [(16, 27), (16, 144)] and shapes[9:11] == [(256, 2304), (128, 256)] and shapes[-1] == (2, 144)
    values = torch.cat([a.flatten() for a in coefficients])
    assert float(values.std()) == pytest.approx(1e-3, rel=0.01) and abs(float(values.mean())) < 1e-5


def test_the_main_optimiser_holds_both_networks_and_no_coefficient() -> None:
    method = caussl()
    held = {id(parameter) for group in method.parameter_groups() for parameter in group["params"]}
    assert held == {id(parameter) for net in (method.net, method.other) for parameter in net.parameters()}


def test_check_4_no_term_reaches_the_other_network(phantom_store: Path) -> None:
    method = caussl(inner_steps=1)
    batch = batch_for(phantom_store, method)
    method.before_step(batch, step(540))
    both = objectives(method, batch, 540)
    for terms, own, other in zip(both, (method.net, method.other), (method.other, method.net), strict=True):
        assert terms.keys() == {"sup", "cross", "independence"}
        for term in terms.values():
            assert torch.autograd.grad(term, [next(own.parameters())], retain_graph=True)[0].abs().sum() > 0
            gradients = torch.autograd.grad(term, [*other.parameters()], retain_graph=True, allow_unused=True)
            assert all(gradient is None for gradient in gradients)


@pytest.mark.parametrize(
    ("index", "names"),
    [
        (0, {"sup"}),
        (400, {"sup"}),
        (401, {"sup", "cross"}),
        (539, {"sup", "cross"}),
        (540, {"sup", "cross", "independence"}),
    ],
)
def test_check_5_terms_set_in_one_after_the_other(phantom_store: Path, index: int, names: set[str]) -> None:
    method = without_dropout(caussl(inner_steps=1))
    batch, count = batch_for(phantom_store, method), 4
    method.before_step(batch, step(index))
    first, _ = objectives(method, batch, index)
    assert first.keys() == names
    image = torch.cat((batch.image_l, batch.weak_u))
    z1, z2 = method.net(image), method.other(image).detach()
    expected = cross_entropy_dice(z1[:count], batch.mask_l, classes=(1,))
    if index > 400:
        ramp = 0.1 * math.exp(-5 * (1 - index // 150 / 200) ** 2)
        expected = expected + 0.3 * ramp * cross_entropy(z1[count:], z2[count:].argmax(1))
    if index >= 540:
        partner = [kernel.detach() for kernel in kernels(method.other)]
        expected = expected + 3.0 * independence(kernels(method.net), partner, list(method.coefficients_1))
    parameters = [*method.net.parameters()]
    ours = torch.autograd.grad(sum(first.values()), parameters)
    for gradient, want in zip(ours, torch.autograd.grad(expected, parameters), strict=True):
        assert torch.allclose(gradient, want, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("inner_every", [60, 7])
def test_a_short_training_sees_all_terms(phantom_store: Path, inner_every: int) -> None:
    """Of 300 steps, cross-supervision has all but 4 and independence all but the first multiple from 5 on."""
    method = caussl(inner_steps=1, inner_every=inner_every)
    batch = batch_for(phantom_store, method)
    image = torch.cat((batch.image_l, batch.weak_u))
    z1, z2 = method.net(image), method.other(image)
    names = {
        index: set(method.objectives(z1, z2, batch.mask_l, Step(index, 300, "train", torch.Generator()))[0])
        for index in (3, 4, inner_every - 1, inner_every)
    }
    assert names[3] == {"sup"} and names[4] == names[inner_every - 1] == {"sup", "cross"}
    assert names[inner_every] == {"sup", "cross", "independence"}


def test_check_6_swapping_the_networks_swaps_the_losses(phantom_store: Path) -> None:
    method = without_dropout(caussl(inner_steps=2))
    batch = batch_for(phantom_store, method)
    method.before_step(batch, step(540))
    before = [values(terms) for terms in objectives(method, batch, 540)]
    method.net, method.other = method.other, method.net
    method.coefficients_1, method.coefficients_2 = method.coefficients_2, method.coefficients_1
    after = [values(terms) for terms in objectives(method, batch, 540)]
    for name in ("sup", "cross", "independence"):
        assert before[0][name] != pytest.approx(before[1][name], rel=1e-6)
        assert before[0][name] == pytest.approx(after[1][name])
        assert before[1][name] == pytest.approx(after[0][name])


def test_terms_are_added_over_the_networks_and_labels_are_told(phantom_store: Path) -> None:
    method = without_dropout(caussl(inner_steps=1)).train()
    batch = batch_for(phantom_store, method)
    method.before_step(batch, step(540))
    first, second = objectives(method, batch, 540)
    terms = method.losses(batch, step(540))
    assert all(torch.allclose(terms[name], first[name] + second[name]) for name in first)
    assert method.notes.keys() >= {"foreground_1", "foreground_2", "agreement", "kept_foreground"}


def test_the_networks_differ_and_both_learn(phantom_store: Path, tmp_path: Path) -> None:
    method = caussl()
    before = [[value.detach().clone() for value in kernels(net)] for net in (method.net, method.other)]
    assert not any(torch.equal(a, b) for a, b in zip(*before, strict=True))
    run(make_trainer(method, tmp_path), make_stream(phantom_store, method), 0, 1)
    for net, old in zip((method.net, method.other), before, strict=True):
        assert not any(torch.equal(a, b) for a, b in zip(kernels(net), old, strict=True))


def test_the_independence_term_makes_rebuilding_harder() -> None:
    """Minimising over the networks lowers what maximising over the coefficients has raised."""
    method = caussl()
    method.maximise()
    players = torch.optim.SGD(method.parameter_groups(), lr=0.5)
    course = []
    for _ in range(20):
        partner = [kernel.detach() for kernel in kernels(method.other)]
        value = independence(kernels(method.net), partner, list(method.coefficients_1))
        course.append(float(value.detach()))
        players.zero_grad()
        value.backward()
        players.step()
    assert course[-1] < 0.9 * course[0]


def test_mistakes_are_explained() -> None:
    with pytest.raises(ValueError, match="Linear has no 2D convolution"):
        CauSSL(nn.Linear(3, 2))
    with pytest.raises(ValueError, match="inner_every: Input should be greater than or equal to 1"):
        caussl(inner_every=0)
