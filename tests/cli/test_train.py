"""`fpgm train` before a run begins, while it runs, and resumed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from fpgm.cli import main


def test_a_store_that_the_network_cannot_halve_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, run = tmp_path / "store", tmp_path / "run"
    assert main(["data", "synth", "--out", str(store), "--count", "6", "--size", "48", "--workers", "1"]) == 0
    assert main(["data", "split", "--data", str(store), "--protocol", "strict"]) == 0
    words = ["train", "--method", "supervised", "--preset", "mini", "--data", str(store), "--out", str(run)]
    capsys.readouterr()
    assert main([*words, "--labeled", "4"]) == 2
    assert "images of 48 pixels, but lite_unet halves them: prepare one whose --size is a multiple of 32" in (
        capsys.readouterr().err
    )
    assert main([*words, "--labeled", "4", "--set", "net.name=unet", "train.half_size=0.5"]) == 2
    assert "halves them once more: prepare one whose --size is a multiple of 32" in " ".join(
        capsys.readouterr().err.replace("train.half_size ", "").split()
    )
    assert not run.exists()


TINY = [
    "net.name=unet",
    "net.arguments={channels: [2, 4, 4, 8, 8]}",
    "data.batch_labeled=2",
    "data.batch_unlabeled=2",
    "data.workers=0",
    "train.choose_statistics=false",
    "train.pictures_every=0",
    "train.log_every=1",
    "train.validate_every=4",
    "train.save_every=4",
]


def test_nothing_but_store_and_folder_is_needed_and_resume_needs_the_folder_alone(
    phantom_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    begin = ["train", "--data", str(phantom_store), "--out", str(run)]
    assert main([*begin, "--labeled", "16", "--iterations", "8", "--accelerator", "cpu", "--set", *TINY]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(re.fullmatch(r"about \d+ s: 2 more steps at \S+ s", line) for line in lines), lines
    seen = [line for line in lines if line.startswith("step ")]
    assert [line.split(",")[0] for line in seen] == ["step 4 of 8", "step 8 of 8"]
    assert all("loss" in line and "validation Dice" in line for line in seen) and "left" in seen[0]
    settings = yaml.safe_load((run / "config.yaml").read_text())
    assert (settings["method"], settings["preset"], settings["train"]["seed"]) == ("fpgm_teacher", "mini", 0)
    before = (run / "checkpoints" / "last.safetensors").read_bytes()
    assert main(["train", "--resume", "--out", str(run), "--accelerator", "cpu"]) == 0
    assert (run / "checkpoints" / "last.safetensors").read_bytes() == before
    capsys.readouterr()
    for options, difference in {
        ("--seed", "1"): "train.seed: 0 -> 1",
        ("--method", "supervised"): "method: 'fpgm_teacher' -> 'supervised'",
        ("--preset", "paper"): "preset: 'mini' -> 'paper'",
        ("--labeled", "4"): "data.labeled: '16' -> '4'",
        ("--set", "method.gamma=0.3"): "arguments.gamma: ",
    }.items():
        assert main(["train", "--resume", "--out", str(run), *options]) == 2
        said = capsys.readouterr().err
        assert "was started with other settings" in said and difference in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("train --out run", "fpgm train needs --data STORE, which `fpgm data prepare`"),
        ("train --resume --out none", "none is not there, so there is nothing to resume: begin the run without"),
        ("train --resume --out empty", "empty holds no run, so there is nothing to resume"),
        ("train --data frames --out run", "`fpgm data prepare --images frames --masks MASKS --name NAME --out STORE`"),
        ("train --data raw --out run", "`fpgm data prepare --root raw --out STORE`"),
        ("data split --data frames", "`fpgm data prepare --images frames --masks MASKS --name NAME --out STORE`"),
        ("train --data nowhere --out run", "there is no store nowhere: make it with `fpgm data prepare"),
    ],
)
def test_what_cannot_begin_says_what_to_do(
    words: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("frames/1.png", "raw/images/1.jpg"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    (tmp_path / "empty").mkdir()
    assert main(words.split()) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1
    assert not (tmp_path / "run").exists() and not (tmp_path / "none").exists()
