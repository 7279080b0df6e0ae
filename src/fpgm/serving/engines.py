"""Engines by name, and the one that a model folder records; torch is imported only for its own."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import get_args

from fpgm.runs.card import model_folder, read_card
from fpgm.runs.engine import ENGINE, ONNX, EngineName, read_engine
from fpgm.serving.onnx_engine import OnnxEngine
from fpgm.serving.predictor import Engine

ENGINES: tuple[EngineName, ...] = get_args(EngineName)
# of those that read ONNX
EXTRAS: dict[EngineName, str] = {"onnxruntime": "export", "openvino": "openvino", "openvino-bfloat16": "openvino"}


def is_installed(engine: EngineName) -> bool:
    """Whether what an engine needs can be imported."""
    return find_spec(engine.partition("-")[0]) is not None


def open_engine(folder: Path, name: EngineName, onnx: Path | None = None) -> Engine:
    """Return an engine of a model folder on the processor.

    Args:
        folder: model folder or run folder.
        name: name of the engine.
        onnx: the model as ONNX, for the engines that read it; ``engine.onnx`` in the folder if not given.
    """
    if name != "torch" and name != "torch-bfloat16":
        return OnnxEngine(onnx or model_folder(folder) / ONNX, "cpu", name)
    from fpgm.serving.torch_engine import TorchEngine

    return TorchEngine(folder, "cpu", "bfloat16" if name == "torch-bfloat16" else "float32")


def recorded_engine(path: Path, device: str) -> Engine | None:
    """Return the engine that `fpgm export --engine` chose for a run or model folder.

    None if none was chosen, if its package is missing here, or if a GPU is to compute.
    """
    folder = model_folder(path)
    if device not in ("auto", "cpu") or not (folder / ENGINE).is_file():
        return None
    record = read_engine(folder, read_card(folder).weights_sha256)
    if record is None or not is_installed(record.engine) or (device == "auto" and has_gpu()):
        return None
    if record.onnx_sha256 and not (folder / ONNX).is_file():
        raise ValueError(f"{folder} lacks {ONNX}, which its {ENGINE} names: copy the whole folder again")
    engine = open_engine(folder, record.engine)
    if isinstance(engine, OnnxEngine) and engine.sha256 != record.onnx_sha256:
        raise ValueError(f"{folder / ONNX} is not the file that {ENGINE} describes: copy the whole folder again")
    return engine


def has_gpu() -> bool:
    """Whether torch is installed and would compute on something else than the processor."""
    try:
        from fpgm.model import choose_device
    except ImportError:
        return False
    return choose_device("auto").type != "cpu"
