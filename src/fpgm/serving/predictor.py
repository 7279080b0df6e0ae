"""The predictor: pictures of any size in, masks and probabilities of that size out.

B pictures of H x W pixels, each its own; S x S is what the network sees. Neither training code nor data is needed,
and without torch a model that was exported to ONNX still predicts.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fpgm.calibration import temper
from fpgm.data.pictures import prepare_image, read_picture
from fpgm.regions import Mask, clean
from fpgm.runs.card import ModelCard
from fpgm.serving.findings import Finding, Plane, describe

__all__ = ["Engine", "Finding", "Mask", "Picture", "Plane", "Predicted", "Predictor", "describe", "load_predictor"]

Picture: TypeAlias = "NDArray[np.uint8] | Image.Image | str | os.PathLike[str]"
Batch: TypeAlias = NDArray[np.float32]
BATCH = 8


class Engine(Protocol):
    """What computes.

    Attributes:
        card: card of the model.
        identity: hash that changes when the model's numbers do.
        name: what computes: torch, torch-bfloat16, onnxruntime, openvino or openvino-bfloat16.

    Examples:
        >>> class Red:  # the red of an image
        ...     identity = name = "red"
        ...     card = ModelCard(net="unet", arguments={}, size=16, training={})
        ...
        ...     def probabilities(self, batch):
        ...         return batch[:, 0]
        >>> masks, probabilities = Predictor(Red()).predict([Image.new("RGB", (32, 32), (255, 0, 0))])
        >>> bool(masks[0].all())
        True
    """

    card: ModelCard
    identity: str
    name: str

    def probabilities(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Foreground probabilities (B, S, S), 1 - P(background), of images (B, 3, S, S) in [0, 1].

        They are as the network gives them; `Predictor` applies the temperature of the card.
        """


class Predicted(NamedTuple):
    """One picture of H x W pixels.

    Attributes:
        mask: the cleaned mask (H, W).
        probability: foreground probabilities (H, W).
        disagreement: standard deviation (H, W) of the members' probabilities of a combined model; else None.

    Examples:
        >>> found = Predicted(np.ones((2, 2), bool), np.full((2, 2), 0.9, np.float32), None)
        >>> found.mask.sum()
        np.int64(4)
    """

    mask: Mask
    probability: Plane
    disagreement: Plane | None


class Computed(NamedTuple):
    """Probabilities (S, S) of one picture as the network gives them, and the disagreement of members, if it has any."""

    probability: Plane
    disagreement: Plane | None


class Predictor:
    """Masks and probabilities of pictures.

    The temperature of the model's card is applied last, at the picture's own size, so that it changes no mask at a
    threshold of 0.5.

    Args:
        engine: engine that computes the probabilities.
        threshold: a pixel is foreground where its probability, at the picture's own size, is at least this.
        average: average over the eight flips and turns of each picture: steadier, and eight times the work.
        keep_largest: keep the largest polyp of a picture alone.
        min_area: leave out polyps of fewer pixels of the picture; if not given, of fewer than the model's card says.
        batch_size: pictures in a pass.

    Examples:
        >>> predictor = fpgm.load_predictor("run")  # doctest: +SKIP
        >>> masks, probabilities = predictor.predict([Image.open("frame.jpg")])  # doctest: +SKIP
        >>> masks[0].shape  # of the picture, not of the network  # doctest: +SKIP
        (1080, 1920)
    """

    def __init__(
        self,
        engine: Engine,
        *,
        threshold: float = 0.5,
        average: bool = False,
        keep_largest: bool = False,
        min_area: int | None = None,
        batch_size: int = BATCH,
    ) -> None:
        if not 0 < threshold <= 1:
            raise ValueError(f"the threshold is {threshold}: give a probability above 0 and up to 1")
        if (min_area or 0) < 0 or batch_size < 1:
            raise ValueError(f"min_area is {min_area}, batch_size {batch_size}: expected from 0 and from 1 upwards")
        self.engine, self.threshold, self.average = engine, threshold, average
        self.keep_largest, self.min_area, self.batch_size = keep_largest, min_area, batch_size

    def predict(self, images: Sequence[Picture]) -> tuple[list[Mask], list[Plane]]:
        """Return a mask (H, W) and foreground probabilities (H, W) in [0, 1] for each picture, at its own size.

        Args:
            images: arrays (H, W, 3) or (H, W) in 0 … 255, Pillow pictures, or paths; they may differ in size. A file
                is turned upright by its EXIF tag, a picture in memory is taken as it is.
        """
        found = self.examine(images)
        return [one.mask for one in found], [one.probability for one in found]

    def examine(self, images: Sequence[Picture]) -> list[Predicted]:
        """Return what `predict` does, and where the members of a combined model disagree.

        That is `prepare`, `compute` and `finish`, which a program may also call beside each other in threads.
        """
        found: list[Predicted] = []
        for start in range(0, len(images), self.batch_size):
            pictures = [_open(image) for image in images[start : start + self.batch_size]]
            computed = self.compute(self.prepare(pictures))
            found += [self.finish(plane, picture.size) for plane, picture in zip(computed, pictures, strict=True)]
        return found

    def prepare(self, pictures: Sequence[Image.Image]) -> Batch:
        """Return the network's input (B, 3, S, S) of pictures, prepared exactly as in training."""
        pixels = np.stack([prepare_image(picture, self.engine.card.size) for picture in pictures])
        return np.divide(pixels.transpose(0, 3, 1, 2), 255, dtype=np.float32)

    def compute(self, batch: Batch) -> list[Computed]:
        """Return what the network says of each image of a batch (B, 3, S, S); nearly all the time is spent here."""
        planes, spreads = self._averaged(batch) if self.average else self._compute(batch)
        return [Computed(plane, None if spreads is None else spreads[row]) for row, plane in enumerate(planes)]

    def finish(self, computed: Computed, size: tuple[int, int]) -> Predicted:
        """Return probabilities and mask at the picture's own size, W x H."""
        plane = temper(_resize(computed.probability, size), self.engine.card.temperature)
        spread = None if computed.disagreement is None else _resize(computed.disagreement, size)
        return Predicted(self.mask(plane), plane, spread)

    def mask(self, probability: Plane) -> Mask:
        """Return the cleaned mask (H, W) of probabilities (H, W)."""
        least = self.engine.card.least_pixels(probability.size) if self.min_area is None else self.min_area
        return clean(probability >= self.threshold, keep_largest=self.keep_largest, min_area=least)

    def _averaged(self, batch: Batch) -> tuple[Plane, Plane | None]:
        """Probabilities and disagreement (B, S, S), averaged over eight flips and turns."""
        total = np.zeros((2, len(batch), *batch.shape[2:]), np.float64)
        spreads: Plane | None = None
        for flipped in (False, True):
            for quarters in range(4):
                view = np.rot90(batch[..., ::-1] if flipped else batch, quarters, (2, 3))
                planes, spreads = self._compute(np.ascontiguousarray(view))
                both = np.stack([planes, planes if spreads is None else spreads])
                back = np.rot90(both, -quarters, (2, 3))
                total += back[..., ::-1] if flipped else back
        mean = (total / 8).astype(np.float32)
        return mean[0], None if spreads is None else mean[1]

    def _compute(self, batch: Batch) -> tuple[Plane, Plane | None]:
        if getattr(self.engine, "disagrees", False):
            return self.engine.with_disagreement(batch)  # type: ignore[attr-defined]  # of torch alone
        return self.engine.probabilities(batch), None


