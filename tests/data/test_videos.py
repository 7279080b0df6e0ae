"""Videos: frames in order, limits that hold whatever OpenCV does with a file, and files that are not videos."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fpgm.data import videos
from fpgm.data.pictures import MAX_PIXELS, Refused, read_picture
from fpgm.data.sandbox import stop_decoders
from fpgm.data.videos import decode_video, read_video
from tests.data import opencv
from tests.data.pictures import encoded
from tests.special_files import KINDS, make_special


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for videos, and decoding processes that import what stands in for OpenCV."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "cv2.py").write_text(opencv.SOURCE.replace("Path(__file__).read_text", "str"))
    monkeypatch.syspath_prepend(tmp_path / "library")
    stop_decoders()
    yield tmp_path
    stop_decoders()


def film(folder: Path, frames: str, header: str = "6 4 2", name: str = "a.mp4") -> Path:
    (folder / name).write_text(f"{header}\n{frames}")
    return folder / name


def test_frames_come_in_order_and_in_red_green_blue(fake: Path) -> None:
    found = list(read_video(film(fake, "10 20")))
    assert [frame.getpixel((0, 0)) for frame in found] == [(10, 0, 0), (20, 0, 0)]
    assert all(frame.size == (6, 4) for frame in found)


def test_ffmpeg_is_told_which_formats_it_may_open(fake: Path) -> None:
    assert next(read_video(film(fake, "formats"))).getpixel((0, 0)) == (7, 0, 0)


@pytest.mark.parametrize(
    ("frames", "header", "words"),
    [
        ("10 hang", "6 4 2", "takes too long to decode"),
        ("10 fill", "6 4 2", "needs more memory than a video of its size"),
        ("10 full", "6 4 2", "needs more memory than a video of its size"),
        ("10 fail", "6 4 2", "^OpenCV cannot decode it$"),
        ("10", "9000 8000 1", "8,000 x 9,000 is over 67,108,864 pixels"),
        ("10 grow", "6000 6000 2", "12,000 x 12,000 is over 67,108,864 pixels"),
        ("10", "6 4 1000001", "has over 1,000,000 frames"),
        ("10", "0 4 1", "no frame can be decoded"),
        ("", "", "no frame can be decoded"),
        ("", "6 4 3", "no frames of 3 can be decoded"),
        ("10 20 30 40 50 60 70 80", "6 4 9", "8 frames of 9 can be decoded"),
    ],
)
def test_a_bad_video_is_one_sentence(frames: str, header: str, words: str, fake: Path) -> None:
    with pytest.raises(Refused, match=words):
        for _ in read_video(film(fake, frames, header)):
            pass
    assert len(list(read_video(film(fake, "1 2")))) == 2  # the next one is read


def test_frames_beyond_the_limit_are_not_read(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(videos, "MAX_VIDEO_FRAMES", 2)
    monkeypatch.setattr(videos, "load_opencv", lambda: opencv)
    found = decode_video(str(film(fake, "1 2 3", "6 4 0")), MAX_PIXELS, lambda pixels: None)
    assert [next(found).getpixel((0, 0)), next(found).getpixel((0, 0))] == [(1, 0, 0), (2, 0, 0)]
    with pytest.raises(Refused, match="has over 2 frames"):
        next(found)


def test_limits_are_set_before_each_frame_for_its_size(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(videos, "load_opencv", lambda: opencv)
    allowed: list[int] = []
    list(decode_video(str(film(fake, "1 grow")), MAX_PIXELS, allowed.append))
    assert allowed == [48, 48, 192]  # twice the pixels of the frame before


def test_a_number_of_frames_that_the_format_only_guesses_is_not_held_against_it(fake: Path) -> None:
    assert len(list(read_video(film(fake, "1 2", "6 4 900", name="a.webm")))) == 2


def test_pictures_are_decoded_by_the_same_process_after_a_video(fake: Path) -> None:
    list(read_video(film(fake, "10 20")))
    assert read_picture(encoded(Image.new("RGB", (1500, 1500)))).size == (1500, 1500)


def test_without_opencv_a_video_says_what_it_needs(fake: Path) -> None:
    (fake / "library" / "cv2.py").write_text("raise ImportError('libGL.so.1')")
    with pytest.raises(Refused, match="pip install opencv-python-headless"):
        next(read_video(film(fake, "10")))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_is_refused_and_not_waited_for(kind: str, tmp_path: Path) -> None:
    path = make_special(kind, tmp_path / "a.mp4")
    with pytest.raises(Refused, match="not a regular file"):
        next(read_video(path))


@pytest.fixture
def real() -> Any:
    return pytest.importorskip("cv2", reason="OpenCV is optional")


def write(cv2: Any, path: Path, code: str, count: int = 12) -> Path:
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*code), 25, (64, 48))
    for number in range(count):
        writer.write(np.full((48, 64, 3), (0, 0, 20 * number % 256), np.uint8))
    writer.release()
    return path


@pytest.mark.parametrize(("name", "code"), [("a.avi", "MJPG"), ("a.mp4", "mp4v"), ("a.mkv", "VP80"), ("a.wmv", "WMV2")])
def test_opencv_reads_common_videos(real: Any, name: str, code: str, tmp_path: Path) -> None:
    found = [np.asarray(frame) for frame in read_video(write(real, tmp_path / name, code))]
    assert [frame.shape for frame in found] == [(48, 64, 3)] * 12
    assert np.allclose([frame[..., 0].mean() for frame in found], np.arange(12) * 20, atol=12)
    assert max(frame[..., 2].mean() for frame in found) < 12


@pytest.mark.parametrize(
    "text", ["ffconcat version 1.0\nfile a.avi\n", "#EXTM3U\n#EXTINF:1,\na.avi\n#EXT-X-ENDLIST\n", "", "\0" * 5000]
)
def test_a_playlist_opens_no_other_file(real: Any, text: str, tmp_path: Path) -> None:
    write(real, tmp_path / "a.avi", "MJPG")
    (tmp_path / "list.avi").write_text(text)
    with pytest.raises(Refused, match="no frame can be decoded"):
        list(read_video(tmp_path / "list.avi"))


def test_half_a_video_is_refused(real: Any, tmp_path: Path) -> None:
    path = write(real, tmp_path / "a.avi", "MJPG", 100)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 4])
    with pytest.raises(Refused, match="of 100 can be decoded"):
        list(read_video(path))
