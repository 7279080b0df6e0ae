"""Choose what computes a model on this processor: the fastest engine whose masks are those of torch in float32.

N images of S x S pixels. All engines are timed in one run, taking turns, with the model itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from fpgm.data.batches.pool import Pool
from fpgm.data.splits.split import Split, split_folder
from fpgm.data.store import open_stores
from fpgm.files import atomic_path
from fpgm.model import choose_device
from fpgm.pacing import take_turns
from fpgm.regions import TOUCHING, Mask
from fpgm.runs.card import ModelCard, model_folder, read_card
from fpgm.runs.config import read_config
from fpgm.runs.engine import ENGINE, LEAST_DICE, ONNX, EngineName, EngineRecord, EngineTiming, write_engine
from fpgm.runs.folder import RunFolder
from fpgm.serving.engines import ENGINES, EXTRAS, is_installed, open_engine
from fpgm.serving.export import can_export, comparison_images, export_onnx
from fpgm.serving.onnx_engine import OnnxEngine
from fpgm.serving.predictor import BATCH, Engine, Predictor
from fpgm.serving.torch_engine import has_bfloat16

Batch = NDArray[np.float32]
Advance = Callable[[int, int], None]

MOST_IMAGES = 64  # of a run's validation images, evenly spaced
_ROUNDS = {1: 9, BATCH: 4}  # by the number of images in a pass


class _Images(NamedTuple):
    batch: Batch
    source: str


def choose_engine(
    model: Path,
    engine: EngineName | Literal["auto"] = "auto",
    *,
    pictures: Sequence[Image.Image] | None = None,
    advance: Advance = lambda done, total: None,
) -> EngineRecord:
    """Time engines, compare their masks with those of torch in float32, and record one in the model folder.

    An engine agrees if the Dice of the two masks is at least 0.999 on every image and it finds no polyp more or less;
    masks are those of a threshold of 0.5, without specks. Of those that agree, the one that takes the least time for
    one image is recorded. `load_predictor`, `fpgm predict` and `fpgm serve` use it from then on.

    Args:
        model: run folder or model folder.
        engine: engine to record if it agrees; auto tries all that are installed, bfloat16 only where the processor has
            it.
        pictures: to compare on; if not given, validation images of the run, or phantoms where these are not at hand.
        advance: called with how many engines are done, and how many there are.
    """
    folder = model_folder(model)
    card = read_card(folder)
    names = _candidates(engine, card)
    if choose_device("auto").type != "cpu":
        raise ValueError(
            "an engine is for the processor, and this machine has a GPU, on which torch computes by itself"
        )
    images = _images(model, card, pictures)
    with tempfile.TemporaryDirectory() as temporary:
        onnx = Path(temporary) / ONNX
        if any(name in EXTRAS for name in names):
            export_onnx(model, onnx, pictures=pictures)
        engines = {name: open_engine(model, name, onnx) for name in names}
        timings = _measure(engines, images, advance)
        chosen = _choose(engine, timings)
        used = engines[chosen]
        record = EngineRecord(
            engine=chosen,
            weights_sha256=card.weights_sha256,
            onnx_sha256=used.sha256 if isinstance(used, OnnxEngine) else "",
            threads=torch.get_num_threads(),
            images=len(images.batch),
            source=images.source,
            timings=tuple(timings),
        )
        (folder / ENGINE).unlink(missing_ok=True)  # no record may name a file that is not there
        if record.onnx_sha256:
            with atomic_path(folder / ONNX) as draft:
                draft.write_bytes(onnx.read_bytes())
        else:
            (folder / ONNX).unlink(missing_ok=True)
        write_engine(folder, record)
    return record


def _candidates(engine: EngineName | Literal["auto"], card: ModelCard) -> list[EngineName]:
    """Return the engines to time, torch first."""
    combined = card.net == "ensemble"
    if engine == "auto":
        names = [name for name in ENGINES if is_installed(name) and not (combined and name in EXTRAS)]
        usable = [name for name in names if not name.endswith("-bfloat16") or has_bfloat16()]
        return usable if can_export() else [name for name in usable if name not in EXTRAS]
    if not is_installed(engine):
        raise ValueError(f"{engine} is not installed: pip install 'fpgm[{EXTRAS[engine]}]'")
    if combined and engine in EXTRAS:
        raise ValueError(f"a combined model says where its members disagree, which {engine} cannot: use torch")
    return ["torch"] if engine == "torch" else ["torch", engine]


def _images(model: Path, card: ModelCard, pictures: Sequence[Image.Image] | None) -> _Images:
    """Images (N, 3, S, S): those given, or validation images, or phantoms."""
    if pictures is None and (stored := _validation(model, card)) is not None:
        pixels = np.divide(stored.transpose(0, 3, 1, 2), 255, dtype=np.float32)
        return _Images(pixels, "validation images of the run")
    batch, _ = comparison_images(pictures, card.size, calibrate=False)
    return _Images(batch, "phantoms" if pictures is None else "images given")


def _validation(model: Path, card: ModelCard) -> NDArray[np.uint8] | None:
    """Validation images (N, S, S, 3) of a run; None of a model folder, and where they are no longer there."""
    if not RunFolder(model).config.is_file():
        return None
    settings = read_config(model)["data"]
    try:
        split = Split.load(split_folder(Path(settings["store"]), str(settings["split"])))
        if not split.validation:
            return None
        pool = Pool(open_stores(Path(settings["store"])), split.validation)
    except (OSError, ValueError):  # moved, or another store by now
        return None
    if pool.size != card.size:
        return None
    return pool.images(np.unique(np.linspace(0, len(pool) - 1, MOST_IMAGES).round().astype(int)))


def _measure(engines: dict[EngineName, Engine], images: _Images, advance: Advance) -> list[EngineTiming]:
    """Compare all with the first, then time them in turns."""
    masks = {}
    for number, (name, engine) in enumerate(engines.items()):
        masks[name] = _masks(engine, images.batch)
        advance(number + 1, len(engines) + 1)
    exact = next(iter(masks.values()))
    if not any(mask.any() for mask in exact):
        raise ValueError(
            f"the model finds nothing in the {len(exact)} {images.source}, so that masks cannot be compared: give "
            "images with polyps as --images"
        )
    seconds = {}
    for count, rounds in _ROUNDS.items():
        batch = np.ascontiguousarray(np.resize(images.batch, (count, *images.batch.shape[1:])))
        sides = {name: partial(engine.probabilities, batch) for name, engine in engines.items()}
        seconds[count] = take_turns(sides, rounds, warm_up=1)
    advance(len(engines) + 1, len(engines) + 1)
    return [
        EngineTiming(
            engine=name,
            one=seconds[1][name],
            eight=seconds[BATCH][name],
            least_dice=min(map(_dice, exact, found)),
            other_polyps=sum(_count(left) != _count(right) for left, right in zip(exact, found, strict=True)),
        )
        for name, found in masks.items()
    ]


def _masks(engine: Engine, batch: Batch) -> list[Mask]:
    predictor = Predictor(engine)
    parts = [engine.probabilities(batch[start : start + BATCH]) for start in range(0, len(batch), BATCH)]
    return [predictor.mask(plane) for plane in np.concatenate(parts)]


def _dice(left: Mask, right: Mask) -> float:
    total = int(left.sum() + right.sum())
    return 2 * int((left & right).sum()) / total if total else 1.0


def _count(mask: Mask) -> int:
    return int(ndimage.label(mask, TOUCHING)[1])


def _choose(engine: EngineName | Literal["auto"], timings: Sequence[EngineTiming]) -> EngineName:
    """Return the fastest that agrees, or the one asked for if it does."""
    if engine == "auto":
        return min((one for one in timings if one.agrees), key=lambda one: one.one).engine
    asked = timings[-1]
    if not asked.agrees:
        raise ValueError(
            f"{engine} does not agree with torch in float32: on the worst image the masks have a Dice of "
            f"{asked.least_dice:.4f}, expected {LEAST_DICE} at least, and {asked.other_polyps} images have more or "
            "fewer polyps; nothing was recorded"
        )
    return engine
