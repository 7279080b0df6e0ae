"""Files cut short: refused in a sentence, and made again by the command that it names.

What happens to checkpoints, stores and records cut at other places is in the tests of those modules.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fpgm.cli import main
from tests.conftest import DRAWN
from tests.data.pictures import content
from tests.faults.making import cut, refusal, works
from tests.training.running import arguments, rows, same

SHARES = pytest.mark.parametrize("share", [0, 0.5, 1], ids=["empty", "half", "a byte short"])


def test_store(phantom_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Path(shutil.copytree(phantom_store, tmp_path / "store"))
    before = content(store)
    cut(store / "phantom-c" / "data.h5", 0.5)
    said = refusal(capsys, arguments(store, tmp_path / "run"))
    assert f"{store / 'phantom-c' / 'data.h5'} cannot be read" in said and "fpgm data synth --out STORE" in said
    assert not (tmp_path / "run" / "config.yaml").exists()
    works(["data", "synth", "--out", str(store), *DRAWN])
    assert content(store) == before


def test_checkpoint(whole: Path, run: Path, small_store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The best one is a whole checkpoint of an earlier step: from there it goes to the same end."""
    last = run / "checkpoints" / "last.safetensors"
    cut(last, 0.5)
    again = arguments(small_store, run, "--resume", method="bcpnet")
    said = refusal(capsys, again)
    assert f"{last} is damaged or cut short" in said
    assert "copy best-pretrain.safetensors or best.safetensors over it to go on from there" in said
    shutil.copy(run / "checkpoints" / "best-pretrain.safetensors", last)
    works(again)
    same(whole, run)


@pytest.mark.parametrize("file", ["model.safetensors", "model.json"])
def test_model(run: Path, small_store: Path, capsys: pytest.CaptureFixture[str], file: str) -> None:
    before = (run / "model" / file).read_bytes()
    shutil.rmtree(run / "evaluation")
    cut(run / "model" / file, 0.5)
    assert str(run / "model" / file) in refusal(capsys, ["evaluate", str(run)])
    works(arguments(small_store, run, "--resume", method="bcpnet"))
    assert (run / "model" / file).read_bytes() == before


@SHARES
def test_prior(small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], share: float) -> None:
    prior = tmp_path / "prior.json"
    learn = ["prior", "learn", "--data", str(small_store), "--labeled", "8", "--out", str(prior)]
    works(learn)
    before = prior.read_bytes()
    prior.write_bytes(before.rstrip())
    cut(prior, share)
    assert f"{prior} is not a prior file: no readable JSON" in refusal(capsys, ["prior", "show", str(prior)])
    with_prior = [*arguments(small_store, tmp_path / "run"), f"method.prior_file={prior}"]
    assert f"{prior} is not a prior file" in refusal(capsys, with_prior)
    works(learn)
    assert prior.read_bytes() == before


@SHARES
def test_scores(run: Path, capsys: pytest.CaptureFixture[str], share: float) -> None:
    scores, before = run / "evaluation" / "phantom-a.csv", content(run / "evaluation")
    cut(scores, share)
    said = refusal(capsys, ["report", str(run), "--out", str(run / "report")])
    assert f"left out: {scores}" in said and f"make it again with `fpgm evaluate {run}`" in said
    works(["evaluate", str(run), "--workers", "1"])
    assert content(run / "evaluation") == before


@pytest.mark.parametrize("share", [0, 0.5], ids=["empty", "half"])
def test_predicted_masks(run: Path, share: float) -> None:
    """The report has its tables, and says why there are no pictures."""
    masks, before = run / "evaluation" / "phantom-a.npz", content(run / "evaluation")
    cut(masks, share)
    works(["report", str(run), "--out", str(run / "report")])
    page = (run / "report" / "index.html").read_text()
    assert f"No pictures of phantom-a: {masks} is damaged" in page
    works(["evaluate", str(run), "--workers", "1"])
    assert content(run / "evaluation") == before


@pytest.mark.parametrize(("kept", "left"), [(0, 0), (3, 0), (-3, 11)], ids=["empty", "half a header", "half a number"])
def test_course_of_the_training(whole: Path, run: Path, small_store: Path, kept: int, left: int) -> None:
    """Rows that are whole are kept, and no report fails for want of a curve; a line ends with two bytes."""
    metrics = run / "metrics.csv"
    metrics.write_bytes(metrics.read_bytes()[:kept])
    works(["report", str(run), "--out", str(run / "report")])
    works(arguments(small_store, run, "--resume", method="bcpnet"))
    assert rows(run) == rows(whole)[:left]


@pytest.mark.parametrize("file", ["config.yaml", "data.json"])
def test_what_a_run_says_of_itself(run: Path, small_store: Path, capsys: pytest.CaptureFixture[str], file: str) -> None:
    cut(run / file, 0.5)
    left = content(run)
    again = arguments(small_store, run, "--resume", method="bcpnet")
    assert str(run) in refusal(capsys, again)  # half of the settings may be settings too, then it shows how they differ
    assert content(run) == left
    (run / file).unlink()
    assert main(again) == 0
