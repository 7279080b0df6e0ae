"""The card for people is written with the model and with its evaluation, whoever writes them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fpgm.evaluation import evaluate_run
from tests.runs.making import make_run, ship

CPU = torch.device("cpu")


@pytest.fixture
def run(tmp_path: Path, phantom_store: Path) -> Path:
    return make_run(tmp_path / "run", phantom_store)


def card(run: Path) -> str:
    return (run / "model" / "MODEL_CARD.md").read_text()


def test_a_model_is_written_with_its_card(run: Path) -> None:
    assert "not evaluated yet" in card(run) and "mini, 40 iterations, seed 0" in card(run)


def test_an_evaluation_brings_its_figures_into_the_card(run: Path) -> None:
    evaluate_run(run, datasets=["phantom-a"], device=CPU)
    assert "| phantom-a | 4 |" in card(run) and "not evaluated" not in card(run)
    evaluate_run(run, datasets=["phantom-f"], device=CPU)
    assert "| phantom-a | 4 |" in card(run) and "| phantom-f (unseen) | 20 |" in card(run)


def test_other_weights_lose_the_figures(run: Path) -> None:
    evaluate_run(run, datasets=["phantom-a"], device=CPU)
    ship(run, seed=2)
    assert "not evaluated yet" in card(run)


def test_the_counts_come_from_the_store_that_was_given(run: Path, phantom_store: Path, tmp_path: Path) -> None:
    config = run / "config.yaml"
    config.write_text(config.read_text().replace(str(phantom_store), str(tmp_path / "gone")))
    evaluate_run(run, phantom_store, ["phantom-a"], device=CPU)
    assert "| phantom-a | 14 |" in card(run)
