"""An evaluated run as a reader wants it: settings, learning curve, per-image scores."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fpgm.runs.config import read_config
from fpgm.runs.evaluation import read_evaluation, scores_file
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
        path = scores_file(run, name)
        try:
            scores[name] = read_scores(
                path, dataset=name, size=record.size, images=entry.images, sha256=entry.sha256, unseen=entry.unseen
            )
        except FileNotFoundError:
            raise FileNotFoundError(f"{path} is gone: make it again with `fpgm evaluate {run}`") from None
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
    )
