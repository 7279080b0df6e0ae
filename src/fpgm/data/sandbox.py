"""Processes that decode pictures of others.

A file that hangs, fills the memory or crashes a decoder costs one process and a sentence.
A process is started when first needed, reused for the next file, and killed when a file goes wrong. It is not made
by ``multiprocessing``, which would run the user's own script again. It reads requests from its input and ends with
it, hence with its parent. What it does is in ``fpgm.data.decoder``.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import IO, Any

WALL_SECONDS = 30.0  # until an answer; the processor time of a file is limited by the process itself
_MOST_IDLE = 4
_START = "import sys; sys.path[:] = sys.argv[1:]; from fpgm.data.decoder import main; main()"


class DecoderDied(Exception):
    """A process ended, or was killed, before it had answered; the message is a reason for a person."""


class _Decoder:
    """One process."""

    def __init__(self) -> None:
        one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # threads would take address space
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", _START, *filter(None, sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **one},
            start_new_session=True,  # Ctrl-C is for the parent
        )
        self.deadline, self.late = math.inf, False
        _widen(self.process.stdout)
        threading.Thread(target=self._watch, daemon=True).start()

    def ask(self, request: dict[str, Any], data: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
        """Send a file and yield each message of the answer with its bytes."""
        assert self.process.stdin and self.process.stdout
        header = json.dumps({**request, "length": len(data)}).encode() + b"\n"
        try:
            self.process.stdin.write(header)
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except OSError:  # it died while it was reading
            raise self._death() from None
        while (message := self._receive()) is not None:
            yield message

    def _receive(self) -> tuple[dict[str, Any], bytes] | None:
        """Wait for a message; None is the end of the answer."""
        assert self.process.stdout
        self.deadline = time.monotonic() + WALL_SECONDS
        line = self.process.stdout.readline()
        message = json.loads(line) if line.endswith(b"\n") else {"length": -1}
        content = self.process.stdout.read(message["length"]) if message and message["length"] > 0 else b""
        self.deadline = math.inf
        if message is None:
            return None
        if len(content) != message["length"]:
            raise self._death()
        return message, content

    def _watch(self) -> None:
        """Kill a process that has not answered in time."""
        while self.process.poll() is None:
            time.sleep(1)
            if time.monotonic() > self.deadline:
                self.late = True
                self.process.kill()

    def _death(self) -> DecoderDied:
        code = self.process.wait()
        if self.late or code == -getattr(signal, "SIGPROF", 0):
            return DecoderDied("it takes too long to decode")
        return DecoderDied(f"its decoder crashed (exit code {code})")

    def end(self) -> None:
        """Kill the process and forget it."""
        self.process.kill()
        self.process.wait()
        self.close()

    def close(self) -> None:
        """Close our ends of the pipes."""
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                if pipe:
                    pipe.close()
            except OSError:  # what was not sent yet has nowhere to go
                pass


def _widen(pipe: IO[bytes] | None) -> None:
    """Let a frame fit into a pipe, so that the two processes need not take turns; Linux alone can."""
    try:
        import fcntl

        assert pipe
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 2**20)
    except (ImportError, AttributeError, OSError):  # another system, or a limit for users
        pass


_idle: list[_Decoder] = []
_busy: set[_Decoder] = set()


def ask(request: dict[str, Any], data: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Let a process answer a request about a file; raise ``DecoderDied`` if it does not survive it.

    The process is busy until the answer was read to its end; it is killed if the iterator is left before.
    """
    decoder = _take()
    _busy.add(decoder)
    try:
        yield from decoder.ask(request, data)
    except BaseException:  # an interrupt too; it is raised again
        decoder.end()
        raise
    finally:
        _busy.discard(decoder)
    if len(_idle) < _MOST_IDLE:
        _idle.append(decoder)
    else:
        decoder.end()


def _take() -> _Decoder:
    while _idle:
        try:
            decoder = _idle.pop()
        except IndexError:  # another thread was quicker
            break
        if decoder.process.poll() is None:
            return decoder
        decoder.close()
    return _Decoder()


def stop_decoders() -> None:
    """End all processes; what they are at is refused."""
    for decoder in list(_busy):
        decoder.process.kill()
    while _idle:
        _idle.pop().end()


def _forget() -> None:
    """Leave the processes to the parent after a fork: two who speak to one would mix their files."""
    while _idle:
        _idle.pop().close()


atexit.register(stop_decoders)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
