"""The shapes of a network's tensors, without the memory they would take."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as hooks
from torch.overrides import TorchFunctionMode

from fpgm.nets.zoo import build

MOST_PARTS = 20_000  # modules and parameters; the largest network of MONAI has a few thousand
Shapes = dict[str, tuple[int, ...]]


class _NumbersOnCpu(TorchFunctionMode):
    """Let networks read the few numbers that they compute with `linspace`; on `meta` there are none to read."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **{**(kwargs or {}), **({"device": "cpu"} if func is torch.linspace else {})})


def network_shapes(name: str, /, **arguments: Any) -> Shapes:
    """Return the shape of each entry of the `state_dict` of a network; see `build`.

    It is built on the device `meta`, where tensors have no memory; one of more than `MOST_PARTS` parts is refused.
    """
    parts = 0

    def count(module: nn.Module, name: str, part: object) -> None:
        nonlocal parts
        parts += 1
        if parts > MOST_PARTS:
            raise ValueError(f"it has more than {MOST_PARTS:,} parts")

    with ExitStack() as held:
        for register in (
            hooks.register_module_module_registration_hook,
            hooks.register_module_parameter_registration_hook,
        ):
            held.callback(register(count).remove)
        held.enter_context(torch.device("meta"))
        held.enter_context(_NumbersOnCpu())
        net = build(name, **arguments)
    return {key: tuple(value.shape) for key, value in net.state_dict().items()}
