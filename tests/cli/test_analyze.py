"""``fpgm analyze``: on the phantom, and on real images where there are some."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from fpgm import __version__
from fpgm.cli import main
from fpgm.data.splits.split import Split
from tests.data.making import make_store, scene


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch, coarse_figures: None) -> None:
    monkeypatch.setenv("COLUMNS", "160")


def run(command: str, *arguments: object) -> int:
    return main(["analyze", command, *map(str, arguments)])


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_signature_writes_numbers_curves_and_figures(
    phantom_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("signature", "--data", phantom_store, "--out", tmp_path, "--seed", 3) == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "signature.json",
        "signature.csv",
        "halves.png",
        "sets.png",
        "distances.png",
    }
    record = json.loads((tmp_path / "signature.json").read_text())
    assert (record["format"], record["version"], record["seed"], record["size"]) == (
        "fpgm-signature-1",
        __version__,
        3,
        64,
    )
    assert record["mixture_of"] == ["phantom-a", "phantom-b", "phantom-c", "phantom-d"]  # the other two stay unseen
    assert len(record["sets"]) == 7 and record["sets"]["mixture"]["images"] == 80
    kinds = [entry["kind"] for entry in record["comparisons"]]
    assert (kinds.count("halves"), kinds.count("sets")) == (7, 15)
    words = {key for entry in record["comparisons"] for key in entry} - {"kind", "first", "second"}
    assert words <= record["definitions"].keys()  # every number says what it is
    out = capsys.readouterr().out
    assert "phantom-a – phantom-f" in out and "times as far apart as random halves of one" in out


def test_the_curves_are_those_of_the_numbers(phantom_store: Path, tmp_path: Path) -> None:
    assert run("signature", "--data", phantom_store, "--out", tmp_path, "--datasets", "phantom-a", "phantom-b") == 0
    record = json.loads((tmp_path / "signature.json").read_text())
    lines = rows(tmp_path / "signature.csv")
    assert len(lines) == 3 * 4 * 32  # two sets and the mixture; all, two halves, outline; radii
    for name, entry in record["sets"].items():
        own = [line for line in lines if (line["set"], line["part"]) == (name, "all")]
        assert [int(line["radius"]) for line in own] == list(range(32))
        assert {int(line["images"]) for line in own} == {entry["images"]}
        assert [float(line["mean"]) for line in own[:3]] == entry["amplitude_at_0_1_2"]  # not a digit is lost
        assert sum(float(line["mean"]) for line in own) == pytest.approx(entry["energy"], rel=1e-12)


def test_count_is_per_data_set_and_json_is_the_file(
    phantom_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("signature", "--data", phantom_store, "--out", tmp_path, "--count", 6, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown.pop("folder") == str(tmp_path)
    assert shown == json.loads((tmp_path / "signature.json").read_text())
    assert [entry["images"] for entry in shown["sets"].values()] == [6] * 6 + [24]


def test_specificity_writes_numbers_curves_and_a_figure(
    phantom_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("specificity", "--data", phantom_store, "--out", tmp_path, "--count", 30) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"specificity.json", "specificity.csv", "specificity.png"}
    record = json.loads((tmp_path / "specificity.json").read_text())
    assert (record["format"], record["version"], record["seed"]) == ("fpgm-specificity-1", __version__, 0)
    assert sum(record["images"].values()) + record["skipped"] == 30
    assert not {"phantom-e", "phantom-f"} & record["images"].keys()
    assert list(record["samples"]) == ["edge", "background", "moved", "outline"]
    assert record["samples"]["edge"]["distance"] == 0
    assert record["samples"].keys() <= record["definitions"].keys()
    lines = rows(tmp_path / "specificity.csv")
    for name, entry in record["samples"].items():
        own = [float(line["mean"]) for line in lines if line["sample"] == name]
        assert len(own) == 32 and own[:3] == entry["amplitude_at_0_1_2"]
    assert "scattered background (paper)" in capsys.readouterr().out


def test_specificity_takes_the_train_images_of_a_split(
    phantom_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = Split.load(phantom_store / "splits" / "strict-0").counts()
    options = ("--datasets", "phantom-a", "phantom-e", "--split", "strict-0", "--json")
    assert run("specificity", "--data", phantom_store, "--out", tmp_path, *options) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["split"], shown["images"]) == ("strict-0", {"phantom-a": train["phantom-a"]["train"]})


@pytest.mark.parametrize("command", ["signature", "specificity"])
def test_the_same_seed_gives_the_same_bytes(phantom_store: Path, tmp_path: Path, command: str) -> None:
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        options = ("--out", tmp_path / folder, "--seed", seed, "--count", 8, "--datasets", "phantom-a")
        assert run(command, "--data", phantom_store, *options) == 0
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
        assert path.read_bytes() != (tmp_path / "c" / path.name).read_bytes()


@pytest.mark.parametrize("command", ["signature", "specificity"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--count", "0"), "1 or more, got 0"),
        (("--seed", "-1"), "the seed is -1"),
        (("--datasets", "east"), "does not hold east"),
    ],
)
def test_refuses_in_one_sentence_and_writes_nothing(
    phantom_store: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    options: tuple[str, ...],
    message: str,
) -> None:
    assert run(command, "--data", phantom_store, "--out", tmp_path / "out", *options) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["signature", "specificity"])
def test_other_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert run(command, "--data", tmp_path / "none", "--out", tmp_path / "out") == 2
    assert "fpgm data prepare" in capsys.readouterr().err
    make_store(tmp_path / "store", "bare", {"0": scene(np.random.default_rng(0))}, bare=["0"])
    assert run(command, "--data", tmp_path / "store", "--out", tmp_path / "out") == 2
    assert "bare has no image with a mask" in capsys.readouterr().err


def test_split_without_train_images(phantom_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ("--data", phantom_store, "--out", tmp_path / "out")
    assert run("specificity", *folder, "--split", "nowhere") == 2
    assert "there is no split nowhere" in capsys.readouterr().err
    assert run("specificity", *folder, "--split", "strict-0", "--datasets", "phantom-f") == 2
    assert "no train image of phantom-f" in capsys.readouterr().err


def test_on_real_polyps_the_outline_makes_the_signature(
    real_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    options = ("--root", real_data, "--datasets", "CVC-300", "--size", 128, "--workers", 1)
    assert main(["data", "prepare", "--out", str(store), *map(str, options)]) == 0
    capsys.readouterr()
    assert run("specificity", "--data", store, "--out", tmp_path / "out", "--json") == 0
    samples = json.loads(capsys.readouterr().out)["samples"]
    # what docs/results.md says
    assert samples["background"]["correlation"] < 0.9
    assert samples["moved"]["correlation"] > 0.99
    assert samples["outline"]["correlation"] > 0.999
