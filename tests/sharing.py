"""Folders that take long to make: one test process makes each, all processes of the session use it."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

_NAME = "FPGM_TESTS_SHARED"  # processes that are started inherit it
_own: list[tempfile.TemporaryDirectory[str]] = []  # removed when the process that began ends


def begin() -> None:
    """Make the folder that holds what is shared, unless the process that started this one did."""
    if _NAME not in os.environ:
        _own.append(tempfile.TemporaryDirectory(prefix="fpgm-tests-"))
        os.environ[_NAME] = _own[0].name


def shared(name: str, make: Callable[[Path], object], to: Path) -> Path:
    """Copy the folder of this name to `to`, a folder that is not there yet; whoever asks first makes it."""
    begin()
    place = Path(os.environ[_NAME]) / name
    with place.with_name(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            draft = place.with_name(f"{name}.draft")
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
            make(draft)
            draft.rename(place)
    return Path(shutil.copytree(place, to))
