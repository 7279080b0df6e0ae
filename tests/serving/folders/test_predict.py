"""A folder of files through a predictor: bad ones, second runs, changes, interruptions, names."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from fpgm.files import LOCK
from fpgm.serving.folders.inputs import find_sources
from fpgm.serving.folders.predict import Summary, predict_files
from fpgm.serving.pictures import Kind
from fpgm.serving.predictor import Predictor
from tests.serving.making import Red

KINDS: tuple[Kind, ...] = ("masks", "probabilities", "overlays")


def square(side: int, at: int = 2, size: tuple[int, int] = (30, 20)) -> Image.Image:
    """A red square on black."""
    pixels = np.zeros((size[1], size[0], 3), np.uint8)
    pixels[at : at + side, at : at + side, 0] = 255
    return Image.fromarray(pixels)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Three pictures in two folders."""
    folder = tmp_path / "images"
    (folder / "sub").mkdir(parents=True)
    square(6).save(folder / "a.png")
    square(0).save(folder / "b.bmp")
    square(8).save(folder / "sub" / "a.png")
    return folder


def predict(images: Path, out: Path, engine: Red | None = None, **options: object) -> tuple[Summary, Red]:
    engine = engine or Red()
    kinds: tuple[Kind, ...] = options.pop("kinds", KINDS)  # type: ignore[assignment]  # options of several types
    predictor = Predictor(engine, **options)  # type: ignore[arg-type]  # settings by **
    sources = find_sources([str(images)], [out / kind for kind in KINDS])
    return predict_files(predictor, sources, out, kinds), engine


