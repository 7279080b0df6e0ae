"""Fixtures shared by all tests."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read once, when torch is first imported

from pathlib import Path

import pytest

REAL_DATA = Path(os.environ.get("FPGM_REAL_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Return the folder with the public data sets, one folder each."""
    if not (REAL_DATA / "Kvasir-SEG" / "images").is_dir():
        pytest.skip("the public data sets are not on this machine; set FPGM_REAL_DATA to their folder")
    return REAL_DATA
