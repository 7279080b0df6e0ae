"""What a decoding process does: read a file from its input, decode it within limits, write the pixels to its output.

A request is a line of JSON and the bytes of the file, or the path of a film. The answer is a line of JSON and bytes
for every picture, and a line with ``null`` at the end. Memory and processor time are limited by what the file's own
size in pixels calls for; on systems without these limits the parent's clock is the only one.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from fpgm.data.dicom import count_frames, decode_dicom
from fpgm.data.fingerprint import dhash
from fpgm.data.headers import MAX_FRAMES
from fpgm.data.pictures import (
    FACTS,
    FORMATS,
    Refused,
    check_mask_size,
    check_pixels,
    eight_bit,
    prepare_image,
    prepare_mask,
    read_mask,
    to_rgb,
)
from fpgm.data.videos import VideoFrame, copy_sound, decode_video, load_av

MOVING = ("GIF", "WEBP", "PNG", "TIFF")
BASE_MEMORY, PIXEL_MEMORY = 2**28, 40  # bytes for the decoder, and for each pixel in all forms it takes on the way
OPEN_PIXELS = 2**24  # that opening may cost: some decoders take the memory of the picture at once
BASE_SECONDS, PIXEL_SECONDS = 3.0, 1e-7  # of the processor

_NO_MEMORY = "decoder error -9"  # Pillow's word for it in formats that other libraries decode

Allow = Callable[[int], None]  # is told the pixels of what comes next


def decode_pictures(data: bytes, most: int, frames: bool, allow: Allow) -> Iterator[Image.Image | int]:
    """Yield the first picture of a file; with `frames` how many there are, and then each.

    Args:
        data: the file.
        most: most pixels of a picture.
        frames: whether all are asked for.
        allow: sets the limits for a picture of so many pixels.
    """
    with _Explained("cannot be decoded"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd tags; size is judged below
        picture = Image.open(io.BytesIO(data), formats=FORMATS)
        first = _decode(picture, most, allow)
    if not frames:
        yield first
        return
    count = 1
    if picture.format in MOVING:
        with _Explained("its frames cannot be counted"):
            count = int(getattr(picture, "n_frames", 1))
    if count > MAX_FRAMES:
        raise Refused("too large", f"it has {count:,} frames; up to {MAX_FRAMES:,} are read")
    yield count
    yield first
    for number in range(1, count):
        with _Explained(f"frame {number + 1} cannot be decoded"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            picture.seek(number)
            frame = _decode(picture, most, allow)
        yield frame


def _decode(picture: Image.Image, most: int, allow: Allow) -> Image.Image:
    check_pixels(*picture.size, most=most)
    allow(picture.width * picture.height)
    picture.load()
    return to_rgb(ImageOps.exif_transpose(picture))


def prepared_image(picture: Image.Image, request: dict[str, Any]) -> Image.Image:
    """Return a picture at the network's size, with its own size and fingerprint as facts."""
    prepared = Image.fromarray(prepare_image(picture, request["size"]))
    prepared.info[FACTS] = {"width": picture.width, "height": picture.height, "dhash": dhash(picture)}
    return prepared


def prepared_mask(picture: Image.Image, request: dict[str, Any]) -> Image.Image:
    """Return a mask at the network's size, with its share of foreground as a fact."""
    check_mask_size(picture.size, request["source"])
    mask = read_mask(picture, request["keep_empty"])
    prepared = Image.fromarray(prepare_mask(mask, request["size"]))
    prepared.info[FACTS] = {"foreground": round(float(mask.mean()), 6)}
    return prepared


