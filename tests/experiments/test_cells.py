"""cell.json of somebody else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fpgm.experiments import cells
from fpgm.files import MOST_BYTES
from tests.experiments.making import cell


def giant(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 1)


BAD: dict[str, Callable[[Path], object]] = {
    "deep": lambda path: path.write_text("[" * 10**6),
    "bytes": lambda path: path.write_bytes(b"\xff"),
    "giant": giant,
    "pipe": os.mkfifo,
    "folder": lambda path: path.mkdir(),
    "other": lambda path: path.write_text("[]"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_record_counts_as_none(kind: str, tmp_path: Path) -> None:
    BAD[kind](tmp_path / "cell.json")
    assert cells.read(tmp_path) is None


def test_a_link_out_of_the_cell_is_not_followed_and_is_replaced(tmp_path: Path) -> None:
    one, other = cell(tmp_path / "one"), cell(tmp_path / "other")
    cells.write(other, 3.0)
    one.folder.mkdir(parents=True)
    (one.folder / "cell.json").symlink_to(other.folder / "cell.json")
    assert cells.read(one.folder) is None
    assert cells.write(one, 1.0).attempts == 1
    record = cells.read(other.folder)
    assert record and record.seconds == 3.0
