"""Writing files so that a reader never meets half of one, writing them alone, and knowing them again.

And the rules for files that came from others: `open_regular` for what they are, `read_file` and `check_inside` for
where they are, `parse_json` for how deep they go, `first_fault` for what departs from their schema, `check_name` for a
text in them that becomes a part of a path, `csv_cell` for one that becomes a cell.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
LOCK = ".run.lock"
_AT_ONCE = getattr(os, "O_NONBLOCK", 0)  # open a pipe without waiting for whoever writes to it
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_AS_IT_IS = getattr(os, "O_BINARY", 0) | getattr(os, "O_NOCTTY", 0)  # Windows would change line ends
MOST_BYTES = 2**28  # of a file of text
MOST_DEPTH = 64  # of lists and objects in each other
MOST_LETTERS = 100  # of a name
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)  # of JSON
_NO_FIRST = (".", "~", "=", "+", "-", "@")  # of names: hidden files, homes, formulas and options
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet computes


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside ``path`` that takes its place once the block ends without an error.

    The bytes are on the disk before the name changes, so a crash leaves the old file or the new one, never a
    mixture; after an error the temporary file is gone and the old one untouched. The temporary file is locked as long
    as it is written: one without a lock was left by a killed process, and the next writer of ``path`` deletes it.
    """
    target = Path(path)
    with disk_of(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            draft, lock = _open_draft(target)
        except OSError as error:  # which names the draft
            raise OSError(error.errno, os.strerror(error.errno or 0), os.fspath(path)) from None
        try:
            yield draft
            with draft.open("rb+") as file:
                os.fsync(file.fileno())
            draft.chmod(0o666 & ~_umask())
            draft.replace(target)
        except BaseException:  # an interrupt too; it is raised again
            draft.unlink(missing_ok=True)
            raise
        finally:
            lock.close()


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
    with _open_lock(path) as file:
        free = True
        if sys.platform != "win32":
            import fcntl

            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):  # which of the two depends on the system
                free = False
        yield free


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to a folder, and clear away the drafts that killed ones left there.

    A folder with a link out of it is refused: what is written through the link would land elsewhere.
    """
    with claim(folder / LOCK) as free:
        if not free:
            raise ValueError(f"another process is writing to {folder}: wait until it has ended, or stop it first")
        for entry in folder.iterdir():
            check_inside(entry, folder)
        for draft in list(folder.rglob(".*.part")):
            _clear_draft(draft)
        yield


def check_inside(path: Path, folder: Path) -> None:
    """Refuse a path that leads out of a folder by a link."""
    root, real = os.path.realpath(folder), os.path.realpath(path)
    if os.path.commonpath([root, real]) != root:
        raise ValueError(f"{path} is a link out of {folder}: put the file or folder itself in its place")


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading; a pipe, which would never end, a device, a socket or a folder is refused."""
    try:
        handle = os.open(path, os.O_RDONLY | _AT_ONCE | _AS_IT_IS)
    except OSError as error:
        if error.errno != errno.ENXIO:  # a socket, or a device that is not there
            raise
        handle = -1
    if handle < 0 or not stat.S_ISREG(os.fstat(handle).st_mode):
        if handle >= 0:
            os.close(handle)
        raise ValueError(f"{path} is not a regular file: put one in its place")
    return os.fdopen(handle, "rb")


def read_file(path: Path, within: Path | None = None, most: int = MOST_BYTES) -> bytes:
    """Read a file that may have come from others.

    A link out of its folder, what is not a regular file (a pipe would never end), and what is too large are refused.

    Args:
        path: the file.
        within: folder that it must not lead out of; the one it is in if not given.
        most: largest number of bytes.
    """
    check_inside(path, within or path.parent)
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise ValueError(f"{path} has {size:,} bytes, and no file of its kind has over {most:,}")
        return file.read()


