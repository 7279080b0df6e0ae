"""Films: frames with time stamps, and sound, read by PyAV in a process with limits; see ``fpgm.data.sandbox``.

Needs PyAV, the extra ``video``. Only files that are films themselves are read: FFmpeg, which PyAV calls, also knows
playlists, which name other files and hosts.
"""

from __future__ import annotations

import heapq
import importlib
import os
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from fpgm.data.pictures import MAX_PIXELS, Refused, answers, check_pixels
from fpgm.files import open_regular

MAX_VIDEO_BYTES = 2**36  # 64 GB, more than a day of a recorder
MAX_VIDEO_FRAMES = 1_000_000  # nine hours of 30 frames a second
COUNTED = frozenset({".mp4", ".m4v", ".mov", ".avi"})  # their header says how many frames there are
LEAST_SHARE = 0.9  # of these frames; fewer are a damaged file
FORMATS = "mov,mp4,avi,matroska,webm,mpeg,mpegts,mpegvideo,asf"  # FFmpeg's names
_OPTIONS = {"protocol_whitelist": "file", "format_whitelist": FORMATS}
_FINEST = 1_000_000  # ticks a second of time stamps that are kept as they are
_KEPT_FRAMES = 2  # memory for these in all forms a picture takes; codecs keep up to sixteen in their own
_REPORT_EVERY = 1000  # packets of sound
_NO_READER = "a film needs PyAV: pip install 'fpgm[video]'"
_UNREADABLE = "no frame can be decoded: it is damaged, or not a film of a known format"

Allow = Callable[[int], None]  # is told the pixels of what comes next


class VideoFrame(NamedTuple):
    """A frame, and when it is shown: `ticks` of the film's time base."""

    picture: Image.Image
    ticks: int


class Video(NamedTuple):
    """A film.

    Attributes:
        frames: its frames, decoded one by one as they are asked for.
        expected: number of frames that its header or length promises; 0 if they promise none.
        time_base: seconds of a tick.
        rate: mean frames a second.
        aspect: width of a pixel by its height.
        sound: whether it has sound.
    """

    frames: Iterator[VideoFrame]
    expected: int
    time_base: Fraction
    rate: Fraction
    aspect: Fraction
    sound: bool


def open_video(path: Path) -> Video:
    """Open a film; raise ``Refused``, here or at a frame, if it is damaged, too large, too costly, or without PyAV.

    Example::

        video = open_video(Path("film.mp4"))
        for frame in video.frames:
            print(float(frame.ticks * video.time_base), frame.picture.size)
    """
    _check_file(path)
    messages = answers({"kind": "video", "path": os.path.abspath(path), "most": MAX_PIXELS}, b"")  # noqa: PTH100 (links stay)
    facts, _ = next(messages)
    base, rate, aspect = (Fraction(*facts[name]) for name in ("time_base", "rate", "aspect"))
    return Video(_frames(messages), facts["expected"], base, rate, aspect, facts["sound"])


def _frames(messages: Iterator[tuple[dict[str, Any], bytes]]) -> Iterator[VideoFrame]:
    for message, content in messages:
        yield VideoFrame(Image.frombytes(message["mode"], tuple(message["size"]), content), message["ticks"])


def read_video(path: Path) -> Iterator[Image.Image]:
    """Yield the pictures of a film; see `open_video`."""
    for frame in open_video(path).frames:
        yield frame.picture


def add_sound(silent: Path, source: Path, out: Path) -> None:
    """Write the pictures of an MP4 file of ours with the sound of a film, none of it encoded anew.

    Raises ``Refused`` if the sound cannot be read, or MP4 cannot hold it; what was written of `out` is of no use then.
    """
    _check_file(source)
    paths = {name: os.path.abspath(path) for name, path in (("silent", silent), ("path", source), ("out", out))}  # noqa: PTH100 (links stay)
    for _ in answers({"kind": "sound", "most": MAX_PIXELS, **paths}, b""):
        pass


def _check_file(path: Path) -> None:
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
    except ValueError:
        raise Refused("unreadable", "it is not a regular file") from None
    if size > MAX_VIDEO_BYTES:
        raise Refused("too large", f"{size:,} bytes are over {MAX_VIDEO_BYTES:,}; cut it first")


# What follows runs in the decoding process.


def load_av() -> Any:
    """Import PyAV; None if that fails."""
    try:
        return importlib.import_module("av")
    except ImportError:
        return None


