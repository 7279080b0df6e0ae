"""From a picture file to the input array of a network; training and inference use the same functions.

H x W is the source, S x S the result. ``RULES`` states every choice in words and is written to each manifest.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops

from fpgm.data.headers import header_problem
from fpgm.data.sandbox import DecoderDied, ask

Pixels = NDArray[np.uint8]
Mask = NDArray[np.bool_]

MAX_PIXELS = 2**26  # 67 million, twice an 8K frame: more is a mistake or an attack
MAX_BYTES = 2**30  # a picture of so many pixels in 32-bit colours has 800 million
MAX_SIDE = 65_500  # of a JPEG file, in which overlays are written
MIN_SIZE, MAX_SIZE = 16, 2048
FACTS = "fpgm"  # key of a decoded picture's `info`: what the decoding process found out about it
MID_GREY = range(64, 192)
MID_GREY_SHARE = 0.05
PICTURES = frozenset({".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".webp", ".gif"})
DICOM = frozenset({".dcm", ".dicom"})
FORMATS = ("JPEG", "PNG", "TIFF", "BMP", "WEBP", "GIF")  # only decoders that run no other program

RULES = {
    "image": (
        "turned upright by its EXIF tag; alpha laid on black; grey repeated in three channels; values above 255 are "
        "16-bit and divided by 257, floats up to 1 multiplied by 255; resized to a square, whatever its shape, by "
        "Pillow's bilinear filter, which averages when it reduces"
    ),
    "mask": (
        "foreground where max(R, G, B) > 127, or 1 if no value exceeds 1; resized by area: a pixel is foreground if "
        "more than half of it is; refused if it is empty or full, if its size is not the image's, or if it has more "
        f"than two levels and those from {MID_GREY[0]} to {MID_GREY[-1]} fill over {MID_GREY_SHARE:.0%} of it or "
        "outnumber the brighter ones"
    ),
}


def rules(keep_empty: bool) -> dict[str, str]:
    """Return the rules by which a store is made, for its manifest."""
    kept = "kept if every value is 0, as that of a frame without polyps; refused if it is full"
    return {**RULES, "mask": RULES["mask"].replace("refused if it is empty or full", kept)} if keep_empty else RULES


def readable() -> frozenset[str]:
    """Return the suffixes of pictures that are read here: DICOM only where pydicom is installed."""
    return PICTURES | DICOM if importlib.util.find_spec("pydicom") else PICTURES


class Refused(ValueError):
    """A file that cannot be used: a word or two for a table, and a sentence."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


def read_picture(data: bytes, max_pixels: int | None = None) -> Image.Image:
    """Decode the bytes of a picture file to RGB, upright; raise ``Refused`` if it is damaged, too large or too costly.

    It is decoded in another process, with limits on time and memory: see ``fpgm.data.sandbox``.

    Args:
        data: the file.
        max_pixels: most pixels of the picture; ``MAX_PIXELS`` if not given.
    """
    (picture,) = _decoded("picture", data, max_pixels)
    assert isinstance(picture, Image.Image)
    return picture


class PreparedImage(NamedTuple):
    """An image (S, S, 3), the width and height that it had, and its fingerprint."""

    pixels: Pixels
    source: tuple[int, int]
    dhash: str


class PreparedMask(NamedTuple):
    """A mask (S, S) in {0, 1}, and the share of foreground that it had."""

    pixels: Pixels
    foreground: float


def read_prepared_image(data: bytes, size: int) -> PreparedImage:
    """Decode a picture file and prepare it: `read_picture`, `prepare_image` and `dhash` in the decoding process."""
    check_size(size)
    (picture,) = _decoded("prepared image", data, size=size)
    assert isinstance(picture, Image.Image)
    facts = picture.info[FACTS]
    return PreparedImage(np.array(picture), (facts["width"], facts["height"]), facts["dhash"])


def read_prepared_mask(data: bytes, size: int, source: tuple[int, int], keep_empty: bool = False) -> PreparedMask:
    """Decode the mask of an image of that width and height, and prepare it, in the decoding process."""
    check_size(size)
    (picture,) = _decoded("prepared mask", data, size=size, source=source, keep_empty=keep_empty)
    assert isinstance(picture, Image.Image)
    return PreparedMask(np.array(picture), picture.info[FACTS]["foreground"])


def read_frames(data: bytes) -> tuple[int, Iterator[Image.Image]]:
    """Return the number of frames of a picture file, and each of them, decoded as `read_picture` does.

    The first is decoded at once, each other when its turn comes.
    """
    found = _decoded("frames", data)
    count = next(found)
    assert isinstance(count, int)
    first = next(found)
    return count, (one for one in chain([first], found) if isinstance(one, Image.Image))


