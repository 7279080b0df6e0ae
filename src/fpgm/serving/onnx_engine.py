"""A model that `fpgm export` wrote as ONNX, computed by onnxruntime; torch is not needed."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fpgm.runs.card import ModelCard, parse_card
from fpgm.serving.findings import check_finite

CARD, DIGEST = "fpgm", "fpgm_sha256"  # keys of the metadata inside the file
UNSEALED = "0" * 64
IMAGE, LOGITS = "image", "logits"


class OnnxEngine:
    """The network of a ``.onnx`` file; one that was changed, cut short or made by another program is refused.

    Args:
        path: the file.
        device: auto, cpu, or cuda where onnxruntime was built for it.
    """

    def __init__(self, path: Path, device: str = "auto") -> None:
        data = _read(path)
        self.identity = digest(data) or ""
        if not self.identity:
            raise ValueError(f"{path} is not an ONNX file of `fpgm export`: export the model with this package")
        if hashlib.sha256(data.replace(self.identity.encode(), UNSEALED.encode())).hexdigest() != self.identity:
            raise ValueError(f"{path} is not as it was written: it was changed or cut short; export or copy it again")
        self._session = _session(data, device, path)
        self.card: ModelCard = parse_card(self._session.get_modelmeta().custom_metadata_map.get(CARD, ""), str(path))
        self._check(path)

    def _check(self, path: Path) -> None:
        """Refuse a graph that cannot be what its card says; whoever changes a file can also write its hash anew."""
        ends = [
            [(one.name, one.type, one.shape[1:]) for one in side]
            for side in (self._session.get_inputs(), self._session.get_outputs())
        ]
        sides = [self.card.size, self.card.size]
        kind = "tensor(float)"
        if ends != [[(IMAGE, kind, [3, *sides])], [(LOGITS, kind, [len(self.card.classes), *sides])]]:
            raise ValueError(f"{path} does not map images to logits as its card says: export the model again")

    def probabilities(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Foreground probabilities (B, S, S) of images (B, 3, S, S) in [0, 1]."""
        logits: NDArray[np.float32] = self._session.run([LOGITS], {IMAGE: batch})[0]
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


def _session(data: bytes, device: str, path: Path) -> Any:
    try:
        import onnxruntime  # type: ignore[import-untyped]  # it has no types
    except ImportError:
        raise ValueError("a model in ONNX needs onnxruntime: pip install onnxruntime") from None
    offered = onnxruntime.get_available_providers()
    providers = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
    best = "cuda" if providers["cuda"] in offered else "cpu"
    wanted = best if device == "auto" else device
    if wanted not in providers or providers[wanted] not in offered:
        raise ValueError(
            f"--device {device} cannot be used here: onnxruntime offers {', '.join(offered)}; try --device auto"
        )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what is an error is raised
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # leave shared cores to others
    try:
        return onnxruntime.InferenceSession(data, options, providers=[providers[wanted]])
    except Exception as error:  # its kinds have no common one of their own
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{path} cannot be loaded by onnxruntime: {reason}; export the model again") from None
