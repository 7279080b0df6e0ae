"""Frames of a video, decoded by OpenCV, if it is installed, in a process with limits; see ``fpgm.data.sandbox``.

Only files that are videos themselves are read: FFmpeg, which OpenCV calls, also knows playlists, which name other files
and hosts.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from typing import Any

from PIL import Image

from fpgm.data.pictures import MAX_PIXELS, Refused, check_pixels, decoded
from fpgm.files import open_regular

MAX_VIDEO_FRAMES = 1_000_000  # nine hours of 30 frames a second
COUNTED = frozenset({".mp4", ".m4v", ".mov", ".avi"})  # their header says how many frames there are
LEAST_SHARE = 0.9  # of these frames; fewer are a damaged file
FORMATS = "mov,mp4,avi,matroska,webm,mpeg,mpegts,mpegvideo,asf"  # FFmpeg's names
_OPTIONS = f"threads;1|protocol_whitelist;file|format_whitelist;{FORMATS}"
_NO_MEMORY = -4  # OpenCV's code
_KEPT_FRAMES = 2  # memory for these in all forms a picture takes; codecs keep up to sixteen in their own
_NO_READER = "a video needs OpenCV: pip install opencv-python-headless"

Allow = Callable[[int], None]  # is told the pixels of what comes next


def read_video(path: Path) -> Iterator[Image.Image]:
    """Yield the frames of a video; raise ``Refused`` if it is damaged, too large or too costly, or without OpenCV."""
    try:
        open_regular(path).close()
    except ValueError:
        raise Refused("unreadable", "it is not a regular file") from None
    request = {"kind": "video", "path": os.path.abspath(path), "most": MAX_PIXELS}  # noqa: PTH100 (links stay)
    for frame in decoded(request, b""):
        assert isinstance(frame, Image.Image)
        yield frame


def load_opencv() -> Any:
    """Import OpenCV, which no other part needs; None if that fails."""
    os.environ["OPENCV_FFMPEG_CAPTURE_OPTIONS"] = _OPTIONS
    try:
        return importlib.import_module("cv2")
    except ImportError:
        return None


def decode_video(path: str, most: int, allow: Allow) -> Iterator[Image.Image]:
    """Yield the frames of a video file, in the decoding process.

    Args:
        path: the file; OpenCV reads no bytes.
        most: most pixels of a frame.
        allow: sets the limits for a frame of so many pixels.
    """
    cv2 = load_opencv()
    if cv2 is None:
        raise Refused("no reader", _NO_READER)
    try:
        yield from _frames(cv2, path, most, allow)
    except Refused:
        raise
    except Exception as error:  # a damaged file can make it raise anything
        if isinstance(error, MemoryError) or getattr(error, "code", 0) == _NO_MEMORY or "bad_alloc" in str(error):
            raise Refused("too large", "it needs more memory than a video of its size") from None
        raise Refused("unreadable", "OpenCV cannot decode it") from None


def _frames(cv2: Any, path: str, most: int, allow: Allow) -> Iterator[Image.Image]:
    capture = cv2.VideoCapture(path, cv2.CAP_FFMPEG)
    width, height, promised = (
        int(capture.get(one)) for one in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT, cv2.CAP_PROP_FRAME_COUNT)
    )
    if not capture.isOpened() or width < 1 or height < 1:
        raise Refused("unreadable", "no frame can be decoded: it is damaged, or not a video of a known format")
    check_pixels(height, width, most=most)
    count = 0
    while True:
        allow(_KEPT_FRAMES * width * height)
        there, frame = capture.read()
        if not there:
            break
        count += 1
        height, width = frame.shape[:2]
        check_pixels(height, width, most=most)
        if max(count, promised) > MAX_VIDEO_FRAMES:
            raise Refused("too large", f"it has over {MAX_VIDEO_FRAMES:,} frames; cut it first")
        yield Image.fromarray(frame[..., ::-1].copy())  # blue, green, red
    if count == 0 or (PurePath(path).suffix.casefold() in COUNTED and count < LEAST_SHARE * promised):
        raise Refused("truncated", f"{count or 'no'} frame{'s' * (count != 1)} of {promised:,} can be decoded")
