"""What a run folder says of itself: settings, course of the training, per-image scores."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from fpgm._version import __version__
from fpgm.report.reading.scores import (
    METRICS,
    RELEASED,
    Scores,
    Summary,
    false_alarms,
    missed,
    pooled,
    read_scores,
    summarise,
)

__all__ = [
    "METRICS",
    "RELEASED",
    "Result",
    "Scores",
    "Summary",
    "false_alarms",
    "find_runs",
    "missed",
    "pooled",
    "read_csv",
    "read_result",
    "summarise",
]


@dataclass(frozen=True)
class Result:
    """An evaluated run: its settings, the split, per-image scores by data set, and the rows of ``metrics.csv``."""

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


class _Entry(BaseModel):
    """A data set in ``evaluation.json``; what else it says is for `fpgm evaluate` to know what is up to date."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    images: int
    unseen: bool
    sha256: str


class _Record(BaseModel):
    """``evaluation.json``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["fpgm-evaluation-1"]
    version: str
    weights_sha256: str
    size: int
    protocol: str
    split: str
    split_seed: int
    left_out: str = ""
    datasets: dict[str, _Entry]


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """Return every folder at or below the paths that holds a ``config.yaml``, sorted."""
    found: set[Path] = set()
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"there is no folder {path}")
        here = {config.parent for config in path.rglob("config.yaml")}
        if not here:
            raise FileNotFoundError(f"{path} holds no run: no folder at or below it has a config.yaml")
        found |= here
    return sorted(found)


def read_csv(path: Path) -> list[dict[str, str]]:
    """Read a CSV file with a header."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def read_result(run: Path) -> Result:
    """Read an evaluated run; what is missing, of another version or changed by hand is refused with a sentence."""
    config, record = _read_config(run), _read_record(run)
    scores = {}
    for name, entry in record.datasets.items():
        path = run / "evaluation" / f"{name}.csv"
        try:
            scores[name] = read_scores(path, dataset=name, size=record.size, **entry.model_dump())
        except FileNotFoundError:
            raise FileNotFoundError(f"{path} is gone: make it again with `fpgm evaluate {run}`") from None
        except ValueError as error:
            raise ValueError(f"{error}; make it again with `fpgm evaluate {run}`") from None
    if not (run / "metrics.csv").is_file():
        raise FileNotFoundError(f"{run} is not a whole run: it has no metrics.csv; copy the whole folder again")
    return Result(
        folder=run,
        config=config,
        protocol=record.protocol,
        split=record.split,
        split_seed=record.split_seed,
        size=record.size,
        scores=scores,
        metrics=read_csv(run / "metrics.csv"),
        left_out=record.left_out,
    )


def _read_config(run: Path) -> dict[str, Any]:
    """Read ``config.yaml`` and check that it holds what a `Result` is asked for."""
    path = run / "config.yaml"
    if not path.is_file():
        raise FileNotFoundError(f"{run} is not a run: it has no config.yaml; `fpgm train` makes runs")
    try:
        config = yaml.safe_load(path.read_bytes())
    except Exception as error:  # a wrong tag makes the reader raise anything
        raise ValueError(f"{path} is not readable YAML: {error}") from None
    for key in ("method", "preset", "data.labeled", "train.iterations", "train.seed"):
        value = config
        for name in key.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        if value is None:
            raise ValueError(f"{path} is not the configuration of a run: there is no {key}")
    return dict(config)


def _read_record(run: Path) -> _Record:
    """Read ``evaluation.json``, which is there only if all it lists is, and check that it is of these weights."""
    model, path = run / "model" / "model.json", run / "evaluation" / "evaluation.json"
    again = f"run `fpgm evaluate {run}` again"
    if not model.is_file():
        raise FileNotFoundError(
            f"{run} is not finished: it has no model/model.json; go on with `fpgm train … --out {run} --resume`"
        )
    if not path.is_file():
        raise FileNotFoundError(
            f"{run} is not evaluated: it has no evaluation/evaluation.json; do so with `fpgm evaluate {run}`"
        )
    version = _read_json(path, again).get("version")
    if version != __version__:
        raise ValueError(f"{run} was evaluated by fpgm {version}, this is {__version__}: {again}")
    try:
        record = _Record.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}; {again}") from None
    if strange := [name for name in record.datasets if Path(name).name != name or "\0" in name]:
        raise ValueError(f"{path}: {strange[0]!r} cannot name a data set; {again}")
    if record.weights_sha256 != _read_json(model, again).get("weights_sha256"):
        raise ValueError(f"the evaluation of {run} is of other weights than its model: {again}")
    return record


def _read_json(path: Path, again: str) -> dict[str, Any]:
    try:
        record = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not readable JSON ({error}); {again}") from None
    return record if isinstance(record, dict) else {}
