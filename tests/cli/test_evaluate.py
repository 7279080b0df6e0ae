"""`fpgm evaluate`: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fpgm.cli import main
from fpgm.data.store import Store
from fpgm.runs.results import read_result
from fpgm.runs.summary import summarise
from tests.runs.making import make_run


@pytest.fixture
def run(tmp_path: Path, phantom_store: Path) -> Path:
    return make_run(tmp_path / "run", phantom_store)


def test_the_tables_show_both_rules(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(run), "--datasets", "phantom-a", "phantom-f", "--workers", "1"]) == 0
    shown = capsys.readouterr().out
    scores = read_result(run).scores["phantom-f"].values
    for column, scale in (("dice", 100), ("hd95", 1), ("released_asd", 1)):
        summary = summarise(scores[column])
        assert f"{scale * summary.mean:.1f} ± {scale * summary.sd:.1f}" in shown
        assert f"[{scale * summary.low:.1f}, {scale * summary.high:.1f}]" in shown
    assert "penalised" in shown and "released code" in shown and "phantom-b" not in shown
    assert shown.count("(unseen)") == 3 and "missed" in shown and "alarms" in shown
    assert "supervised, preset mini, 40 iterations, 16 labelled, seed 0" in " ".join(shown.split())


def test_json_is_for_programs(run: Path, phantom_store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["evaluate", str(run), "--data", str(phantom_store), "--workers", "1", "--json"]
    assert main(command) == 0
    first = capsys.readouterr().out
    record = json.loads(first, parse_constant=pytest.fail)  # NaN is no JSON
    unseen = {name for name, entry in record["datasets"].items() if entry["unseen"]}
    assert len(record["datasets"]) == 6 and unseen == {"phantom-e", "phantom-f"}
    entry = record["datasets"]["phantom-e"]
    assert entry["images"] == entry["dice"]["count"] == 20 and entry["missed"] == entry["without_polyp"] == 0
    assert entry["false_alarms"] is None and entry["false_alarms_per_frame"] is None  # every phantom has a polyp
    assert entry["dice"]["groups"] is None and 0 <= entry["calibration_error"] <= 1
    assert sum(entry["reliability"]["pixels"]) == 20 * 64**2
    assert entry["dice"]["low"] < entry["dice"]["mean"] < entry["dice"]["high"]
    assert main(command) == 0
    assert capsys.readouterr().out == first
    assert main([*command, "--datasets", "Phantom E"]) == 0  # alone of all that is there
    assert json.loads(capsys.readouterr().out)["datasets"] == {"phantom-e": entry}


def test_a_file_edited_by_hand_is_made_again(run: Path) -> None:
    path = run / "evaluation" / "phantom-a.csv"
    assert main(["evaluate", str(run), "--workers", "1"]) == 0
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"0.", b"0.9", 1))
    with pytest.raises(ValueError, match="line 2"):
        read_result(run)
    assert main(["evaluate", str(run), "--workers", "1"]) == 0
    assert path.read_bytes() == whole and read_result(run)


def test_the_figures_go_into_the_model_card(run: Path) -> None:
    assert main(["evaluate", str(run), "--datasets", "phantom-a", "--workers", "1"]) == 0
    dice = summarise(read_result(run).scores["phantom-a"].values["dice"]).mean
    assert f"| phantom-a | 4 | {100 * dice:.1f} [" in (run / "model" / "MODEL_CARD.md").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--datasets", "phantom-z"], "no test or unseen images of phantom-z, only of phantom-a, phantom-b"),
        (["--data", "nowhere"], "there is no store nowhere"),
        (["--device", "quantum"], "--device quantum cannot be used here"),
        (["--workers", "0"], "0 workers; at least 1 is needed"),
        (["--images", "frames"], "give --images and --masks together"),
        (["--images", "a", "--masks", "b", "--data", "c"], "give either --images with --masks, or --data"),
        (["--name", "ward"], "--name names the images of --images and --masks"),
        (["--split", "all"], "give that as --data"),
    ],
)
def test_bad_options_are_a_sentence(
    run: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(run), *options]) == 2
    said = capsys.readouterr().err
    assert said.startswith("fpgm: ") and said.count("\n") == 1 and message in said


def test_folders_of_later_images_are_scored_alone(
    run: Path, phantom_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = Store.open(phantom_store / "phantom-f")
    for kind, pixels in (("images", source.images(range(3))), ("masks", source.masks(range(3)) * np.uint8(255))):
        (tmp_path / kind).mkdir()
        for number, picture in enumerate(pixels):
            Image.fromarray(picture).save(tmp_path / kind / f"{number}.png")
    command = ["evaluate", str(run), "--images", str(tmp_path / "images"), "--masks", str(tmp_path / "masks")]
    assert main([*command, "--name", "ward", "--workers", "1"]) == 0
    shown = capsys.readouterr().out
    assert "ward" in shown and "after training" in shown and "phantom-a" not in shown
    assert "Polyp by polyp" in shown and "measurable" in shown and "no image is a training image" in shown
    assert main([*command, "--name", "ward", "--workers", "1", "--json"]) == 0
    entry = json.loads(capsys.readouterr().out)["datasets"]["ward"]
    assert entry["images"] == 3 and entry["after_training"] and entry["near_duplicates"] == []
    assert sum(size["polyps"] for size in entry["sizes"].values()) >= 3
