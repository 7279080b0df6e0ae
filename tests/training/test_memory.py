"""Memory kept between steps."""

from __future__ import annotations

import ctypes
import resource
import sys

import pytest

from fpgm.training.memory import kept_memory

MB = 2**20
PAGE = resource.getpagesize()


def faults(size: int, times: int = 4) -> float:
    """How often the pages of a block are handed out anew while it is taken, written to and freed some times."""
    library = ctypes.CDLL(None)
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        block = library.malloc(size)
        ctypes.memset(block, 1, size)
        library.free(block)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / (size / PAGE)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="the C library is not glibc")
def test_freed_pages_are_taken_again_and_given_back_at_the_end() -> None:
    with kept_memory() as kept:
        assert kept
        faults(16 * MB, 1)
        assert faults(16 * MB) < 0.5
    assert faults(64 * MB) > 3.5


def test_elsewhere_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with kept_memory() as kept:
        assert not kept
