"""Which configuration a run gets from what a user gives, without training it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fpgm.config import RunConfig, resolve
from fpgm.training import start as starting


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[RunConfig, dict[str, Any]]]:
    """Return a list to which each training that would begin adds its configuration and options."""
    calls: list[tuple[RunConfig, dict[str, Any]]] = []
    monkeypatch.setattr(starting, "train", lambda config, out, **options: calls.append((config, options)))
    return calls


def test_what_is_not_given_is_the_usual(phantom_store: Path, tmp_path: Path, started: list[Any]) -> None:
    starting.start(tmp_path / "run", phantom_store)
    ((config, options),) = started
    assert config == resolve("mini", "fpgm_teacher", {"store": phantom_store, "split": "strict-0"})
    assert not options["resume"] and config.train.iterations == 2000


def test_what_is_given_counts(phantom_store: Path, tmp_path: Path, started: list[Any]) -> None:
    split = str(phantom_store / "splits" / "strict-0")
    starting.start(
        tmp_path, phantom_store, method="fpgm", preset="paper", labeled="4", split=split, iterations=7, seed=3,
        precision="bf16-mixed", settings=["method.gamma=0.2"],
    )  # fmt: skip
    ((config, _),) = started
    assert (config.method, config.preset, config.data.labeled, config.data.split) == ("fpgm", "paper", "4", "strict-0")
    assert (config.train.iterations, config.train.seed, config.train.precision) == (7, 3, "bf16-mixed")
    assert config.arguments.model_dump()["gamma"] == 0.2


def test_a_resumed_run_has_the_settings_it_began_with(
    phantom_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[Any]
) -> None:
    data = {"store": phantom_store, "split": "strict-0", "labeled": "4"}
    begun = resolve("paper", "urpc", data, ["train.seed=5", "train.iterations=9", "net.name=lite_unet"])
    begun.save(tmp_path / "config.yaml")
    starting.start(tmp_path, resume=True)
    monkeypatch.chdir(phantom_store.parent)
    starting.start(tmp_path, Path(phantom_store.name), method="urpc", seed=5, resume=True)  # the same store
    assert [config for config, _ in started] == [begun, begun] and all(options["resume"] for _, options in started)
    starting.start(tmp_path, seed=6, resume=True)
    assert started[-1][0].train.seed == 6  # which `train` refuses


def test_a_store_that_has_gone_is_named_on_resume(tmp_path: Path, started: list[Any]) -> None:
    resolve("mini", "urpc", {"store": "gone", "split": "strict-0"}).save(tmp_path / "config.yaml")
    with pytest.raises(ValueError, match="was trained on the store gone, which is not there"):
        starting.start(tmp_path, resume=True)
    assert not started
