"""Fixtures shared by all tests."""

from __future__ import annotations

import os

# Read once, when torch is first imported; tests run side by side, and threads of tiny arrays wait for each other.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import functools
import gc
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.sharing import begin, shared

begin()  # before processes are started that run tests beside this one

# A busy machine is not an error, neither for a case nor for drawing one; and what lands must not depend on a draw.
settings.register_profile(
    "fpgm",
    deadline=None,
    max_examples=50,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fpgm")

# Half a minute or more on a busy machine. They are begun first, so that at the end no process waits for one of them.
LONGEST = (
    "tests/cli/experiments/test_reproduce.py::test_several_at_a_time",
    "tests/cli/test_demo.py",
    "tests/experiments/test_cluster.py",
    "tests/experiments/test_slurm.py",
    "tests/methods/test_ranks.py",
    "tests/serving/web/test_static.py",
    "tests/test_docs.py",
    "tests/training/test_run.py",
)

DRAWN = ["--count", "20", "--size", "64", "--workers", "1", "--variety", "plain"]  # what `phantom_store` holds
REAL_DATA = Path(os.environ.get("FPGM_REAL_DATA", Path(__file__).parents[2] / "shared" / "data"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest tests first; all others keep their order."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def pytest_collection_finish() -> None:
    """Keep the half million objects that imports have made out of every collection of garbage to come."""
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def one_registry() -> Iterator[None]:
    """Let all exports to ONNX share the table of operators, which is never changed and takes a second to make."""
    with pytest.MonkeyPatch.context() as patch:
        if find_spec("onnxscript"):
            from torch.onnx._internal.exporter._registration import ONNXRegistry

            patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(functools.cache(ONNXRegistry.from_torchlib)))
        yield


@pytest.fixture(autouse=True, scope="session")
def no_wait_for_the_disk() -> Iterator[None]:
    """Leave what is written to the system: tests kill processes, but none cuts the power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Return the folder with the public data sets, one folder each."""
    if not (REAL_DATA / "Kvasir-SEG" / "images").is_dir():
        pytest.skip("the public data sets are not on this machine; set FPGM_REAL_DATA to their folder")
    return REAL_DATA


@pytest.fixture(scope="session")
def phantom_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of 20 phantoms of 64 x 64 per domain, with the split `strict-0`."""
    return shared("phantoms", _draw_phantoms, tmp_path_factory.mktemp("phantoms") / "store")


def _draw_phantoms(folder: Path) -> None:
    from fpgm.cli import main

    assert main(["data", "synth", "--out", str(folder), *DRAWN]) == 0
    assert main(["data", "split", "--data", str(folder), "--protocol", "strict"]) == 0


@pytest.fixture(scope="session")
def small_store(phantom_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the same store with images of 32 x 32: every second pixel, and half the time of a training."""
    to = tmp_path_factory.mktemp("phantoms") / "small"
    return shared("small-phantoms", lambda folder: _halve_phantoms(phantom_store, folder), to)


def _halve_phantoms(store: Path, folder: Path) -> None:
    from fpgm.data.manifest import Manifest
    from fpgm.data.store import StoredImage, open_stores, write_store

    for name, whole in open_stores(store).items():
        every = range(len(whole))
        images, masks = whole.images(every)[:, ::2, ::2], whole.masks(every)[:, ::2, ::2]
        kept = zip(whole.manifest.images, images, masks, whole.dhash, strict=True)
        header = {"name": name, "source": whole.manifest.source, "size": images.shape[1], "rules": {}, "inputs": ""}
        write_store(folder / name, map(StoredImage._make, kept), functools.partial(Manifest.describe, **header))
    shutil.copytree(store / "splits", folder / "splits")


def shrink_demo(patch: pytest.MonkeyPatch) -> None:
    """Give the demo few images, drawn in this process, and a small network, here and in processes that it starts."""
    from fpgm.cli import demo
    from fpgm.cli.data import synth

    small = ("net.name=unet", "net.arguments={channels: [2, 4, 4, 8, 8]}", "train.choose_statistics=false")
    patch.setattr(demo, "COUNT", 12)
    patch.setattr(demo, "LABELED", "2")
    patch.setattr(synth, "worker_count", lambda _: 1)
    patch.setattr(demo, "SETTINGS", {name: (*demo.SETTINGS.get(name, ()), *small) for name in demo.METHODS})


def draw_coarsely(patch: pytest.MonkeyPatch) -> None:
    """Write figures of few pixels, laid out anyhow: all is drawn, and most of the time of a report goes there."""
    from matplotlib.figure import Figure

    real = Figure.savefig

    def savefig(figure: Figure, file: object, **options: Any) -> None:
        figure.set_layout_engine("none")
        real(figure, file, **{**options, "dpi": 25})

    patch.setattr(Figure, "savefig", savefig)


@pytest.fixture
def coarse_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_coarsely(monkeypatch)


def compute_here(patch: pytest.MonkeyPatch) -> None:
    """Compute what would get processes of its own in this one: each of them imports torch."""
    from fpgm.experiments import processes, runner

    patch.setattr(processes, "Processes", lambda steps, jobs, threads, devices=(): runner.InProcess(steps))
