"""Connections of the server: those that wait in vain are dropped, and nobody can hold them all.

uvicorn answers requests but has no limit on how long a client may take to send one. Time here is spent without a
request under way; an upload has limits of its own in ``fpgm.serving.web.limits``.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

IDLE_SECONDS = 5.0  # without a whole request, or without taking any of an answer
CONNECTIONS = 256
CONNECTIONS_PER_CLIENT = 64


class GuardedProtocol(H11Protocol):
    """A connection that is dropped when its client is idle, and gives way to newer ones while it is."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._idle_since = time.monotonic()
        self._unsent = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Begin to wait for a request, and drop another connection if there are too many."""
        super().connection_made(transport)
        self._wait_for_request()
        crowd = self._crowd()
        if crowd:
            waiting = [one for one in crowd if one is not self and one._is_idle()]
            min(waiting, key=lambda one: one._idle_since, default=self).transport.abort()

    def _crowd(self) -> list[GuardedProtocol]:
        """Return the connections of which one is too many."""
        there = [one for one in self.connections if isinstance(one, GuardedProtocol) and not one.transport.is_closing()]
        address = self.client and self.client[0]
        same = [one for one in there if (one.client and one.client[0]) == address]
        if len(same) > CONNECTIONS_PER_CLIENT:
            return same
        return there if len(there) > CONNECTIONS else []

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Leave the time of a request to those who answer it."""
        super().handle_events()
        if not self._is_idle():
            self._stop_timer()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self._wait_for_request()
        super().on_response_complete()

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait_for_request(self) -> None:
        self._idle_since = time.monotonic()
        self._watch()

    def _watch(self) -> None:
        self._stop_timer()
        self._unsent = self.transport.get_write_buffer_size()
        self._timer = self.loop.call_later(IDLE_SECONDS, self._expire)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        """Drop the client, unless it is taking an answer."""
        if self.transport.get_write_buffer_size() < self._unsent:
            self._watch()
        else:
            self.transport.abort()
