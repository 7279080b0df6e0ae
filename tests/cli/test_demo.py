"""`fpgm demo`, small: the page is whole and needs no other file."""

from __future__ import annotations

from pathlib import Path

import pytest

from fpgm.cli import main
from tests.conftest import compute_here, shrink_demo


def test_the_demo_writes_one_self_contained_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_demo(monkeypatch)
    compute_here(monkeypatch)
    out = tmp_path / "demo"
    assert main(["demo", "--out", str(out), "--iterations", "2"]) == 0
    page = (out / "index.html").read_text()
    assert page.count("<img src='data:image/") == 6 and "http" not in page
    assert "phantom-f (unseen)" in page and "supervised" in page and "say nothing about real colonoscopy" in page
    for method in ("supervised", "fpgm", "fpgm_teacher"):
        assert len(list((out / method / "evaluation").glob("*.csv"))) == 6
    assert main(["demo", "--out", str(out), "--iterations", "2"]) == 0  # nothing is trained again
