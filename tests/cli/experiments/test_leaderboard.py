"""From a plan to its runs, and from the runs of two people to a page; whoever changes a score or a mask is left out."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from fpgm.cli import main
from fpgm.experiments.plan_file import read_plan
from tests.cli.making import TINY
from tests.sharing import shared

RUN = Path("strict", "mini", "10pct", "supervised", "seed-0")
PLAN = "small.yaml"


@pytest.fixture(scope="module")
def made(phantom_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of its own, a plan of two draws and one method, and its runs."""

    def make(folder: Path) -> None:
        axes = ["--preset", "mini", "--protocol", "strict", "--draws", "0,1", "--labeled", "10%"]
        axes += ["--methods", "supervised", "--iterations", "2", "--precision", "32-true", "--set", *TINY]
        data = ["--data", str(shutil.copytree(phantom_store, folder / "store"))]  # splits are added to it
        assert main(["reproduce", "main", *data, *axes, "--save-plan", str(folder / PLAN)]) == 0
        assert main(["reproduce", "--plan", str(folder / PLAN), *data, "--out", str(folder / "mine")]) == 0

    return shared("leaderboard", make, tmp_path_factory.mktemp("leaderboard") / "made")


@pytest.fixture
def store(made: Path) -> Path:
    return made / "store"


@pytest.fixture
def entry(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "mine", tmp_path / "yours"))


def board(store: Path, out: Path, *entries: Path) -> int:
    return main(["leaderboard", *map(str, entries), "--data", str(store), "--out", str(out)])


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_runs_of_a_plan_are_checked_and_put_side_by_side(
    store: Path, made: Path, entry: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for one in entry.rglob("model.safetensors"):
        one.unlink()  # an entry needs no weights
    assert board(store, tmp_path / "board", made / "mine", entry) == 0
    assert "4 runs checked, 0 problems" in capsys.readouterr().out
    page = (tmp_path / "board" / "index.html").read_text()
    assert "supervised (mine)" in page and "supervised (yours)" in page and "These are phantom images" in page
    assert read_plan(made / PLAN).sha256 in page and read_plan(entry / "plan.yaml").sha256 in page
    (table,) = (tmp_path / "board" / "tables").glob("*.csv")
    with table.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["dataset"] == "phantom-e"]
    dice = []  # the mean over both draws, from the files of the runs
    for folder in ("strict", "strict-draw-1"):
        with (made / "mine" / folder / Path(*RUN.parts[1:]) / "evaluation" / "phantom-e.csv").open(newline="") as file:
            dice.append(np.mean([float(row["dice"]) for row in csv.DictReader(file)]))
    assert [float(row["mean"]) for row in rows] == pytest.approx([100 * np.mean(dice)] * 2)
    assert [float(row["draws"]) for row in rows] == pytest.approx([100 * np.std(dice, ddof=1)] * 2)


def test_a_changed_score_is_found_by_the_masks(
    store: Path, entry: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = entry / RUN / "evaluation"
    lines = (place / "phantom-e.csv").read_text().splitlines()
    cells = lines[1].split(",")
    cells[1:9] = ["1.0", "1.0", "0.0", "0.0"] * 2  # a perfect score, with the numbers of pixels that go with it
    cells[9] = cells[10]
    text = "\n".join([lines[0], ",".join(cells), *lines[2:]]) + "\n"
    (place / "phantom-e.csv").write_text(text)
    record = json.loads((place / "evaluation.json").read_text())
    record["datasets"]["phantom-e"]["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (place / "evaluation.json").write_text(json.dumps(record))
    assert board(store, tmp_path / "board", entry) == 1
    said = capsys.readouterr().err
    assert "its scores are not those of its masks: dice of phantom-e/" in said
    assert "supervised: not all of the plan's 2 runs hold, so it has no place" in said
    assert "supervised" not in (tmp_path / "board" / "index.html").read_text().partition("Left out")[0]


def test_other_settings_images_and_plans_are_refused(
    store: Path, entry: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = entry / RUN / "config.yaml"
    path.write_text(path.read_text().replace("lr: 0.001", "lr: 0.002"))
    change(entry / "strict-draw-1" / Path(*RUN.parts[1:]) / "model" / "model.json", training={"train_sha256": "0"})
    assert board(store, tmp_path / "board", entry) == 1
    said = capsys.readouterr().err
    assert "optimizer.lr is 0.002, not 0.001" in said and "trained on other images" in said
    record = yaml.safe_load((entry / "plan.yaml").read_text())
    (entry / "plan.yaml").write_text(yaml.safe_dump({**record, "data": {"phantom-a": "0"}}))
    assert board(store, tmp_path / "board", entry) == 2
    assert "does not hold the data of the plan small" in capsys.readouterr().err
    (entry / "plan.yaml").unlink()
    assert board(store, tmp_path / "board", entry) == 2
    assert "there is no plan" in capsys.readouterr().err


def test_a_plan_says_everything_but_other_methods(
    store: Path, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["reproduce", "--plan", str(made / PLAN), "--data", str(store), "--out", str(tmp_path / "out")]
    for option, name in (
        (["--seeds", "1"], "seeds"),
        (["--set", "optimizer.lr=1"], "set"),
        (["--preset", "mini"], "preset"),
    ):
        assert main([*given, *option]) == 2
        assert f"says the {name}: leave --{name} out" in capsys.readouterr().err
    assert main([*given, "--methods", "urpc", "--dry-run", "--json"]) == 0
    assert {cell["variant"] for cell in json.loads(capsys.readouterr().out)["cells"]} == {"urpc"}
    assert not (tmp_path / "out").exists()
    assert main([*given[:3], "main", *given[3:]]) == 2
    assert "needs a TABLE or --plan FILE, one of the two" in capsys.readouterr().err
    assert main(["reproduce", "main", "--data", str(store)]) == 2
    assert "needs --out OUT" in capsys.readouterr().err
    assert main(["reproduce", "gamma", "--data", str(store), "--save-plan", str(tmp_path / "a.yaml")]) == 2
    assert "--save-plan goes with main and hospitals, not with gamma" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", ["x", "0", "fpgm=x", "=3", "fpgm=0"])
def test_wrong_iterations_are_a_sentence(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: str
) -> None:
    given = ["reproduce", "main", "--data", str(store), "--out", str(tmp_path / "out")]
    assert main([*given, "--iterations", wrong]) == 2
    assert "--iterations takes a number, or ROW=NUMBER" in capsys.readouterr().err
