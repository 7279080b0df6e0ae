"""A map over processes that keeps the order, holds little in memory and leaves no process behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Progress = Callable[[str, int, int], None]  # the stage, how many are done, how many there are
_BATCH = 4  # items that travel together
_AHEAD = 3  # batches per worker that are under way
_IN_THREADS = 2  # most workers that are threads of this process where the work waits for others
_PROBE = 0.5  # seconds of work in this process after which the rest is estimated
_WORTH = 4.0  # seconds of work left, from which on starting processes pays


class Workers:
    """Spawned processes that start with the first ``map`` and end with the ``with``; 1 means this process."""

    def __init__(self, count: int = 1) -> None:
        if count < 1:
            raise ValueError(f"{count} workers; at least 1 is needed")
        self.count = count
        # a fork would copy locks that threads of this process hold
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(count, mp_context=context, initializer=obey_parent) if count > 1 else None
        self._started = False

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        total: int | None = None,
        *,
        waits: bool = False,
    ) -> Iterator[Result]:
        """Yield ``function(item)`` in order.

        At most a few items per worker are in progress: a slow consumer slows the workers down, and memory stays flat.

        Args:
            function: what to compute; it must be importable by its name.
            items: what to compute it of.
            total: number of items, if known. Then this process begins, and the others are started only if the rest
                would take longer than that pays for.
            waits: whether the function waits for other processes, as decoding does. Then up to two workers are threads
                of this process, with one more beside them: an item goes on while others are waited for.
        """
        rest = iter(items)
        if waits and self.count <= _IN_THREADS:
            yield from _in_threads(function, rest, self.count + 1)
            return
        if self._pool is None:
            yield from map(function, rest)
            return
        if total is not None and not self._started:
            yield from _begin(function, rest, total)
        pending = deque[Future[list[Result]]]()
        try:
            while batch := list(islice(rest, _BATCH)):
                self._started = True
                pending.append(self._pool.submit(_apply, function, batch))
                if len(pending) > _AHEAD * self.count:
                    yield from pending.popleft().result()
            while pending:
                yield from pending.popleft().result()
        except BrokenProcessPool:
            raise OSError("a worker process died, perhaps for want of memory; try again with --workers 1") from None


def _in_threads(function: Callable[[Item], Result], items: Iterator[Item], threads: int) -> Iterator[Result]:
    """Yield ``function(item)`` in order, computed in threads a few items ahead."""
    pending = deque[Future[Result]]()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                pending.append(pool.submit(function, item))
                if len(pending) > threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:  # whoever stops early, or an error, waits for none that has not begun
            for one in pending:
                one.cancel()


def _begin(
    function: Callable[[Item], Result],
    items: Iterator[Item],
    total: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[Result]:
    """Yield results until the work left is known to be worth processes; all of them if it never is."""
    spent = 0.0
    for done, item in enumerate(items, start=1):
        start = clock()
        result = function(item)
        spent += clock() - start
        yield result
        if spent >= _PROBE and spent / done * (total - done) > _WORTH:
            return


def counted(items: Iterable[Item], stage: str, total: int, progress: Progress | None) -> Iterator[Item]:
    """Pass the items on and report each."""
    for done, item in enumerate(items, start=1):
        yield item
        if progress:
            progress(stage, done, total)


def _apply(function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
    return [function(item) for item in items]


def obey_parent() -> None:
    """Leave Ctrl-C, which reaches every process, to the parent; end when the parent is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow, daemon=True).start()
