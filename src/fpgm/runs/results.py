"""An evaluated run as a reader wants it: settings, learning curve, per-image scores."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fpgm.runs.config import read_config
from fpgm.runs.details import read_details
from fpgm.runs.evaluation import EvaluatedSet, details_file, read_evaluation, scores_file
from fpgm.runs.metrics import read_metrics
from fpgm.runs.scores import Scores, read_scores


@dataclass(frozen=True)
class Result:
    """An evaluated run: its settings, the split, scores by data set, and the rows of ``metrics.csv``."""

    folder: Path
    config: dict[str, Any]
    protocol: str
    split: str
    split_seed: int
    size: int
    scores: dict[str, Scores]
    metrics: list[dict[str, str]]
    left_out: str = ""  # the hospital that protocol `hospitals` kept unseen
    draw: int = 0  # number of the draw of the labelled images
    stores: dict[str, Path] = field(default_factory=dict)  # of the data sets that came after the training

    @property
    def method(self) -> str:
        """Name of the method."""
        return str(self.config["method"])

    @property
    def preset(self) -> str:
        """Where the settings came from."""
        return str(self.config["preset"])

    @property
    def iterations(self) -> int:
        """Number of training steps."""
        return int(self.config["train"]["iterations"])

    @property
    def labeled(self) -> str:
        """Number or percentage of the training images whose masks were used."""
        return str(self.config["data"]["labeled"])

    @property
    def seed(self) -> int:
        """Seed of the training."""
        return int(self.config["train"]["seed"])


def read_result(run: Path) -> Result:
    """Read an evaluated run; what is missing, of another format or changed by hand is refused with a sentence."""
    config, record = read_config(run), read_evaluation(run)
    scores = {}
    for name, entry in record.datasets.items():
        try:
            scores[name] = _scores(run, name, entry, record.size)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{error.filename} is gone: make it again with `fpgm evaluate {run}`") from None
        except ValueError as error:
            raise ValueError(f"{error}; make it again with `fpgm evaluate {run}`") from None
    return Result(
        folder=run,
        config=config,
        protocol=record.protocol,
        split=record.split,
        split_seed=record.split_seed,
        size=record.size,
        scores=scores,
        metrics=read_metrics(run),
        left_out=record.left_out,
        draw=record.draw,
        stores={name: run / entry.store for name, entry in record.datasets.items() if entry.store},
    )


def _scores(run: Path, name: str, entry: EvaluatedSet, size: int) -> Scores:
    """Read the scores of a data set, with its details if it has any."""
    path = scores_file(run, name)
    scores = read_scores(path, dataset=name, size=size, images=entry.images, sha256=entry.sha256, unseen=entry.unseen)
    file, sha256 = details_file(run, name), entry.details_sha256
    details = read_details(file, images=entry.images, sha256=sha256) if sha256 else ()
    return replace(scores, details=details, after_training=entry.after_training, near_duplicates=entry.near_duplicates)
