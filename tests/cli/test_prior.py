"""`fpgm prior`: learn, show, compare."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fpgm.cli import main
from fpgm.spectrum import FrequencyPrior


def learn(store: Path, out: Path, *more: str) -> FrequencyPrior:
    assert main(["prior", "learn", "--data", str(store), "--out", str(out), *more]) == 0
    return FrequencyPrior.load(out)


def test_learns_from_the_labelled_images_alone(phantom_store: Path, tmp_path: Path) -> None:
    prior = learn(phantom_store, tmp_path / "a.json", "--labeled", "10")
    assert int(prior.samples) == 10 and int(prior.updates) == 2 and prior.debias and prior.size.tolist() == [64, 64]
    assert not learn(phantom_store, tmp_path / "b.json", "--literal").debias


def test_compares_shapes(phantom_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    learn(phantom_store, first)
    learn(phantom_store, second, "--labeled", "5")
    capsys.readouterr()
    assert main(["prior", "compare", str(first), str(second), "--out", str(tmp_path / "p.png")]) == 0
    assert "correlation 0.9" in capsys.readouterr().out and (tmp_path / "p.png").read_bytes()[1:4] == b"PNG"
    assert main(["prior", "compare", str(first), str(second), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["likeness"][str(first)] == {
        "correlation": pytest.approx(1),
        "distance": 0,
    }
    assert main(["prior", "show", str(first)]) == 0
    assert "32 radii from 56 images of 64x64, debiased average with momentum 0.999" in capsys.readouterr().out


def test_priors_of_two_sizes_are_drawn_on_the_radii_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: dict[str, NDArray[np.float32]] = {}
    monkeypatch.setattr("fpgm.report.plots.spectra.profile_figure", lambda curves, *_, **__: drawn.update(curves))
    paths = [tmp_path / "32.json", tmp_path / "64.json"]
    for path, size in zip(paths, (32, 64), strict=True):
        prior, mask = FrequencyPrior(), torch.zeros(1, size, size)
        mask[:, size // 4 : size // 2, size // 4 : size // 2] = 1
        prior.update(torch.rand(1, 3, size, size), mask)
        prior.save(path)
    assert main(["prior", "compare", *map(str, paths), "--out", str(tmp_path / "p.png")]) == 0
    first, second = drawn.values()
    assert len(first) == 16 and np.array_equal(second, FrequencyPrior.load(paths[1]).profile[::2])


def test_bad_files_are_sentences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text("{}")
    assert main(["prior", "show", str(tmp_path / "a.json")]) == 2
    assert "not a usable prior file" in capsys.readouterr().err
    assert main(["prior", "show", str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err
