"""Where the figures of a run go beside metrics.csv: TensorBoard, MLflow, Weights & Biases.

TensorBoard writes to the run folder and is always on where it is installed. The others are asked for by name. What they
get is the settings, without the paths of the store and of first weights, and the figures of metrics.csv: no image, no
name of an image, no weights. A run that is resumed goes on under the same number, which ``tracking.json`` keeps.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Protocol

from fpgm.files import parse_json, read_file, write_text

Name = Literal["mlflow", "wandb"]
PROJECT = "fpgm"
IDS = "tracking.json"
_AT_ONCE = 100  # parameters; the most that a server of MLflow takes


class Tracker(Protocol):
    """Takes the figures of a run."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take the figures of a step."""

    def close(self, *, failed: bool) -> None:
        """The run has ended, or was stopped; with or without an error."""


class TensorBoard:
    """Event files in ``RUN/tensorboard``."""

    def __init__(self, folder: Path, start: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=start)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write scalars."""
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def close(self, *, failed: bool) -> None:
        """Close the file."""
        self.writer.close()


class MLflow:
    """A run of MLflow: at MLFLOW_TRACKING_URI, or without it in the folder ``RUN/mlruns``."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], known: str | None) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # its makers get no message
        if "MLFLOW_TRACKING_URI" not in os.environ:
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # which new versions keep for the sake of old ones
        from mlflow.entities import Metric, Param
        from mlflow.tracking import MlflowClient

        self._metric, uri = Metric, os.environ.get("MLFLOW_TRACKING_URI") or (folder / "mlruns").resolve().as_uri()
        self.client = MlflowClient(tracking_uri=uri)
        self.id = known or self._begin(folder.name)
        if known is None:
            params = [Param(key, str(value)[:500]) for key, value in settings.items()]
            for first in range(0, len(params), _AT_ONCE):
                self.client.log_batch(self.id, params=params[first : first + _AT_ONCE])
        else:
            self.client.update_run(self.id, status="RUNNING")

    def _begin(self, name: str) -> str:
        found = self.client.get_experiment_by_name(PROJECT)
        experiment = found.experiment_id if found else self.client.create_experiment(PROJECT)
        return str(self.client.create_run(experiment, run_name=name).info.run_id)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log metrics."""
        now = int(1000 * time.time())
        self.client.log_batch(self.id, metrics=[self._metric(name, value, now, step) for name, value in values.items()])

    def close(self, *, failed: bool) -> None:
        """Set the state of the run."""
        self.client.set_terminated(self.id, "FAILED" if failed else "FINISHED")


class WandB:
    """A run of Weights & Biases: in the folder ``RUN/wandb``, and sent only if WANDB_MODE is online."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], known: str | None) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # its makers get no message
        import wandb

        quiet = {"console": "off", "disable_git": True, "save_code": False, "silent": True}
        private = {"x_disable_meta": True, "x_disable_stats": True, "x_disable_machine_info": True, "host": ""}
        mode: Any = os.environ.get("WANDB_MODE") or "offline"  # wandb checks the text itself
        self.run = wandb.init(
            project=PROJECT,
            name=folder.name,
            dir=str(folder),
            config=dict(settings),
            mode=mode,
            id=known,
            resume="allow" if known else None,
            settings=wandb.Settings(**quiet, **private),
        )
        self.id = str(self.run.id)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log metrics."""
        self.run.log(dict(values), step=step)

    def close(self, *, failed: bool) -> None:
        """End the run."""
        self.run.finish(exit_code=int(failed))


_TRACKERS: Mapping[str, Callable[[Path, Mapping[str, Any], str | None], Any]] = {"mlflow": MLflow, "wandb": WandB}


def open_trackers(folder: Path, start: int, names: Sequence[Name], settings: Mapping[str, Any]) -> list[Tracker]:
    """Return the trackers of a run: TensorBoard where it is installed, and those that were asked for.

    Args:
        folder: run folder.
        start: first step to come.
        names: trackers that were asked for.
        settings: settings of the run, by dotted key.
    """
    opened: list[Tracker] = []
    ids = _read_ids(folder)
    shown = {key: value for key, value in settings.items() if key not in ("data.store", "departs", "net.start")}
    for name in dict.fromkeys(names):
        try:
            tracker = _TRACKERS[name](folder, shown, ids.get(name))
        except ImportError:
            raise ValueError(
                f"--track {name} needs a package that is not installed: pip install 'fpgm[{name}]'"
            ) from None
        except Exception as error:  # a server that does not answer, a run that is gone there
            raise ValueError(f"--track {name} cannot be used: {error}") from error
        ids[name] = tracker.id
        opened.append(tracker)
    if names:
        write_text(folder / IDS, json.dumps(ids, indent=1) + "\n")
    with suppress(ImportError):
        opened.append(TensorBoard(folder, start))
    return opened


def check_names(names: Sequence[str]) -> list[Name]:
    """Refuse trackers that there are not."""
    if strange := [name for name in names if name not in _TRACKERS]:
        raise ValueError(f"there is no tracker {strange[0]!r}; there are: {', '.join(_TRACKERS)}")
    return list(names)  # type: ignore[arg-type]  # just checked


def _read_ids(folder: Path) -> dict[str, str]:
    """Return the numbers under which trackers know the run."""
    try:
        record = parse_json(read_file(folder / IDS, folder))
    except (FileNotFoundError, ValueError):
        return {}
    return {name: str(value) for name, value in record.items()} if isinstance(record, dict) else {}