def read_hdf5(data: bytes) -> tuple[Image.Image, Image.Image | None]:
    """Decode ``image`` (3, H, W), (H, W, 3) or (H, W) and ``label`` (H, W) of one HDF5 file; None without label."""
    image, *label = (one for one in _decoded("hdf5", data) if isinstance(one, Image.Image))
    return image, label[0] if label else None


def count_dicom_frames(data: bytes) -> int:
    """Return the number of frames of a DICOM file; raise ``Refused`` if it is damaged, or pydicom is not installed."""
    (count,) = _decoded("dicom count", data)
    assert isinstance(count, int)
    return count


def read_dicom(data: bytes, numbers: Sequence[int] = (0,)) -> Iterator[Image.Image]:
    """Decode frames of a DICOM file, counted from 0, one after the other: RGB, or grey as masks are."""
    found = _decoded("dicom", data, numbers=list(numbers))
    return (one for one in found if isinstance(one, Image.Image))


def read_picture_file(path: Path) -> bytes:
    """Read a file that can be a picture; raise ``Refused`` if it is a pipe or a device, or far too large for one."""
    if not path.is_file():
        path.stat()  # raises if there is nothing
        raise Refused("unreadable", "it is not a regular file")
    if (size := path.stat().st_size) > MAX_BYTES:
        raise Refused("too large", f"{size:,} bytes are over {MAX_BYTES:,}; reduce it first")
    return path.read_bytes()


def check_header(data: bytes) -> None:
    """Raise ``Refused`` if a file is empty or its header promises more work than a picture is worth; this is quick."""
    if not data:
        raise Refused("empty file", "the file has no content")
    if problem := header_problem(data):
        raise Refused("too costly", f"cannot be decoded: {problem}")


def _decoded(kind: str, data: bytes, max_pixels: int | None = None, **more: Any) -> Iterator[Image.Image | int]:
    """Yield what a decoding process answers: pictures, and before the frames of a file their number."""
    check_header(data)
    return decoded({"kind": kind, "most": max_pixels or MAX_PIXELS, **more}, data)


def decoded(request: dict[str, Any], data: bytes) -> Iterator[Image.Image | int]:
    """Yield the pictures and numbers that a decoding process answers to a request about a file; see `answers`."""
    for message, content in answers(request, data):
        if (size := message.get("size")) is None:
            yield message["count"]
            continue
        picture = Image.frombytes(message["mode"], tuple(size), content)
        picture.info[FACTS] = message["facts"]
        yield picture