def table(out: Path) -> list[dict[str, str]]:
    with (out / "findings.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return sorted(rows, key=lambda row: (row["image"], int(row["frame"] or 0), int(row["polyp"])))


def test_the_most_uncertain_come_first_and_films_stay_in_order(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, red in (("sure", 255), ("unsure", 140), ("nothing", 0)):
        square(8).point(lambda value, red=red: red if value else 0).save(tmp_path / "in" / f"{name}.png")
    film = [square(9).point(lambda value, red=red: red if value else 0) for red in (250, 180, 220)]
    film[0].save(tmp_path / "in" / "film.gif", save_all=True, append_images=film[1:])
    predict(tmp_path / "in", tmp_path / "out")
    with (tmp_path / "out" / "findings.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = [row["name"] for row in rows]
    assert names[:5] == ["unsure", "film/000001", "film/000002", "film/000003", "sure"] and names[5] == "nothing"
    assert float(rows[0]["uncertainty"]) > 0.2 and float(rows[-1]["uncertainty"]) == 0
    assert all(row["disagreement"] == "" for row in rows)


def written(out: Path) -> list[str]:
    files = (path for path in out.rglob("*") if path.is_file() and path.name != LOCK)
    return sorted(path.relative_to(out).as_posix() for path in files)


def test_everything_is_written_and_counted(images: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    sources = find_sources([str(images)])
    done = predict_files(Predictor(Red()), sources, tmp_path / "out", advance=lambda *pair: seen.append(pair))
    assert (done.done, done.kept, done.pictures, done.polyps, done.problems) == (3, 0, 3, 2, [])
    assert seen[-1] == ("files", 3, 3)
    names = [f"{kind}/{name}" for kind in ("masks", "probabilities") for name in ("a.png", "b.png", "sub/a.png")]
    names += [f"overlays/{name}" for name in ("a.jpg", "b.jpg", "sub/a.jpg")]
    assert written(tmp_path / "out") == sorted([*names, "findings.csv", "predictions.jsonl"])
    first, second, third = table(tmp_path / "out")
    assert first["image"] == "../images/a.png" and first["name"] == "a" and first["frame"] == ""
    mask = np.asarray(Image.open(tmp_path / "out" / "masks" / "a.png")) > 0
    assert mask.shape == (20, 30) and int(first["area"]) == mask.sum() > 0
    assert float(first["share"]) == pytest.approx(mask.mean(), abs=1e-6) and float(first["confidence"]) > 0.5
    rows, columns = np.nonzero(mask)
    box = [int(first[name]) for name in ("left", "top", "width", "height")]
    assert box == [columns.min(), rows.min(), np.ptp(columns) + 1, np.ptp(rows) + 1]
    assert (second["polyp"], second["area"], second["confidence"], second["left"]) == ("0", "0", "", "")
    assert third["name"] == "sub/a"


def test_a_bad_file_is_named_and_the_others_are_done(images: Path, tmp_path: Path) -> None:
    (images / "text.png").write_text("hello")
    (images / "empty.jpg").write_bytes(b"")
    square(5).save(data := io.BytesIO(), "JPEG")
    (images / "cut.jpg").write_bytes(data.getvalue()[:-20])
    done, engine = predict(images, tmp_path / "out")
    assert done.done == 3 and engine.batches == [3]
    assert {problem.path.name: problem.reason for problem in done.problems}.keys() == {
        "text.png",
        "empty.jpg",
        "cut.jpg",
    }
    assert "no content" in {problem.path.name: problem.reason for problem in done.problems}["empty.jpg"]
    again, engine = predict(images, tmp_path / "out")
    assert (again.done, again.kept, len(again.problems)) == (0, 3, 3) and engine.batches == []


def test_a_second_run_computes_nothing_and_changes_nothing(images: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    predict(images, out)
    before = {name: (out / name).stat().st_mtime_ns for name in written(out) if "/" in name}
    rows = table(out)
    again, engine = predict(images, out)
    assert (again.done, again.kept, again.polyps) == (0, 3, 2) and engine.batches == []
    assert {name: (out / name).stat().st_mtime_ns for name in written(out) if "/" in name} == before
    assert table(out) == rows


@pytest.mark.parametrize("options", [{"threshold": 0.6}, {"average": True}, {"min_area": 50}, {"kinds": ("masks",)}])
def test_other_options_do_it_again(options: dict[str, object], images: Path, tmp_path: Path) -> None:
    predict(images, tmp_path / "out")
    again, _ = predict(images, tmp_path / "out", **options)
    fresh, _ = predict(images, tmp_path / "fresh", **options)
    assert again == fresh and again.done == 3
    assert written(tmp_path / "out") == written(tmp_path / "fresh")  # nothing of before is left
    assert table(tmp_path / "out") == table(tmp_path / "fresh")


def test_another_model_does_it_again(images: Path, tmp_path: Path) -> None:
    predict(images, tmp_path / "out")
    other = Red()
    other.identity = "another"
    assert predict(images, tmp_path / "out", other)[0].done == 3
    assert predict(images, tmp_path / "out", other)[0].done == 0
    assert predict(images, tmp_path / "out")[0].done == 3  # and back


def test_a_changed_a_new_and_a_lost_file_are_done_alone(images: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    predict(images, out)
    square(9).save(images / "a.png")
    square(7).save(images / "c.png")
    (out / "overlays" / "b.jpg").unlink()
    again, engine = predict(images, out)
    assert (again.done, again.kept) == (3, 1) and engine.batches == [3]
    assert len(table(out)) == 4


def test_a_file_that_became_bad_leaves_no_result(images: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    predict(images, out)
    (images / "a.png").write_text("hello")
    done, _ = predict(images, out)
    assert len(done.problems) == 1 and not (out / "masks" / "a.png").exists()
    assert [row["name"] for row in table(out)] == ["b", "sub/a"]
    square(6).save(images / "a.png")
    assert predict(images, out)[0].done == 1
    assert [row["name"] for row in table(out)] == ["a", "b", "sub/a"]


class Tired(Red):
    """Is interrupted in its second pass."""

    def probabilities(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        if self.batches:
            raise KeyboardInterrupt
        return super().probabilities(batch)


def test_an_interrupted_run_goes_on_where_it_was(images: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        predict(images, out, Tired(), batch_size=2)
    assert [row["name"] for row in table(out)] == ["a", "b"] or [row["name"] for row in table(out)] == ["a"]
    kept = len(table(out))
    with (out / "predictions.jsonl").open("a") as file:
        file.write('{"image": "../images/sub/a.png", "sha')  # as if the plug had been pulled
    again, _ = predict(images, out)
    assert (again.done, again.kept) == (3 - kept, kept) and len(table(out)) == 3
    assert all(json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines())


def test_files_of_one_name_do_not_meet(tmp_path: Path) -> None:
    for name in ("x/a.png", "y/a.png", "y/a.bmp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        square(len(name)).save(tmp_path / name)
    out = tmp_path / "out"
    given = [str(tmp_path / "x" / "a.png"), str(tmp_path / "y")]
    done = predict_files(Predictor(Red()), find_sources(given), out)
    assert done.done == 3 and len(list((out / "masks").rglob("*.png"))) == 3
    names = {row["image"]: row["name"] for row in table(out)}
    # in another order every file keeps its name
    predict_files(Predictor(Red(), threshold=0.4), find_sources(given[::-1]), out)
    assert {row["image"]: row["name"] for row in table(out)} == names


def test_results_of_two_calls_share_a_table(images: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    predict(images / "sub", out)
    predict(images, out)
    assert [row["image"] for row in table(out)] == ["../images/a.png", "../images/b.bmp", "../images/sub/a.png"]
    # those of other settings stay on the disk, but are no longer in the table
    predict(images / "sub", out, threshold=0.9)
    assert [row["image"] for row in table(out)] == ["../images/sub/a.png"] and (out / "masks" / "b.png").is_file()


def test_frames_of_a_moving_picture_are_a_folder(tmp_path: Path) -> None:
    frames = [square(side) for side in (5, 0, 9)]
    path = tmp_path / "in" / "film.gif"
    path.parent.mkdir()
    frames[0].save(path, save_all=True, append_images=frames[1:])
    square(6).save(path.with_name("a.png"))
    out = tmp_path / "out"
    done, engine = predict(path.parent, out, batch_size=2)
    assert (done.done, done.pictures, done.polyps) == (2, 4, 3) and engine.batches == [2, 2]
    rows = [(row["name"], row["frame"], row["polyp"]) for row in table(out)]
    assert rows == [("a", "", "1"), *((f"film/00000{n}", str(n), str(int(n != 2))) for n in (1, 2, 3))]
    assert sorted(file.name for file in (out / "masks" / "film").iterdir()) == [f"00000{n}.png" for n in (1, 2, 3)]
    assert predict(path.parent, out)[0].kept == 2
    frames[0].save(path)  # it does not move any longer
    assert predict(path.parent, out)[0].done == 1
    assert not (out / "masks" / "film").exists() and (out / "masks" / "film.png").is_file()


def test_a_film_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frames = [Image.fromarray(rng.integers(0, 256, (40, 40, 3), np.uint8)) for _ in range(3)]
    frames[0].save(data := io.BytesIO(), "GIF", save_all=True, append_images=frames[1:])
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "cut.gif").write_bytes(data.getvalue()[: len(data.getvalue()) * 5 // 6])
    done, _ = predict(tmp_path / "in", tmp_path / "out", batch_size=1)
    assert "frame 3" in done.problems[0].reason and written(tmp_path / "out") == ["findings.csv", "predictions.jsonl"]


def test_masks_of_somebody_else_are_never_overwritten(images: Path, tmp_path: Path) -> None:
    (tmp_path / "masks").mkdir()
    square(3).save(tmp_path / "masks" / "a.png")
    before = (tmp_path / "masks" / "a.png").read_bytes()
    with pytest.raises(ValueError, match="was not written by `fpgm predict`"):
        predict(images, tmp_path)
    assert (tmp_path / "masks" / "a.png").read_bytes() == before and not (tmp_path / "predictions.jsonl").exists()


def test_large_pictures_wait_in_smaller_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fpgm.serving.folders.predict._MOST_PIXELS", 1000)
    (tmp_path / "in").mkdir()
    for number in range(4):
        square(5, size=(30, 20)).save(tmp_path / "in" / f"{number}.png")  # 600 pixels each
    _, engine = predict(tmp_path / "in", tmp_path / "out")
    assert engine.batches == [2, 2]


@pytest.mark.parametrize("place", ["masks/sub", "overlays/sub", "masks/a", "masks/sub/deep"])
def test_a_link_out_of_the_results_at_any_depth_is_refused_and_nothing_is_written(
    place: str, images: Path, tmp_path: Path
) -> None:
    (images / "sub" / "deep").mkdir()
    square(4).save(images / "sub" / "deep" / "c.png")
    out = tmp_path / "out"
    predict(images, out)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.png").write_text("mine")
    shutil.rmtree(out / place, ignore_errors=True)
    (out / place).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=f"{place} is a link out of"):
        predict(images, out, threshold=0.4)
    assert [path.read_text() for path in (tmp_path / "elsewhere").iterdir()] == ["mine"]


def test_links_within_the_results_are_followed(images: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    predict(images, out)
    (out / "masks" / "sub").rename(out / "masks" / "real")
    (out / "masks" / "sub").symlink_to("real")
    assert predict(images, out)[0].kept == 3


def test_what_becomes_a_pipe_is_named_and_not_waited_for(images: Path, tmp_path: Path) -> None:
    sources = find_sources([str(images)])
    (images / "a.png").unlink()
    os.mkfifo(images / "a.png")
    summary = predict_files(Predictor(Red()), sources, tmp_path / "out")
    assert summary.done == 2 and "is not a regular file" in summary.problems[0].reason
