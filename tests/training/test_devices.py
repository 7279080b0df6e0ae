"""Devices, ranks and precision."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fpgm.config import RunConfig, resolve
from fpgm.training.devices import make_fabric, with_precision

DATA = {"store": Path("store"), "split": "paper-0"}


def make_config(*settings: str) -> RunConfig:
    return resolve("mini", "supervised", DATA, settings)


def precision(config: RunConfig, folder: Path, resume: bool = False) -> str:
    return with_precision(config, folder, resume, "cpu").train.precision


def test_auto_is_full_precision_on_a_cpu(tmp_path: Path) -> None:
    assert precision(make_config(), tmp_path) == "32-true"
    assert precision(make_config("train.precision=bf16-mixed"), tmp_path) == "bf16-mixed"


def test_auto_is_bfloat16_on_a_gpu_that_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    assert with_precision(make_config(), tmp_path, False, "auto").train.precision == "bf16-mixed"
    assert precision(make_config(), tmp_path) == "32-true"


def test_a_resumed_run_keeps_its_precision(tmp_path: Path) -> None:
    make_config("train.precision=bf16-mixed").save(tmp_path / "config.yaml")
    assert precision(make_config(), tmp_path, resume=True) == "bf16-mixed"
    assert precision(make_config(), tmp_path) == "32-true"
    assert precision(make_config("train.precision=32-true"), tmp_path, resume=True) == "32-true"


def test_a_precision_that_the_device_has_not_is_refused() -> None:
    with pytest.warns(UserWarning, match="fp16"), pytest.raises(ValueError, match="no --precision 16-mixed"):
        make_fabric("cpu", 1, 1, "16-mixed")
