"""Limits of the server: bytes and pixels of an upload, and requests at a time, of all clients and of one."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from fastapi import HTTPException
from PIL import Image

from fpgm.data.pictures import Refused, check_header, read_picture

T = TypeVar("T")
Count = Callable[[int], None]  # is told the bytes of each piece of an upload


@dataclass(frozen=True)
class Limits:
    """How much a server takes on.

    Attributes:
        max_bytes: largest upload in bytes.
        max_pixels: largest picture in pixels; the default holds a 4K frame.
        places: requests that are computed or wait; more are told to come back.
        per_client: requests of one address that are under way, uploads included.
        threads: requests that are computed at a time.
        seconds: an upload may take.
        pause: seconds between two pieces of an upload.
        stalled: seconds after which a thread that computes one request no longer counts as alive.
    """

    max_bytes: int = 20 * 2**20
    max_pixels: int = 2**23
    places: int = 16
    per_client: int = 8
    threads: int = 2
    seconds: float = 30.0
    pause: float = 5.0
    stalled: float = 20.0


class Queue:
    """A fixed number of places and of threads, shared fairly between clients."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.taken = limits, 0
        self._threads = ThreadPoolExecutor(limits.threads, thread_name_prefix="fpgm")
        self._clients: Counter[str] = Counter()  # requests under way
        self._held = 0  # bytes of uploads under way
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._running: dict[object, tuple[str, float]] = {}  # client and start of what is computed

    @contextmanager
    def request(self, client: str) -> Iterator[Count]:
        """Count a request against its client, and its bytes against those of all; refuse with 429 or 503."""
        if self._clients[client] >= self.limits.per_client:
            reason = (
                f"Your address has {self.limits.per_client} requests under way, the most it may have. Wait for one."
            )
            raise HTTPException(429, reason, {"Retry-After": "2"})
        self._clients[client] += 1
        held = 0

        def count(length: int) -> None:
            nonlocal held
            if self._held + length > self.limits.places * self.limits.max_bytes:
                raise _busy("its memory for uploads is full")
            held += length
            self._held += length

        try:
            yield count
        finally:
            self._held -= held
            self._clients[client] -= 1
            self._clients += Counter()  # forgets addresses with none

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place, or refuse with 503 if there is none."""
        if self.taken >= self.limits.places:
            raise _busy(f"all its {self.limits.places} places are taken")
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1

    async def run(self, client: str, work: Callable[[], T]) -> T:
        """Compute in one of the threads, when it is this client's turn; a client that leaves before gives it up."""
        turn = asyncio.get_running_loop().create_future()
        entry = client, turn
        self._waiting.append(entry)
        self._call_next()
        try:
            await turn
        except asyncio.CancelledError:
            self._waiting.remove(entry)
            self._call_next()  # it may have been this one's turn
            raise
        self._waiting.remove(entry)
        return await asyncio.wrap_future(self._start(client, work))

    def _start(self, client: str, work: Callable[[], T]) -> Future[T]:
        """Hand work to a thread; the thread is free when the work ends, whether its client still waits or not."""
        loop, ticket = asyncio.get_running_loop(), object()
        self._running[ticket] = client, time.monotonic()

        def release() -> None:
            del self._running[ticket]
            self._call_next()

        future = self._threads.submit(work)
        future.add_done_callback(lambda _: None if loop.is_closed() else loop.call_soon_threadsafe(release))
        return future

    def _call_next(self) -> None:
        """Let those begin for whom there is a thread: first the client with the fewest, then who came first."""
        begun = sum(turn.done() for _, turn in self._waiting)
        while len(self._running) + begun < self.limits.threads:
            busy = Counter(client for client, _ in self._running.values())
            busy.update(client for client, turn in self._waiting if turn.done())
            rest = [entry for entry in self._waiting if not entry[1].done()]
            if not rest:
                return
            min(rest, key=lambda entry: busy[entry[0]])[1].set_result(None)
            begun += 1

    def is_stalled(self) -> bool:
        """Whether every thread has been at one request for longer than any should take."""
        now = time.monotonic()
        late = [now - start >= self.limits.stalled for _, start in self._running.values()]
        return sum(late) >= self.limits.threads

    def close(self) -> None:
        """Let the threads go once their work is done."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _busy(why: str) -> HTTPException:
    return HTTPException(503, f"The server is busy: {why}. Try again in a few seconds.", {"Retry-After": "2"})


async def read_body(
    stream: AsyncIterator[bytes], limits: Limits, count: Count = lambda length: None, declared: int = 0
) -> bytes:
    """Collect an upload, refusing what is too large (413) or too slow (408).

    What exceeds the limit is read on for a while, and dropped: a client that is still sending does not listen.

    Args:
        stream: the pieces.
        limits: their limits.
        count: told the bytes of each piece that is kept.
        declared: length that the client has said: of what will be too large nothing is kept.
    """
    body, length = bytearray(), 0
    too_large = declared > limits.max_bytes

    async def collect() -> None:
        nonlocal length, too_large
        while True:
            async with asyncio.timeout(limits.pause):
                chunk = await anext(stream, None)
            if chunk is None:
                return
            length += len(chunk)
            too_large = too_large or length > limits.max_bytes
            if not too_large:
                count(len(chunk))
                body.extend(chunk)
            elif length > 4 * limits.max_bytes:
                return
            else:
                body.clear()

    try:
        async with asyncio.timeout(limits.seconds):  # wait_for in wait_for loses a timeout in Python 3.11
            await collect()
    except TimeoutError:
        reason = f"The upload took more than {limits.seconds:g} seconds, or paused for {limits.pause:g}. Try again."
        raise HTTPException(408, reason, {"Connection": "close"}) from None
    if too_large:
        raise HTTPException(413, f"The file is over {limits.max_bytes / 2**20:g} MB, the most this server takes.")
    return bytes(body)


def check_upload(data: bytes) -> None:
    """Refuse (422) what needs no decoder to be refused, so that it waits in no queue."""
    try:
        check_header(data)
    except Refused as refusal:
        raise _unusable(refusal) from None


def read_upload(data: bytes, limits: Limits) -> Image.Image:
    """Decode an upload to RGB, upright; refuse one that is no picture (422) or has too many pixels (413)."""
    try:
        return read_picture(data, limits.max_pixels)
    except Refused as refusal:
        if refusal.kind == "too large":
            most = f"this server takes up to {limits.max_pixels / 1e6:.1f} million"
            raise HTTPException(413, f"The picture has too many pixels; {most}: {refusal}.") from None
        raise _unusable(refusal) from None


def _unusable(refusal: Refused) -> HTTPException:
    return HTTPException(422, f"No usable picture: {refusal}. Send a JPEG, PNG, TIFF, BMP, WebP or GIF file.")
