"""A film through a predictor: rows with times, an overlay film, smoothing, second runs, broken films."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fpgm.data.videos import open_video
from fpgm.files import LOCK
from fpgm.serving.folders import films
from fpgm.serving.folders.inputs import find_sources
from fpgm.serving.folders.predict import Summary, predict_files
from fpgm.serving.pictures import COLOUR, Kind
from fpgm.serving.predictor import Predictor
from tests.data.films import make_film, sound_packets, times
from tests.serving.making import Red

SIZE = 64, 48
OFF, ON = np.zeros((48, 64), np.uint8), np.zeros((48, 64), np.uint8)
ON[12:36, 16:48] = 255


@pytest.fixture
def film(tmp_path: Path) -> Path:
    """Five frames at uneven times, of which the second and the last two show a square; with sound."""
    (tmp_path / "in").mkdir()
    ticks = [0, 1280, 3840, 5120, 6400]
    frames = [OFF, ON, OFF, ON, ON]
    return make_film(tmp_path / "in" / "film.mp4", frames, sound="aac", ticks=ticks.__getitem__)


def predict(film: Path, kinds: tuple[Kind, ...] | None = None, **options: float) -> Summary:
    smoothing = options.pop("smoothing", 0.0)
    predictor = Predictor(Red(), **options)  # type: ignore[arg-type]  # settings by **
    return predict_files(
        predictor, find_sources([str(film.parent)]), film.parents[1] / "out", kinds, smoothing=smoothing
    )


def rows(film: Path) -> list[dict[str, str]]:
    with (film.parents[1] / "out" / "findings.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def written(film: Path) -> list[str]:
    out = film.parents[1] / "out"
    return sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file() and path.name != LOCK)


def test_a_film_gives_a_row_a_frame_and_a_film_with_outlines(film: Path) -> None:
    done = predict(film)
    assert (done.done, done.pictures, done.polyps) == (1, 5, 3) and done.problems == []
    assert [(row["frame"], row["time"], row["polyp"]) for row in rows(film)] == [
        ("1", "0.000", "0"), ("2", "0.100", "1"), ("3", "0.300", "0"), ("4", "0.400", "1"), ("5", "0.500", "1")
    ]  # fmt: skip
    assert written(film) == ["films/film.mp4", "findings.csv", "predictions.jsonl"]
    out = film.parents[1] / "out" / "films" / "film.mp4"
    assert times(out) == times(film) and sound_packets(out) == sound_packets(film)
    shown = [np.asarray(frame.picture).astype(int) for frame in open_video(out).frames]
    outlined = [(np.abs(one - COLOUR).max(-1) < 60).sum() > 50 for one in shown]
    assert outlined == [False, True, False, True, True]
    assert "film.mp4: 5 frames, " in done.films[0].describe() and "frames per second" in done.films[0].describe()


def test_pictures_of_the_frames_are_written_where_asked(film: Path) -> None:
    predict(film, ("masks", "overlays"))
    names = [f"{number:06d}" for number in range(1, 6)]
    pictures = [f"masks/film/{name}.png" for name in names] + [f"overlays/film/{name}.jpg" for name in names]
    assert written(film) == ["findings.csv", *pictures, "predictions.jsonl"]
    mask = np.asarray(Image.open(film.parents[1] / "out" / "masks/film/000002.png")) > 0
    assert 0.7 < (mask & (ON > 0)).sum() / (mask | (ON > 0)).sum() <= 1


def test_smoothing_takes_away_a_flash_and_lags_behind(film: Path) -> None:
    predict(film, smoothing=0.12)
    # 0, 0.44 after 0.1 s, 0.14 after 0.2 s more, then 0.52 and 0.73, each less where red is not full
    found = [row["polyp"] for row in rows(film)]
    assert found[:3] == ["0", "0", "0"] and found[4] == "1"


def test_what_is_there_is_not_computed_again(film: Path) -> None:
    predict(film)
    out = film.parents[1] / "out" / "films" / "film.mp4"
    assert predict(film).kept == 1
    out.unlink()
    assert predict(film).done == 1 and out.is_file()
    assert predict(film, threshold=0.9).done == 1
    assert predict(film, ("masks",)).done == 1 and not out.exists()  # of another prediction


def test_memory_holds_a_pass_of_frames(film: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    video = open_video(film)
    sizes = [len(part) for part in films._passes(video.frames, 2)]
    assert sizes == [2, 2, 1]
    monkeypatch.setattr(films, "FRAME_PIXELS", 64 * 48)
    assert [len(part) for part in films._passes(open_video(film).frames, 8)] == [2, 2, 1]


@pytest.mark.parametrize("kinds", [None, ("masks", "films")])
def test_a_film_that_breaks_off_is_named_and_leaves_nothing(film: Path, kinds: tuple[Kind, ...] | None) -> None:
    data = film.read_bytes()
    place = data.index(b"stsz")  # the sizes of the frames: all but the first become nonsense
    film.write_bytes(data[: place + 20] + b"\x00\x00\x00\x01" * 4 + data[place + 36 :])
    done = predict(film, kinds)
    assert [problem.path for problem in done.problems] == [film] and "can be decoded" in done.problems[0].reason
    assert written(film) == ["findings.csv", "predictions.jsonl"] and rows(film) == []


def test_films_and_pictures_of_one_folder(film: Path) -> None:
    Image.fromarray(np.stack([ON, OFF, OFF], -1)).save(film.with_name("still.png"))
    (film.parent / "bad.avi").write_text("hello")
    seen: list[tuple[str, int, int]] = []
    sources, out = find_sources([str(film.parent)]), film.parents[1] / "out"
    done = predict_files(Predictor(Red()), sources, out, None, lambda *one: seen.append(one))
    assert (done.done, done.pictures) == (2, 6) and [one.path.name for one in done.problems] == ["bad.avi"]
    assert [row["time"] for row in rows(film) if row["name"] == "still"] == [""]
    assert ("frames of film.mp4", 5, 5) in seen and seen[-1] == ("files", 3, 3)
    assert "masks/still.png" in written(film) and "masks/film/000001.png" not in written(film)
