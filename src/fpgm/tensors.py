"""Tensors and a JSON record as one safetensors file, written atomically; no pickle is ever read.

A file is refused when it is cut short or of another kind.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fpgm._version import __version__
from fpgm.files import atomic_path


def write_tensors(path: Path, tensors: dict[str, Tensor], kind: str, content: dict[str, Any]) -> None:
    """Write tensors and a JSON content as one file."""
    metadata = {"format": kind, "package_version": __version__, "content": json.dumps(content)}
    plain = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    with atomic_path(path) as draft:
        save_file(plain, draft, metadata)


def read_tensors(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_tensors` wrote, refusing anything else."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or cut short ({error})") from None
    if metadata.get("format") != kind:
        raise ValueError(f"{path} is not a file of kind {kind}, but {metadata.get('format', 'without a kind')}")
    return tensors, json.loads(metadata["content"])
