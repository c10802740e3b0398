"""The page without hermes' dashboard: served on loopback, to whoever has the address that was printed."""

from __future__ import annotations

import hmac
import re
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any, Final

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse

from ..domain.errors import InvalidArgument
from ..mcp.header_deadline import BACKLOG, HeaderDeadline
from .routing import json_body, problem, router

API: Final = "/api/plugins/pgvector"
PAGE: Final = "/pgvector-memory"
SESSION_HEADER: Final = "x-hermes-session-token"  # as the host's dashboard has it
ADDRESS_VALID_S: Final = 300.0

_HOSTS: Final = re.compile(r"(?:127\.0\.0\.1|localhost)(?::[0-9]{1,5})?")  # any port may be forwarded to this one
_FOLDER: Final = Path(__file__).parent
_SHELL: Final = "standalone/index.html"
_FILES: Final = {
    "standalone/preact.umd.js": "text/javascript",
    "standalone/preact-hooks.umd.js": "text/javascript",
    "standalone/shell.js": "text/javascript",
    "standalone/start.js": "text/javascript",
    "standalone/shell.css": "text/css",
    "dist/index.js": "text/javascript",
    "dist/style.css": "text/css",
}
_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_TOKEN_MOST: Final = 1_000  # bytes of the request that brings the token: anybody on this machine may send one
_LEAVE_S: Final = 2  # for requests in progress when the server is ended

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]


class Admission:
    """Access to the API: the first client that brings the token within some minutes gets the session that admits it."""

    def __init__(self, valid_s: float = ADDRESS_VALID_S) -> None:
        self.token = secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)
        self._until = time.monotonic() + valid_s

    def exchange(self, token: object) -> str:
        """Return the session for the token, once; empty if the token is wrong, used or expired."""
        good = isinstance(token, str) and _same(token, self.token) and time.monotonic() < self._until
        if not good:
            return ""
        self._until = 0.0
        return self._session

    def admits(self, session: str) -> bool:
        """Return whether this is the session."""
        return _same(session, self._session)


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


class WebGuard:
    """An ASGI application around the API and the page's files, which answers only permitted requests."""

    def __init__(self, app: AsgiApp, admission: Admission) -> None:
        self._app = app
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it with the reason."""
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                kept = [pair for pair in message["headers"] if pair[0].decode("latin-1").lower() not in _HEADERS]
                message["headers"] = kept + [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
            await send(message)

        refused = self._refusal(Request(scope))
        await (refused or self._app)(scope, receive, guarded)

    def _refusal(self, request: Request) -> JSONResponse | None:
        """Return the refusal of a request that is not permitted, None for any other."""
        host = request.headers.get("host", "")
        # Another site may have pointed its own name at this address.
        if not _HOSTS.fullmatch(host.lower()):
            return problem(403, "this server is asked for as 127.0.0.1 or localhost", "Forbidden")
        # Look at the path that is routed: the one in `url` may begin with the contents of the Host header.
        if not request.scope["path"].startswith("/api/"):
            return None
        origin = request.headers.get("origin", f"http://{host}")
        if origin != f"http://{host}" or request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return problem(403, "pages of other sites may not ask here", "Forbidden")
        if not self._admission.admits(request.headers.get(SESSION_HEADER, "")):
            return problem(401, "run `hermes-pgvector web` again and open the address it prints", "Unauthorized")
        return None


def web_app(admission: Admission) -> AsgiApp:
    """Return the application that serves the page to admitted clients."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(router, prefix=API)

    async def exchange(request: Request) -> JSONResponse:
        try:
            session = admission.exchange((await json_body(request, _TOKEN_MOST)).get("token"))
        except InvalidArgument as exc:
            return problem(400, str(exc), type(exc).__name__)
        if not session:
            return problem(401, "this address was used already, or is too old", "Unauthorized")
        return JSONResponse({"session": session})

    app.add_api_route("/session", exchange, methods=["POST"], response_model=None)
    for path in ("/", PAGE):
        app.add_api_route(path, _file(_SHELL, "text/html"), methods=["GET"], response_model=None)
    for name, kind in _FILES.items():
        app.add_api_route(f"/{name}", _file(name, kind), methods=["GET"], response_model=None)
    return WebGuard(app, admission)


def _file(name: str, kind: str) -> Callable[[], FileResponse]:
    def answer() -> FileResponse:
        return FileResponse(_FOLDER / name, media_type=kind)

    return answer


def listening(port: int) -> socket.socket:
    """Return a socket that listens on loopback; port 0 is any free one. Raises OSError."""
    return socket.create_server(("127.0.0.1", port))


def serve(app: AsgiApp, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM comes, which then has its usual effect."""
    config = uvicorn.Config(
        app,
        http=HeaderDeadline,
        backlog=BACKLOG,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=_LEAVE_S,
    )
    uvicorn.Server(config).run(sockets=[listener])
