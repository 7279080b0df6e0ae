"""Predict a film frame by frame: each frame is decoded, predicted, smoothed, written and forgotten."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fpgm.data.names import plural, printable
from fpgm.data.videos import Video, VideoFrame, open_video
from fpgm.serving.films import FilmWriter, write_film
from fpgm.serving.pictures import Kind, overlay, place
from fpgm.serving.predictor import Predicted, Predictor
from fpgm.serving.smoothing import Smoother

FRAME_PIXELS = 2**25  # of the frames that wait together


@dataclass(frozen=True)
class FilmDone:
    """A film that was predicted.

    Attributes:
        path: the film.
        frames: number of its frames.
        seconds: time that all took: decoding, prediction and writing.
        lost_sound: why its sound is not in the film with outlines; nothing if it is, or if there is none.
    """

    path: Path
    frames: int
    seconds: float
    lost_sound: str

    def describe(self) -> str:
        """Return a sentence about it, with its speed."""
        name, speed = printable(self.path.name), self.frames / max(self.seconds, 1e-9)
        sound = f"; without sound: {self.lost_sound}" if self.lost_sound else ""
        return f"{name}: {plural(self.frames, 'frame')}, {speed:.1f} frames per second{sound}"


class FoundFrame(NamedTuple):
    """A frame, what was found in it, and the seconds since the first frame."""

    frame: VideoFrame
    found: Predicted
    time: float


def predict_film(
    predictor: Predictor,
    path: Path,
    out: Path,
    name: str,
    kinds: Sequence[Kind],
    smoothing: float,
    take: Callable[[FoundFrame], None],
    advance: Callable[[int, int], None],
) -> FilmDone:
    """Predict a film, and write OUT/films/<name>.mp4 with outlines if `kinds` has films.

    A film that cannot be read to its end raises ``Refused``, and no film is written.

    Args:
        predictor: the model.
        path: the film.
        out: folder of results.
        name: name of the results.
        kinds: kinds of results.
        smoothing: half-life of the average over frames in seconds; 0 for none.
        take: is given each frame with what was found.
        advance: is told how many frames are done, and how many there will be.
    """
    began, count, lost = time.monotonic(), 0, ""
    video = open_video(path)
    writing = write_film(place(out, "films", name), video, path) if "films" in kinds else nullcontext(None)
    with writing as film:
        for one in find(predictor, video, smoothing):
            take(one)
            count += 1
            if film is not None:
                _draw(film, one)
            advance(count, max(count, video.expected))
    if film is not None:
        lost = film.lost_sound
    return FilmDone(path, count, time.monotonic() - began, lost)


def find(predictor: Predictor, video: Video, smoothing: float) -> Iterator[FoundFrame]:
    """Yield each frame of a film with what was found in it, smoothed over the frames before."""
    smooth, start = Smoother(smoothing), None
    for frames in _passes(video.frames, predictor.batch_size):
        for frame, found in zip(frames, predictor.examine([frame.picture for frame in frames]), strict=True):
            start = frame.ticks if start is None else start
            at = float((frame.ticks - start) * video.time_base)
            if smoothing:
                plane = smooth(found.probability, at)
                found = found._replace(mask=predictor.mask(plane), probability=plane)
            yield FoundFrame(frame, found, at)


def _passes(frames: Iterable[VideoFrame], batch_size: int) -> Iterator[list[VideoFrame]]:
    """Yield frames in numbers that fit a pass and the memory."""
    waiting: list[VideoFrame] = []
    for frame in frames:
        waiting.append(frame)
        pixels = sum(one.picture.width * one.picture.height for one in waiting)
        if len(waiting) == batch_size or pixels > FRAME_PIXELS:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _draw(film: FilmWriter, one: FoundFrame) -> None:
    film.add(one.frame._replace(picture=overlay(one.frame.picture, one.found.mask)))
