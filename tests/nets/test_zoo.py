"""Networks by name."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn

from fpgm.nets import Backbone, UNet, build


def test_unet_is_the_papers_and_a_backbone() -> None:
    net = build("unet", in_channels=1, classes=3)
    assert isinstance(net, UNet) and isinstance(net, Backbone)
    assert net(torch.zeros(2, 1, 16, 16)).shape == (2, 3, 16, 16)
    small = build("unet", channels=(2, 4, 8, 16, 32))
    assert isinstance(small, UNet) and small.channels == (2, 4, 8, 16, 32)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("monai:BasicUNet", {"features": (4, 4, 8, 8, 16, 4)}),
        ("monai:UNet", {"channels": (4, 8, 16), "strides": (2, 2)}),
        ("monai:AttentionUnet", {"channels": (4, 8, 16), "strides": (2, 2)}),
        ("monai:SegResNet", {"init_filters": 8}),
        ("monai:FlexibleUNet", {"backbone": "efficientnet-b0"}),
    ],
)
def test_monai_networks_map_images_to_logits_and_train(name: str, arguments: dict[str, Any]) -> None:
    net = build(name, in_channels=3, classes=2, **arguments)
    logits = net(torch.rand(2, 3, 64, 64))
    assert logits.shape == (2, 2, 64, 64)
    logits.square().mean().backward()
    assert sum(float(p.grad.abs().sum()) for p in net.parameters() if p.grad is not None) > 0
    assert not isinstance(net, Backbone)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("unett", "no network is called 'unett'; near it: unet"),
        ("UNet", "near it: unet"),
        ("monai:BasicUnet", "near it: monai:BasicUNet"),
        ("monai:Transchex", "no network is called"),  # exists, but segments nothing
        ("qqqqqq", "give unet, lite_unet, or monai: and a class of monai.networks.nets"),
    ],
)
def test_unknown_names_are_met_with_near_ones(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(name)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("unet", {"depth": 3}, "unet: got an unexpected.*'depth'; its arguments are in_channels, classes, channels"),
        ("monai:BasicUNet", {"depth": 3}, "monai:BasicUNet: got an unexpected.*'depth'.*features"),
        ("monai:UNet", {}, "monai:UNet: missing a required argument: 'channels'"),
    ],
)
def test_wrong_arguments_are_explained(name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(name, **arguments)


def test_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "monai.networks", None)
    with pytest.raises(ValueError, match=r"need MONAI: pip install 'fpgm\[models\]'"):
        build("monai:BasicUNet")
    assert isinstance(build("unet"), UNet)


def test_library_that_a_network_needs_besides(monkeypatch: pytest.MonkeyPatch) -> None:
    from monai.networks import nets

    class Needy(nn.Module):
        def __init__(self, spatial_dims: int, in_channels: int, out_channels: int) -> None:
            raise ImportError("No module named 'einops'")

    monkeypatch.setattr(nets, "Needy", Needy, raising=False)
    with pytest.raises(ValueError, match="monai:Needy: No module named 'einops'"):
        build("monai:Needy")


def test_monai_is_not_imported_before_it_is_asked_for() -> None:
    code = "import sys, fpgm.nets; fpgm.nets.build('unet'); sys.exit('monai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
