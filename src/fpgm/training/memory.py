"""Memory of the training loop: what a step frees, the next one takes again.

The C library gives large freed blocks back to the system, and every step then waits for the system to hand out and
clear the same pages anew: a tenth to a quarter of a step on a CPU.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Parameters of glibc's mallopt, from malloc.h. Once one is set, glibc no longer adjusts the thresholds by itself;
# afterwards they are what it comes to in a process that has freed large blocks.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
_KEEPING = {_MMAP_MAX: 0, _TRIM_THRESHOLD: 2**31 - 1}
_AFTERWARDS = {_MMAP_MAX: 65_536, _MMAP_THRESHOLD: 32 * 2**20, _TRIM_THRESHOLD: 64 * 2**20}


@contextmanager
def kept_memory() -> Iterator[bool]:
    """Keep freed memory in this process until the end of the block, and then give it back.

    Yields whether it is kept: the C library must be glibc.
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is None or not hasattr(library, "gnu_get_libc_version"):
        yield False
        return
    _set(library, _KEEPING)
    try:
        yield True
    finally:
        _set(library, _AFTERWARDS)
        library.malloc_trim(0)


def _set(library: ctypes.CDLL, values: dict[int, int]) -> None:
    for parameter, value in values.items():
        library.mallopt(parameter, value)
