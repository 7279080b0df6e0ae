"""`fpgm train` before a run begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from fpgm.cli import build_parser, main


def test_an_option_given_twice_has_the_values_of_both() -> None:
    words = ["train", "--method", "fpgm", "--data", "store", "--out", "run"]
    parsed = build_parser().parse_args([*words, "--set", "a=1", "b=2", "--set", "c=3"])
    assert parsed.train.set == ["a=1", "b=2", "c=3"]
    assert build_parser().parse_args(words).train.set is None


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
