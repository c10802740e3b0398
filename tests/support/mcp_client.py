"""A client of the MCP SDK that starts our server, as an agent's host does."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import yaml
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ListRootsResult, Root

from .forked_cli import ForkedCli, forked
from .hermes import HermesHome
from .ports import free_port
from .waiting import until

T = TypeVar("T")

# What a server has imported once it serves.
PREPARED = (
    "hermes_memory_pgvector.mcp.serving", "mcp.server.lowlevel", "mcp.server.stdio",
    "mcp.server.streamable_http_manager",
    "anyio._backends._asyncio", "starlette.applications", "uvicorn.protocols.http.h11_impl",
)  # fmt: skip

SERVER = (sys.executable, "-P", "-m", "hermes_memory_pgvector.cli", "mcp")


def mcp_home(root: Path, **settings: Any) -> HermesHome:
    """A hermes home with these settings of ours."""
    home = HermesHome(root)
    config = {"memory": {"provider": "pgvector"}, "plugins": {"pgvector": settings}}
    home.config_path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return home


@asynccontextmanager
async def connected(
    home: HermesHome, *arguments: str, folder: str = "", forking: bool = True
) -> AsyncIterator[ClientSession]:
    """A session with a server of this home; the client works in `folder`. What it logs is in the home's mcp.log.

    Without `forking` the server's interpreter is started as an agent's host does, and imports everything itself.
    """

    async def roots(context: object) -> ListRootsResult:
        return ListRootsResult(roots=[Root.model_validate({"uri": f"file://{folder}"})])

    command, *words = _command(*arguments, forking=forking)
    parameters = StdioServerParameters(command=command, args=words, env=home.environment())
    with (home.path / "mcp.log").open("a", encoding="utf-8") as log:
        async with (
            stdio_client(parameters, errlog=log) as (reading, writing),
            ClientSession(reading, writing, list_roots_callback=roots if folder else None) as session,
        ):
            await session.initialize()
            yield session


@contextmanager
def serving(
    home: HermesHome, *arguments: str, environment: Mapping[str, str] | None = None, forking: bool = True
) -> Iterator[str]:
    """The URL of a server of this home that listens on loopback; `forking` as for `connected`."""
    port = free_port()
    words = ("--http", f"127.0.0.1:{port}", *arguments)
    with (home.path / "mcp.log").open("a", encoding="utf-8") as log:
        process = started_server(
            home, *words, environment=environment, forking=forking, stdin=subprocess.DEVNULL, stderr=log
        )
        try:
            until(lambda: _listens(port, process), what="the server to listen")
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()
            process.wait(60)


def started_server(
    home: HermesHome,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    forking: bool = True,
    **streams: Any,
) -> subprocess.Popen[bytes]:
    """Start `hermes-pgvector mcp ARGUMENTS` with these streams; `forking` as for `connected`."""
    if forking and not environment:  # another environment may say what is imported
        return ForkedCli("mcp", *arguments, environment=home.environment(), prepared=PREPARED, **streams)
    return subprocess.Popen([*SERVER, *arguments], env=home.environment(environment), **streams)


def _command(*arguments: str, forking: bool) -> list[str]:
    return forked("mcp", *arguments, prepared=PREPARED) if forking else [*SERVER, *arguments]


def _listens(port: int, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "the server ended"
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@asynccontextmanager
async def connected_over_http(url: str, **headers: str) -> AsyncIterator[ClientSession]:
    """A session with a server that listens; `headers` with `_` for `-`."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        httpx.AsyncClient(headers=given, timeout=60) as http,
        streamable_http_client(url, http_client=http) as (reading, writing, _),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        yield session


def run(call: Callable[[], Awaitable[T]], timeout_s: float = 120.0) -> T:
    """What a coroutine returns."""

    async def bounded() -> T:
        return await asyncio.wait_for(call(), timeout_s)

    return asyncio.run(bounded())


async def called(session: ClientSession, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """The structured answer of a tool."""
    result = await session.call_tool(tool, arguments)
    assert not result.isError, result.content
    assert result.structuredContent is not None
    return result.structuredContent


async def refused(session: ClientSession, tool: str, /, **arguments: Any) -> str:
    """What a tool says is wrong."""
    result = await session.call_tool(tool, arguments)
    assert result.isError, result.content
    return str(result.content[0].text)  # type: ignore[union-attr]


async def recalled(session: ClientSession, query: str, /, **arguments: Any) -> list[str]:
    """The texts that `recall` finds, memories first."""
    answer = await called(session, "recall", query=query, **arguments)
    return [hit["content"] for part in answer.values() for hit in part["results"]]
