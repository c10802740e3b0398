"""The server over HTTP: what a token may do, and nothing more; and `mcp check`, with a real Postgres."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from hermes_memory_pgvector.admin.mcp.token_changes import add_token
from tests.conftest import DIMS
from tests.support.hermes import HermesHome, describe
from tests.support.mcp_client import SERVER, called, mcp_home, recalled, refused, run
from tests.support.ports import free_port
from tests.support.waiting import until

Serve = Callable[..., str]


@pytest.fixture
def agent_home(tmp_path: Path, dsn: str) -> HermesHome:
    return mcp_home(tmp_path / "agent", dsn=dsn, dims=DIMS)


def command(home: HermesHome, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`hermes-pgvector mcp ARGUMENTS`, run to its end."""
    return subprocess.run(
        [*SERVER, *arguments], env=home.environment(), capture_output=True, text=True, timeout=150, check=False
    )


@pytest.fixture
def serve(agent_home: HermesHome) -> Iterator[Serve]:
    """Starts `hermes-pgvector mcp --http` and returns its address once it answers."""
    with ExitStack() as running:

        def serve(*arguments: str) -> str:
            port = free_port()
            log = running.enter_context((agent_home.path / "mcp.log").open("a"))
            process = running.enter_context(
                subprocess.Popen(
                    [*SERVER, "--http", f"127.0.0.1:{port}", *arguments],
                    env=agent_home.environment(),
                    stdin=subprocess.DEVNULL,
                    stderr=log,
                )
            )
            running.callback(process.terminate)
            url = f"http://127.0.0.1:{port}/mcp"
            until(lambda: answers(url), what="the server to listen")
            return url

        yield serve


def answers(url: str) -> bool:
    try:
        httpx.get(url.removesuffix("/mcp"))
    except httpx.TransportError:
        return False
    return True


