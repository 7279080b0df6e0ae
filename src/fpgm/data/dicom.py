"""What a decoding process does with a DICOM file: count its frames, and decode some of them to pictures.

Needs pydicom, the extra ``dicom``. Only pixels leave this module: tags hold data of patients, and messages of pydicom
can repeat them, so no message of it is passed on.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fpgm.data.headers import MAX_FRAMES
from fpgm.data.pictures import Refused, check_pixels, eight_bit

COLOURS = ("RGB", "YBR_FULL", "YBR_FULL_422", "MONOCHROME1", "MONOCHROME2")  # that are read
_COMPRESSED = ("YBR_ICT", "YBR_RCT")  # what JPEG 2000 makes of RGB


def count_frames(data: bytes) -> int:
    """Return the number of frames of a DICOM file without decoding any."""
    return _frames(_read(data, pixels=False))


def decode_dicom(data: bytes, most: int, numbers: Sequence[int], allow: Callable[[int], None]) -> Iterator[Image.Image]:
    """Yield frames of a DICOM file as 8-bit pictures; grey ones stay grey.

    Args:
        data: the file.
        most: most pixels of a frame.
        numbers: which frames, from 0.
        allow: sets the limits for a picture of so many pixels.
    """
    file = _read(data, pixels=True)
    count, rows, columns = _frames(file), _number(file, "Rows"), _number(file, "Columns")
    check_pixels(columns, rows, most=most)
    _check(file)
    for number in numbers:
        if not 0 <= number < count:
            raise Refused("truncated", f"it has {count} frames, and frame {number + 1} is asked for")
        allow(rows * columns)
        yield _picture(_pixels(file, number), file)


def _read(data: bytes, pixels: bool) -> Any:
    try:
        import pydicom
    except ImportError:
        raise Refused("no reader", "a DICOM file needs pydicom: pip install 'fpgm[dicom]'") from None
    try:
        return pydicom.dcmread(io.BytesIO(data), stop_before_pixels=not pixels)
    except MemoryError:
        raise Refused("too large", "its tags need more memory than those of a picture") from None
    except Exception:  # a damaged file can make it raise anything, with texts of the file in it
        raise Refused("unreadable", "it cannot be read as DICOM") from None


def _number(file: Any, tag: str, default: int | None = None) -> int:
    try:
        value = file.get(tag, default)
        return int(default if value is None and default is not None else value)
    except Exception:  # pydicom converts a tag when it is read, and can raise anything
        raise Refused("unreadable", f"its {tag} is not a number") from None


def _frames(file: Any) -> int:
    count = _number(file, "NumberOfFrames", 1)
    if not 1 <= count <= MAX_FRAMES:
        raise Refused("too large", f"it has {count:,} frames; 1 to {MAX_FRAMES:,} are read")
    return count


def _check(file: Any) -> None:
    """Refuse what cannot be decoded here, before it is tried."""
    from pydicom.pixels.decoders.base import get_decoder

    if "PixelData" not in file:
        raise Refused("unreadable", "this DICOM file holds no picture")
    colour = str(file.get("PhotometricInterpretation", "unknown"))
    if colour not in COLOURS + _COMPRESSED:
        raise Refused("unreadable", f"it has colours of another kind; read are {', '.join(COLOURS)}")
    try:
        syntax = file.file_meta.TransferSyntaxUID
        usable = get_decoder(syntax).is_available
    except Exception:  # likewise
        raise Refused("unreadable", "its pixels are packed in an unknown way; save it uncompressed") from None
    if not usable:
        raise Refused("no reader", f"its pixels are packed as {syntax.name}; save it uncompressed or as JPEG baseline")


def _pixels(file: Any, number: int) -> NDArray[Any]:
    """Decode one frame: (H, W) or (H, W, 3); pydicom makes RGB of other colours."""
    from pydicom.pixels.utils import pixel_array

    try:
        return pixel_array(file, index=number)
    except MemoryError:
        raise Refused("too large", "it needs more memory than a picture of its size") from None
    except Exception:  # as above
        raise Refused("truncated", f"frame {number + 1} cannot be decoded") from None


def _picture(pixels: NDArray[Any], file: Any) -> Image.Image:
    """Make a picture of numbers of as many bits as the file says."""
    if pixels.ndim not in (2, 3) or pixels.shape[2:] not in ((), (3,)):
        raise Refused("unreadable", f"its frames are {pixels.shape}; expected (H, W) or (H, W, 3)")
    bits = _number(file, "BitsStored", 8)
    if pixels.dtype.kind == "i" and pixels.min() < 0:
        raise Refused("unreadable", "its pixels are signed numbers, as of a measurement")
    if bits > 8:
        pixels = pixels >> (bits - 8)
    values = np.minimum(pixels, 255).astype(np.uint8)
    inverted = file.get("PhotometricInterpretation") == "MONOCHROME1"
    return eight_bit((1 if bits == 1 else 255) - values if inverted else values)
