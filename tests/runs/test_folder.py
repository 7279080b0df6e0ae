"""Runs are found where their config.yaml is."""

from __future__ import annotations

from pathlib import Path

import pytest

from fpgm.runs.folder import find_runs


def test_runs_are_found_at_and_below_the_paths(tmp_path: Path) -> None:
    deep, run = tmp_path / "grid" / "a" / "seed-0", tmp_path / "run"
    for folder in (deep, run):
        folder.mkdir(parents=True)
        (folder / "config.yaml").touch()
    assert find_runs([tmp_path, run]) == [deep, run]
    assert find_runs([run]) == [run]
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere"):
        find_runs([run, tmp_path / "nowhere"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="empty holds no run"):
        find_runs([run, tmp_path / "empty"])