def parse_json(text: str | bytes) -> Any:
    """Parse UTF-8 JSON; what is not JSON, or nested deeper than `MOST_DEPTH`, is a ValueError with the reason."""
    plain = text.decode() if isinstance(text, bytes) else text
    depth = 0
    for bracket in re.findall(r"[][{}]", _STRING.sub("", plain)):
        depth += 1 if bracket in "[{" else -1
        if depth > MOST_DEPTH:
            raise ValueError(f"nested deeper than {MOST_DEPTH} levels")
    return json.loads(plain)


def first_fault(error: ValidationError) -> str:
    """Return where a record first departs from its schema, and how."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}"


def check_name(name: object, what: str) -> str:
    """Return a text that may become a part of a file's name; refuse one that is not a name or leads elsewhere.

    Args:
        name: the text, as it was read.
        what: what it names and where it stands, for the message.
    """
    text = str(name)
    plain = 0 < len(text) <= MOST_LETTERS and text.isprintable()
    if not plain or text.startswith(_NO_FIRST) or set(text) & set("/\\:"):
        raise ValueError(
            f"{what} is {text[:40]!r}: a name has 1 to {MOST_LETTERS} letters, none of them / \\ or :, and begins with "
            f"none of {' '.join(_NO_FIRST)}"
        )
    return text


def csv_cell(value: Any) -> Any:
    """Return a value for a CSV file: a text that a spreadsheet would take for a formula gets an apostrophe in front."""
    if isinstance(value, str) and value.startswith(_FORMULA) and not re.fullmatch(r"[-+][0-9.]+(e[-+]?[0-9]+)?", value):
        return f"'{value}"
    return value


def file_sha256(path: Path) -> str:
    """Return the hash of a file's bytes, however many; see `open_regular`."""
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None


def _open_draft(target: Path) -> tuple[Path, IO[bytes]]:
    """Create a draft of a file and lock it; delete those that killed writers of the file left.

    Its number is above 0 while another process or thread writes the same file.
    """
    for number in itertools.count():
        draft = _draft(target, number)
        _clear_draft(draft)
        try:
            file = os.fdopen(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | _AS_IT_IS, 0o600), "rb+", buffering=0)
        except FileExistsError:
            continue
        _lock(file, wait=True)
        if file.closed or os.fstat(file.fileno()).st_nlink:  # nobody took it for a dead writer's before it was locked
            break
        file.close()
    while _clear_draft(_draft(target, number := number + 1)):
        pass
    return draft, file


def _draft(target: Path, number: int) -> Path:
    return target.parent / f".{target.name}.{number}.part"


def _clear_draft(path: Path) -> bool:
    """Delete a draft that no living process writes, and say whether there was one; a link is not followed."""
    if path.is_symlink():
        path.unlink(missing_ok=True)
        return True
    try:
        with os.fdopen(os.open(path, os.O_RDWR | _AT_ONCE | _NO_LINK | _AS_IT_IS), "rb+", buffering=0) as file:
            free = _lock(file, wait=False)
            if free and os.fstat(file.fileno()).st_nlink:  # no other process was quicker
                path.unlink()
            return free
    except OSError:  # there is none, or it is not ours to delete
        return False


def _lock(file: IO[bytes], wait: bool) -> bool:
    """Lock an open file until it is closed; False if another holds it, or the system has no locks.

    Unlike the lock of `claim`, this one does not end when the process closes the same file elsewhere. On Windows there
    is none, and the file is closed, since it could not be renamed.
    """
    if sys.platform == "win32":
        file.close()
        return False
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _open_lock(path: Path) -> IO[bytes]:
    """Open a lock file for writing and leave its content alone; a link is not followed."""
    flags = os.O_RDWR | os.O_CREAT | _AT_ONCE | _NO_LINK
    try:
        return os.fdopen(os.open(path, flags, 0o666), "rb+", buffering=0)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError(f"{path} is a link, and not a file of ours: delete it") from None
        raise


def _umask() -> int:
    """Return the process's file-creation mask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
