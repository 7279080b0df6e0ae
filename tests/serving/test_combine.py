"""Runs of two seeds as one: evaluated, predicted with and exported like any other; what does not fit is refused."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fpgm.cli import main
from fpgm.model import load_model
from fpgm.runs.card import read_card
from fpgm.serving.predictor import load_predictor
from tests.serving.making import pictures
from tests.small_net import use_small_net
from tests.training.running import arguments, complete


@pytest.fixture(scope="module", autouse=True)
def small() -> Iterator[None]:
    """Two small networks are a combination too, and are exported in a fraction of the time."""
    with pytest.MonkeyPatch.context() as patch:
        use_small_net(patch)
        yield


@pytest.fixture(scope="module")
def runs(phantom_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two runs, a and b, and their combination."""
    folder = tmp_path_factory.mktemp("combine")
    for seed, name in enumerate("ab"):
        complete(arguments(phantom_store, folder / name, "--seed", str(seed), method="supervised", iterations=3))
    assert main(["combine", str(folder / "a"), str(folder / "b"), "--out", str(folder / "both")]) == 0
    return folder


def test_the_mean_of_both_is_predicted_and_where_they_differ(runs: Path, tmp_path: Path) -> None:
    images = pictures(3, size=80)
    for picture, name in zip(images, "xyz", strict=True):
        picture.save(tmp_path / f"{name}.png")
    assert main(["predict", str(runs / "both"), str(tmp_path), "--out", str(tmp_path / "out"), "--min-area", "0"]) == 0
    one, two = (load_predictor(runs / name).engine for name in "ab")
    batch = np.stack([np.asarray(picture.resize((64, 64))).transpose(2, 0, 1) for picture in images]) / np.float32(255)
    planes = np.stack([one.probabilities(batch), two.probabilities(batch)])
    both = load_predictor(runs / "both").engine
    mean, spread = both.with_disagreement(batch)  # type: ignore[attr-defined]  # of ensembles
    assert np.allclose(mean, planes.mean(0), atol=1e-5) and np.allclose(spread, planes.std(0), atol=1e-5)
    with (tmp_path / "out" / "findings.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    doubt = [float(row["uncertainty"]) for row in rows]
    assert doubt == sorted(doubt, reverse=True) and len({row["name"] for row in rows}) == 3
    assert all(0 <= float(row["disagreement"]) <= 0.5 for row in rows if row["polyp"] != "0")
    shown = np.asarray(Image.open(tmp_path / "out" / "disagreements" / "x.png"))
    assert shown.shape == (80, 80) and shown.max() > 0


def test_it_is_evaluated_and_exported_as_any_run(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card = read_card(runs / "both" / "model")
    assert card.training["combined"] == ["a", "b"] and "seed" not in card.training
    assert card.calibration is not None and card.least_area is not None
    capsys.readouterr()
    command = ["evaluate", str(runs / "both"), "--datasets", "phantom-a", "--workers", "1", "--json"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["datasets"]["phantom-a"]["images"] > 0
    assert main(["export", str(runs / "both"), "--out", str(runs / "both.onnx")]) == 0
    images = pictures(2)
    exact, exported = (load_predictor(path).predict(images)[1] for path in (runs / "both", runs / "both.onnx"))
    assert np.allclose(exact, exported, atol=1e-4)
    net, _ = load_model(runs / "both")
    assert len(next(iter(net.children()))) == 2  # type: ignore[arg-type]  # the list of members


def test_what_cannot_be_averaged_is_refused(
    runs: Path, phantom_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b, both = (str(runs / name) for name in ("a", "b", "both"))
    other = tmp_path / "other"
    shutil.copytree(runs / "b", other)
    assert main(["data", "split", "--data", str(phantom_store), "--seed", "1", "--out", str(tmp_path / "split")]) == 0
    text = (other / "config.yaml").read_text().replace("split: strict-0", f"split: {tmp_path / 'split'}")
    (other / "config.yaml").write_text(text)
    for given, told in (
        ([a], "two or more runs"),
        ([a, a], "each once"),
        ([a, both], "is a combination itself"),
        ([a, str(other)], "has another split than"),
        ([a, str(tmp_path)], "is not a run"),
    ):
        assert main(["combine", *given, "--out", str(tmp_path / "new")]) == 2
        assert told in capsys.readouterr().err and not (tmp_path / "new").exists()
    assert main(["combine", a, b, "--out", both]) == 2 and "holds files already" in capsys.readouterr().err
    command = ["train", "--from", both, "--data", str(phantom_store), "--out", str(tmp_path / "new")]
    assert main(command) == 2 and "is a combination of runs" in capsys.readouterr().err
    assert main(["train", "--resume", "--out", both]) == 2  # it has no training to go on with


def test_a_single_model_has_no_disagreement(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pictures(1)[0].save(tmp_path / "x.png")
    command = ["predict", str(runs / "a"), str(tmp_path), "--out", str(tmp_path / "out")]
    assert main([*command, "--save", "disagreements"]) == 2
    assert "a single model has no disagreements" in capsys.readouterr().err
    assert main(command) == 0 and not (tmp_path / "out" / "disagreements").exists()
