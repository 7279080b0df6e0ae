"""What stands in for PyAV in tests: a module whose films are files of text that say what each frame does."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

SOURCE = Path(__file__).read_text(encoding="utf-8")
kept = []


class Film:
    """A film: width, height and the number of frames it promises, then a word for each frame.

    A number is a frame of that red. `hang` computes for ever, `fill` takes memory, `grow` is a frame of twice the side,
    `bad` is a damaged packet, `late` a frame without a time, `formats` a frame of red 7 if FFmpeg is told which formats
    it may open.
    """

    def __init__(self, path: str, options: dict[str, str]) -> None:
        header, _, frames = Path(path).read_text().partition("\n")
        self.name, self.duration, self.options, self.rest = path, None, options, frames.split()
        width, height, count = (int(word) for word in header.split())
        codec, base = SimpleNamespace(thread_count=0), Fraction(1, 100)
        stream = SimpleNamespace(width=width, height=height, frames=count, codec_context=codec, time_base=base)
        stream.average_rate, stream.sample_aspect_ratio = Fraction(25), None
        self.stream = stream
        self.streams = SimpleNamespace(best=lambda kind: stream, audio=[])

    def __enter__(self) -> Film:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def demux(self, stream: object) -> Any:
        return (SimpleNamespace(decode=lambda word=word, k=k: self.decode(word, k)) for k, word in enumerate(self.rest))

    def decode(self, word: str, number: int) -> list[Any]:
        if word == "hang":
            while True:
                pass
        if word == "fill":
            kept.append(np.ones(2**30, np.uint8))
        if word == "bad":
            raise ValueError("[Errno 1] Invalid data: '/a/path'")
        if word == "formats":
            told = self.options["format_whitelist"]
            word = "7" if "mp4" in told and "hls" not in told and self.options["protocol_whitelist"] == "file" else "0"
        side = 2 if word == "grow" else 1
        pixels = np.zeros((side * self.stream.height, side * self.stream.width, 3), np.uint8)
        pixels[..., 0] = int(word) if word.isdigit() else 0
        pts = None if word == "late" else 4 * number
        base, size = Fraction(1, 100), {"height": pixels.shape[0], "width": pixels.shape[1]}
        return [SimpleNamespace(**size, pts=pts, time_base=base, rotation=0, to_ndarray=lambda format: pixels)]


def open(path: str, options: dict[str, str]) -> Film:
    return Film(path, options)
