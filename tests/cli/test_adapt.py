"""`fpgm adapt`: what it prints, what it refuses, and that the other commands take what it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from PIL import Image

from fpgm.cli import main
from fpgm.data.synthetic import phantom
from fpgm.runs.card import read_card
from fpgm.serving.predictor import load_predictor
from fpgm.serving.web.app import create_app
from tests.serving.making import SIZE, model, onnx_file
from tests.small_net import save_small_model, use_small_net


@pytest.fixture
def frames(tmp_path: Path) -> Path:
    folder = tmp_path / "frames"
    folder.mkdir()
    for number in range(8):
        Image.fromarray(phantom("phantom-f", number, size=SIZE).image).save(folder / f"{number}.png")
    return folder


def test_what_is_printed_is_what_the_card_says(
    frames: Path, tmp_path: Path, phantom_store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "adapted"
    assert main(["adapt", str(model()), str(phantom_store / "phantom-f"), "--out", str(out), "--device", "cpu"]) == 0
    shown, site = capsys.readouterr(), read_card(out).statistics.site
    assert site is not None and site.dice_before is not None and site.dice_after is not None and not shown.err
    assert f"20 frames; the statistics of their first and second half differ by {site.half_difference:.2f}" in shown.out
    assert (
        f"Dice: {100 * site.dice_before:.1f} before, {100 * site.dice_after:.1f} after, on the 20 frames" in shown.out
    )
    assert f"{site.changed:.1%} of their pixels change class" in shown.out and f"The model is in {out}" in shown.out
    assert ("Warning: the change is large" in shown.out) == (site.shift > 0.25 or site.changed > 0.05)


def test_json_for_programs_and_a_bad_file(frames: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (frames / "[red]bad.png").write_text("hello")
    command = ["adapt", str(model()), str(frames), "--device", "cpu", "--own", "0.5"]
    assert main([*command, "--out", str(tmp_path / "one"), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["source"] == "site" and said["own"] == 0.5 and said["site"]["frames"] == 8
    assert said["site"]["folder"] == "frames" and said["site"]["dice_before"] is None
    assert [problem["file"] for problem in said["problems"]] == [str(frames / "[red]bad.png")]
    assert main([*command, "--out", str(tmp_path / "two")]) == 1
    shown = capsys.readouterr().out
    assert "1 left out" in shown and "[red]bad.png" in shown.replace("\n", "")


def test_other_commands_take_the_model(frames: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_net(monkeypatch)
    base, out = save_small_model(tmp_path / "run" / "model", SIZE), tmp_path / "adapted"
    assert main(["adapt", str(base.parent), str(frames), "--out", str(out), "--device", "cpu"]) == 0
    assert main(["predict", str(out), str(frames), "--out", str(tmp_path / "found"), "--device", "cpu"]) == 0
    assert len(list((tmp_path / "found" / "masks").iterdir())) == 8
    assert main(["export", str(out), "--out", str(tmp_path / "adapted.onnx"), "--images", str(frames)]) == 0
    predictor = load_predictor(tmp_path / "adapted.onnx")
    app = create_app(predictor)
    about = TestClient(app, "http://localhost").get("/api/about").json()
    assert about["statistics"] == "statistics of 8 frames of frames"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone", "--out", "new"], "there is no file or folder gone"),
        (["frames", "--out", "frames"], "frames is there already: give another --out"),
        (["frames", "--out", "new", "--own", "1.5"], "--own is 1.5"),
        (["frames", "--out", "new", "--count", "0"], "--count is 0"),
        (["frames", "--out", "new", "--masks", "nowhere"], "nowhere"),
        (["frames", "--out", "new", "--device", "quantum"], "--device quantum cannot be used here"),
    ],
)
def test_bad_options_are_a_sentence(
    arguments: list[str],
    message: str,
    frames: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(frames.parent)
    assert main(["adapt", str(model()), *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("fpgm: ") and said.count("\n") == 1 and message in said
    assert [path.name for path in frames.parent.iterdir()] == ["frames"]


def test_an_onnx_file_is_refused(frames: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["adapt", str(onnx_file()), str(frames), "--out", str(tmp_path / "new")]) == 2
    assert "is an exported model, which cannot be adapted: adapt the run" in capsys.readouterr().err
