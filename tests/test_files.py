"""Atomic writes: the old file or the new one, never half of either."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fpgm.files import atomic_path, write_text


def test_writes_and_replaces(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file.txt"
    write_text(target, "one")
    write_text(target, "two")
    assert target.read_text() == "two"
    assert [path.name for path in target.parent.iterdir()] == ["file.txt"]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "file.txt"
    write_text(target, "old")
    with pytest.raises(RuntimeError), atomic_path(target) as draft:
        draft.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file.txt"]


def test_files_can_be_read_by_others_as_the_umask_allows(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        write_text(tmp_path / "file.txt", "")
    finally:
        os.umask(old)
    assert (tmp_path / "file.txt").stat().st_mode & 0o777 == 0o644