@asynccontextmanager
async def joined(url: str, secret: str = "", **headers: str) -> AsyncIterator[ClientSession]:
    """A session over HTTP."""
    shown = {"Authorization": f"Bearer {secret}"} if secret else {}
    async with (
        httpx.AsyncClient(headers=shown | headers) as client,
        streamable_http_client(url, http_client=client) as (reading, writing, _),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        yield session


def test_a_token_reads_and_writes_in_its_themes_alone(agent_home: HermesHome, serve: Serve) -> None:
    work = add_token(agent_home.path, "work", ["work", "shared"], read_only=False).secret
    other = add_token(agent_home.path, "other", ["other"], read_only=False).secret
    url = serve()

    async def talk() -> None:
        async with joined(url, work) as one:
            stored = await called(one, "remember", content="The launch is in May.", sync=True)
            assert stored["theme"] == "work"
        async with joined(url, work, **{"X-Hermes-Session-Key": "shared"}) as one:
            assert (await called(one, "profile"))["theme"] == "shared"
            assert await recalled(one, "launch", scope="work") == ["The launch is in May."]
        async with joined(url, other) as another:
            assert await recalled(another, "launch") == []
            assert "own" in await refused(another, "recall", query="launch", scope="work")
            assert "all" in await refused(another, "recall", query="launch", scope="all")

    run(talk)


def test_a_token_for_reading_writes_nothing(agent_home: HermesHome, serve: Serve, dsn: str) -> None:
    writer = add_token(agent_home.path, "writer", ["work"], read_only=False).secret
    reader = add_token(agent_home.path, "reader", ["work"], read_only=True).secret
    url = serve()

    async def talk() -> None:
        async with joined(url, writer) as one:
            stored = await called(one, "remember", content="The launch is in May.", sync=True)
        async with joined(url, reader) as one:
            assert await recalled(one, "launch") == ["The launch is in May."]
            assert "only read" in await refused(one, "remember", content="The launch is in June.")
            assert "only read" in await refused(one, "forget", id=stored["id"])
            assert "only read" in await refused(one, "record_turn", user="a long question", assistant="an answer")

    run(talk)
    with psycopg.connect(dsn) as conn:
        assert conn.execute("SELECT content FROM memory_entries").fetchall() == [("The launch is in May.",)]


def test_any_theme_is_the_one_that_the_header_names(agent_home: HermesHome, serve: Serve) -> None:
    every = add_token(agent_home.path, "every", [], read_only=False).secret
    url = serve()

    async def talk() -> None:
        async with joined(url, every, **{"X-Hermes-Session-Key": "marketing"}) as one:
            assert (await called(one, "profile"))["theme"] == "marketing"

    run(talk)


def test_requests_that_are_refused_reach_no_tool(agent_home: HermesHome, serve: Serve) -> None:
    secret = add_token(agent_home.path, "a", ["work"], read_only=False).secret
    url = serve("--rate", "1", "--allow-host", "memory.example.com")
    shown = {"Authorization": f"Bearer {secret}", "Accept": "application/json, text/event-stream"}

    assert httpx.post(url, json={}).status_code == 401
    assert httpx.post(url, json={}, headers=shown | {"Origin": "https://evil.example"}).status_code == 403
    assert httpx.post(url, json={}, headers=shown | {"Host": "evil.example"}).status_code == 403
    assert httpx.post(url, json={}, headers=shown | {"Host": "memory.example.com"}).status_code == 400
    assert httpx.post(url, content=b"x" * 5_000_000, headers=shown).status_code == 413
    assert 429 in [httpx.post(url, json={}, headers=shown).status_code for _ in range(10)]
    assert secret[4:] not in (agent_home.path / "mcp.log").read_text()


@pytest.mark.parametrize("address", ["0.0.0.0:8766", "[::]:8766"])
def test_it_does_not_listen_to_others_without_a_token(agent_home: HermesHome, address: str) -> None:
    refused = command(agent_home, "--http", address)

    assert refused.returncode == 1
    assert "mcp token add" in refused.stderr


# -- mcp check


def checked(home: HermesHome, *arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit code of `mcp check`, and what it found."""
    done = command(home, "check", "--json", *arguments)
    return done.returncode, json.loads(done.stdout)


def test_check_calls_the_tools_and_leaves_nothing(agent_home: HermesHome, dsn: str) -> None:
    code, told = checked(agent_home)

    states = {call["name"]: call["state"] for call in told["calls"]}
    assert code == 0, told
    assert told["ok"]
    assert {name for name, state in states.items() if state == "ok"} >= {
        "start", "recall", "profile", "sessions", "remember", "forget",
    }  # fmt: skip
    assert states["record_turn"] == "not called"
    with psycopg.connect(dsn) as conn:
        assert conn.execute("SELECT count(*) FROM memory_entries").fetchone() == (0,)
        assert conn.execute("SELECT count(*) FROM conversations").fetchone() == (0,)


def test_check_starts_what_stands_in_the_clients_file(agent_home: HermesHome) -> None:
    assert "mcp install --client cursor" in checked(agent_home, "--client", "cursor")[1]["error"]
    assert command(agent_home, "install", "--client", "cursor").returncode == 0

    code, told = checked(agent_home, "--client", "cursor", "--read-only")

    states = {call["name"]: call["state"] for call in told["calls"]}
    assert (code, states["recall"], states["remember"]) == (0, "ok", "not called")


def test_hermes_agent_starts_it_by_its_entry(agent_home: HermesHome) -> None:
    assert command(agent_home, "install", "--client", "hermes").returncode == 0

    tried = agent_home.hermes("mcp", "test", "pgvector")

    assert tried.returncode == 0, describe(tried)
    assert all(tool in tried.stdout for tool in ("recall", "remember", "forget")), describe(tried)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"command": "/nowhere/hermes-pgvector"}, "cannot be started"),
        ({"command": "false"}, "exit code 1"),
        ({"command": "sh", "args": ["-c", "read x; echo hello; read x"]}, "no message"),
        ({"command": "sh", "args": ["-c", "echo the reason >&2; exit 3"]}, "the reason"),
    ],
)
def test_check_says_why_a_server_does_not_answer(agent_home: HermesHome, entry: dict[str, Any], says: str) -> None:
    home = Path(agent_home.environment()["HOME"])
    (home / ".claude.json").write_text(json.dumps({"mcpServers": {"pgvector": entry}}))

    code, told = checked(agent_home, "--client", "claude-code")

    assert code == 1
    assert [call["state"] for call in told["calls"]] == ["failed"]
    assert says in told["calls"][0]["note"]
