"""Files that are written together: a model with its card, an evaluation with its figures in that card."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fpgm.files import write_text
from fpgm.runs.card import CARD, ModelCard
from fpgm.runs.evaluation import Evaluation, replace_evaluation
from fpgm.runs.folder import RunFolder
from fpgm.runs.model_card import write_model_card


def write_model_record(folder: Path, card: ModelCard, base: Path | None = None) -> None:
    """Write ``model.json`` and ``MODEL_CARD.md`` of a model folder whose weights are written.

    Args:
        folder: model folder.
        card: content of ``model.json``.
        base: run folder or model folder that the model was adapted from, if it was.
    """
    write_text(folder / CARD, card.model_dump_json(indent=1) + "\n")
    write_model_card(folder, base=base)


def write_evaluation(run: Path, record: Evaluation, *, store: Path | None, stale: Iterable[str] = ()) -> None:
    """Write ``evaluation.json``, remove what is stale, and bring the figures in ``MODEL_CARD.md`` up to date.

    Args:
        run: run folder.
        record: the data sets whose files are written, and of which weights they are.
        store: store with the run's split; the one it was trained on if not given.
        stale: data sets whose files are to go.
    """
    replace_evaluation(run, record, stale)
    write_model_card(RunFolder(run).model, store=store)
