"""Prefetching: results are prepared in worker processes before they are needed."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import traceback
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Generic, TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")
# A fork starts at once; a spawned process imports torch first and needs a script to guard its main part.
_CONTEXT = multiprocessing.get_context("fork" if sys.platform == "linux" else None)


def prefetch(
    prepare: Callable[[int], T], finish: Callable[[int, T], R], steps: range, workers: int
) -> Generator[R, None, None]:
    """Yield finish(t, prepare(t)) for each t of `steps`, in order, prefetched; with 0 workers, made on demand.

    Worker process i prepares every `workers`-th step, beginning with the i-th, and keeps the result until it is
    taken; a thread of this process takes and finishes one step more than there are workers. An error in `prepare`
    is raised here. Closing the generator ends the workers, and so does the death of this process.
    """
    workers = min(workers, len(steps))
    if workers < 1:
        yield from (finish(t, prepare(t)) for t in steps)
        return
    crew = [_Worker(prepare, steps[i::workers]) for i in range(workers)]
    thread = ThreadPoolExecutor(1)
    ready: deque[Future[R]] = deque()
    try:
        for i, t in enumerate(steps):
            ready.append(thread.submit(lambda worker, t: finish(t, worker.take(t)), crew[i % workers], t))
            if len(ready) > workers:
                yield ready.popleft().result()
        while ready:
            yield ready.popleft().result()
    finally:
        for worker in crew:
            worker.end()
        thread.shutdown(cancel_futures=True)


class _Worker(Generic[T]):
    """A process that sends prepare(t) through a pipe, one result after the other."""

    def __init__(self, prepare: Callable[[int], T], steps: range) -> None:
        self.reader, writer = _CONTEXT.Pipe(duplex=False)
        self.process = _CONTEXT.Process(target=_work, args=(prepare, steps, self.reader, writer), daemon=True)
        self.process.start()
        writer.close()  # so that the pipe ends when the worker does

    def take(self, t: int) -> T:
        """Wait for the next result, which is that of step t."""
        try:
            result: T | Exception = self.reader.recv()
        except (EOFError, OSError):  # the latter where it died in the middle of sending
            self.process.join()
            raise ChildProcessError(
                f"the process that prepares batches died before batch {t} was ready "
                f"(exit code {self.process.exitcode}; -9 often means that memory ran out): "
                "free memory or use fewer workers, then resume"
            ) from None
        if isinstance(result, Exception):
            raise result
        return result

    def end(self) -> None:
        """End the process, and with it a `take` under way."""
        self.process.terminate()
        self.process.join()


def _work(prepare: Callable[[int], T], steps: range, reader: Connection, writer: Connection) -> None:
    """Send results until there are no more steps, or the receiver is gone."""
    reader.close()  # this copy would keep the pipe open after the listener has died
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the first one decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # not the handler of a trainer that finishes its step
    torch.set_num_threads(1)
    try:
        for t in steps:
            writer.send(prepare(t))
    except ConnectionError:
        return
    except Exception as error:  # whatever it is, the one who waits must hear of it
        error.__notes__ = [traceback.format_exc()]  # a trace itself cannot be sent
        writer.send(error)
