"""Writing a film: MP4 with H.264, the time stamps and the sound of the film that it is made from.

Needs PyAV, the extra ``video``. H x W is a frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fpgm.data.pictures import Refused
from fpgm.data.videos import Video, VideoFrame, add_sound, load_av
from fpgm.files import atomic_path

_ENCODER = "libx264"
_SETTINGS = {"crf": "18", "preset": "superfast"}  # hardly to be told from the original; 1.7 times as fast as veryfast
_BT709 = 1  # FFmpeg's number of the colours of HD films


class FilmWriter:
    """A film while it is written; see `write_film`.

    Attributes:
        lost_sound: why the sound is not in it; nothing if it is, or if there is none.
    """

    def __init__(self, path: Path, video: Video) -> None:
        self._video, self._stream = video, None
        self._file: Any = load_av().open(str(path), "w", format="mp4")
        self.lost_sound = ""

    def add(self, frame: VideoFrame) -> None:
        """Add a frame; all get the size of the first."""
        av = load_av()
        stream = self._stream = self._stream or self._begin(frame.picture)
        size = stream.width, stream.height
        picture = frame.picture if _even(frame.picture.size) == size else frame.picture.resize(size)
        shown = av.VideoFrame.from_ndarray(_padded(picture), format="rgb24")
        shown = shown.reformat(format="yuv420p", dst_colorspace=_BT709, dst_color_range=_BT709)
        shown.pts, shown.time_base = frame.ticks, self._video.time_base
        self._file.mux(stream.encode(shown))

    def _begin(self, picture: Image.Image) -> Any:
        try:
            stream = self._file.add_stream(_ENCODER, rate=self._video.rate, options=_SETTINGS)
        except ValueError:  # of codecs that are not there
            raise ValueError(f"PyAV was built without {_ENCODER}: install it from PyPI, or give --save masks") from None
        stream.width, stream.height = _even(picture.size)
        stream.pix_fmt = "yuv420p"  # what every player plays
        codec = stream.codec_context
        codec.time_base = stream.time_base = self._video.time_base
        codec.sample_aspect_ratio = self._video.aspect
        codec.colorspace = codec.color_primaries = codec.color_trc = codec.color_range = _BT709
        return stream

    def end(self) -> None:
        """Write what the encoder still holds, and close the file."""
        if self._stream is not None:
            self._file.mux(self._stream.encode())
        self.close()

    def close(self) -> None:
        """Close the file as it is."""
        self._file.close()


@contextmanager
def write_film(path: Path, video: Video, source: Path) -> Iterator[FilmWriter]:
    """Write a film atomically: it is at its place when the block ends without an error, and nothing is left else.

    Args:
        path: MP4 file to write.
        video: the film whose times it has.
        source: the file of that film, whose sound is copied when all frames are written.
    """
    with atomic_path(path) as draft:
        silent = draft.with_name(f"{draft.name}.silent.part") if video.sound else draft  # a name that is cleared away
        writer = FilmWriter(silent, video)
        try:
            yield writer
            writer.end()
            if silent != draft:
                try:
                    add_sound(silent, source, draft)
                except Refused as refusal:
                    writer.lost_sound = str(refusal)
                    silent.replace(draft)
        finally:
            writer.close()
            if silent != draft:
                silent.unlink(missing_ok=True)


def _even(size: tuple[int, int]) -> tuple[int, int]:
    """Return width and height, an odd one with a pixel more: the colours of two pixels are kept as one."""
    return size[0] + size[0] % 2, size[1] + size[1] % 2


def _padded(picture: Image.Image) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the pixels (H, W, 3); the last row or column is repeated where their number is odd."""
    pixels = np.asarray(picture.convert("RGB"))
    height, width = pixels.shape[:2]
    return np.pad(pixels, ((0, height % 2), (0, width % 2), (0, 0)), "edge") if height % 2 or width % 2 else pixels
