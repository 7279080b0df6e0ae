"""Small stores for the commands of `fpgm data`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.data.making import make_store, scene


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two hospitals of 20 different images each."""
    rng = np.random.default_rng(0)
    for name in ("north", "south"):
        make_store(tmp_path / "store", name, {str(k): scene(rng) for k in range(20)})
    return tmp_path / "store"


@pytest.fixture
def leaky(store: Path) -> Path:
    """The same, and a third that has an image of the first and is called <third>."""
    rng = np.random.default_rng(0)
    first = scene(rng)
    make_store(store, "third", {"copy": first, "new": scene(np.random.default_rng(9))})
    return store
