"""Limits of the server: bytes and pixels of an upload, and requests at a time."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from fastapi import HTTPException
from PIL import Image

from fpgm.data.pictures import FORMATS, Refused, read_picture

T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """How much a server takes on.

    Attributes:
        max_bytes: largest upload in bytes.
        max_pixels: largest picture in pixels; the default holds a 4K frame.
        places: requests that are computed, wait or send their upload; more are told to come back.
        threads: requests that are computed at a time.
        seconds: an upload may take.
    """

    max_bytes: int = 20 * 2**20
    max_pixels: int = 2**23
    places: int = 16
    threads: int = 2
    seconds: float = 30.0


class Queue:
    """A fixed number of places and of threads."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.taken = limits, 0
        self._threads = ThreadPoolExecutor(limits.threads, thread_name_prefix="fpgm")

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place, or refuse with 503 if there is none."""
        if self.taken >= self.limits.places:
            reason = f"The server is busy: all its {self.limits.places} places are taken. Try again in a few seconds."
            raise HTTPException(503, reason, {"Retry-After": "2"})
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1

    async def run(self, work: Callable[[], T]) -> T:
        """Compute in one of the threads, after those who came before."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        """Let the threads go once their work is done."""
        self._threads.shutdown(wait=False, cancel_futures=True)


async def read_body(stream: AsyncIterator[bytes], limits: Limits) -> bytes:
    """Collect an upload, refusing what is too large (413) or too slow (408).

    What exceeds the limit is read on for a while, and dropped: a client that is still sending does not listen.
    """
    body, length = bytearray(), 0

    async def collect() -> None:
        nonlocal length
        async for chunk in stream:
            length += len(chunk)
            if length <= limits.max_bytes:
                body.extend(chunk)
            elif length > 4 * limits.max_bytes:
                return

    try:
        await asyncio.wait_for(collect(), limits.seconds)
    except asyncio.TimeoutError:
        raise HTTPException(408, f"The upload took more than {limits.seconds:g} seconds. Try again.") from None
    if length > limits.max_bytes:
        raise HTTPException(413, f"The file is over {limits.max_bytes / 2**20:g} MB, the most this server takes.")
    return bytes(body)


def read_upload(data: bytes, limits: Limits) -> Image.Image:
    """Decode an upload to RGB, upright; refuse a picture that is none (422) or has too many pixels (413)."""
    width, height = _size(data)
    if width * height > limits.max_pixels:
        raise HTTPException(413, _too_many(f"The picture has {width:,} x {height:,} pixels", limits))
    try:
        return read_picture(data)
    except Refused as refusal:
        if refusal.kind == "too large":
            raise HTTPException(413, _too_many("The picture has too many pixels", limits)) from None
        known = "Send a JPEG, PNG, TIFF, BMP, WebP or GIF file."
        raise HTTPException(422, f"No usable picture: {refusal}. {known}") from None


def _size(data: bytes) -> tuple[int, int]:
    """Width and height that the header of a picture claims; 0 x 0 if it has none: `read_picture` says why."""
    try:
        return Image.open(io.BytesIO(data), formats=FORMATS).size
    except Exception:  # a damaged file can make a decoder raise anything
        return 0, 0


def _too_many(what: str, limits: Limits) -> str:
    return f"{what}; this server takes up to {limits.max_pixels / 1e6:.1f} million. Reduce it first."
