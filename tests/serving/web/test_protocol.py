"""Connections of a real server on this machine: idle and slow clients, crowds, and requests with two lengths."""

from __future__ import annotations

import contextlib
import io
import socket
import threading
import time
from collections.abc import Iterator

import httpx
import numpy as np
import pytest
import uvicorn
from numpy.typing import NDArray
from PIL import Image

from fpgm.serving.predictor import Predictor
from fpgm.serving.web import protocol
from fpgm.serving.web.app import create_app
from fpgm.serving.web.limits import Limits
from fpgm.serving.web.protocol import GuardedProtocol
from tests.data.pictures import scan_bomb
from tests.processes import PATIENCE, wait
from tests.serving.making import Red

LIMITS = Limits(places=3, per_client=3, threads=1, stalled=0)
Address = tuple[str, int]


class Slow(Red):
    """An engine that waits until it is let go."""

    go = threading.Event()

    def probabilities(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        self.go.wait(PATIENCE)
        return super().probabilities(batch)


@pytest.fixture
def engine() -> Iterator[Slow]:
    Slow.go = threading.Event()
    yield Slow()
    Slow.go.set()


@pytest.fixture
def server(engine: Slow) -> Iterator[Address]:
    app = create_app(Predictor(engine), limits=LIMITS)
    running = uvicorn.Server(uvicorn.Config(app, http=GuardedProtocol, log_level="error", timeout_graceful_shutdown=1))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        wait(lambda: running.started)
        yield listener.getsockname()
        engine.go.set()
        running.should_exit = True
        thread.join()


def connect(server: Address) -> socket.socket:
    return socket.create_connection(server, timeout=PATIENCE)


def health(server: Address) -> httpx.Response:
    return httpx.get(f"http://{server[0]}:{server[1]}/health", timeout=PATIENCE)


def is_dropped(client: socket.socket) -> bool:
    try:
        return client.recv(1000) == b""
    except ConnectionResetError:
        return True


def frame() -> bytes:
    Image.new("RGB", (8, 8)).save(file := io.BytesIO(), "png")
    return file.getvalue()


def post(server: Address, behind: str = "127.0.0.1") -> socket.socket:
    """Send a picture, as a proxy does for a client, and do not wait for the answer."""
    client, data = connect(server), frame()
    lines = "Host: localhost", f"X-Forwarded-For: {behind}", f"Content-Length: {len(data)}"
    head = "\r\n".join(["POST /api/predict HTTP/1.1", *lines, "", ""])
    client.sendall(head.encode() + data)
    return client


@pytest.mark.parametrize(
    "words",
    [
        b"",
        b"GET /heal",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",  # answered, and the body never comes
    ],
)
def test_idle_and_slow_clients_are_dropped(words: bytes, server: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "IDLE_SECONDS", 0.3)
    with connect(server) as client:
        client.sendall(words)
        with contextlib.suppress(OSError):  # it is dropped while it goes on to send a byte now and then
            for _ in range(10**6):
                time.sleep(0.05)
                client.sendall(b"x")
        wait(lambda: is_dropped(client))


def test_idle_connections_give_way(server: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for them to be dropped by the clock."""
    monkeypatch.setattr(protocol, "IDLE_SECONDS", PATIENCE)
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect(server)) for _ in range(300)]
        assert health(server).status_code == 200
        assert is_dropped(idle[0])


def test_busy_connections_do_not_give_way(server: Address, engine: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    with post(server) as first, post(server) as second:
        wait(lambda: health(server).json()["taken"] == 2)
        monkeypatch.setattr(protocol, "CONNECTIONS", 2)
        with connect(server) as third:
            assert is_dropped(third)
        engine.go.set()
        assert first.recv(15) == second.recv(15) == b"HTTP/1.1 200 OK"


def test_a_bomb_is_refused_though_all_places_are_taken(server: Address, engine: Slow) -> None:
    with post(server, "10.0.0.1"), post(server, "10.0.0.1"), post(server, "10.0.0.1"):
        wait(lambda: health(server).json()["taken"] == 3)
        url = f"http://{server[0]}:{server[1]}/api/predict"
        assert httpx.post(url, content=scan_bomb(1000), timeout=PATIENCE).status_code == 422


def test_requests_are_counted_by_the_address_that_the_proxy_names(server: Address, engine: Slow) -> None:
    with post(server, "10.0.0.1"), post(server, "10.0.0.1"), post(server, "10.0.0.1"):
        wait(lambda: health(server).json()["taken"] == 3)
        with post(server, "10.0.0.1") as same, post(server, "10.0.0.2") as other:
            assert same.recv(12) == b"HTTP/1.1 429" and other.recv(12) == b"HTTP/1.1 503"


def test_a_client_that_leaves_frees_its_place(server: Address, engine: Slow) -> None:
    first, second, third = post(server), post(server), post(server)
    wait(lambda: health(server).json()["taken"] == 3)
    for client in (first, second, third):
        client.close()
    wait(lambda: health(server).json()["taken"] == 0)


def test_health_says_when_no_worker_answers(server: Address, engine: Slow) -> None:
    assert health(server).json()["status"] == "ok"
    with post(server) as client:
        wait(lambda: health(server).status_code == 503)
        assert health(server).json()["status"] == "no worker answers"
        engine.go.set()
        assert client.recv(15) == b"HTTP/1.1 200 OK"
    wait(lambda: health(server).status_code == 200)


@pytest.mark.parametrize(
    "lengths",
    [
        ["Content-Length: 5", "Transfer-Encoding: chunked"],
        ["Content-Length: 5", "Content-Length: 6"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"],
        ["Content-Length: +5"],
    ],
)
def test_conflicting_lengths_are_refused_and_nothing_after_them_is_read(lengths: list[str], server: Address) -> None:
    head = "\r\n".join(["POST /api/predict HTTP/1.1", "Host: localhost", *lengths, "", ""])
    with connect(server) as client:
        client.sendall(head.encode() + b"0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := client.recv(10_000):
                answer += piece
    assert answer.startswith(b"HTTP/1.1 400") and answer.count(b"HTTP/1.1") == 1
