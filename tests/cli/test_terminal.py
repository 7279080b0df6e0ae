"""Sentences for errors of the system, and lines of progress."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from fpgm.cli.terminal import describe_error, progress_bars
from tests.clock import Clock


def error_of(number: int, name: str | None = "box") -> OSError:
    return OSError(number, os.strerror(number), name) if name else OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.ENOENT, "there is no box"),
        (errno.EISDIR, "box is a folder, and a file was expected"),
        (errno.ENOSPC, "box finds no room (No space left on device): make some, then give the same command again"),
        (errno.EIO, "box cannot be used: Input/output error"),
    ],
)
def test_an_error_of_the_system_is_a_sentence(number: int, sentence: str) -> None:
    assert describe_error(error_of(number)) == sentence


def test_a_real_one(tmp_path: Path) -> None:
    with pytest.raises(OSError) as missing:
        (tmp_path / "none").read_bytes()
    assert describe_error(missing.value) == f"there is no {tmp_path / 'none'}"


def test_our_own_sentences_stay() -> None:
    assert describe_error(FileNotFoundError("there is no store x")) == "there is no store x"
    assert describe_error(ValueError("wrong")) == "wrong"
    assert describe_error(error_of(errno.ENOSPC, None)).startswith("a file or folder finds no room")


def test_without_a_terminal_there_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with progress_bars(clock) as bar:
        show = bar("clinic [a]")
        for stage in ("hash", "prepare"):
            for done in range(1, 101):
                clock.now += 0.125 if stage == "hash" else 1
                show(stage, done, 100)
    shown = capsys.readouterr()
    assert not shown.out and shown.err.splitlines() == [
        "clinic [a]: prepare 31 of 100, about 69 s left",
        "clinic [a]: prepare 61 of 100, about 39 s left",
        "clinic [a]: prepare 91 of 100, about 9 s left",
    ]
