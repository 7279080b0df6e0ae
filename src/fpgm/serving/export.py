"""A trained model for other programs, as ONNX or as a portable program of torch.

N images of S x S pixels. Each file is compared with the original before it is kept: one that differs too much is
refused, and none is left.
"""

from __future__ import annotations

import importlib.util
import logging
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from fpgm.data.pictures import prepare_image
from fpgm.data.synthetic import DOMAINS, MAX_SIZE, MIN_SIZE, phantom
from fpgm.files import atomic_path
from fpgm.model import load_model
from fpgm.runs.card import ModelCard
from fpgm.serving.onnx_engine import DIGEST, UNSEALED, OnnxEngine, seal
from fpgm.serving.onnx_sessions import CARD, IMAGE, LOGITS
from fpgm.serving.torch_engine import TorchEngine, foreground

Batch = NDArray[np.float32]
Planes = NDArray[np.float32]

CARD_FILE = "fpgm.json"  # the card inside a torch program
MAX_DIFFERENCE, LEAST_DICE = 1e-3, 0.999
LEAST_INT8_DICE = 0.8
_PER_DOMAIN = 4  # phantoms


@dataclass(frozen=True)
class Report:
    """How an exported model agrees with the original.

    Attributes:
        path: the file.
        size: its bytes.
        images: N, half of the images given if the others calibrated it.
        found: in how many of them the original sees any foreground.
        max_difference: the largest difference of a foreground probability.
        dice: Dice of both masks at a threshold of 0.5, averaged over images; two empty masks agree.
        least_dice: Dice of the worst image.
    """

    path: Path
    size: int
    images: int
    found: int
    max_difference: float
    dice: float
    least_dice: float


def export_onnx(
    model: Path, path: Path, *, int8: bool = False, pictures: Sequence[Image.Image] | None = None
) -> Report:
    """Write the model of a run or model folder as one ONNX file with a dynamic batch and its card inside.

    Args:
        model: the folder.
        path: the file to write, ``.onnx``.
        int8: compute in 8-bit integers: smaller and faster, and less exact.
        pictures: to compare on, and with `int8` every second one to calibrate; drawn phantoms if not given.
    """
    _check_suffix(path, ".onnx")
    if missing := _missing():
        raise ValueError(f"ONNX needs {', '.join(missing)}: pip install 'fpgm[export]'")
    net, card = load_model(model)
    check, calibration = comparison_images(pictures, card.size, calibrate=int8)
    with atomic_path(path) as draft, _quiet():
        proto = _to_onnx(net, card)
        if int8:
            proto = _quantise(proto, calibration)
        draft.write_bytes(seal(_with_card(proto, card).SerializeToString()))
        report = _check_agreement(
            model, OnnxEngine(draft, "cpu", "onnxruntime").probabilities, check, path, draft.stat().st_size
        )
        _refuse(report, int8)
    return report


def export_torch(model: Path, path: Path, *, pictures: Sequence[Image.Image] | None = None) -> Report:
    """Write the model as a ``.pt2`` program of `torch.export`, without pickles, that runs without this package.

    `torch.export.load(path).module()` maps images (B, 3, S, S) in [0, 1] to logits (B, K, S, S); the card is its extra
    file ``fpgm.json``. See `export_onnx`.
    """
    _check_suffix(path, ".pt2")
    net, card = load_model(model)
    check, _ = comparison_images(pictures, card.size, calibrate=False)
    with atomic_path(path) as draft, _quiet():
        with tempfile.TemporaryDirectory() as folder:  # the format insists on its suffix
            program = Path(folder) / path.name
            torch.export.save(_to_program(net, card), program, extra_files={CARD_FILE: card.model_dump_json()})
            draft.write_bytes(program.read_bytes())
            loaded = torch.export.load(program).module()

        def probabilities(batch: Batch) -> Planes:
            with torch.inference_mode():
                found: Planes = foreground(loaded(torch.from_numpy(batch))).numpy()
            return found

        report = _check_agreement(model, probabilities, check, path, draft.stat().st_size)
        _refuse(report, int8=False)
    return report


def _check_suffix(path: Path, suffix: str) -> None:
    if path.suffix != suffix:
        raise ValueError(f"{path} does not end with {suffix}: give such a name as --out")


def can_export() -> bool:
    """Whether all that `export_onnx` needs is installed."""
    return not _missing()


def _missing() -> list[str]:
    return [name for name in ("onnx", "onnxscript", "onnxruntime") if importlib.util.find_spec(name) is None]


