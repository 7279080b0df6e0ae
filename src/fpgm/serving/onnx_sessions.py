"""What computes an ONNX file: onnxruntime or OpenVINO. B images of S x S pixels; K classes.

`OMP_NUM_THREADS` is their number of threads, as it is torch's; without it each takes its own default.
"""

from __future__ import annotations

import os
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

IMAGE, LOGITS, CARD = "image", "logits", "fpgm"  # the input, the output, the card's key in the metadata
FLOAT32 = "float32"

Runtime = Literal["onnxruntime", "openvino", "openvino-bfloat16"]
End = tuple[str, str, list[Any]]  # name, type of its values, shape without the batch


class Session(Protocol):
    """A loaded file.

    Attributes:
        name: what computes.
        card: text of the model's card in the file; empty if there is none.
        inputs: what the graph takes.
        outputs: what it gives.
    """

    name: Runtime
    card: str
    inputs: list[End]
    outputs: list[End]

    def run(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits (B, K, S, S) of images (B, 3, S, S) in [0, 1]."""


def open_session(data: bytes, device: str, path: Path, runtime: Runtime | None = None) -> Session:
    """Load the bytes of an ONNX file.

    Args:
        data: the bytes.
        device: auto, cpu, or cuda where onnxruntime was built for it.
        path: named in messages.
        runtime: what computes; onnxruntime if not given, or OpenVINO where only that is installed.
    """
    chosen = runtime or ("openvino" if not _is_installed("onnxruntime") and _is_installed("openvino") else None)
    if chosen == "openvino" or chosen == "openvino-bfloat16":
        return OpenvinoSession(data, device, path, chosen)
    return OnnxruntimeSession(data, device, path)


class OnnxruntimeSession:
    """A file in onnxruntime; see `Session`."""

    name: Runtime = "onnxruntime"

    def __init__(self, data: bytes, device: str, path: Path) -> None:
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
        options.intra_op_num_threads = thread_count() or 0
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # leave shared cores to others
        try:
            self._session = onnxruntime.InferenceSession(data, options, providers=[providers[wanted]])
        except Exception as error:  # its kinds have no common one of their own
            raise _unloadable(path, "onnxruntime", error) from None
        self.card = str(self._session.get_modelmeta().custom_metadata_map.get(CARD, ""))
        self.inputs, self.outputs = (
            [(one.name, one.type.replace("tensor(float)", FLOAT32), one.shape[1:]) for one in side]
            for side in (self._session.get_inputs(), self._session.get_outputs())
        )

    def run(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits (B, K, S, S) of images (B, 3, S, S) in [0, 1]."""
        logits: NDArray[np.float32] = self._session.run([LOGITS], {IMAGE: batch})[0]
        return logits


class OpenvinoSession:
    """A file in OpenVINO on the processor, in float32 or, by its name, in bfloat16; see `Session`."""

    def __init__(
        self, data: bytes, device: str, path: Path, name: Literal["openvino", "openvino-bfloat16"] = "openvino"
    ) -> None:
        self.name: Runtime = name
        if device not in ("auto", "cpu"):
            raise ValueError(f"--device {device} cannot be used here: OpenVINO computes on the processor alone")
        openvino = import_openvino()
        precision = "f32" if name == "openvino" else "bf16"
        settings: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": precision}
        if threads := thread_count():
            settings["INFERENCE_NUM_THREADS"] = threads
        try:
            core = openvino.Core()
            model = core.read_model(data)
            self.card = str(model.get_rt_info(["framework", CARD]).value) if _has_card(model) else ""
            self._model = core.compile_model(model, "CPU", settings)
        except RuntimeError as error:
            raise _unloadable(path, "OpenVINO", error) from None
        self.inputs, self.outputs = ([_end(one) for one in side] for side in (model.inputs, model.outputs))
        self._requests = threading.local()  # one computes for one thread at a time

    def run(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits (B, K, S, S) of images (B, 3, S, S) in [0, 1]."""
        if not hasattr(self._requests, "own"):
            self._requests.own = self._model.create_infer_request()
        logits: NDArray[np.float32] = self._requests.own.infer({IMAGE: batch}, share_inputs=True)[LOGITS]
        return logits


def import_openvino() -> Any:
    """Import OpenVINO without its telemetry, which sends an event to another host whenever it is imported."""
    if not _is_installed("openvino"):
        raise ValueError("OpenVINO is not installed: pip install 'fpgm[openvino]'")
    blocked = "openvino_telemetry"
    absent = blocked not in sys.modules
    if absent:
        sys.modules[blocked] = None  # type: ignore[assignment]  # so that its import fails, which OpenVINO expects
    try:
        import openvino
    finally:
        if absent:
            del sys.modules[blocked]
    return openvino


def thread_count() -> int | None:
    """Return the number of threads that `OMP_NUM_THREADS` asks for; None if it does not."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else None


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ImportError:
        return False


def _has_card(model: Any) -> bool:
    return bool(model.has_rt_info(["framework", CARD]))


def _end(port: Any) -> End:
    sides = [side.get_length() if side.is_static else None for side in port.partial_shape][1:]
    return port.any_name, port.element_type.to_string().replace("f32", FLOAT32), sides


def _unloadable(path: Path, runtime: str, error: Exception) -> ValueError:
    reason = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
    return ValueError(f"{path} cannot be loaded by {runtime}: {reason}; export the model again")
