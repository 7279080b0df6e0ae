"""Films that are written: times, colours, sizes, sound, and nothing left where something went wrong."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fpgm.data.pictures import Refused
from fpgm.data.videos import Video, VideoFrame, open_video
from fpgm.serving import films
from fpgm.serving.films import write_film
from tests.data.films import make_film, sound_packets, times

COLOURS = [(200, 30, 60), (20, 180, 90), (250, 250, 0)]


def frames(size: tuple[int, int] = (64, 48)) -> list[VideoFrame]:
    pictures = [Image.new("RGB", size, colour) for colour in COLOURS]
    return [VideoFrame(picture, ticks) for picture, ticks in zip(pictures, (0, 300, 1700), strict=True)]


def video(*, sound: bool = False, base: Fraction = Fraction(1, 12800)) -> Video:
    return Video(iter(()), 3, base, Fraction(25), Fraction(16, 15), sound)


def test_times_and_colours_are_kept(tmp_path: Path) -> None:
    with write_film(tmp_path / "a.mp4", video(), tmp_path / "none") as film:
        for frame in frames():
            film.add(frame)
    assert times(tmp_path / "a.mp4") == [0, 300 / 12800, 1700 / 12800]
    found = open_video(tmp_path / "a.mp4")
    shown = [np.asarray(frame.picture).reshape(-1, 3).mean(0) for frame in found.frames]
    assert np.abs(np.subtract(shown, COLOURS)).max() < 4 and found.aspect == Fraction(16, 15)
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]


@pytest.mark.parametrize("base", [Fraction(1001, 30_000), Fraction(1, 1000), Fraction(1, 90_000)])
def test_any_time_base_is_kept(base: Fraction, tmp_path: Path) -> None:
    with write_film(tmp_path / "a.mp4", video(base=base), tmp_path / "none") as film:
        for frame in frames():
            film.add(frame)
    assert np.allclose(times(tmp_path / "a.mp4"), [0, 300 * float(base), 1700 * float(base)], atol=1e-5)


def test_odd_sides_and_frames_of_other_sizes(tmp_path: Path) -> None:
    with write_film(tmp_path / "a.mp4", video(), tmp_path / "none") as film:
        for frame in (*frames((61, 47))[:2], frames((30, 20))[2]):
            film.add(frame)
    assert [frame.picture.size for frame in open_video(tmp_path / "a.mp4").frames] == [(62, 48)] * 3


def test_sound_is_that_of_the_source(tmp_path: Path) -> None:
    source = make_film(tmp_path / "source.mp4", [0] * 9, sound="aac")
    with write_film(tmp_path / "a.mp4", video(sound=True), source) as film:
        for frame in frames():
            film.add(frame)
    assert sound_packets(tmp_path / "a.mp4") == sound_packets(source) and film.lost_sound == ""
    assert times(tmp_path / "a.mp4") == [0, 300 / 12800, 1700 / 12800]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.mp4", "source.mp4"]


def test_a_film_whose_sound_cannot_be_copied_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*paths: Path) -> None:
        raise Refused("unreadable", "its sound cannot be copied")

    monkeypatch.setattr(films, "add_sound", refuse)
    with write_film(tmp_path / "a.mp4", video(sound=True), tmp_path / "none") as film:
        for frame in frames():
            film.add(frame)
    assert film.lost_sound == "its sound cannot be copied" and len(times(tmp_path / "a.mp4")) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]


@pytest.mark.parametrize("sound", [False, True])
def test_a_film_that_is_broken_off_leaves_the_old_one(sound: bool, tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_text("old")
    with pytest.raises(KeyboardInterrupt), write_film(tmp_path / "a.mp4", video(sound=sound), tmp_path / "x") as film:
        film.add(frames()[0])
        raise KeyboardInterrupt
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
