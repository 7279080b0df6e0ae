"""A whole run of a method with two stages, which the broken ones are compared with."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.faults.making import works
from tests.training.running import arguments


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> Iterator[None]:
    """Compute as the processes do that are killed: sums of several threads have other last bits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def coarse(coarse_figures: None) -> None:
    """What is drawn is looked at elsewhere."""


@pytest.fixture(scope="package")
def whole(small_store: Path, tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    """Return a run that nothing happened to, trained for 12 steps, of which 4 are the first stage, and evaluated."""
    run = tmp_path_factory.mktemp("faults") / "whole"
    works(arguments(small_store, run, method="bcpnet"))
    works(["evaluate", str(run), "--workers", "1"])
    return run


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """Return a copy of that run."""
    return Path(shutil.copytree(whole, tmp_path / "run"))
