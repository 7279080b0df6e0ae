"""The gradient of small depthwise convolutions against torch's own."""

import pytest
import torch
from torch.nn import functional as F

from fpgm.nets import LiteUNet, depthwise
from fpgm.nets.lite_unet import SameConv2d


def pair(height: int, width: int, channels: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(height * 10 + width)
    image = torch.randn(3, channels, height, width, generator=generator).to(memory_format=torch.channels_last)
    weight = torch.randn(channels, 1, 5, 5, generator=generator)
    return image.requires_grad_(), weight.requires_grad_()


@pytest.mark.parametrize("side", [(1, 1), (2, 2), (3, 3), (4, 4), (2, 5), (8, 2)])
def test_equals_torch(side: tuple[int, int]) -> None:
    image, weight = pair(*side)
    other_image, other_weight = (tensor.detach().clone().requires_grad_() for tensor in (image, weight))
    ours = depthwise.DepthwiseConv.apply(image, weight)
    torchs = F.conv2d(other_image, other_weight, padding=2, groups=7)
    assert torch.equal(ours, torchs)
    for output in (ours, torchs):
        output.square().sum().backward()
    torch.testing.assert_close(image.grad, other_image.grad)
    torch.testing.assert_close(weight.grad, other_weight.grad, rtol=1e-4, atol=1e-4)


def test_the_gradient_by_hand() -> None:
    # a map of one pixel, value 3: only the tap in the middle of the kernel meets it; gradient of the output is 2
    found = depthwise.weight_gradient(torch.full((1, 1, 1, 1), 2.0), torch.full((1, 1, 1, 1), 3.0))
    expected = torch.zeros(1, 1, 5, 5)
    expected[0, 0, 2, 2] = 6
    assert torch.equal(found, expected)


def test_only_where_it_is_slow_and_asked_for() -> None:
    image, weight = pair(4, 4)
    assert depthwise.is_slow(image, weight)
    assert not depthwise.is_slow(pair(5, 5)[0], weight)  # a larger map
    assert not depthwise.is_slow(image, torch.randn(7, 1, 3, 3, requires_grad=True))
    assert not depthwise.is_slow(image, weight.detach())
    assert not depthwise.is_slow(image.double(), weight.double())
    with torch.no_grad():
        assert not depthwise.is_slow(image, weight)
    with torch.autocast("cpu", torch.bfloat16):
        assert not depthwise.is_slow(image, weight)


def test_the_network_learns_the_same_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    net, image = LiteUNet(), torch.rand(2, 3, 64, 64)
    used = []
    apply = depthwise.DepthwiseConv.apply
    monkeypatch.setattr(depthwise.DepthwiseConv, "apply", lambda *args: used.append(1) or apply(*args))
    gradients = []
    for slow in (depthwise.is_slow, lambda image, weight: False):
        monkeypatch.setattr(depthwise, "is_slow", slow)
        net.zero_grad()
        net(image).square().mean().backward()
        gradients.append({name: value.grad for name, value in net.named_parameters()})
    # 480 and 672 channels at 4 x 4 and 1,152 at 2 x 2 pixels
    assert len(used) == sum(
        isinstance(module, SameConv2d) and module.kernel_size == (5, 5) and module.stride == (1, 1)
        for module in net.encoder.stages[4:].modules()
    )
    for name, value in gradients[0].items():
        torch.testing.assert_close(value, gradients[1][name], rtol=1e-3, atol=1e-5, msg=name)
