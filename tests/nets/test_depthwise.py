"""The gradients of depthwise convolutions against torch's own."""

import pytest
import torch
from torch.nn import functional as F

from fpgm.nets import LiteUNet, depthwise

# (H, W), k, stride: maps smaller than the kernel, as large, larger; whole and halved
CASES = [
    *[((side, other), 5, 1) for side, other in [(1, 1), (2, 2), (3, 3), (4, 4), (2, 5), (8, 2), (9, 7)]],
    *[((2, 2), 3, 1), ((5, 4), 3, 1), ((5, 7), 5, 2), ((7, 7), 5, 2), ((17, 17), 5, 2), ((4, 5), 3, 2), ((3, 9), 3, 2)],
]


def pair(height: int, width: int, kernel: int = 5, channels: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(height * 10 + width)
    image = torch.randn(3, channels, height, width, generator=generator).to(memory_format=torch.channels_last)
    weight = torch.randn(channels, 1, kernel, kernel, generator=generator)
    return image.requires_grad_(), weight.requires_grad_()


@pytest.mark.parametrize(("side", "kernel", "stride"), CASES)
def test_equals_torch(side: tuple[int, int], kernel: int, stride: int) -> None:
    image, weight = pair(*side, kernel)
    padding = kernel // 2 if stride == 1 else 0  # as `SameConv2d` has it
    other_image, other_weight = (tensor.detach().clone().requires_grad_() for tensor in (image, weight))
    ours = depthwise.DepthwiseConv.apply(image, weight, stride, padding)
    torchs = F.conv2d(other_image, other_weight, stride=stride, padding=padding, groups=7)
    assert torch.equal(ours, torchs)
    for output in (ours, torchs):
        output.square().sum().backward()
    torch.testing.assert_close(image.grad, other_image.grad)
    torch.testing.assert_close(weight.grad, other_weight.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("side", "kernel", "stride"), [CASES[3], CASES[6], CASES[9]])
def test_bfloat16_has_the_gradients_of_float32(side: tuple[int, int], kernel: int, stride: int) -> None:
    image, weight = pair(*side, kernel)
    padding = kernel // 2 if stride == 1 else 0
    rounded = [tensor.detach().bfloat16().requires_grad_() for tensor in (image, weight)]
    exact = [tensor.detach().float().requires_grad_() for tensor in rounded]
    for tensors in (rounded, exact):
        # a gradient that bfloat16 holds exactly, so that only the convolution rounds
        output = depthwise.DepthwiseConv.apply(*tensors, stride, padding)
        output.backward(torch.ones_like(output))
    for mine, theirs in zip(rounded, exact, strict=True):
        assert mine.grad is not None and mine.grad.dtype == torch.bfloat16
        assert torch.equal(mine.grad, theirs.grad.bfloat16())


def test_autocast_has_gradients_in_the_dtypes_of_its_inputs() -> None:
    image, weight = pair(4, 4)
    with torch.autocast("cpu", torch.bfloat16):
        output = depthwise.DepthwiseConv.apply(image, weight, 1, 2)
    assert output.dtype == torch.bfloat16
    output.float().sum().backward()
    assert image.grad is not None and image.grad.dtype == weight.grad.dtype == torch.float32


def test_the_gradient_by_hand() -> None:
    # a map of one pixel, value 3: only the tap in the middle of the kernel meets it; gradient of the output is 2
    two, three = torch.full((1, 1, 1, 1), 2.0), torch.full((1, 1, 1, 1), 3.0)
    found = depthwise.weight_gradient(two, three, torch.zeros(1, 1, 5, 5), stride=1, padding=2)
    expected = torch.zeros(1, 1, 5, 5)
    expected[0, 0, 2, 2] = 6
    assert torch.equal(found, expected)


def test_only_where_gradients_are_asked_for() -> None:
    image, weight = pair(4, 4)
    assert depthwise.applies(image, weight)
    assert depthwise.applies(image.bfloat16(), weight)  # as autocast has them
    assert not depthwise.applies(image, torch.randn(7, 7, 3, 3, requires_grad=True))  # not depthwise
    assert not depthwise.applies(image, weight.detach())
    assert not depthwise.applies(image.double(), weight.double())
    with torch.no_grad():
        assert not depthwise.applies(image, weight)


def test_the_network_learns_the_same_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    net, image = LiteUNet(), torch.rand(2, 3, 64, 64)
    used = []
    apply = depthwise.DepthwiseConv.apply
    monkeypatch.setattr(depthwise.DepthwiseConv, "apply", lambda *args: used.append(1) or apply(*args))
    gradients = []
    for rule in (depthwise.applies, lambda image, weight: False):
        monkeypatch.setattr(depthwise, "applies", rule)
        net.zero_grad()
        net(image).square().mean().backward()
        gradients.append({name: value.grad for name, value in net.named_parameters()})
    assert len(used) == 16  # the blocks of the encoder, one depthwise convolution each
    for name, value in gradients[0].items():
        torch.testing.assert_close(value, gradients[1][name], rtol=1e-3, atol=1e-5, msg=name)
