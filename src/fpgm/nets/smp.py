"""Networks of segmentation-models-pytorch, with its encoders and those of timm.

Neither is installed with us: both need torchvision, whose build must be that of the installed torch.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

PREFIX = "smp:"
_WEIGHTS = "imagenet"


class SmpNet(nn.Module):
    """A network of segmentation-models-pytorch that takes images in [0, 1], as all networks here do.

    Args:
        make: class of the library.
        in_channels: C of the images (B, C, H, W).
        classes: K of the logits (B, K, H, W).
        encoder_name: name of its encoder; ``tu-`` and a name for one of timm.
        **arguments: further arguments of the class.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        make: Callable[..., nn.Module],
        in_channels: int = 3,
        classes: int = 2,
        encoder_name: str = "resnet34",
        **arguments: Any,
    ) -> None:
        super().__init__()
        if "encoder_weights" in arguments:
            raise ValueError("leave encoder_weights out: net.pretrained=true loads the encoder's ImageNet weights")
        self._make = partial(make, encoder_name, in_channels=in_channels, classes=classes, **arguments)
        self.net = self._make(encoder_weights=None)
        mean, std = _colours(encoder_name) if in_channels == 3 else (0.0, 1.0)
        self.register_buffer("mean", torch.as_tensor(mean, dtype=torch.float32, device="cpu").reshape(-1, 1, 1))
        self.register_buffer("std", torch.as_tensor(std, dtype=torch.float32, device="cpu").reshape(-1, 1, 1))

    def load_pretrained(self) -> None:
        """Give the encoder its ImageNet weights, which the library downloads unless it has them."""
        try:
            pretrained = self._make(encoder_weights=_WEIGHTS)
        except Exception as error:  # no network, no such weights
            raise ValueError(f"the encoder's ImageNet weights cannot be had: {error}") from error
        _encoder(self.net).load_state_dict(_encoder(pretrained).state_dict())

    def forward(self, image: Tensor) -> Tensor:
        """Logits (B, K, H, W) of an image (B, C, H, W) in [0, 1]."""
        logits: Tensor = self.net((image - self.mean) / self.std)
        return logits


def find(name: str) -> Callable[..., nn.Module]:
    """Return the class that "smp:" and its name stand for."""
    library = _library()
    classes = {
        PREFIX + own: cls
        for own, cls in inspect.getmembers(library, inspect.isclass)
        if issubclass(cls, nn.Module) and "encoder_name" in inspect.signature(cls).parameters
    }
    if name not in classes:
        near = difflib.get_close_matches(name, classes, n=4, cutoff=0.3) or sorted(classes)
        raise ValueError(f"no network is called {name!r}; near it: {', '.join(near)}")
    return classes[name]


def _library() -> Any:
    try:
        import segmentation_models_pytorch
    except Exception as error:  # beside another build of torch, torchvision raises a RuntimeError
        raise ValueError(
            f"names with {PREFIX} need segmentation-models-pytorch, which cannot be imported here ({error}): install "
            "it with the torchvision that belongs to your torch, or take unet, lite_unet or a network of MONAI"
        ) from error
    return segmentation_models_pytorch


def _colours(encoder: str) -> tuple[Any, Any]:
    """Return the mean and standard deviation of the images that an encoder was pretrained on."""
    try:
        known = _library().encoders.get_preprocessing_params(encoder, pretrained=_WEIGHTS)
    except (KeyError, ValueError):  # it was not
        return 0.0, 1.0
    return known["mean"], known["std"]


def _encoder(net: nn.Module) -> nn.Module:
    return net.get_submodule("encoder")
