"""Every Python snippet of the documentation runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fpgm.methods import METHODS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SNIPPETS = {page: re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S) for page in PAGES}


@pytest.mark.parametrize("page", [page for page in PAGES if SNIPPETS[page]], ids=lambda page: page.name)
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    known = dict(METHODS)
    try:
        for snippet in SNIPPETS[page]:
            exec(compile(snippet, page.name, "exec"), names)
    finally:
        for name in METHODS.keys() - known:  # a snippet may register one of its own
            del METHODS[name]


def test_a_whole_method_takes_sixty_lines_at_most() -> None:
    (snippet,) = SNIPPETS[ROOT / "docs" / "how-to" / "add-a-method.md"]
    assert len(snippet.splitlines()) <= 60
