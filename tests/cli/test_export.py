"""`fpgm export`: what it prints, and what it refuses."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import onnx
import pytest

from fpgm.cli import main
from fpgm.serving import export as exporting
from tests.serving.making import model, onnx_file, pictures


@pytest.mark.parametrize(("format", "name"), [("onnx", "model.onnx"), ("torch", "model.pt2")])
def test_the_comparison_is_printed(
    format: str,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    traced = onnx.load(onnx_file())  # once is enough
    monkeypatch.setattr(exporting, "_to_onnx", lambda net, card: traced)
    (tmp_path / "images").mkdir()
    for number, picture in enumerate(pictures(3, size=100)):
        picture.save(tmp_path / "images" / f"{number}.jpg")
    folder = shutil.copytree(model(), tmp_path / "model")
    assert main(["export", str(folder), "--format", format, "--images", str(tmp_path / "images")]) == 0
    shown = capsys.readouterr()
    found = re.search(r"on 3 images, in (\d) of .* differ by up to ([\d.e-]+), Dice of the masks ([\d.]+)", shown.out)
    assert found and int(found[1]) > 0 and float(found[2]) < 1e-3 and float(found[3]) > 0.999
    assert (folder / name).is_file() and not shown.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "model.pt2"], "does not end with .onnx"),
        (["--out", "model.pt2", "--format", "torch", "--int8"], "--int8 is for --format onnx alone"),
        (["--out", "model.onnx", "--images", "gone"], "there is no file or folder gone"),
        (["--engine", "auto", "--out", "model.onnx"], "give no --format, --out or --int8 with it"),
    ],
)
def test_bad_options_are_a_sentence(
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(model()), *options]) == 2
    said = capsys.readouterr().err
    assert said.startswith("fpgm: ") and said.count("\n") == 1 and message in said
    assert not any(tmp_path.iterdir())


def test_a_model_that_does_not_agree_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = onnx.load(onnx_file())  # before the patch: making it exports too
    monkeypatch.setattr(exporting, "_to_onnx", lambda net, card: made)
    monkeypatch.setattr(exporting, "MAX_DIFFERENCE", 0)
    assert main(["export", str(model()), "--out", str(tmp_path / "model.onnx")]) == 2
    assert "does not agree with the original" in capsys.readouterr().err and not any(tmp_path.iterdir())


def test_an_engine_is_chosen_shown_and_said_by_predict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    traced = onnx.load(onnx_file())
    monkeypatch.setattr(exporting, "_to_onnx", lambda net, card: traced)
    folder = shutil.copytree(model(), tmp_path / "model")
    pictures(1, size=100)[0].save(tmp_path / "image.png")
    assert main(["export", str(folder), "--engine", "onnxruntime"]) == 0
    shown = capsys.readouterr().out
    assert "masks of 24 phantoms" in shown and f"onnxruntime computes {folder} from now on" in shown
    assert [line.split()[1] for line in shown.splitlines() if " ms " in line] == ["torch", "onnxruntime"]
    assert main(["predict", str(folder), str(tmp_path / "image.png"), "--out", str(tmp_path / "out")]) == 0
    assert "1 file predicted by onnxruntime" in capsys.readouterr().out
    assert main(["export", str(folder), "--engine", "torch", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["engine"] == "torch"
    assert main(["predict", str(folder), str(tmp_path / "image.png"), "--out", str(tmp_path / "out")]) == 0
    assert "1 file predicted:" in capsys.readouterr().out
