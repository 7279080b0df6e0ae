"""The names of the files in a run folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CONFIG = "config.yaml"


@dataclass(frozen=True)
class RunFolder:
    """The paths of a run's files, whether they are there or not."""

    path: Path

    @property
    def config(self) -> Path:
        """All settings."""
        return self.path / CONFIG

    @property
    def images(self) -> Path:
        """Hashes of the images the run was begun with."""
        return self.path / "data.json"

    @property
    def training_images(self) -> Path:
        """Hashes of each image the run was trained and validated with."""
        return self.path / "training_images.json"

    @property
    def metrics(self) -> Path:
        """Losses and validation Dice by step."""
        return self.path / "metrics.csv"

    @property
    def cross_validation(self) -> Path:
        """Scores of the folds, of a run that was cross-validated."""
        return self.path / "cross_validation.json"

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def model(self) -> Path:
        """Folder of the trained network."""
        return self.path / "model"

    @property
    def prior(self) -> Path:
        """The learnt frequency prior, of methods that learn one."""
        return self.path / "prior.json"

    @property
    def evaluation(self) -> Path:
        """Folder of the scores and predicted masks."""
        return self.path / "evaluation"

    @property
    def later_images(self) -> Path:
        """Store of the images that were given to `fpgm evaluate` as folders."""
        return self.evaluation / "store"

    def require_config(self) -> Path:
        """Return the path of ``config.yaml``, or refuse a folder without one."""
        if not self.config.is_file():
            raise FileNotFoundError(f"{self.path} is not a run: it has no {CONFIG}; `fpgm train` makes runs")
        return self.config


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """Return every folder at or below the paths that holds a ``config.yaml``, sorted."""
    found: set[Path] = set()
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"there is no folder {path}")
        here = {config.parent for config in path.rglob(CONFIG)}
        if not here:
            raise FileNotFoundError(f"{path} holds no run: no folder at or below it has a {CONFIG}")
        found |= here
    return sorted(found)