def comparison_images(pictures: Sequence[Image.Image] | None, size: int, *, calibrate: bool) -> tuple[Batch, Batch]:
    """Images (N, 3, S, S) to compare on, and others to calibrate with, if asked for."""
    if pictures is None:
        side = min(max(size, MIN_SIZE), MAX_SIZE)
        count = _PER_DOMAIN * (2 if calibrate else 1)
        drawn = (phantom(domain, index, size=side).image for index in range(count) for domain in DOMAINS)
        pictures = [Image.fromarray(image) for image in drawn]
    if len(pictures) < (2 if calibrate else 1):
        raise ValueError(f"{len(pictures)} images are too few: give one, or two if some must calibrate int8")
    pixels = np.stack([prepare_image(picture, size) for picture in pictures])
    batch = np.divide(pixels.transpose(0, 3, 1, 2), 255, dtype=np.float32)
    return (batch[::2], batch[1::2]) if calibrate else (batch, batch[:0])


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporters' warnings to themselves: what counts is the comparison."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _to_program(net: nn.Module, card: ModelCard) -> torch.export.ExportedProgram:
    """Trace the network for any number of images; where its lines were traced is nobody's business."""
    example = torch.zeros(2, 3, card.size, card.size)
    for layer in net.modules():
        if getattr(layer, "inplace", False):  # the graph is the same without, and ONNX has it in two thirds of the time
            setattr(layer, "inplace", False)  # noqa: B010  # torch's type of an attribute is a tensor or a module
    try:
        program = torch.export.export(net, (example,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    except Exception as error:  # whatever a network does that cannot be traced
        reason = str(error).partition("\n")[0]
        raise ValueError(f"the network {card.net} cannot be exported: {reason}") from error
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    program.example_inputs = None  # would be a pickle
    return program


def _to_onnx(net: nn.Module, card: ModelCard) -> Any:
    """Return the ONNX graph, batch norm folded into convolutions."""
    program = torch.onnx.export(
        _to_program(net, card), input_names=[IMAGE], output_names=[LOGITS], dynamo=True, verbose=False
    )
    assert program is not None
    proto: Any = program.model_proto
    for value in (*proto.graph.input, *proto.graph.value_info, *proto.graph.output):
        sides = value.type.tensor_type.shape.dim
        if sides and sides[0].dim_param:
            sides[0].dim_param = "batch"
    return proto


def _quantise(proto: Any, calibration: Batch) -> Any:
    """Return the graph in 8-bit integers, their ranges taken from images (N, 3, S, S)."""
    import onnx
    from onnxruntime import quantization  # type: ignore[import-untyped]  # it has no types

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]  # nor has this
        def __init__(self) -> None:
            self._rest = iter(calibration)

        def get_next(self) -> dict[str, Batch] | None:
            image = next(self._rest, None)
            return None if image is None else {IMAGE: image[None]}

    with tempfile.TemporaryDirectory() as folder:
        quantised = Path(folder) / "int8.onnx"
        quantization.quantize_static(proto, quantised, Reader(), per_channel=True)
        return onnx.load(quantised)


def _with_card(proto: Any, card: ModelCard) -> Any:
    """Put the card inside, and a place for the hash; take out where each line was traced, which names folders."""
    import onnx

    del proto.metadata_props[:], proto.graph.metadata_props[:], proto.graph.value_info[:]
    for part in (*proto.graph.node, *proto.graph.input, *proto.graph.output, *proto.graph.initializer):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    onnx.helper.set_model_props(proto, {CARD: card.model_dump_json(), DIGEST: UNSEALED})
    onnx.checker.check_model(proto)
    return proto


def _check_agreement(model: Path, exported: Any, batch: Batch, path: Path, size: int) -> Report:
    """Compare with the original in float32, on the first image alone and on all together."""
    original = TorchEngine(model, "cpu").probabilities(batch)
    found = exported(batch)
    difference = max(np.abs(found - original).max(), np.abs(exported(batch[:1]) - original[:1]).max())
    left, right = original >= 0.5, found >= 0.5
    total = left.sum((1, 2)) + right.sum((1, 2))
    dice = np.where(total == 0, 1, 2 * (left & right).sum((1, 2)) / np.maximum(total, 1))
    seen = int(left.any((1, 2)).sum())
    return Report(path, size, len(batch), seen, float(difference), float(dice.mean()), float(dice.min()))


def _refuse(report: Report, int8: bool) -> None:
    least = LEAST_INT8_DICE if int8 else LEAST_DICE
    if report.dice >= least and (int8 or report.max_difference <= MAX_DIFFERENCE):
        return
    expected = f"a Dice of {least} at least" + ("" if int8 else f" and a difference of {MAX_DIFFERENCE} at most")
    raise ValueError(
        f"the exported model does not agree with the original: on {report.images} images probabilities differ by up to "
        f"{report.max_difference:.2g} and the masks' mean Dice is {report.dice:.4f}, expected {expected}; nothing was "
        + ("written. Try --images with your own, or leave out --int8" if int8 else "written")
    )
