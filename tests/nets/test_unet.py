"""The UNet against a plain transcription of its description, and the room it leaves for methods."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fpgm.nets import Backbone, Decoder, UNet
from fpgm.nets.unet import Dropout, Encoder


@pytest.fixture
def unet() -> UNet:
    """A network with real running statistics and affine parameters other than 0 and 1."""
    torch.manual_seed(0)
    net = UNet()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 1.0
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.5, 0.5)
    net(torch.rand(4, 3, 64, 64))
    return net


@pytest.fixture
def image() -> Tensor:
    return torch.rand(2, 3, 48, 32, generator=torch.Generator().manual_seed(1))


def parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def transcription(net: UNet, image: Tensor) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """Encoder maps, decoder maps and logits in eval mode, from the list of layers in order."""
    convs = iter([m for m in net.modules() if isinstance(m, nn.Conv2d)])
    norms = iter([m for m in net.modules() if isinstance(m, nn.BatchNorm2d)])

    def block(x: Tensor) -> Tensor:
        for _ in range(2):
            conv, norm = next(convs), next(norms)
            assert conv.kernel_size == (3, 3)
            x = F.conv2d(x, conv.weight, conv.bias, padding=1)
            shape = (1, -1, 1, 1)
            assert norm.running_mean is not None and norm.running_var is not None
            x = (x - norm.running_mean.view(shape)) / (norm.running_var.view(shape) + 1e-5).sqrt()
            x = x * norm.weight.view(shape) + norm.bias.view(shape)
            x = torch.where(x > 0, x, 0.01 * x)
        return x

    down = [block(image)]
    for _ in range(4):
        down.append(block(F.max_pool2d(down[-1], 2)))
    x, up = down[-1], []
    for skip in reversed(down[:-1]):
        conv = next(convs)
        assert conv.kernel_size == (1, 1) and conv.out_channels == conv.in_channels // 2
        x = F.conv2d(x, conv.weight, conv.bias)
        x = F.interpolate(x, size=skip.shape[-2:], mode="bilinear", align_corners=True)
        x = block(torch.cat([skip, x], 1))
        up.append(x)
    head = next(convs)
    return down, up, F.conv2d(x, head.weight, head.bias, padding=1)


def test_number_of_parameters() -> None:
    net = UNet(3, 2)
    assert parameters(net) == 1_813_762  # the paper's backbone
    assert parameters(UNet(1, 4)) == 1_813_762 - 2 * 16 * 9 + 2 * (16 * 9 + 1)
    convs = [m for m in net.modules() if isinstance(m, nn.Conv2d)]
    # what CauSSL's coefficient matrices count on: 23 kernels, sum of squared output channels 239,876
    assert len(convs) == 23
    assert sum(m.out_channels**2 for m in convs) == 239_876


def test_equals_the_transcription(unet: UNet, image: Tensor) -> None:
    unet.eval()
    features = unet.encode(image)
    down, up, logits = transcription(unet, image)
    assert logits.std() > 0.1  # a signal arrives
    torch.testing.assert_close(features, down, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(unet.decoder.maps(features), up, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(unet(image), logits, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(unet.decode(features), unet(image), rtol=0, atol=0)


def test_shapes(unet: UNet, image: Tensor) -> None:
    features = unet.encode(image)
    assert unet.channels == (16, 32, 64, 128, 256)
    assert [tuple(f.shape) for f in features] == [
        (2, 16, 48, 32),
        (2, 32, 24, 16),
        (2, 64, 12, 8),
        (2, 128, 6, 4),
        (2, 256, 3, 2),
    ]
    assert [tuple(m.shape) for m in unet.decoder.maps(features)] == [
        (2, 128, 6, 4),
        (2, 64, 12, 8),
        (2, 32, 24, 16),
        (2, 16, 48, 32),
    ]
    assert unet(image).shape == (2, 2, 48, 32)


def test_dropout_is_in_the_encoder_alone_and_only_in_training(unet: UNet, image: Tensor) -> None:
    assert [m.p for m in unet.encoder.modules() if isinstance(m, nn.Dropout)] == [0.05, 0.1, 0.2, 0.3, 0.5]
    for module in unet.encoder.blocks:  # between the first activation and the second convolution
        assert isinstance(module, nn.Sequential)
        assert [type(m) for m in list(module)[2:5]] == [nn.LeakyReLU, Dropout, nn.Conv2d]
    features = [f.detach() for f in unet.encode(image)]
    assert all(not torch.equal(a, b) for a, b in zip(features, unet.encode(image), strict=True))
    assert torch.equal(unet.decode(features), unet.decode(features))
    unet.eval()
    assert torch.equal(unet(image), unet(image))


@pytest.mark.parametrize("p", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_dropout_is_torchs_in_all_but_its_draws(p: float, layout: torch.memory_format) -> None:
    torch.manual_seed(0)
    value = (
        torch.randn(8, 5, 63, 61).to(memory_format=layout).requires_grad_()
    )  # no multiple of the four draws in 64 bits
    dropped = Dropout(p).train()(value)
    kept = dropped != 0
    assert torch.equal(dropped[kept], (value / (1 - p))[kept])
    assert dropped.is_contiguous(memory_format=layout)
    # five standard deviations of the mean of n draws
    assert abs(1 - kept.float().mean() - p) < 5 * (p * (1 - p) / value.numel()) ** 0.5
    dropped.sum().backward()
    assert value.grad is not None
    assert torch.allclose(value.grad, kept / (1 - p))
    # neighbours in memory are drawn independently, though four share one number
    flat = kept.permute(0, 2, 3, 1).flatten().double() if layout is torch.channels_last else kept.flatten().double()
    pairs = torch.corrcoef(torch.stack((flat[:-1], flat[1:])))[0, 1]
    assert abs(pairs) < 5 / value.numel() ** 0.5


def test_dropout_draws_from_torchs_generator() -> None:
    layer, value = Dropout(0.5).train(), torch.ones(1000)
    torch.manual_seed(1)
    first = layer(value)
    assert not torch.equal(first, layer(value))
    torch.manual_seed(1)
    assert torch.equal(first, layer(value))
    assert torch.equal(layer.eval()(value), value)
    assert not Dropout(1.0).train()(value).any()


def test_dropout_can_be_taken_out_of_the_unet(image: Tensor) -> None:
    assert [m.p for m in UNet(dropout=0.5).encoder.modules() if isinstance(m, Dropout)] == [
        0.025,
        0.05,
        0.1,
        0.15,
        0.25,
    ]
    without = UNet(dropout=0).train()
    assert torch.equal(without(image), without(image))
    with pytest.raises(ValueError, match="dropout is 2"):
        UNet(dropout=2)


def test_every_parameter_gets_a_gradient(unet: UNet, image: Tensor) -> None:
    unet(image).square().mean().backward()
    for name, parameter in unet.named_parameters():
        assert parameter.grad is not None, name
        if not name.endswith("bias"):  # batch norm takes away the constant that a bias before it adds
            assert parameter.grad.abs().max() > 0, name


# room for methods


def test_features_can_be_changed_between_encode_and_decode(unet: UNet, image: Tensor) -> None:
    unet.eval()
    features = unet.encode(image)
    doubled = unet.decode([torch.cat((f, F.dropout2d(f, 0.5))) for f in features])
    clean, dropped = doubled.chunk(2)
    torch.testing.assert_close(clean, unet(image), rtol=1e-4, atol=1e-5)
    assert (dropped - clean).abs().max() > 0.01


def test_further_decoders_share_the_encoder(unet: UNet, image: Tensor) -> None:
    painter = Decoder(3, unet.channels)
    features = unet.encode(image)
    assert painter(features).shape == (2, 3, 48, 32)
    # a third 3 × 3 output channel over 16 maps
    assert parameters(painter) == parameters(unet.decoder) + 16 * 9 + 1
    painter(features).sum().backward()
    assert all(p.grad is None for p in unet.decoder.parameters())
    assert all(p.grad is not None for p in unet.encoder.parameters())


def test_heads_on_the_decoder_maps(unet: UNet, image: Tensor) -> None:
    unet.eval()
    maps = unet.decoder.maps(unet.encode(image))
    assert torch.equal(unet.decoder.head(maps[-1]), unet(image))
    heads = [nn.Conv2d(m.shape[1], 2, 3, padding=1) for m in maps[:-1]]
    assert sum(map(parameters, heads)) == 4_038  # URPC's three further heads
    assert [h(m).shape[-2:] for h, m in zip(heads, maps, strict=False)] == [(6, 4), (12, 8), (24, 16)]


def test_a_backbone_of_ones_own() -> None:
    class Tiny(Backbone):
        def __init__(self) -> None:
            super().__init__()
            self.channels = (4,)
            self.layer, self.head = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 2, 1)

        def encode(self, image: Tensor) -> list[Tensor]:
            return [self.layer(image)]

        def decode(self, features: Sequence[Tensor]) -> Tensor:
            logits: Tensor = self.head(features[0])
            return logits

    assert Tiny()(torch.zeros(1, 3, 5, 5)).shape == (1, 2, 5, 5)
    with pytest.raises(TypeError, match="decode"):
        Backbone()  # type: ignore[abstract]  # wrong on purpose


# behaviour


@pytest.mark.parametrize("size", [(40, 32), (32, 40), (250, 250)])
def test_sides_that_do_not_halve_four_times_are_refused(size: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=rf"{size[0]} x {size[1]}.*multiples of 16"):
        UNet()(torch.zeros(1, 3, *size))


def test_smaller_channels() -> None:
    net = UNet(1, 3, channels=(2, 4, 8, 16, 32))
    assert net(torch.zeros(2, 1, 16, 16)).shape == (2, 3, 16, 16)
    with pytest.raises(ValueError, match=r"\(8, 16\): give 5 numbers"):
        Encoder(3, (8, 16))


def test_copy_and_state_round_trip(unet: UNet, image: Tensor) -> None:
    twin, fresh = copy.deepcopy(unet).eval(), UNet().eval()
    unet.eval()
    assert not torch.equal(fresh(image), unet(image))
    fresh.load_state_dict(unet.state_dict())
    assert torch.equal(fresh(image), unet(image))
    assert torch.equal(twin(image), unet(image))


def test_same_seed_same_weights() -> None:
    nets = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        nets.append(UNet().decoder.head.weight)
    assert torch.equal(nets[0], nets[1])
    assert not torch.equal(nets[0], nets[2])


def test_channels_last_and_bfloat16_stay_close(unet: UNet, image: Tensor) -> None:
    unet.eval()
    expected = unet(image)
    unet = unet.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing from torch's stubs
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = unet(image.to(memory_format=torch.channels_last))
    assert got.dtype == torch.bfloat16
    # bfloat16 keeps 8 bits, so after 23 layers a few hundredths of the spread remain
    assert (got.float() - expected).abs().mean() < 0.05 * expected.std()


def test_exports_with_any_batch_size(unet: UNet, image: Tensor) -> None:
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(unet.eval(), (image,), dynamic_shapes={"image": {0: batch}})
    more = torch.rand(5, 3, 48, 32)
    torch.testing.assert_close(program.module()(more), unet(more), rtol=1e-4, atol=1e-5)