def load_predictor(
    path: str | os.PathLike[str],
    *,
    device: str = "auto",
    threshold: float = 0.5,
    average: bool = False,
    keep_largest: bool = False,
    min_area: int | None = None,
    precision: str = "float32",
) -> Predictor:
    """Load a run folder, a model folder, or a ``.onnx`` file that `fpgm export` made; see `Predictor`.

    Args:
        path: run folder, model folder or .onnx file; or ``"org/name"``, a model of the Hugging Face Hub, which is
            downloaded (extra `hub`).
        device: auto, cpu, cuda, cuda:1, mps …
        threshold: least probability of the foreground.
        average: average over flips and turns.
        keep_largest: keep the largest polyp alone.
        min_area: least pixels of a polyp; if not given, the model's own, which validation images chose.
        precision: precision of a model folder: float32, as in evaluation; bfloat16; or auto, which takes bfloat16 where
            the processor has it. An ONNX file has its own.

    Examples:
        >>> predictor = fpgm.load_predictor("run", average=True)  # doctest: +SKIP
    """
    if "/" in str(path) and not Path(path).exists():
        path = _fetched(path)
    engine = load_engine(Path(path), device, precision)
    return Predictor(engine, threshold=threshold, average=average, keep_largest=keep_largest, min_area=min_area)


def _fetched(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Return the folder of a model of the Hub, or the path itself if it is not the name of one."""
    from fpgm.serving.hub import fetch, is_hub_name

    return fetch(str(path)) if is_hub_name(path) else path


def load_engine(path: Path, device: str = "auto", precision: str = "float32") -> Engine:
    """Return what computes the model at a path; a model in ONNX needs no torch.

    That of a folder is the engine that `fpgm export --engine` recorded, unless another device or precision is asked
    for; torch if none was.
    """
    if path.suffix.casefold() == ".onnx":
        if precision == "bfloat16":
            raise ValueError(f"{path} has its own precision: bfloat16 is for run and model folders")
        from fpgm.serving.onnx_engine import OnnxEngine

        return OnnxEngine(path, device)
    if precision == "float32":
        from fpgm.serving.engines import recorded_engine

        if (engine := recorded_engine(path, device)) is not None:
            return engine
    try:
        from fpgm.serving.torch_engine import TorchEngine
    except ImportError as error:
        raise ValueError(f"{path} needs torch ({error}): install it, or export the model to ONNX elsewhere") from None
    return TorchEngine(path, device, precision)


def _open(image: Picture) -> Image.Image:
    if isinstance(image, Image.Image):
        return image
    if isinstance(image, np.ndarray):
        if image.dtype != np.uint8 or image.ndim not in (2, 3) or image.shape[2:] not in ((), (3,)) or not image.size:
            raise ValueError(f"an array is {image.dtype} {image.shape}: give uint8 (H, W, 3) or (H, W) in 0 … 255")
        return Image.fromarray(np.ascontiguousarray(image))
    return read_picture(Path(image).read_bytes())


def _resize(plane: Plane, size: tuple[int, int]) -> Plane:
    """Resize probabilities (S, S) to W x H: bilinear, averaging where it reduces."""
    resized = Image.fromarray(plane).resize(size, Image.Resampling.BILINEAR)
    return np.array(resized, np.float32)
