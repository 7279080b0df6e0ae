"""Small films for tests, made by PyAV: frames of one red, with or without sound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

BASE = Fraction(1, 12800)


def make_film(
    path: Path,
    reds: Sequence[int | NDArray[np.uint8]],
    size: tuple[int, int] = (64, 48),
    *,
    codec: str = "libx264",
    sound: str = "",
    base: Fraction = BASE,
    ticks: Callable[[int], int] = lambda number: 512 * number,
    aspect: Fraction | None = None,
) -> Path:
    """Write a film whose frames are of these reds, each one number or (H, W), shown at these ticks of a time base."""
    with av.open(str(path), "w") as file:
        stream: Any = file.add_stream(codec, rate=25)
        stream.width, stream.height = size
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        stream.codec_context.time_base = stream.time_base = base
        if aspect:
            stream.codec_context.sample_aspect_ratio = aspect
        heard: Any = file.add_stream(sound, rate=48_000, layout="mono") if sound else None
        for number, red in enumerate(reds):
            pixels = np.zeros((size[1], size[0], 3), np.uint8)
            pixels[..., 0] = red
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts, frame.time_base = ticks(number), base
            file.mux(stream.encode(frame))
        file.mux(stream.encode())
        if heard:
            for number in range(20):
                tone = (8000 * np.sin(np.arange(1024) / 9)).astype(np.int16)[None]
                part = av.AudioFrame.from_ndarray(tone, format="s16", layout="mono")
                part.sample_rate, part.pts, part.time_base = 48_000, 1024 * number, Fraction(1, 48_000)
                file.mux(heard.encode(part))
            file.mux(heard.encode())
    return path


def times(path: Path) -> list[float]:
    """Return when each frame of a film is shown, in seconds."""
    with av.open(str(path)) as file:
        return [float(frame.pts * frame.time_base) for frame in file.decode(video=0)]


def sound_packets(path: Path) -> list[tuple[float, bytes]]:
    """Return the packets of the sound with their times."""
    with av.open(str(path)) as file:
        packets = [packet for packet in file.demux(audio=0) if packet.pts is not None]
        return [(float(packet.pts * packet.time_base), bytes(packet)) for packet in packets]
