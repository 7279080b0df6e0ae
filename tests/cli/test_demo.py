"""`fpgm demo`, small: the page is whole and needs no other file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fpgm.cli import main
from tests.conftest import compute_here, shrink_demo
from tests.small_net import use_small_net


def test_the_demo_writes_one_self_contained_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, coarse_figures: None
) -> None:
    shrink_demo(monkeypatch)
    use_small_net(monkeypatch)
    compute_here(monkeypatch)
    out = tmp_path / "demo"
    assert main(["demo", "--out", str(out), "--iterations", "2"]) == 0
    page = (out / "index.html").read_text()
    figures = re.sub(r"<div class='gallery'>.*?</div>", "", page).count("<img src='data:image/")
    assert figures == 6 and page.count("<source ") == 3 and "http" not in page  # three of them dark too
    assert "phantom-f (unseen)" in page and "supervised" in page and "say nothing about real colonoscopy" in page
    for method in ("supervised", "fpgm", "fpgm_teacher"):
        assert len(list((out / method / "evaluation").glob("*.csv"))) == 6
    assert main(["demo", "--out", str(out), "--iterations", "2"]) == 0  # nothing is trained again
