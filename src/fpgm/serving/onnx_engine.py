"""A model that `fpgm export` wrote as ONNX, computed by onnxruntime or OpenVINO; torch is not needed."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fpgm.runs.card import ModelCard, parse_card
from fpgm.serving.findings import check_finite
from fpgm.serving.onnx_sessions import FLOAT32, IMAGE, LOGITS, Runtime, open_session

DIGEST = "fpgm_sha256"  # its key in the metadata
UNSEALED = "0" * 64


class OnnxEngine:
    """The network of a ``.onnx`` file; one that was changed, cut short or made by another program is refused.

    Args:
        path: the file.
        device: auto, cpu, or cuda where onnxruntime was built for it.
        runtime: what computes; onnxruntime if not given, or OpenVINO where only that is installed.

    Attributes:
        sha256: hash of the file.
        name: what computes.
    """

    def __init__(self, path: Path, device: str = "auto", runtime: Runtime | None = None) -> None:
        data = _read(path)
        self.sha256 = digest(data) or ""
        if not self.sha256:
            raise ValueError(f"{path} is not an ONNX file of `fpgm export`: export the model with this package")
        if hashlib.sha256(data.replace(self.sha256.encode(), UNSEALED.encode())).hexdigest() != self.sha256:
            raise ValueError(f"{path} is not as it was written: it was changed or cut short; export or copy it again")
        self._session = open_session(data, device, path, runtime)
        self.name: str = self._session.name
        self.identity = self.sha256 if self.name == "onnxruntime" else f"{self.sha256} {self.name}"
        self.card: ModelCard = parse_card(self._session.card, str(path))
        self._check(path)

    def _check(self, path: Path) -> None:
        """Refuse a graph that cannot be what its card says; whoever changes a file can also write its hash anew."""
        sides = [self.card.size, self.card.size]
        expected = [(IMAGE, FLOAT32, [3, *sides])], [(LOGITS, FLOAT32, [len(self.card.classes), *sides])]
        if (self._session.inputs, self._session.outputs) != expected:
            raise ValueError(f"{path} does not map images to logits as its card says: export the model again")

    def probabilities(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Foreground probabilities (B, S, S) of images (B, 3, S, S) in [0, 1]."""
        logits = self._session.run(batch)
        with np.errstate(invalid="ignore"):  # what is not finite is refused below
            powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        found: NDArray[np.float32] = powers[:, 1:].sum(axis=1) / powers.sum(axis=1)
        return check_finite(found)


def digest(data: bytes) -> str | None:
    """Find the hash that a file carries: that of its own bytes, with zeros where the hash stands."""
    # a protobuf entry: the key, then field 2 of 64 bytes
    found = re.findall(re.escape(DIGEST.encode()) + rb"\x12\x40([0-9a-f]{64})", data)
    return found[0].decode() if len(found) == 1 else None


def seal(data: bytes) -> bytes:
    """Write the hash of a file's bytes in the place that is kept for it."""
    assert digest(data) == UNSEALED and data.count(UNSEALED.encode()) == 1
    return data.replace(UNSEALED.encode(), hashlib.sha256(data).hexdigest().encode())


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    return path.read_bytes()
