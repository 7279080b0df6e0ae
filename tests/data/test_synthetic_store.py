"""Stores of phantoms: the pictures drawn, the same bytes from any number of processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fpgm.data.parallel import Workers
from fpgm.data.store import open_stores
from fpgm.data.synthetic import phantom
from fpgm.data.synthetic_store import build_phantom
from tests.data.pictures import content


def test_phantom_store(tmp_path: Path) -> None:
    build_phantom("phantom-b", tmp_path, 3, size=64, seed=5)
    store = open_stores(tmp_path)["phantom-b"]
    assert store.ids == ("00000", "00001", "00002")
    image, mask = phantom("phantom-b", 2, seed=5, size=64)
    assert np.array_equal(store.images([2])[0], image)
    assert np.array_equal(store.masks([2])[0], mask)
    assert store.manifest.source == "phantom, plain, seed 5"


def test_phantom_bytes(tmp_path: Path) -> None:
    with Workers(2) as workers:
        build_phantom("phantom-a", tmp_path / "two", 6, 64, 1, workers)
    build_phantom("phantom-a", tmp_path / "one", 6, 64, 1)
    build_phantom("phantom-a", tmp_path / "other", 6, 64, 2)
    assert content(tmp_path / "one") == content(tmp_path / "two") != content(tmp_path / "other")


def test_no_phantom(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        build_phantom("phantom-a", tmp_path, 0)
