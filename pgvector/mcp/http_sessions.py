"""The sessions of the HTTP server: each belongs to the caller who opened it, and their number is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final

from .access import SCOPE_KEY
from .sdk import INVALID_REQUEST, SESSION_HEADER

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Any, Any], Awaitable[None]]

IDLE_S: Final = 1800.0
MOST: Final = 1000
_ROOM_S: Final = 1.0  # a stream that was closed for a new connection ends a moment later
_RESUMES: Final = b"last-event-id"
_REFUSALS: Final = {
    404: "Session not found",
    405: "a session is opened by a POST",
    415: "a request is JSON: send `Content-Type: application/json`",
    503: "too many sessions are open; try again later",
}


@dataclass
class _Session:
    """A session: who may continue it, how many of its requests are in progress, and when the last one ended."""

    access: Hashable
    requests: int = 0
    still_since: float = field(default_factory=time.monotonic)


class HttpSessions:
    """An ASGI application that wraps the SDK's; `end` ends one of the SDK's sessions by its id.

    Sessions that were idle for `idle_s` are ended, and if there are `most`, the one that was idle for longest of those
    with the access that has the most.
    """

    def __init__(
        self, app: AsgiApp, end: Callable[[str], Awaitable[None]], *, idle_s: float = IDLE_S, most: int = MOST
    ) -> None:
        self._app = app
        self._end = end
        self._idle_s = idle_s
        self._most = most
        self._open: dict[str, _Session] = {}
        self._is_still = asyncio.Event()  # some session, since it was cleared

    async def __call__(self, scope: Scope, receive: Any, send: Send) -> None:
        """Serve a request of a session, or one that may open a session."""
        # No events are kept to resume from: a lost stream begins anew. With the header the SDK would not answer at all.
        scope["headers"] = [pair for pair in scope["headers"] if pair[0].lower() != _RESUMES]
        await self._end_idle()
        given = _session_id(scope)
        if not given:
            await self._open_one(scope, receive, send)
            return
        session = self._open.get(given)
        if session is None or session.access != scope.get(SCOPE_KEY):
            await _refuse(404, send)
            return
        session.requests += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._end_request(session)
        if scope["method"] == "DELETE":
            await self._forget(given)

    async def _open_one(self, scope: Scope, receive: Any, send: Send) -> None:
        # Version 1.x of the SDK opens a session for any request, and does not tell its id if it rejects the request.
        if wrong := _why_none(scope) or (0 if await self._has_room() or await self._has_room_soon() else 503):
            await _refuse(wrong, send)
            return
        opened, refused = "", False

        async def watch(message: Message) -> None:
            nonlocal opened, refused
            if message["type"] == "http.response.start" and (opened := _session_id(message)):
                refused = message["status"] >= 400
                self._open[opened] = _Session(scope.get(SCOPE_KEY), requests=1)
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            if session := self._open.get(opened):
                self._end_request(session)
        if refused:
            await self._forget(opened)

    async def _has_room(self) -> bool:
        """Return whether one more session may be opened; if need be, end an idle one."""
        if len(self._open) < self._most:
            return True
        held = Counter(session.access for session in self._open.values())
        still = [(-held[each.access], each.still_since, name) for name, each in self._open.items() if not each.requests]
        if still:
            await self._forget(min(still)[-1])
        return bool(still)

    async def _has_room_soon(self) -> bool:
        """Return the same, once some session is idle or time is up."""
        self._is_still.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_still.wait(), _ROOM_S)
        return await self._has_room()

    def _end_request(self, session: _Session) -> None:
        session.requests -= 1
        session.still_since = time.monotonic()
        self._is_still.set()

    async def _end_idle(self) -> None:
        before = time.monotonic() - self._idle_s
        for name, session in list(self._open.items()):
            if not session.requests and session.still_since < before:
                await self._forget(name)

    async def _forget(self, name: str) -> None:
        if self._open.pop(name, None) is not None:
            await self._end(name)


def _why_none(scope: Scope) -> int:
    """Return the HTTP status for a request that cannot open a session, or 0 for one that can."""
    if scope["method"] != "POST":
        return 405
    return 0 if _header(scope, b"content-type").lower().startswith("application/json") else 415


def _session_id(holder: Mapping[str, Any]) -> str:
    return _header(holder, SESSION_HEADER)


def _header(holder: Mapping[str, Any], name: bytes) -> str:
    """Return a header of a request or an answer, or "" if there is none."""
    found = next((value for key, value in holder.get("headers", ()) if key.lower() == name), b"")
    return bytes(found).decode("latin-1").strip()


async def _refuse(status: int, send: Send) -> None:
    error = {"code": INVALID_REQUEST, "message": _REFUSALS[status]}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
