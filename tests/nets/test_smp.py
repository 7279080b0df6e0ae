"""The adapter of segmentation-models-pytorch; the library itself cannot be imported beside this torch.

A stand-in has what the adapter uses: classes with `encoder_name` and `encoder_weights`, and the encoders' colours.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fpgm.nets import build
from fpgm.nets.shapes import network_shapes


class Unet(nn.Module):
    def __init__(
        self, encoder_name: str = "a", encoder_weights: str | None = "imagenet", in_channels: int = 3, classes: int = 1
    ) -> None:
        super().__init__()
        self.encoder = nn.Conv2d(in_channels, 4, 1)
        self.head = nn.Conv2d(4, classes, 1)
        if encoder_weights:
            if encoder_name == "offline":
                raise OSError("no host answers")
            nn.init.constant_(self.encoder.weight, 7.0)

    def forward(self, image: Tensor) -> Tensor:
        self.seen = image
        return self.head(self.encoder(image))


def colours(name: str, pretrained: str) -> dict[str, Any]:
    assert pretrained == "imagenet"
    return {"resnet34": {"mean": [0.4, 0.5, 0.6], "std": [0.1, 0.2, 0.5]}}[name]


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("segmentation_models_pytorch")
    module.Unet, module.encoders = Unet, SimpleNamespace(get_preprocessing_params=colours)
    monkeypatch.setitem(sys.modules, "segmentation_models_pytorch", module)


def test_the_network_sees_the_colours_that_its_encoder_was_trained_with() -> None:
    net: Any = build("smp:Unet")
    logits = net(torch.tensor([0.5, 0.5, 0.5]).reshape(1, 3, 1, 1).expand(2, 3, 8, 8))
    assert logits.shape == (2, 2, 8, 8)
    assert torch.allclose(net.net.seen[0, :, 0, 0], torch.tensor([1.0, 0.0, -0.2]))  # (0.5 - mean) / std by hand
    plain: Any = build("smp:Unet", encoder_name="unknown")
    image = torch.rand(1, 3, 8, 8)
    plain(image)
    assert torch.equal(plain.net.seen, image)


def test_pretrained_weights_are_loaded_when_they_are_asked_for_alone() -> None:
    net: Any = build("smp:Unet")
    head = net.net.head.weight.clone()
    assert not bool((net.net.encoder.weight == 7).any())
    net.load_pretrained()
    assert bool((net.net.encoder.weight == 7).all()) and torch.equal(net.net.head.weight, head)
    with pytest.raises(ValueError, match="ImageNet weights cannot be had: no host answers"):
        build("smp:Unet", encoder_name="offline").load_pretrained()  # type: ignore[operator]  # of this network


def test_a_model_card_makes_it_download_nothing() -> None:
    with pytest.raises(ValueError, match=r"leave encoder_weights out: net\.pretrained=true"):
        build("smp:Unet", encoder_weights="imagenet")
    assert network_shapes("smp:Unet", encoder_name="offline")["net.head.weight"] == (2, 4, 1, 1)


def test_names_that_are_not_there_and_a_library_that_is_not() -> None:
    with pytest.raises(ValueError, match="no network is called 'smp:UNet'; near it: smp:Unet"):
        build("smp:UNet")
    sys.modules["segmentation_models_pytorch"] = None  # type: ignore[assignment]  # makes an import fail
    with pytest.raises(ValueError, match=r"cannot be imported here .*: install it with the torchvision"):
        build("smp:Unet")