def decode_video(path: str, most: int, allow: Allow) -> Iterator[dict[str, Any] | VideoFrame]:
    """Yield the facts of a film file, and then its frames.

    Args:
        path: the file.
        most: most pixels of a frame.
        allow: sets the limits for a frame of so many pixels.
    """
    with _Explained(_UNREADABLE), _open(path) as film:
        stream = film.streams.best("video")
        if stream is None or stream.codec_context is None or stream.width < 1 or stream.height < 1:
            raise Refused("unreadable", _UNREADABLE)
        check_pixels(stream.height, stream.width, most=most)
        facts = _facts(film, stream)
        if stream.frames > MAX_VIDEO_FRAMES:
            raise Refused("too large", f"it has over {MAX_VIDEO_FRAMES:,} frames; cut it first")
        yield facts
        stream.codec_context.thread_count = 1  # threads would take address space
        allow(_KEPT_FRAMES * stream.width * stream.height)
        yield from _decode(film, stream, Fraction(*facts["time_base"]), Fraction(*facts["rate"]), most, allow)


def _facts(film: Any, stream: Any) -> dict[str, Any]:
    """Return what the header says; numbers that are of no use are replaced."""
    base = stream.time_base or Fraction(1, 90_000)
    rate = stream.average_rate or stream.guessed_rate or Fraction(25)
    if not 0 < base <= 1 or 1 / base > _FINEST:
        base = Fraction(1, 90_000)
    if not Fraction(1, 1000) <= rate <= 1000:
        rate = Fraction(25)
    aspect = stream.sample_aspect_ratio or Fraction(1)
    aspect = aspect if Fraction(1, 10) <= aspect <= 10 else Fraction(1)
    length = float(film.duration or 0) / 1_000_000 * float(rate)
    ratios = {"time_base": base, "rate": rate, "aspect": aspect}
    return {
        **{name: [ratio.numerator, ratio.denominator] for name, ratio in ratios.items()},
        "expected": max(stream.frames or round(length), 0),
        "sound": len(film.streams.audio) > 0,
    }


def _decode(film: Any, stream: Any, base: Fraction, rate: Fraction, most: int, allow: Allow) -> Iterator[VideoFrame]:
    count, broken, last, step = 0, 0, None, max(round(1 / rate / base), 1)
    for packet in film.demux(stream):
        try:
            frames = packet.decode()
        except MemoryError:
            raise
        except Exception:  # a damaged packet; those after it may be whole
            broken += 1
            continue
        for frame in frames:
            count += 1
            check_pixels(frame.height, frame.width, most=most)
            if count > MAX_VIDEO_FRAMES:
                raise Refused("too large", f"it has over {MAX_VIDEO_FRAMES:,} frames; cut it first")
            ticks = None if frame.pts is None else round(frame.pts * (frame.time_base or base) / base)
            if last is not None and (ticks is None or ticks <= last):  # time stamps of a film grow
                ticks = last + (step if ticks is None else 1)
            last = ticks or 0
            allow(_KEPT_FRAMES * frame.width * frame.height)
            yield VideoFrame(_upright(frame), last)
    promised = stream.frames if PurePath(film.name).suffix.casefold() in COUNTED else count + broken
    if max(count, promised) == 0:
        raise Refused("unreadable", _UNREADABLE)
    if count == 0 or count < LEAST_SHARE * promised:
        raise Refused("truncated", f"{count or 'no'} frame{'s' * (count != 1)} of {promised:,} can be decoded")


def _upright(frame: Any) -> Image.Image:
    """Return a frame as RGB, turned as the film says: a telephone that was held upright films so."""
    pixels = frame.to_ndarray(format="rgb24")
    return Image.fromarray(np.ascontiguousarray(np.rot90(pixels, round(frame.rotation / 90))))


def copy_sound(silent: str, source: str, out: str, allow: Allow) -> Iterator[int]:
    """Write the pictures of one film and the sound of another to an MP4 file; yield the packets so far now and then."""
    with _Explained("its sound cannot be copied"), _open(silent) as pictures, _open(source) as film:
        av = load_av()
        with av.open(out, "w", format="mp4") as target:
            streams = pictures.streams.video[0], film.streams.audio[0]
            new = [target.add_stream_from_template(stream) for stream in streams]
            packets = (_packets(one, *pair) for one, *pair in zip((pictures, film), streams, new, strict=True))
            for number, (_, packet) in enumerate(heapq.merge(*packets, key=lambda pair: pair[0])):
                target.mux(packet)
                if number % _REPORT_EVERY == 0:
                    allow(0)
                    yield number


def _packets(film: Any, stream: Any, target: Any) -> Iterator[tuple[Fraction, Any]]:
    """Yield the packets of a stream with their times, bound for another file."""
    for packet in film.demux(stream):
        if packet.dts is not None:  # the last is empty
            time = packet.dts * packet.time_base
            packet.stream = target
            yield time, packet


def _open(path: str) -> Any:
    av = load_av()
    if av is None:
        raise Refused("no reader", _NO_READER)
    return av.open(path, options=_OPTIONS)


class _Explained:
    """Turns whatever PyAV raises into ``Refused``, without its texts, which repeat paths."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, Refused) or not isinstance(error, Exception):
            return
        if isinstance(error, MemoryError):
            raise Refused("too large", "it needs more memory than a film of its size") from None
        raise Refused("unreadable", self.reason) from None
