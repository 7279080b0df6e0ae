"""Normalisation by batch, by instance and by both: against torch's layers, and what each promises."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fpgm.methods.cvbm import CVBM
from fpgm.methods.parts.batchnorm import frozen_batchnorm_stats
from fpgm.methods.parts.teachers import fresh_copy, frozen_copy
from fpgm.methods.pick import PICK
from fpgm.model import save_model
from fpgm.nets import Decoder, UNet, build, norms
from fpgm.nets.norms import NORMS, InstanceNormLeakyReLU, Norm, level_norms
from fpgm.runs.card import ModelCard
from fpgm.serving.export import export_onnx, export_torch
from tests.serving.making import pictures
from tests.small_net import SmallNet, use_small_net

SMALL = (4, 8, 8, 16, 16)
# (B, C, H, W): small maps side by side, large ones image by image, odd sides, one image, one channel, a line
SHAPES = [
    (16, 32, 4, 4),
    (3, 5, 7, 3),
    (2, 16, 33, 35),
    (3, 32, 24, 40),
    (1, 8, 48, 48),
    (4, 1, 150, 150),
    (2, 9, 1, 2000),
]


def layer_of(channels: int, dtype: torch.dtype = torch.float32) -> InstanceNormLeakyReLU:
    """Return a layer whose scale and shift differ from 1 and 0."""
    layer = InstanceNormLeakyReLU(channels)
    nn.init.uniform_(layer.weight, 0.5, 1.5)
    nn.init.uniform_(layer.bias, -0.5, 0.5)
    return layer.to(dtype)


def torchs(layer: InstanceNormLeakyReLU, maps: Tensor) -> Tensor:
    return F.leaky_relu(F.instance_norm(maps.contiguous(), None, None, layer.weight, layer.bias, True, 0.1, 1e-5), 0.01)


def draw(*shape: int, seed: int = 0, layout: torch.memory_format = torch.channels_last) -> Tensor:
    maps = 3 + 2 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return maps.to(memory_format=layout)


def small_net(norm: Norm, kind: type[UNet | SmallNet] = UNet) -> UNet | SmallNet:
    torch.manual_seed(0)
    net = kind(channels=SMALL, dropout=0.0, norm=norm)
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d | nn.InstanceNorm2d):
            nn.init.uniform_(layer.weight, 0.5, 1.5)
            nn.init.uniform_(layer.bias, -0.5, 0.5)
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing from torch's stubs


# the layer beside torch's


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format], ids=str)
@pytest.mark.parametrize("of_grad", [torch.channels_last, torch.contiguous_format], ids=str)
def test_values_and_gradients_are_torchs(
    shape: tuple[int, ...], layout: torch.memory_format, of_grad: torch.memory_format
) -> None:
    layer, maps = layer_of(shape[1]), draw(*shape, layout=layout).requires_grad_()
    grad = draw(*shape, seed=1, layout=of_grad)
    inputs = (maps, layer.weight, layer.bias)
    got, expected = layer(maps), torchs(layer, maps)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    assert got.is_contiguous(memory_format=layout)
    grad[expected.abs() < 1e-5] = 0  # where rounding chooses the side of the kink, and with it the slope
    for ours, theirs in zip(
        torch.autograd.grad(got, inputs, grad), torch.autograd.grad(expected, inputs, grad), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4 * float(theirs.abs().max()))


@pytest.mark.parametrize("small", [0, 2**16], ids=["image by image", "side by side"])
@pytest.mark.parametrize("shape", [(3, 2, 4, 5), (2, 3, 1, 2), (1, 2, 3, 3), (5, 1, 2, 2)], ids=str)
def test_gradients_in_double_precision(shape: tuple[int, ...], small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(norms, "_SMALL", small)
    layer = layer_of(shape[1], torch.float64)
    maps = draw(*shape).double().to(memory_format=torch.channels_last).requires_grad_()

    def normalised(maps: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (maps,))

    weight, bias = (one.detach().clone().requires_grad_() for one in (layer.weight, layer.bias))
    assert torch.autograd.gradcheck(normalised, (maps, weight, bias))


@pytest.mark.parametrize("shape", [(4, 16, 4, 4), (4, 16, 40, 52)], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_its_type_and_computes_in_float32(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    layer, maps = layer_of(shape[1]), draw(*shape).to(dtype).requires_grad_()
    with torch.autocast("cpu", dtype):
        got = layer(maps)
    assert got.dtype == dtype
    expected = torchs(layer, maps.float())
    torch.testing.assert_close(got.float(), expected, rtol=0.02, atol=0.02)
    got.backward(torch.ones_like(got))
    of_weight, of_bias = torch.autograd.grad(expected.sum(), (layer.weight, layer.bias))
    assert maps.grad is not None and maps.grad.dtype == dtype
    torch.testing.assert_close(layer.weight.grad, of_weight, rtol=0.02, atol=0.02 * float(of_bias.abs().max()))
    torch.testing.assert_close(layer.bias.grad, of_bias, rtol=0.02, atol=0.0)


def test_a_large_mean_does_not_drown_a_small_deviation() -> None:
    for shape in ((4, 16, 4, 4), (4, 16, 40, 52)):
        maps = (1000 + torch.randn(shape, dtype=torch.float64)).to(memory_format=torch.channels_last)
        expected = F.leaky_relu(F.instance_norm(maps), 0.01)
        torch.testing.assert_close(InstanceNormLeakyReLU(shape[1])(maps.float()).double(), expected, rtol=0, atol=2e-3)


def test_maps_that_are_neither_layout_and_constant_maps() -> None:
    layer, wide = layer_of(16), draw(4, 32, 40, 40)
    torch.testing.assert_close(layer(wide[:, ::2]), torchs(layer, wide[:, ::2]), rtol=1e-4, atol=1e-5)
    turned = draw(4, 16, 40, 30).transpose(2, 3)
    torch.testing.assert_close(layer(turned), torchs(layer, turned), rtol=1e-4, atol=1e-5)
    constant = torch.full((3, 16, 40, 40), 7.0).to(memory_format=torch.channels_last).requires_grad_()
    flat = layer(constant)
    # the mean of equal numbers is rounded, and what is left of them is divided by the root of 1e-5
    shift = F.leaky_relu(layer.bias, 0.01).view(1, -1, 1, 1).expand_as(flat)
    torch.testing.assert_close(flat, shift, rtol=0, atol=1e-3)
    flat.sum().backward()
    assert constant.grad is not None and constant.grad.isfinite().all()


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format], ids=str)
def test_one_pixel_has_no_variance(layout: torch.memory_format) -> None:
    with pytest.raises(ValueError, match="nothing to normalise in a map of 1 x 1: give larger images"):
        InstanceNormLeakyReLU(4)(torch.zeros(2, 4, 1, 1).to(memory_format=layout))
    with pytest.raises(ValueError, match="give larger images"):
        UNet(channels=SMALL, norm="instance").eval()(torch.zeros(2, 3, 16, 16))
    assert UNet(channels=SMALL, norm="mixed")(torch.rand(2, 3, 16, 16)).shape == (2, 2, 16, 16)


# the network


def test_names_and_levels() -> None:
    assert NORMS == ("batch", "instance", "mixed")
    assert level_norms("mixed", 5) == ["instance", "instance", "batch", "batch", "batch"]
    for make in (UNet, Decoder):
        with pytest.raises(ValueError, match="norm is 'layer': give one of batch, instance, mixed"):
            make(norm="layer")  # type: ignore[operator]  # wrong on purpose
    with pytest.raises(ValueError, match="unet: norm is 'Batch': give one of batch, instance, mixed"):
        build("unet", norm="Batch")


def test_convention_mixed_is_instance_norm_on_the_two_finest_levels_and_batch_norm_below() -> None:
    net = UNet(norm="mixed")
    kinds = [{type(layer) for layer in block if hasattr(layer, "eps")} for block in net.encoder.blocks]  # type: ignore[attr-defined]  # a UNet
    assert kinds == [{InstanceNormLeakyReLU}] * 2 + [{nn.BatchNorm2d}] * 3
    ups = [{type(layer) for layer in up.block if hasattr(layer, "eps")} for up in net.decoder.ups]  # type: ignore[attr-defined,union-attr]  # a UNet
    assert ups == [{nn.BatchNorm2d}] * 2 + [{InstanceNormLeakyReLU}] * 2  # coarsest first


@pytest.mark.parametrize("training", [True, False])
def test_convention_with_instance_norm_no_image_depends_on_its_batch(training: bool) -> None:
    net, image = small_net("instance").train(training), torch.rand(5, 3, 64, 48, requires_grad=True)
    logits = net(image)
    torch.testing.assert_close(net(image[1:2]), logits[1:2], rtol=1e-4, atol=1e-5)
    (grad,) = torch.autograd.grad(logits[1].square().sum(), image)
    assert grad[1].abs().max() > 0 and not grad[[0, 2, 3, 4]].any()
    assert not list(net.buffers())


def test_training_and_evaluation_are_one_with_instance_norm_and_two_with_the_others() -> None:
    image = torch.rand(3, 3, 32, 32)
    for norm in NORMS:
        net = small_net(norm)
        assert torch.equal(net.train()(image), net.eval()(image)) == (norm == "instance")


def test_all_share_names_weights_and_initial_values() -> None:
    states = []
    for norm in NORMS:
        torch.manual_seed(3)
        states.append(dict(UNet(norm=norm).named_parameters()))
    for other in states[1:]:
        assert list(other) == list(states[0])
        assert all(torch.equal(other[name], value) for name, value in states[0].items())


@pytest.mark.parametrize("norm", NORMS)
class TestEveryNorm:
    """The same questions to all."""

    def test_layouts_and_precisions_agree(self, norm: Norm) -> None:
        net, image = small_net(norm).train(), torch.rand(4, 3, 64, 64)
        plain = copy.deepcopy(net).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # missing from torch's stubs
        expected, got = plain(image), net(image.to(memory_format=torch.channels_last))
        torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-3)
        with torch.autocast("cpu", torch.bfloat16):
            rough = net(image.to(memory_format=torch.channels_last))
        assert rough.dtype == torch.bfloat16
        assert (rough.float() - expected).abs().mean() < 0.1 * expected.std()
        grads = [torch.autograd.grad(one.square().mean(), list(n.parameters()), allow_unused=True) for one, n in
                 ((expected, plain), (got, net))]  # fmt: skip
        for (name, _), a, b in zip(net.named_parameters(), *grads, strict=True):
            torch.testing.assert_close(a, b, rtol=0.05, atol=1e-4, msg=name)

    def test_learns(self, norm: Norm) -> None:
        net, image = small_net(norm).train(), torch.rand(4, 3, 32, 32)
        target = (image.mean(1) > 0.5).long()
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
        losses = []
        for _ in range(15):
            loss = F.cross_entropy(net(image), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < 0.8 * losses[0]

    def test_copies_states_and_teachers(self, norm: Norm) -> None:
        net, image = small_net(norm).eval(), torch.rand(2, 3, 32, 32)
        expected = net(image)
        fresh = UNet(channels=SMALL, norm=norm).eval()
        fresh.load_state_dict(net.state_dict())
        torch.testing.assert_close(fresh(image), expected, rtol=1e-4, atol=1e-5)
        teacher = frozen_copy(net)
        assert torch.equal(teacher(image), expected) and not teacher(image).requires_grad
        teacher(image.requires_grad_()).sum().backward()  # a frozen network still passes gradients on
        assert image.grad is not None and image.grad.any()
        second = fresh_copy(net)
        layers = [one for one in second.modules() if isinstance(one, nn.BatchNorm2d | nn.InstanceNorm2d)]
        assert len(layers) == 18
        assert all(bool((one.weight == 1).all() and (one.bias == 0).all()) for one in layers)

    def test_a_pass_can_leave_the_statistics_alone(self, norm: Norm) -> None:
        net, image = small_net(norm).train(), torch.rand(2, 3, 32, 32)
        net(image)
        before = [value.clone() for name, value in net.named_buffers() if "running" in name]
        with frozen_batchnorm_stats(net):
            net(image + 1)
        after = [value for name, value in net.named_buffers() if "running" in name]
        assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))

    def test_decoders_that_methods_add_take_the_same(self, norm: Norm) -> None:
        def kinds(decoder: nn.Module) -> list[type]:
            return [type(one) for one in decoder.modules() if isinstance(one, nn.BatchNorm2d | nn.InstanceNorm2d)]

        net = small_net(norm)
        pick, cvbm = PICK(copy.deepcopy(net)), CVBM(copy.deepcopy(net))
        added = [pick.painter, pick.auxiliary]
        added += [one for one in cvbm.modules() if isinstance(one, Decoder)]
        assert len(added) >= 4
        assert all(kinds(one) == kinds(net.decoder) for one in added)


@pytest.fixture
def both_kinds(monkeypatch: pytest.MonkeyPatch) -> UNet | SmallNet:
    """A network of two levels, instance norm on the first and batch norm on the second, that has seen images."""
    use_small_net(monkeypatch)
    monkeypatch.setattr(norms, "FINE_LEVELS", 1)
    net = small_net("mixed", SmallNet)
    assert {type(one) for one in net.modules()} >= {InstanceNormLeakyReLU, nn.BatchNorm2d}
    net(torch.rand(4, 3, 32, 32))
    return net


def test_both_kinds_in_one_network_export_to_torch_and_onnx(both_kinds: UNet | SmallNet, tmp_path: Path) -> None:
    """The reports compare the files with the original, on batches of more than the two images traced."""
    card = ModelCard(net="unet", arguments={"channels": list(SMALL), "norm": "mixed"}, size=32, training={})
    save_model(tmp_path / "model", both_kinds.eval(), card)
    reports = [
        export_torch(tmp_path / "model", tmp_path / "model.pt2", pictures=pictures(5)),
        export_onnx(tmp_path / "model", tmp_path / "model.onnx", pictures=pictures(5)),
    ]
    assert all(report.images == 5 and report.max_difference < 1e-4 for report in reports)


def test_both_kinds_in_one_network_trace_as_one_graph(both_kinds: UNet | SmallNet) -> None:
    image = torch.rand(2, 3, 32, 32).to(memory_format=torch.channels_last)
    compiled = torch.compile(copy.deepcopy(both_kinds), backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(image), both_kinds(image), rtol=1e-3, atol=1e-4)


def test_running_statistics_of_batch_norm_are_not_loaded_into_instance_norm() -> None:
    with pytest.raises(RuntimeError, match="running_mean"):
        UNet(channels=SMALL, norm="instance").load_state_dict(UNet(channels=SMALL).state_dict())
    assert set(UNet(channels=SMALL).state_dict()) - set(small_net("instance").state_dict()) == {
        f"{prefix}.{index}.{name}"
        for prefix, index, name in itertools.product(
            [f"encoder.blocks.{i}" for i in range(5)] + [f"decoder.ups.{i}.block" for i in range(4)],
            (1, 5),
            ("running_mean", "running_var", "num_batches_tracked"),
        )
    }
