"""The model card says what the run's files say."""

from __future__ import annotations

from pathlib import Path

import pytest

from fpgm.cli import main
from fpgm.runs.model_card import write_model_card
from fpgm.runs.results import read_result
from fpgm.runs.summary import summarise
from tests.runs.making import make_run


@pytest.fixture
def run(tmp_path: Path, phantom_store: Path) -> Path:
    return make_run(tmp_path / "run", phantom_store)


def test_before_the_evaluation(run: Path) -> None:
    path = write_model_card(run / "model")
    text = path.read_text()
    assert path == run / "model" / "MODEL_CARD.md"
    assert "Not for clinical use" in text and "not evaluated yet" in text
    assert "64 x 64 pixels" in text and "`supervised`" in text and "mini, 40 iterations, seed 0" in text
    assert "masks of 16 training images (16) were used, those of the other 40 were not" in text
    assert "| phantom-a | 14 | 2 | 4 | 0 | that of this package |" in text
    assert "| phantom-f | 0 | 0 | 0 | 20 |" in text and "Protocol `strict`" in text
    assert "say nothing about real colonoscopy" in text


def test_after_the_evaluation(run: Path) -> None:
    assert main(["evaluate", str(run), "--datasets", "phantom-a", "phantom-f", "--workers", "1"]) == 0
    text = write_model_card(run / "model").read_text()
    scores = read_result(run).scores["phantom-f"]
    dice, far = summarise(scores.values["dice"]), summarise(scores.values["hd95"])
    row = next(line for line in text.splitlines() if line.startswith("| phantom-f (unseen) | 20 |"))
    assert f"{100 * dice.mean:.1f} [{100 * dice.low:.1f}, {100 * dice.high:.1f}]" in row
    assert f"{far.mean:.1f} [{far.low:.1f}, {far.high:.1f}]" in row
    assert "not evaluated" not in text and "| phantom-a | 4 |" in text


def test_figures_of_other_weights_are_not_shown(run: Path) -> None:
    assert main(["evaluate", str(run), "--datasets", "phantom-a", "--workers", "1"]) == 0
    card = run / "model" / "model.json"
    card.write_text(card.read_text().replace('"weights_sha256": "', '"weights_sha256": "0'))
    assert "not evaluated yet" in write_model_card(run / "model").read_text()


def test_no_folder_of_this_machine_is_named(run: Path, phantom_store: Path) -> None:
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(text.replace("arguments: {}", "arguments: {prior_file: /home/me/prior.json}", 1))
    text = write_model_card(run / "model").read_text()
    assert str(run) not in text and str(phantom_store) not in text
    assert 'prior_file = "prior.json"' in text and "/home" not in text


def test_a_store_that_is_gone_costs_the_counts_alone(run: Path, phantom_store: Path, tmp_path: Path) -> None:
    config = run / "config.yaml"
    config.write_text(config.read_text().replace(str(phantom_store), str(tmp_path / "gone")))
    text = write_model_card(run / "model").read_text()
    assert "Split `strict-0`, 16 of the training images labelled" in text and "| phantom-a" not in text
    assert "| phantom-a | 14 |" in write_model_card(run / "model", store=phantom_store).read_text()


def test_a_model_without_a_run_has_a_card_too(run: Path) -> None:
    (run / "config.yaml").unlink()
    text = write_model_card(run / "model").read_text()
    assert "fpgm predict MODEL IMAGES" in text and "Not for clinical use" in text and "## Results" not in text


def test_what_is_not_a_run_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"holds no model: there is no model\.json"):
        write_model_card(tmp_path / "model")
    (run / "config.yaml").write_text("method: [")
    with pytest.raises(ValueError, match="not readable YAML"):
        write_model_card(run / "model")
    (run / "config.yaml").write_text("method: fpgm")
    with pytest.raises(ValueError, match="not the configuration of a run: there is no preset"):
        write_model_card(run / "model")
