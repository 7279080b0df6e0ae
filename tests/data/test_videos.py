"""Films: frames in order with their times, sound, limits that hold whatever PyAV does with a file, and other files."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fpgm.data import videos
from fpgm.data.pictures import MAX_PIXELS, Refused, read_picture
from fpgm.data.sandbox import stop_decoders
from fpgm.data.videos import VideoFrame, add_sound, decode_video, open_video, read_video
from tests.data import pyav
from tests.data.films import make_film, sound_packets
from tests.data.pictures import encoded
from tests.special_files import KINDS, make_special


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for films, and decoding processes that import what stands in for PyAV."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "av.py").write_text(pyav.SOURCE.replace("Path(__file__).read_text", "str"))
    monkeypatch.syspath_prepend(tmp_path / "library")
    stop_decoders()
    yield tmp_path
    stop_decoders()


def script(folder: Path, frames: str, header: str = "6 4 2", name: str = "a.mp4") -> Path:
    (folder / name).write_text(f"{header}\n{frames}")
    return folder / name


def test_frames_come_in_order_with_their_times(fake: Path) -> None:
    found = list(open_video(script(fake, "10 20")).frames)
    assert [frame.picture.getpixel((0, 0)) for frame in found] == [(10, 0, 0), (20, 0, 0)]
    assert all(frame.picture.size == (6, 4) for frame in found) and [frame.ticks for frame in found] == [0, 4]


def test_a_frame_without_a_time_is_shown_after_the_one_before(fake: Path) -> None:
    assert [frame.ticks for frame in open_video(script(fake, "1 late 3 4", "6 4 4")).frames] == [0, 4, 8, 12]


def test_ffmpeg_is_told_which_formats_it_may_open(fake: Path) -> None:
    assert next(read_video(script(fake, "formats"))).getpixel((0, 0)) == (7, 0, 0)


@pytest.mark.parametrize(
    ("frames", "header", "words"),
    [
        ("10 hang", "6 4 2", "takes too long to decode"),
        ("10 fill", "6 4 2", "needs more memory than a film of its size"),
        ("10 bad", "6 4 2", "^1 frame of 2 can be decoded$"),
        ("10", "9000 8000 1", "8,000 x 9,000 is over 67,108,864 pixels"),
        ("10 grow", "4200 4200 2", "8,400 x 8,400 is over 67,108,864 pixels"),
        ("10", "6 4 1000001", "has over 1,000,000 frames"),
        ("10", "0 4 1", "no frame can be decoded"),
        ("", "6 4 3", "no frames of 3 can be decoded"),
        ("", "6 4 0", "no frame can be decoded: it is damaged"),
        ("10 20 30 40 50 60 70 80", "6 4 9", "8 frames of 9 can be decoded"),
    ],
)
def test_a_bad_film_is_one_sentence(frames: str, header: str, words: str, fake: Path) -> None:
    with pytest.raises(Refused, match=words):
        for _ in read_video(script(fake, frames, header)):
            pass
    assert len(list(read_video(script(fake, "1 2")))) == 2  # the next one is read


def test_frames_beyond_the_limit_are_not_read(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(videos, "MAX_VIDEO_FRAMES", 2)
    monkeypatch.setattr(videos, "load_av", lambda: pyav)
    found = decode_video(str(script(fake, "1 2 3", "6 4 0")), MAX_PIXELS, lambda pixels: None)
    assert [isinstance(next(found), kind) for kind in (dict, VideoFrame, VideoFrame)] == [True] * 3
    with pytest.raises(Refused, match="has over 2 frames"):
        next(found)


def test_limits_are_set_for_the_size_of_each_frame(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(videos, "load_av", lambda: pyav)
    allowed: list[int] = []
    list(decode_video(str(script(fake, "1 grow")), MAX_PIXELS, allowed.append))
    assert allowed == [48, 48, 192]  # twice the pixels of a frame


def test_a_number_of_frames_that_the_format_only_guesses_is_not_held_against_it(fake: Path) -> None:
    assert len(list(read_video(script(fake, "1 2", "6 4 900", name="a.webm")))) == 2


def test_pictures_are_decoded_by_the_same_process_after_a_film(fake: Path) -> None:
    list(read_video(script(fake, "10 20")))
    assert read_picture(encoded(Image.new("RGB", (1500, 1500)))).size == (1500, 1500)


def test_without_pyav_a_film_says_what_it_needs(fake: Path) -> None:
    (fake / "library" / "av.py").write_text("raise ImportError('libx.so.1')")
    with pytest.raises(Refused, match=r"pip install 'fpgm\[video\]'"):
        next(read_video(script(fake, "10")))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_is_refused_and_not_waited_for(kind: str, tmp_path: Path) -> None:
    path = make_special(kind, tmp_path / "a.mp4")
    with pytest.raises(Refused, match="not a regular file"):
        next(read_video(path))


def test_a_file_that_is_too_large_is_not_opened(tmp_path: Path) -> None:
    with (tmp_path / "a.mp4").open("wb") as file:
        file.truncate(2**36 + 1)
    with pytest.raises(Refused, match="68,719,476,737 bytes are over"):
        open_video(tmp_path / "a.mp4")


REDS = [20 * number for number in range(12)]


@pytest.mark.parametrize(
    ("name", "codec"), [("a.avi", "mjpeg"), ("a.mp4", "libx264"), ("a.mkv", "libvpx"), ("a.mpg", "mpeg2video")]
)
def test_common_films_are_read(name: str, codec: str, tmp_path: Path) -> None:
    base = Fraction(1, 25)
    video = open_video(make_film(tmp_path / name, REDS, codec=codec, base=base, ticks=lambda number: number))
    found = list(video.frames)
    pixels = [np.asarray(frame.picture) for frame in found]
    assert [one.shape for one in pixels] == [(48, 64, 3)] * 12
    assert np.allclose([one[..., 0].mean() for one in pixels], REDS, atol=12)
    assert max(one[..., 2].mean() for one in pixels) < 12
    seconds = [float(frame.ticks * video.time_base) for frame in found]
    assert np.allclose(np.subtract(seconds, seconds[0]), np.arange(12) / 25, atol=1e-3)
    assert video.expected == 12 or name == "a.mpg"  # which says nothing of its length


def test_times_need_not_be_even_and_pixels_not_square(tmp_path: Path) -> None:
    path = make_film(tmp_path / "a.mp4", REDS[:4], ticks=lambda k: 100 * k * k, sound="aac", aspect=Fraction(16, 15))
    video = open_video(path)
    assert (video.aspect, video.sound, video.time_base) == (Fraction(16, 15), True, Fraction(1, 12800))
    assert [frame.ticks for frame in video.frames] == [0, 100, 400, 900]


def test_a_film_that_says_it_was_turned_is_turned_back(tmp_path: Path) -> None:
    left = np.repeat([[200] * 16 + [0] * 48], 48, axis=0).astype(np.uint8)
    path = make_film(tmp_path / "a.mp4", [left, left])
    data = path.read_bytes()
    matrix = data.index(b"tkhd") + 44  # after version, times, track, duration, layer and volume
    one, minus = (1 << 16).to_bytes(4, "big"), (-(1 << 16)).to_bytes(4, "big", signed=True)
    assert data[matrix : matrix + 4] == one
    quarter = b"".join((bytes(4), one, bytes(4), minus, bytes(4), bytes(4), (48 << 16).to_bytes(4, "big"), bytes(4)))
    path.write_bytes(data[:matrix] + quarter + data[matrix + 32 :])
    # by the matrix of ISO 14496-12, x becomes y and y becomes 48 - x: what was at the left is at the top
    picture = np.asarray(next(read_video(path)))[..., 0]
    assert picture.shape == (64, 48) and picture[:12].min() > 150 and picture[20:].max() < 50


@pytest.mark.parametrize(
    "text", ["ffconcat version 1.0\nfile a.avi\n", "#EXTM3U\n#EXTINF:1,\na.avi\n#EXT-X-ENDLIST\n", "", "\0" * 5000]
)
def test_a_playlist_opens_no_other_file(text: str, tmp_path: Path) -> None:
    make_film(tmp_path / "a.avi", REDS, codec="mjpeg", base=Fraction(1, 25), ticks=lambda number: number)
    (tmp_path / "list.avi").write_text(text)
    with pytest.raises(Refused, match="no frame can be decoded"):
        list(read_video(tmp_path / "list.avi"))


def test_half_a_film_is_refused(tmp_path: Path) -> None:
    base = Fraction(1, 25)
    path = make_film(tmp_path / "a.avi", [100] * 60, codec="mjpeg", base=base, ticks=lambda number: number)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    with pytest.raises(Refused, match="can be decoded"):
        list(read_video(path))


@pytest.mark.parametrize(("name", "codec", "sound"), [("a.mp4", "libx264", "aac"), ("a.avi", "mpeg4", "libmp3lame")])
def test_sound_is_copied_and_not_encoded_anew(name: str, codec: str, sound: str, tmp_path: Path) -> None:
    base = Fraction(1, 25)
    source = make_film(tmp_path / name, REDS, codec=codec, sound=sound, base=base, ticks=lambda number: number)
    silent = make_film(tmp_path / "silent.mp4", REDS)
    add_sound(silent, source, tmp_path / "out.mp4")
    heard, copied = sound_packets(source), sound_packets(tmp_path / "out.mp4")
    assert len(heard) > 10 and [data for _, data in copied] == [data for _, data in heard]
    assert np.allclose([time for time, _ in copied], [time for time, _ in heard], atol=0.03)
    assert [frame.ticks for frame in open_video(tmp_path / "out.mp4").frames] == [512 * number for number in range(12)]


def test_sound_that_cannot_be_copied_is_one_sentence(tmp_path: Path) -> None:
    silent = make_film(tmp_path / "silent.mp4", REDS)
    with pytest.raises(Refused, match=r"^its sound cannot be copied$"):
        add_sound(silent, silent, tmp_path / "out.mp4")
