"""The server with any request: an answer with a known status and a sentence, no file but those of the page.

Uploads that are wrong in a known way are in tests/serving/test_web.py.
"""

from __future__ import annotations

import asyncio
import functools
import json
import re
from typing import Any
from urllib.parse import unquote_to_bytes

import numpy as np
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import example
from hypothesis import strategies as st
from PIL import Image

from fpgm.data.pictures import MAX_SIDE
from fpgm.serving.predictor import Predictor
from fpgm.serving.web import answers
from fpgm.serving.web.alignment import Aligner
from fpgm.serving.web.app import STATIC, create_app
from fpgm.serving.web.limits import Limits
from tests.data.pictures import encoded
from tests.fuzz.making import fuzz
from tests.fuzz.pictures import ANY, strip
from tests.serving.making import Red

NUMBERS = st.one_of(
    st.floats().map(str), st.sampled_from(["0", "1", "1e-320", "1e999", "-0", "x", "", "٣", "1_0", "0x1", "1" * 400])
)
QUERIES: dict[str, st.SearchStrategy[str]] = {
    "threshold": NUMBERS,
    "gamma": NUMBERS,
    "cutoff": NUMBERS,
    "output": st.sampled_from(["json", "mask", "probability", "overlay", "exe", "", "\0"]),
    "prior": st.sampled_from(["learned", "generic", "low-pass", "x", "../prior.json"]),
    "reconstruction": st.sampled_from(["radial", "ratio", "x"]),
    "pictures": st.sampled_from(["true", "false", "perhaps"]),
    "file": st.sampled_from(["/etc/passwd", "../web.py"]),
}
HEADERS = st.dictionaries(
    st.sampled_from(["content-type", "content-length", "origin", "host", "range", "accept-encoding", "expect", "x"]),
    st.one_of(
        st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20).map(str.strip),
        st.sampled_from(
            ["localhost", "[::1", "http://localhost", "multipart/form-data", "bytes=0-", "-1", "a@localhost"]
        ),
    ),
    max_size=2,
)
STATUSES = {200, 206, 400, 403, 404, 405, 413, 415, 416, 422}


@functools.cache
def app() -> FastAPI:
    return create_app(Predictor(Red()), Aligner(16), limits=Limits(max_bytes=2**20))


@functools.cache
def client() -> TestClient:
    return TestClient(app(), "http://localhost")


def checked(status: int, body: bytes) -> None:
    assert status in STATUSES, (status, body)
    if status >= 400 and body.startswith(b"{"):
        detail = json.loads(body)["detail"]
        assert isinstance(detail, str) and detail
        assert not re.search(r"\.py\b|Traceback|site-packages|0x[0-9a-f]{8}", detail)


@fuzz(
    path=st.sampled_from(["/api/predict", "/api/align"]),
    query=st.fixed_dictionaries({}, optional=QUERIES),
    body=ANY,
)
@example(path="/api/predict", query={"pictures": "true"}, body=strip(MAX_SIDE))
@example(path="/api/predict", query={"pictures": "true"}, body=strip(MAX_SIDE + 1))
@example(path="/api/align", query={}, body=encoded(Image.fromarray(np.zeros((9, 9), np.uint8))))
def test_any_upload(path: str, query: dict[str, str], body: bytes) -> None:
    answer = client().post(path, params=query, content=body)
    checked(answer.status_code, answer.content)
    if answer.headers["content-type"] == "application/json":
        json.loads(answer.content, parse_constant=lambda word: 1 / 0)  # NaN is no JSON


PARTS = [
    "..",
    ".",
    "",
    "%2e%2e",
    "%2f",
    "%5c",
    "..%2f",
    "%00",
    "%ff",
    "~",
    "web.py",
    "etc",
    "passwd",
    "static",
    "app.js",
]
PARTS += ["index.html", "model.json", "proc", "self", "environ", "api", "examples", "phantom-a.png", "x.png", "a" * 300]


async def ask(
    method: str, path: bytes, query: bytes, headers: list[tuple[bytes, bytes]], body: bytes
) -> tuple[int, bytes]:
    """Send a request past all clients, which tidy paths up, as uvicorn passes it on."""
    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote_to_bytes(path).decode("utf-8", "replace"),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": [(b"host", b"localhost"), *headers],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
    }
    sent: list[Any] = []

    bodies = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if not bodies:
            await asyncio.Event().wait()  # a client that stays and says no more
        return bodies.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    await app()(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


@fuzz(
    method=st.sampled_from(["GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "X"]),
    base=st.sampled_from(["/static/", "/api/examples/", "/", "/api/", "//"]),
    parts=st.lists(st.sampled_from(PARTS), max_size=6),
    query=st.binary(max_size=12),
    headers=HEADERS,
)
@example(method="GET", base="/static/", parts=["..", "web.py"], query=b"", headers={})
@example(method="GET", base="/static/", parts=["..%2f", "..%2f", "..%2f", "etc", "passwd"], query=b"", headers={})
@example(method="GET", base="/static/", parts=["", "etc", "passwd"], query=b"", headers={})
@example(method="GET", base="/static/", parts=["%00"], query=b"", headers={})
@example(method="GET", base="/api/examples/", parts=["..", "..", "static", "x.png"], query=b"", headers={})
@example(method="GET", base="/api/", parts=[], query=b"\x80", headers={})
@example(method="GET", base="/static/", parts=["app.js"], query=b"", headers={"range": "bytes=0-"})
def test_any_path_gives_no_file_but_the_page_s(
    method: str, base: str, parts: list[str], query: bytes, headers: dict[str, str]
) -> None:
    path = (base + "/".join(parts)).encode()
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    status, body = asyncio.run(ask(method, path, query, raw, b""))
    checked(status, body)
    if status in (200, 206) and method == "GET" and b"range" not in dict(raw):
        known = {file.read_bytes() for file in STATIC.iterdir()} | {answers.example(name) for name in answers.EXAMPLES}
        facts = ("/health", "/api", "/openapi.json", "/api/about")
        assert body in known or path.decode().rstrip("/") in facts, path
