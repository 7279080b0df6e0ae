"""Suggestions from stores and runs: from what is not labelled, each group and duplicate once, listed and linked."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fpgm.calibration import expected_dice
from fpgm.cli import main
from fpgm.data.splits.split import Split
from fpgm.labeling import suggest as suggesting
from tests.labeling.making import colour_looks
from tests.serving.making import model
from tests.training.running import arguments, complete


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the mean colour be the look: the encoder is tested by itself."""
    monkeypatch.setattr(suggesting, "describe_looks", colour_looks)


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of two labelled images, and of 12 unlabelled ones in three colours; two are the same."""
    folder = tmp_path_factory.mktemp("frames")
    rng = np.random.default_rng(0)
    for name in ("images", "masks", "more"):
        (folder / name).mkdir()
    noise = rng.integers(0, 60, (12, 32, 32, 3))
    noise[1] = noise[0]
    for row in range(12):
        pixels = noise[row] + 150 * (np.arange(3) == row // 4)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / "more" / f"{row:02d}.png")
    for row in range(2):
        Image.fromarray(rng.integers(0, 255, (32, 32, 3)).astype(np.uint8)).save(folder / "images" / f"l{row}.png")
        mask = np.zeros((32, 32), np.uint8)
        mask[8:20, 8:20] = 255
        Image.fromarray(mask).save(folder / "masks" / f"l{row}.png")
    options = [
        "--images",
        str(folder / "images"),
        "--masks",
        str(folder / "masks"),
        "--unlabeled",
        str(folder / "more"),
    ]
    command = ["data", "prepare", *options, "--name", "clinic", "--size", "32", "--workers", "1"]
    assert main([*command, "--out", str(folder / "store")]) == 0
    return folder


def rows(out: Path) -> list[dict[str, str]]:
    with (out / "suggestions.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_unlabelled_images_are_spread_and_linked(frames: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    more = str(frames / "more")
    assert main(["suggest", str(frames / "store"), "--count", "3", "--out", str(out), "--images", more]) == 0
    found = rows(out)
    assert [row["rank"] for row in found] == ["1", "2", "3"] and all(row["uncertainty"] == "" for row in found)
    assert {int(row["image"].rpartition("/")[2]) // 4 for row in found} == {0, 1, 2}  # one of each colour
    for row in found:
        link = out / "images" / row["link"]
        assert link.is_symlink() and link.resolve() == (frames / "more" / f"{row['image'][-2:]}.png").resolve()
    assert Image.open(out / "contact_sheet.png").size == (3 * 36 + 4, 36 + 4)


def test_of_near_duplicates_one_is_enough_and_prepared_images_stand_in(frames: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["suggest", str(frames / "store"), "--count", "11", "--out", str(out)]) == 0
    names = {row["image"] for row in rows(out)}
    assert len(names) == 11 and len(names & {"clinic/00", "clinic/01"}) == 1
    assert all(Image.open(out / "images" / row["link"]).size == (32, 32) for row in rows(out))


def test_a_run_asks_its_model_about_images_whose_masks_it_did_not_use(
    phantom_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    complete(arguments(phantom_store, run, method="supervised", iterations=1))
    capsys.readouterr()
    assert main(["suggest", str(run), "--count", "5", "--out", str(tmp_path / "out"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["suggestions"]
    split = Split.load(phantom_store / "splits" / "strict-0")
    assert {row["image"] for row in found} <= set(split.unlabeled("16")) and len(found) == 5
    doubt = [row["uncertainty"] for row in found]
    assert doubt == sorted(doubt, reverse=True) and 0 <= doubt[-1] <= doubt[0] <= 1


def test_another_model_may_be_asked(frames: Path, tmp_path: Path) -> None:
    command = ["suggest", str(frames / "store"), "--count", "2", "--out", str(tmp_path / "out")]
    assert main([*command, "--model", str(model())]) == 0
    assert all(0 <= float(row["uncertainty"]) <= 1 for row in rows(tmp_path / "out"))


def test_what_cannot_be_done_is_one_sentence(
    frames: Path, phantom_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for path, options, told in (
        (phantom_store, ["--out", str(tmp_path / "a")], "every image of"),
        (frames / "store", ["--out", str(tmp_path / "full")], "holds files already"),
        (frames / "store", ["--out", str(tmp_path / "a"), "--count", "0"], "--count 0: give a number"),
        (tmp_path / "gone", ["--out", str(tmp_path / "a")], "gone"),
    ):
        assert main(["suggest", str(path), *options]) == 2
        assert told in capsys.readouterr().err and not (tmp_path / "a").exists()


def test_the_dice_that_a_mask_expects() -> None:
    probability = np.array([[0.9, 0.7], [0.2, 0.2]], np.float32)
    assert expected_dice(probability > 0.5, probability) == pytest.approx(2 * 1.6 / (2.0 + 2))
    assert expected_dice(probability > 0.95, probability) == pytest.approx(0.1)
    sure = np.array([[1, 0]], np.float32)
    assert expected_dice(sure > 0.5, sure) == 1 and expected_dice(sure < -1, 0 * sure) == 1
