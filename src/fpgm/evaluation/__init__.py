"""A predictor and labelled images → per-image rows; a run folder → the files of its evaluation.

The files are those of `fpgm.runs.evaluation`, `fpgm.runs.scores` and `fpgm.runs.details`.
"""

from fpgm.evaluation.later import evaluate_any, evaluate_folders, evaluate_later
from fpgm.evaluation.run import HeldOut, evaluate_pools, evaluate_run, held_out
from fpgm.evaluation.scoring import (
    NonFiniteOutput,
    Scored,
    compare,
    compare_in_detail,
    evaluate,
    predict_masks,
    score,
)
from fpgm.runs.scores import Row, write_rows

__all__ = [
    "HeldOut",
    "NonFiniteOutput",
    "Row",
    "Scored",
    "compare",
    "compare_in_detail",
    "evaluate",
    "evaluate_any",
    "evaluate_folders",
    "evaluate_later",
    "evaluate_pools",
    "evaluate_run",
    "held_out",
    "predict_masks",
    "score",
    "write_rows",
]
