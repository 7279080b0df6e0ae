"""Tensors and a JSON record as one safetensors file, written atomically; no pickle is ever read.

A file is refused when it is cut short or of another kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fpgm._version import __version__
from fpgm.files import atomic_path, check_inside, parse_json

_HEADER = "fpgm"  # one entry: of several the order on the disk would be random, and with it the file's hash


def write_tensors(path: Path, tensors: dict[str, Tensor], kind: str, content: dict[str, Any]) -> None:
    """Write tensors and a JSON content as one file."""
    header = json.dumps({"format": kind, "package_version": __version__, "content": content})
    plain = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    with atomic_path(path) as draft:
        try:
            save_file(plain, draft, {_HEADER: header})
        except SafetensorError as error:  # plain tensors can be written wherever a disk takes them
            raise OSError(f"{path} cannot be written ({error}); free some space and go on") from None


def non_finite(tensors: Mapping[str, Tensor]) -> str:
    """Name the tensors that have a value which is not finite, the first and how many more; nothing if none has."""
    numbers = {name: value for name, value in tensors.items() if value.is_floating_point()}
    bad = [name for name, value in numbers.items() if not bool(torch.isfinite(value.float()).all())]
    return f"{bad[0]}{f' and {len(bad) - 1} more' if len(bad) > 1 else ''}" if bad else ""


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor of a file; the tensors themselves are not read."""
    try:
        with safe_open(path, "pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 (as below)
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or cut short ({error})") from None


def read_some_tensors(path: Path, names: Iterable[str]) -> dict[str, Tensor]:
    """Read the tensors of these names from a safetensors file of any origin; the others take no memory."""
    try:
        with safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or cut short ({error})") from None


def read_tensors(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_tensors` wrote, refusing anything else."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    check_inside(path, path.parent)
    try:
        with safe_open(path, "pt") as file:
            header = parse_json((file.metadata() or {}).get(_HEADER, "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is not a mapping)
    except (SafetensorError, ValueError) as error:
        raise ValueError(f"{path} is damaged or cut short ({error})") from None
    found = header.get("format") if isinstance(header, dict) else None
    if found != kind or "content" not in header:
        raise ValueError(f"{path} is not a file of kind {kind}, but {found or 'without a kind'}")
    return tensors, header["content"]
