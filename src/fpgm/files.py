"""Writing files so that a reader never meets half of one, writing them alone, and knowing them again."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside ``path`` that takes its place once the block ends without an error.

    The bytes are on the disk before the name changes, so a crash leaves the old file or the new one, never a
    mixture; after an error the temporary file is gone and the old one untouched.
    """
    target = Path(path)
    with disk_of(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
        except OSError as error:  # which names the draft
            raise OSError(error.errno, os.strerror(error.errno or 0), os.fspath(path)) from None
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


@contextmanager
def disk_of(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say which file found no room, which the system's own error leaves out."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM or error.filename:
            raise
        advice = f"{os.strerror(error.errno)}; free some space and go on, what was saved before is intact"
        raise OSError(error.errno, advice, os.fspath(path)) from None


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text atomically."""
    with atomic_path(path) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")


@contextmanager
def claim(path: Path) -> Iterator[bool]:
    """Hold a lock file until the block ends; False if another process holds it.

    The lock is the operating system's: it ends with the process, however that ends, and no forked child inherits it.
    One process must not ask twice for the same path: the end of the inner block would end the outer lock. On Windows,
    which has no such lock, nobody is kept out.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        free = True
        if sys.platform != "win32":
            import fcntl

            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):  # which of the two depends on the system
                free = False
        yield free


@contextmanager
def sole_writer(run: Path) -> Iterator[None]:
    """Keep other processes from writing to a run folder, and clear away the drafts that killed ones left there."""
    with claim(run / ".run.lock") as free:
        if not free:
            raise ValueError(f"another process is writing to {run}: wait until it has ended, or stop it first")
        for draft in (*run.glob(".*.part"), *run.glob("*/.*.part")):
            draft.unlink(missing_ok=True)
        yield


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
