"""From a picture to the bytes of an answer: numbers as JSON, pictures as PNG."""

from __future__ import annotations

import io
from base64 import b64encode
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fpgm.data.synthetic import DOMAINS, phantom
from fpgm.regions import Mask, clean
from fpgm.serving.findings import Plane, describe
from fpgm.serving.pictures import mask_picture, overlay, probability_picture
from fpgm.serving.predictor import Predictor
from fpgm.serving.web.messages import Alignment, Output, Polyp, Prediction

if TYPE_CHECKING:
    from fpgm.serving.web.alignment import View

EXAMPLES = tuple(DOMAINS)
EXAMPLE_SEED, EXAMPLE_SIZE = 8, 384  # not the seed of the demo's training images


def predict(
    predictor: Predictor,
    picture: Image.Image,
    threshold: float,
    output: Output,
    pictures: bool,
    min_area: int | None = None,
) -> bytes:
    """Answer `/api/predict` with JSON or a PNG file."""
    _, (probability,) = predictor.predict([picture])
    least = predictor.engine.card.least_pixels(probability.size) if min_area is None else min_area
    mask = clean(probability >= threshold, keep_largest=predictor.keep_largest, min_area=least)
    if output == "mask":
        return encode(mask_picture(mask))
    if output == "probability":
        return encode(probability_picture(probability))
    if output == "overlay":
        return encode(overlay(picture, mask))
    prediction = report(mask, probability, threshold, least)
    if pictures:
        prediction.picture = data_url(picture, "jpeg")
        prediction.probability = data_url(Image.fromarray(levels(probability)))
    return prediction.model_dump_json(exclude=None if pictures else {"picture", "probability"}).encode()


def report(mask: Mask, probability: Plane, threshold: float, least: int = 0) -> Prediction:
    """Put the numbers of a mask (H, W) and its probabilities (H, W) in words."""
    height, width = mask.shape
    area = int(mask.sum())
    return Prediction(
        width=width,
        height=height,
        threshold=threshold,
        min_area=least,
        area=area,
        share=area / mask.size,
        confidence=float(probability[mask].mean(dtype=np.float64)) if area else None,
        polyps=[Polyp(**found._asdict()) for found in describe(mask, probability)],
    )


def align(view: View) -> bytes:
    """Answer `/api/align` with JSON."""
    values: dict[str, Any] = view._asdict()
    shown = {name: data_url(Image.fromarray(values.pop(name))) for name in ("original", "aligned", "difference")}
    return Alignment(size=len(view.original), **shown, **values).model_dump_json().encode()


@lru_cache(maxsize=len(EXAMPLES))
def example(name: str) -> bytes:
    """Return an example, drawn, as a PNG file."""
    return encode(Image.fromarray(phantom(name, 0, EXAMPLE_SEED, EXAMPLE_SIZE).image))


def levels(probability: Plane) -> NDArray[np.uint8]:
    """Round probabilities to 0 … 255; those of 0.5 and more are those of 128 and more."""
    return np.rint(np.clip(probability, 0, 1) * 255).astype(np.uint8)


def data_url(picture: Image.Image, kind: str = "png") -> str:
    """Return a URL that holds a picture."""
    return f"data:image/{kind};base64,{b64encode(encode(picture, kind)).decode()}"


def encode(picture: Image.Image, kind: str = "png") -> bytes:
    """Return the bytes of a picture file."""
    settings: dict[str, Any] = {"compress_level": 3} if kind == "png" else {"quality": 92}
    picture.save(file := io.BytesIO(), kind, **settings)
    return file.getvalue()
