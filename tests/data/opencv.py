"""What stands in for OpenCV in tests: a module whose videos are files of text that say what each frame does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

CAP_FFMPEG = 1900
CAP_PROP_FRAME_WIDTH, CAP_PROP_FRAME_HEIGHT, CAP_PROP_FRAME_COUNT = 3, 4, 7
SOURCE = Path(__file__).read_text(encoding="utf-8")
kept = []


class error(Exception):
    code = 0


class VideoCapture:
    """A video: width, height and the number of frames it promises, then a word for each frame.

    A number is a frame of that red. `hang` computes for ever, `fill` takes memory, `grow` is a frame of twice the side,
    `fail` and `full` raise what OpenCV does, `formats` is a frame of red 7 if FFmpeg is told which formats it may open.
    """

    def __init__(self, path: str, backend: int) -> None:
        assert backend == CAP_FFMPEG
        header, _, frames = Path(path).read_text().partition("\n")
        self.header = [int(word) for word in header.split()]
        self.rest = frames.split()

    def isOpened(self) -> bool:
        return bool(self.header)

    def get(self, what: int) -> float:
        places = (CAP_PROP_FRAME_WIDTH, CAP_PROP_FRAME_HEIGHT, CAP_PROP_FRAME_COUNT)
        return float(self.header[places.index(what)]) if self.header else 0.0

    def read(self) -> tuple[bool, Any]:
        if not self.rest:
            return False, None
        word, (width, height, _) = self.rest.pop(0), self.header
        if word == "hang":
            while True:
                pass
        if word == "fill":
            kept.append(np.ones(2**30, np.uint8))
        if word in ("fail", "full"):
            problem = error("OpenCV(0) /a/path.cpp:1")
            problem.code = -4 if word == "full" else -2
            raise problem
        if word == "formats":
            options = os.environ["OPENCV_FFMPEG_CAPTURE_OPTIONS"]
            word = "7" if "format_whitelist;mov," in options and "hls" not in options else "0"
        side = 2 if word == "grow" else 1
        frame = np.zeros((side * height, side * width, 3), np.uint8)
        frame[..., 2] = int(word) if word.isdigit() else 0
        return True, frame
