"""A network by name: the paper's UNet, one with a pretrained encoder, and those of other packages."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn

from fpgm.nets import smp
from fpgm.nets.ensemble import Ensemble
from fpgm.nets.lite_unet import LiteUNet
from fpgm.nets.unet import UNet
from fpgm.plugins import Group, load_plugin, plugin_names

GROUP: Group = "fpgm.nets"
_PREFIX = "monai:"


def build(name: str, /, in_channels: int = 3, classes: int = 2, **kwargs: Any) -> nn.Module:
    """Build a network that maps (B, C, H, W) images to (B, K, H, W) logits.

    Args:
        name: "unet", the paper's; "lite_unet", a UNet on EfficientNet-Lite0, whose encoder can start from ImageNet
            weights; every method takes both. Or "monai:" and the name of a class of `monai.networks.nets`, for example
            "monai:BasicUNet", or "smp:" and one of segmentation-models-pytorch, for example "smp:Unet", for methods
            that need logits only. Or a name that an installed package registers as an entry point of "fpgm.nets": a
            function or class that is called with in_channels, classes and the further arguments. Or "ensemble", of
            `members`; `fpgm combine` makes it.
        in_channels: C.
        classes: K.
        **kwargs: further arguments of the network, for example backbone="efficientnet-b0" for
            "monai:FlexibleUNet".

    Examples:
        >>> net = build("unet", channels=[4, 8, 8, 16, 16], dropout=0.0)
        >>> net.channels
        (4, 8, 8, 16, 16)
    """
    if name == "unet":
        return _call(name, UNet, {"in_channels": in_channels, "classes": classes, **kwargs})
    if name == "lite_unet" and in_channels == 3:
        return _call(name, LiteUNet, {"classes": classes, **kwargs})
    if name == "ensemble":
        return _ensemble(**kwargs)
    if name.startswith(smp.PREFIX):
        return _call(name, smp.SmpNet, {"in_channels": in_channels, "classes": classes, **kwargs}, smp.find(name))
    if (plugin := load_plugin(GROUP, name)) is not None:
        return _plugged(name, plugin, {"in_channels": in_channels, "classes": classes, **kwargs})
    networks = _monai_networks() if name.startswith(_PREFIX) else {}
    if name not in networks:
        near = difflib.get_close_matches(name, ["unet", "lite_unet", *plugin_names(GROUP), *networks], n=4, cutoff=0.5)
        raise ValueError(
            f"no network is called {name!r}; "
            + (
                f"near it: {', '.join(near)}"
                if near
                else "give unet, lite_unet, or monai: and a class of monai.networks.nets"
            )
        )
    shape = {"spatial_dims": 2, "in_channels": in_channels, "out_channels": classes}
    return _call(name, networks[name], {**shape, **kwargs})


def _ensemble(members: Sequence[Mapping[str, Any]] = ()) -> Ensemble:
    """Build the members of an ensemble: each has `net`, `arguments` and `own`, as model cards have them."""
    try:
        parts = [(str(one["net"]), dict(one["arguments"]), float(one["own"])) for one in members]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"ensemble: a member has net, arguments and own, and this has not ({error})") from None
    if nested := [name for name, _, _ in parts if name == "ensemble"]:
        raise ValueError(f"ensemble: an {nested[0]} is not a member of another")
    return Ensemble([build(name, **arguments) for name, arguments, _ in parts], [own for *_, own in parts])


def _plugged(name: str, plugin: Any, arguments: dict[str, Any]) -> nn.Module:
    """Construct the network of another package."""
    if not callable(plugin):
        raise ValueError(f"{name} is not a network: its package is to register a function or class that makes one")
    net = _call(name, plugin, arguments)
    if not isinstance(net, nn.Module):
        raise ValueError(f"{name} is not a network: its package has made a {type(net).__name__}, not a torch.nn.Module")
    return net


def _monai_networks() -> dict[str, type[nn.Module]]:
    """MONAI's networks with the arguments that a segmentation network has, by our name."""
    try:
        from monai.networks import nets
    except ImportError as error:
        raise ValueError(f"names with {_PREFIX} need MONAI: pip install 'fpgm[models]'") from error
    needed = {"spatial_dims", "in_channels", "out_channels"}
    return {
        _PREFIX + name: cls
        for name, cls in inspect.getmembers(nets, inspect.isclass)
        # the name of the class itself, not one of its many aliases
        if name == cls.__name__ and issubclass(cls, nn.Module) and needed <= inspect.signature(cls).parameters.keys()
    }


def _call(name: str, network: Callable[..., nn.Module], arguments: dict[str, Any], *given: Any) -> nn.Module:
    """Construct the network, with a readable refusal of arguments that it does not take or still needs."""
    signature = inspect.signature(network)
    try:
        signature.bind(*given, **arguments)
    except TypeError as error:
        raise ValueError(f"{name}: {error}; its arguments are {', '.join(signature.parameters)}") from None
    try:
        return network(*given, **arguments)
    except Exception as error:  # whatever a network makes of wrong values; some of MONAI need a further library
        raise ValueError(f"{name}: {error}") from error
