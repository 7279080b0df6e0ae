"""Writing files so that a reader never meets half of one, and knowing them again."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside ``path`` that takes its place once the block ends without an error.

    The bytes are on the disk before the name changes, so a crash leaves the old file or the new one, never a
    mixture; after an error the temporary file is gone and the old one untouched.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        draft.chmod(0o666 & ~_umask())
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text atomically."""
    with atomic_path(path) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")


def file_sha256(path: Path) -> str:
    """Return the hash of a file's bytes."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _umask() -> int:
    """Return the process's file-creation mask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
