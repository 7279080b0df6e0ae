"""Figures in MLflow's files and in TensorBoard's, read back by their own readers; W&B writes, and sends nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from fpgm.training.telemetry import Telemetry
from fpgm.training.trackers import IDS, MLflow, open_trackers

SETTINGS = {"method": "fpgm", "data.store": "/home/ward-7/secret", "optimizer.lr": 0.1}


@pytest.fixture(autouse=True)
def local(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLFLOW_TRACKING_URI", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)


def test_mlflow_has_settings_and_figures_and_a_resumed_run_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="mlflow-skinny is not in the lock file: pip install 'fpgm[mlflow]'")
    for start, values in ((0, (0.5, 0.25)), (2, (0.125,))):
        *_, board = trackers = open_trackers(tmp_path, start, ["mlflow"], SETTINGS)
        with Telemetry(tmp_path, start, 3, None, trackers=trackers) as telemetry:
            for step, loss in enumerate(values, start + 1):
                telemetry.log(step, {"loss": loss, "stage": "train"})
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=(tmp_path / "mlruns").as_uri())
    (run,) = client.search_runs([client.get_experiment_by_name("fpgm").experiment_id])
    assert run.info.run_id == json.loads((tmp_path / IDS).read_text())["mlflow"] and run.info.status == "FINISHED"
    assert run.data.params == {"method": "fpgm", "optimizer.lr": "0.1"}
    history = client.get_metric_history(run.info.run_id, "loss")
    assert [(one.step, one.value) for one in history] == [(1, 0.5), (2, 0.25), (3, 0.125)]
    assert type(board).__name__ == "TensorBoard"
    written = b"".join(path.read_bytes() for path in (tmp_path / "mlruns").rglob("*") if path.is_file())
    assert b"ward-7" not in written


def test_wandb_writes_offline(tmp_path: Path) -> None:
    pytest.importorskip("wandb", reason="wandb is not in the lock file: pip install 'fpgm[wandb]'")
    with Telemetry(tmp_path, 0, 1, None, trackers=open_trackers(tmp_path, 0, ["wandb"], SETTINGS)) as telemetry:
        telemetry.log(1, {"loss": 0.5})
    (written,) = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    content = written.read_bytes()
    assert b"optimizer.lr" in content and b"loss" in content and b"ward-7" not in content


def test_tensorboard_stays(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    with Telemetry(tmp_path, 0, 1, None, trackers=open_trackers(tmp_path, 0, [], SETTINGS)) as telemetry:
        telemetry.log(1, {"loss": 0.5})
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(one.step, one.value) for one in events.Scalars("loss")] == [(1, 0.5)]
    assert not (tmp_path / IDS).exists()


def test_what_is_not_installed_or_does_not_answer_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ValueError, match=r"--track wandb needs .*: pip install 'fpgm\[wandb\]'"):
        open_trackers(tmp_path, 0, ["wandb"], SETTINGS)

    def refuse(*_: object) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(MLflow, "__init__", refuse)
    with pytest.raises(ValueError, match="--track mlflow cannot be used: no route to host"):
        open_trackers(tmp_path, 0, ["mlflow"], SETTINGS)


def test_a_tracker_that_fails_under_way_does_not_stop_the_run(tmp_path: Path) -> None:
    class Failing:
        logged = 0

        def log(self, step: int, values: Mapping[str, float]) -> None:
            self.logged += 1
            raise ConnectionError("the server is gone")

        def close(self, *, failed: bool) -> None:
            raise AssertionError("it has been left")

    text, failing = StringIO(), Failing()
    with Telemetry(tmp_path, 0, 3, Console(file=text, width=200), trackers=[failing]) as telemetry:
        for step in (1, 2):
            telemetry.log(step, {"loss": 0.5})
    assert failing.logged == 1 and text.getvalue().count("Failing gets no more figures") == 1