class _Explained:
    """Turns whatever a decoder raises into ``Refused``: a damaged file can make it raise anything."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, Refused) or not isinstance(error, Exception):
            return
        if isinstance(error, Image.DecompressionBombError):
            raise Refused("too large", "it has too many pixels; reduce it first") from None
        if isinstance(error, MemoryError) or _NO_MEMORY in str(error):
            raise Refused("too large", f"{self.what}: it needs more memory than a picture of its size") from None
        word = "truncated" if "truncated" in str(error).lower() or "frame" in self.what else "unreadable"
        reason = "no picture of a known format" if isinstance(error, UnidentifiedImageError) else str(error)
        raise Refused(word, f"{self.what}: {reason}") from None


def decode_hdf5(data: bytes, most: int) -> Iterator[Image.Image]:
    """Yield the image of an HDF5 file, and its label if it has one; see ``fpgm.data.pictures.read_hdf5``."""
    import h5py  # pictures do without

    try:
        with h5py.File(io.BytesIO(data), "r") as file:
            image, label = (_read_array(file, name, most) if name in file else None for name in ("image", "label"))
            if image is None:
                raise ValueError("there is no image")
    except Refused:
        raise
    except Exception as error:  # as above
        raise Refused("unreadable", f"no HDF5 file with image and label: {error}") from None
    if image.ndim == 3 and image.shape[0] == 3:
        image = image.transpose(1, 2, 0)
    if image.ndim not in (2, 3) or image.shape[2:] not in ((), (3,)) or (label is not None and label.ndim != 2):
        shapes = f"image {image.shape}, label {None if label is None else label.shape}"
        raise Refused("unreadable", f"{shapes}; expected image (3, H, W) and label (H, W)")
    yield eight_bit(image)
    if label is not None:
        yield eight_bit(label)


def _read_array(file: Any, name: str, most: int) -> NDArray[Any]:
    """Read numbers that are in the file itself: HDF5 can also name any other file of this machine as their place."""
    array = file[name]
    if array.file != file or array.external or array.is_virtual:
        raise ValueError(f"{name} is kept in another file")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} holds {array.dtype}, no numbers")
    check_pixels(*array.shape, most=most)
    check_pixels(*(array.chunks or ()), most=most)
    values: NDArray[Any] = array[()]
    return values


def main() -> None:
    """Answer requests until the input ends."""
    source, target = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)  # no library may write between our messages
    own = _address_space()
    try:
        while line := source.readline():
            request = json.loads(line)
            own += _load_av() if request["kind"] in ("video", "sound") else 0
            _answer(request, source, target, own)
    except BrokenPipeError:  # the parent is gone
        pass


def _answer(request: dict[str, Any], source: BinaryIO, target: BinaryIO, own: int) -> None:
    def allow(pixels: int) -> None:
        _limit_memory(own + 2 * request["length"] + BASE_MEMORY + PIXEL_MEMORY * pixels)
        _limit_time(BASE_SECONDS + PIXEL_SECONDS * pixels)

    allow(request["most"] if request["kind"] == "hdf5" else OPEN_PIXELS)
    data = source.read(request["length"])
    try:
        for item in _decoded(request, data, allow):
            if isinstance(item, int):
                _send(target, {"count": item}, b"")
            elif isinstance(item, dict):
                _send(target, item, b"")
            else:
                picture, more = (item.picture, {"ticks": item.ticks}) if isinstance(item, VideoFrame) else (item, {})
                facts = picture.info.get(FACTS, {})
                _send(target, {"mode": picture.mode, "size": picture.size, "facts": facts, **more}, picture.tobytes())
    except Refused as refusal:
        _send(target, {"refused": refusal.kind, "reason": str(refusal)}, b"")
    target.write(b"null\n")
    target.flush()
    _limit_time(0)


def _decoded(
    request: dict[str, Any], data: bytes, allow: Allow
) -> Iterator[Image.Image | VideoFrame | dict[str, Any] | int]:
    """Yield what the request asks for."""
    kind, most = request["kind"], request["most"]
    if kind == "hdf5":
        yield from decode_hdf5(data, most)
    elif kind == "video":
        yield from decode_video(request["path"], most, allow)
    elif kind in ("prepared image", "prepared mask"):
        (picture,) = decode_pictures(data, most, False, allow)
        assert isinstance(picture, Image.Image)
        yield prepared_image(picture, request) if kind == "prepared image" else prepared_mask(picture, request)
    elif kind == "sound":
        yield from copy_sound(request["silent"], request["path"], request["out"], allow)
    elif kind == "dicom count":
        yield count_frames(data)
    elif kind == "dicom":
        yield from decode_dicom(data, most, request["numbers"], allow)
    else:
        yield from decode_pictures(data, most, kind == "frames", allow)


def _load_av() -> int:
    """Import PyAV without a limit and return the address space that it takes; nothing the second time."""
    before = _address_space()
    _limit_memory(2**62)
    load_av()
    return _address_space() - before


def _send(target: BinaryIO, message: dict[str, Any], content: bytes) -> None:
    target.write(json.dumps({**message, "length": len(content)}).encode() + b"\n")
    target.write(content)
    target.flush()


def _limit_time(seconds: float) -> None:
    """Let the system end this process after more seconds of the processor; 0 for no limit."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _limit_memory(size: int) -> None:
    """Let no allocation grow the address space beyond a number of bytes."""
    try:
        import resource
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft = size if hard == resource.RLIM_INFINITY else min(size, hard)
    with contextlib.suppress(OSError, ValueError):  # macOS refuses limits below what a process has
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _address_space() -> int:
    """Bytes of address space that this process has taken before its first file."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 (no file of a user)
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 2**32  # not Linux: what the interpreter maps is unknown
