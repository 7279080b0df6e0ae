"""Headers of every answer and checks of every request: no outside hosts, no foreign pages, no copies kept."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data: blob:; media-src blob:; object-src 'none'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",  # a frame of a patient must not stay behind
}


class Guard:
    """Refuses requests that another site's page makes or that say their length twice, and sets `HEADERS`.

    Args:
        app: application that answers the requests that pass.
        local: whether the server is bound to this machine alone. Then it answers to this machine's names alone, so
            that a foreign page cannot reach it by a name that it lets point here (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, local: bool) -> None:
        self.app, self.local = app, local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        problem = self._problem(headers)
        answer = self.app if problem is None else JSONResponse({"detail": problem}, 403)
        if "transfer-encoding" in headers and "content-length" in headers:
            # a proxy may have taken the other for the end, and part of the body for another client's request
            detail = "The request says its length in two ways, Content-Length and Transfer-Encoding. Send one."
            answer = JSONResponse({"detail": detail}, 400, {"Connection": "close"})
        await answer(scope, receive, guarded)

    def _problem(self, headers: Headers) -> str | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if self.local and not is_local(_name(host)):
            return "This server answers to localhost alone. Open it by that name, or start it with another --host."
        if origin is not None and origin.partition("://")[2] != host:
            return "Requests of other sites' pages are not answered."
        return None


def _name(host: str) -> str:
    """Return a Host header without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:  # brackets that do not close
        return ""


def is_local(host: str) -> bool:
    """Whether a host name or address stands for this machine alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