def answers(request: dict[str, Any], data: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield what a decoding process answers to a request about a file; raise ``Refused`` if it refuses or dies."""
    try:
        for message, content in ask(request, data):
            if "refused" in message:
                raise Refused(message["refused"], message["reason"])
            yield message, content
    except DecoderDied as death:
        raise Refused("too costly", f"cannot be decoded: {death}") from None


def prepare_image(picture: Image.Image, size: int) -> Pixels:
    """Make any picture RGB and resize it: (S, S, 3) in 0 … 255.

    Bilinear is what the field's loaders use and, unlike Lanczos, does not ring at highlights and frame corners, which
    would add energy to the spectrum that is learnt.
    """
    check_size(size)
    return np.array(to_rgb(picture).resize((size, size), Image.Resampling.BILINEAR))


def check_size(size: int) -> None:
    """Raise ``ValueError`` unless images can be prepared at S x S."""
    if not MIN_SIZE <= size <= MAX_SIZE:
        raise ValueError(f"size {size} is not between {MIN_SIZE} and {MAX_SIZE} pixels")


def to_rgb(picture: Image.Image) -> Image.Image:
    """Convert any mode to 8-bit RGB; see ``RULES``."""
    if picture.mode == "RGB" and "transparency" not in picture.info:
        return picture
    if picture.mode == "F" or picture.mode.startswith("I"):
        picture = eight_bit(np.asarray(picture))
    if picture.has_transparency_data:
        layer = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", layer.size, "black"), layer)
    return picture.convert("RGB")


def read_mask(picture: Image.Image, keep_empty: bool = False) -> Mask:
    """Find the foreground of a mask: (H, W); raise ``Refused`` if it is not binary, empty or full; see ``RULES``.

    Args:
        picture: the mask.
        keep_empty: whether a mask of which every value is 0 is taken: that of a frame without polyps.
    """
    red, green, blue = to_rgb(picture).split()
    grey = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    counts = np.array(grey.histogram())
    top = int(np.flatnonzero(counts)[-1])
    foreground = np.asarray(grey) > (127 if top > 1 else 0)
    middle, bright = counts[MID_GREY].sum(), counts[MID_GREY[-1] + 1 :].sum()
    if np.count_nonzero(counts) > 2 and (middle > MID_GREY_SHARE * foreground.size or middle > bright):
        reason = f"{middle / foreground.size:.0%} of its pixels are neither dark nor bright; masks are 0/1 or 0/255"
        raise Refused("mask not binary", reason)
    if not foreground.any() and not (keep_empty and top == 0):
        raise Refused("empty mask", f"no foreground: its largest value is {top}; masks are 0/1 or 0/255")
    if foreground.all():
        raise Refused("full mask", "every pixel is foreground")
    return foreground


def check_mask_size(mask: tuple[int, int], image: tuple[int, int]) -> None:
    """Raise ``Refused`` unless a mask has the width and height of its image."""
    if tuple(mask) != tuple(image):
        sizes = f"{mask[0]} x {mask[1]}, its image {image[0]} x {image[1]}"
        raise Refused("mis-sized mask", f"the mask is {sizes}")


def prepare_mask(mask: Mask, size: int) -> Pixels:
    """Resize a mask (H, W) by exact area: (S, S), 1 where more than half of the pixel is foreground.

    A mask whose foreground vanishes is refused; one that has none stays empty.
    """
    whole = mask.size  # of a pixel of the result, in units of 1/S² of one of the source
    kind = np.int32 if whole * size < 2**31 else np.int64  # the narrower is twice as fast
    top, bottom = _extent(
        np.asarray(mask.any(axis=1))
    )  # sums of nothing are nothing: only where foreground is, they are made
    across = _areas(mask[top:bottom].astype(kind), size)
    left, right = _extent(np.asarray(across.any(axis=0)))
    columns = np.zeros((right - left, mask.shape[0]), kind)
    columns[:, top:bottom] = across[:, left:right].T
    prepared = np.zeros((size, size), np.uint8)
    prepared[:, left:right] = whole < 2 * _areas(columns, size).T
    if mask.any() and not prepared.any():
        raise Refused("empty mask", f"its {int(mask.sum())} foreground pixels vanish at {size} x {size}")
    return prepared


def _extent(marked: NDArray[np.bool_]) -> tuple[int, int]:
    """Return where the marked entries (L) begin and end; 0, 0 if there are none."""
    found = np.flatnonzero(marked)
    return (int(found[0]), int(found[-1]) + 1) if found.size else (0, 0)


def _areas(values: NDArray[Any], size: int) -> NDArray[Any]:
    """Sum the columns of (M, L) into S bins of equal width, in units of 1/S, without rounding: (M, S)."""
    length = values.shape[1]
    column, part = np.divmod(np.arange(size + 1, dtype=values.dtype) * length, size)
    column[-1], part[-1] = length - 1, size
    values = np.ascontiguousarray(values)  # sums along strided rows are slow
    sums = np.cumsum(values, axis=1, dtype=values.dtype)
    return np.diff(sums.take(column, axis=1) * size - values.take(column, axis=1) * (size - part), axis=1)


def eight_bit(values: NDArray[Any]) -> Image.Image:
    """Make a picture of numbers in 0 … 1 (floats only), 0 … 255 or 0 … 65535."""
    numbers = np.asarray(values, np.float64)
    low, top = (float(numbers.min()), float(numbers.max())) if numbers.size else (-1.0, -1.0)
    if not 0 <= low <= top <= 65535:
        raise Refused("unreadable", f"values from {low:g} to {top:g}; expected 0 … 1, 0 … 255 or 0 … 65535")
    floats = values.dtype.kind == "f" and top <= 1
    scale = 255.0 if floats else 1.0 if top <= 255 else 1 / 257
    return Image.fromarray(np.rint(numbers * scale).astype(np.uint8))


def check_pixels(*shape: int, most: int | None = None) -> None:
    """Raise ``Refused`` unless an array of this shape is of use and has up to `most` (``MAX_PIXELS``) numbers."""
    most = most or MAX_PIXELS
    if 0 in shape:
        raise Refused("unreadable", f"a side of 0 pixels: {shape}")
    if math.prod(shape) > most:
        raise Refused(
            "too large", f"{' x '.join(f'{side:,}' for side in shape)} is over {most:,} pixels; reduce it first"
        )
    if max(shape, default=0) > MAX_SIDE:
        raise Refused("too large", f"a side of {max(shape):,} pixels is over {MAX_SIDE:,}; cut it first")
