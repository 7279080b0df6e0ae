"""`fpgm predict`: from a folder with good and bad files to results and an exit code."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import fpgm
from fpgm.cli import main
from tests.data.films import make_film, times
from tests.serving.making import model, pictures


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    for number, picture in enumerate(pictures(4, size=100)):
        picture.crop((0, 0, 100, 80 + number)).save(folder / f"{number}.png")
    return folder


def test_masks_are_those_of_the_library(images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, out = model().parent, tmp_path / "out"  # a run folder
    assert main(["predict", str(run), str(images), "--out", str(out), "--min-area", "30", "--threshold", "0.4"]) == 0
    shown = capsys.readouterr().out
    files = sorted(images.iterdir())
    masks, planes = fpgm.load_predictor(run, threshold=0.4, min_area=30).predict(files)
    for file, mask, plane in zip(files, masks, planes, strict=True):
        assert np.array_equal(np.asarray(Image.open(out / "masks" / file.name)) > 0, mask)
        saved = np.asarray(Image.open(out / "probabilities" / file.name)) / 65535
        assert np.allclose(saved, plane, atol=1e-4)
        assert Image.open(out / "overlays" / f"{file.stem}.jpg").size == Image.open(file).size
    with (out / "findings.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = sum(row["polyp"] != "0" for row in rows)
    assert found and f"4 files predicted: {found} polyps in 4 images; see {out}" in shown
    assert all(int(row["area"]) >= 30 for row in rows if row["polyp"] != "0")


def test_a_bad_file_is_shown_and_the_exit_code_is_1(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (images / "[red]bad.png").write_text("hello")
    command = ["predict", str(model()), str(images), "--out", str(tmp_path / "out"), "--save", "masks"]
    assert main(command) == 1
    shown = capsys.readouterr().out
    assert "4 files predicted" in shown and "1 left out" in shown and "no picture of a known format" in shown
    assert "[red]bad.png" in re.sub(r"[\s│]", "", shown) and not (tmp_path / "out" / "overlays").exists()
    assert main(command) == 1
    assert "0 files predicted, 4 were there already" in capsys.readouterr().out
    (images / "[red]bad.png").unlink()
    assert main(command) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["gone.png"], "there is no file or folder gone.png"),
        (["--threshold", "2"], "threshold is 2.0"),
        (["--batch-size", "0"], "batch_size 0"),
        (["--device", "quantum"], "--device quantum cannot be used here"),
    ],
)
def test_bad_options_are_a_sentence(
    options: list[str], message: str, images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(model()), str(images), *options, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("fpgm: ") and said.count("\n") == 1 and message in said
    assert not (tmp_path / "out").exists()


def test_a_tampered_model_is_refused(images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in model().iterdir():
        (tmp_path / "model").mkdir(exist_ok=True)
        (tmp_path / "model" / file.name).write_bytes(file.read_bytes())
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")
    assert main(["predict", str(tmp_path / "model"), str(images), "--out", str(tmp_path / "out")]) == 2
    assert "is not the file that model.json describes" in capsys.readouterr().err


def test_a_film_is_predicted_and_its_speed_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    film = make_film(tmp_path / "film.mp4", [0, 100, 200])
    command = ["predict", str(model()), str(film), "--out", str(tmp_path / "out"), "--smoothing", "0.1"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert re.search(r"film\.mp4: 3 frames, [0-9.]+ frames per second\n", shown) and "in 3 images" in shown
    assert times(tmp_path / "out" / "films" / "film.mp4") == times(film)
    assert main([*command[:-1], "-3"]) == 2 and "smoothing is -3.0: give the seconds" in capsys.readouterr().err
