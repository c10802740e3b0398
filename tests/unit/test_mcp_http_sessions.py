"""The sessions of the HTTP server are few and their openers' own, with the real SDK over real sockets."""

from __future__ import annotations

import contextlib
import gc
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from hermes_memory_pgvector.admin.mcp.token_changes import add_token
from hermes_memory_pgvector.mcp import sdk
from hermes_memory_pgvector.mcp.http_guard import HttpGuard
from hermes_memory_pgvector.mcp.http_sessions import HttpSessions
from hermes_memory_pgvector.mcp.tokens import TokenFile
from tests.support.asgi_server import AsgiServer
from tests.support.waiting import until

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}

# The SDK's line 1.x leaves streams of its own open where a session ends.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


class Served:
    """A server of the SDK, whose sessions can be counted."""

    def __init__(self, home: Path, **limits: Any) -> None:
        server = sdk.make_server("test", "1", "", {}, on_roots_changed=lambda: None)
        self.manager = sdk.session_manager(server)
        self.sessions = HttpSessions(
            self.manager.handle_request, lambda session: sdk.end_session(self.manager, session), **limits
        )

        @contextlib.asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            async with self.manager.run():
                yield

        guarded = HttpGuard(self.sessions, TokenFile(home), listen="127.0.0.1")
        self.server = AsgiServer(Starlette(routes=[Mount("/", app=guarded)], lifespan=lifespan))

    @property
    def count(self) -> int:
        """How many sessions the SDK holds."""
        return len(self.manager._server_instances)

    def rest(self) -> None:
        """Wait until the server, too, is done with every request: an answer arrives a moment before."""
        until(lambda: not any(session.requests for session in [*self.sessions._open.values()]), what="idle sessions")

    def ask(self, method: str, session: str = "", secret: str = "", **params: Any) -> httpx.Response:
        headers = {"Accept": "application/json, text/event-stream"}
        headers |= {"Mcp-Session-Id": session} if session else {}
        headers |= {"Authorization": f"Bearer {secret}"} if secret else {}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return httpx.post(self.server.url, json=message, headers=headers)

    def opened(self, secret: str = "") -> str:
        return str(self.ask("initialize", secret=secret, **HELLO).headers["mcp-session-id"])


@pytest.fixture
def serve(home: Path) -> Iterator[Callable[..., Served]]:
    with ExitStack() as servers:

        def serve(**limits: Any) -> Served:
            served = Served(home, **limits)
            servers.enter_context(served.server)
            return served

        yield serve
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()  # what is found later would be another test's


def test_requests_that_open_no_session_leave_none_behind(serve: Callable[..., Served]) -> None:
    served = serve()
    for _ in range(5):
        assert served.ask("ping").status_code == 400
        assert httpx.post(served.server.url, content=b"{oops").status_code == 415
        assert httpx.get(served.server.url, headers={"Accept": "text/event-stream"}).is_client_error
        assert httpx.put(served.server.url).is_client_error
    assert served.count == 0


def test_a_session_ends_when_its_client_ends_it(serve: Callable[..., Served]) -> None:
    served = serve()
    session = served.opened()
    assert served.ask("ping", session).status_code == 200

    assert httpx.delete(served.server.url, headers={"Mcp-Session-Id": session}).status_code == 200

    assert served.count == 0
    assert served.ask("ping", session).status_code == 404


def test_a_session_that_was_still_for_long_ends(serve: Callable[..., Served]) -> None:
    served = serve(idle_s=0.0)
    left = []
    for _ in range(5):
        left.append(served.opened())
        served.rest()

    assert served.count == 1
    assert {served.ask("ping", session).status_code for session in left} == {404}
    assert served.count == 0


def test_of_many_sessions_the_one_that_was_still_for_longest_makes_room(serve: Callable[..., Served]) -> None:
    served = serve(most=2)
    first, second = served.opened(), served.opened()
    assert served.ask("ping", first).status_code == 200

    third = served.opened()

    assert served.count == 2
    assert [served.ask("ping", session).status_code for session in (first, second, third)] == [200, 404, 200]


def test_whoever_opens_many_sessions_ends_no_others(serve: Callable[..., Served], home: Path) -> None:
    work = add_token(home, "work", ["work"], read_only=False).secret
    other = add_token(home, "other", ["other"], read_only=False).secret
    served = serve(most=3)
    session = served.opened(work)

    left = [served.opened(other) for _ in range(5)]

    assert served.ask("ping", session, work).status_code == 200
    assert [served.ask("ping", each, other).status_code for each in left] == [404, 404, 404, 200, 200]


def test_sessions_whose_streams_are_open_are_not_ended_for_others(serve: Callable[..., Served]) -> None:
    served = serve(most=1)
    session = served.opened()
    headers = {"Accept": "text/event-stream", "Mcp-Session-Id": session}

    with httpx.stream("GET", served.server.url, headers=headers) as stream:
        assert stream.status_code == 200
        assert served.ask("initialize", **HELLO).status_code == 503
    assert served.ask("ping", session).status_code == 200


def test_a_client_that_resumes_a_lost_stream_gets_a_new_one(serve: Callable[..., Served]) -> None:
    served = serve()
    headers = {"Accept": "text/event-stream", "Mcp-Session-Id": served.opened(), "Last-Event-ID": "7"}

    with httpx.stream("GET", served.server.url, headers=headers) as stream:
        assert (stream.status_code, stream.headers["content-type"].partition(";")[0]) == (200, "text/event-stream")


def test_a_session_is_for_the_token_that_opened_it(serve: Callable[..., Served], home: Path) -> None:
    work = add_token(home, "work", ["work"], read_only=False).secret
    other = add_token(home, "other", ["other"], read_only=False).secret
    served = serve()
    session = served.opened(work)

    assert served.ask("ping", session, other).status_code == 404
    headers = {"Mcp-Session-Id": session, "Authorization": f"Bearer {other}"}
    assert httpx.delete(served.server.url, headers=headers).status_code == 404
    assert served.ask("ping", session, work).status_code == 200
