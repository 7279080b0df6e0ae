"""Shapes without memory: those of the real network, whatever its size."""

from __future__ import annotations

from typing import Any

import pytest

from fpgm.nets import build
from fpgm.nets.shapes import network_shapes


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("unet", {"channels": [4, 4, 8, 8, 8], "norm": "mixed"}),
        ("lite_unet", {}),
        ("monai:BasicUNet", {"features": [4, 4, 4, 4, 4, 4]}),
        ("monai:SwinUNETR", {"feature_size": 12}),  # reads numbers while it is built
    ],
)
def test_they_are_those_of_the_network(name: str, arguments: dict[str, Any]) -> None:
    net = build(name, **arguments)
    assert network_shapes(name, **arguments) == {key: tuple(value.shape) for key, value in net.state_dict().items()}


def test_a_network_of_terabytes_takes_no_memory() -> None:
    assert network_shapes("unet", channels=[400_000] * 5)["decoder.head.weight"] == (2, 400_000, 3, 3)


def test_a_network_without_end_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 20,000 parts"):
        network_shapes("monai:UNet", channels=[4, 4], strides=[2], num_res_units=10**9)


def test_wrong_arguments_are_a_sentence() -> None:
    with pytest.raises(ValueError, match="unet: "):
        network_shapes("unet", channels="wide")
