"""Cross-validation, a few steps long."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fpgm.cli import main
from fpgm.data.splits.split import Split
from fpgm.runs.cross_validation import CrossValidation, FoldScore, read_cross_validation, write_cross_validation
from tests.data.making import make_store, scene
from tests.training.running import OFTEN, SMALL


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """Return a command of two steps on eight masks of four patients, without validation images."""
    rng = np.random.default_rng(0)
    pictures = {str(k): scene(rng) for k in range(8)}
    make_store(tmp_path / "store", "clinic", pictures, groups={str(k): f"p{k // 2}" for k in range(8)})
    Split(tuple(f"clinic/{k}" for k in range(8)), (), (), (), "given", 0).save(tmp_path / "store" / "splits" / "own")
    options = ["--data", str(tmp_path / "store"), "--out", str(tmp_path / "run"), "--preset", "mini"]
    return ["train", "--method", "supervised", *options, "--iterations", "2", "--set", *SMALL, *OFTEN, "data.workers=0"]


def test_folds_are_scored_and_then_all_masks_are_used(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main([*command[:1], "--cross-validate", "2", *command[1:]]) == 0
    output = " ".join(capsys.readouterr().out.split())
    record = read_cross_validation(run)
    assert record is not None and [fold.images for fold in record.folds] == [4, 4]
    assert output.count("4 labelled, 0 unlabelled") == 2 and output.count("8 labelled, 0 unlabelled") == 1
    assert record.describe() in output
    assert record.describe() in (run / "model" / "MODEL_CARD.md").read_text()
    assert main([*command[:1], "--cross-validate", "2", *command[1:]]) == 2
    assert "holds a run already" in capsys.readouterr().err


def test_folds_that_are_done_are_kept(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*command[:1], "--cross-validate", "2", "--resume", *command[1:]]
    assert main(words) == 0
    record = read_cross_validation(tmp_path / "run")
    assert record is not None
    kept = FoldScore(images=4, dice=0.125)
    write_cross_validation(tmp_path / "run", record.model_copy(update={"folds": (kept,)}))
    capsys.readouterr()
    assert main(words) == 0
    again = read_cross_validation(tmp_path / "run")
    assert again is not None and again.folds == (kept, record.folds[1])
    assert "fold 1 of 2" not in capsys.readouterr().out


def test_other_settings_and_too_many_folds_are_refused(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command[:1], "--cross-validate", "5", *command[1:]]) == 2
    assert "the 8 labelled images are of 4 groups" in capsys.readouterr().err
    assert main([*command[:1], "--cross-validate", "2", "--devices", "2", *command[1:]]) == 2
    assert "--cross-validate runs in one process" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    write_cross_validation(tmp_path / "run", CrossValidation(count=2, settings_sha256="of others"))
    assert main([*command[:1], "--cross-validate", "2", "--resume", *command[1:]]) == 2
    assert "was cross-validated with other settings or images" in capsys.readouterr().err
