"""One server for many clients: streamable HTTP on loopback."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import psutil
import pytest

from tests.conftest import DIMS
from tests.support.hermes import HermesHome
from tests.support.mcp_client import called, connected_over_http, mcp_home, recalled, run, serving
from tests.support.ports import free_port
from tests.support.waiting import until

from .conftest import cli_of


@pytest.fixture
def agent_home(tmp_path: Path, dsn: str) -> HermesHome:
    return mcp_home(tmp_path / "agent", dsn=dsn, dims=DIMS)


@pytest.fixture
def url(agent_home: HermesHome) -> Iterator[str]:
    with serving(agent_home) as address:
        yield address


def test_clients_have_the_theme_that_their_header_names(url: str) -> None:
    async def talk() -> None:
        async with connected_over_http(url, x_hermes_session_key="Tenant A") as one:
            stored = await called(one, "remember", content="The vault code hangs behind the clock.", sync=True)
            assert stored["theme"] == "tenant a"
        async with connected_over_http(url, x_hermes_session_key="tenant a") as same:
            assert await recalled(same, "vault clock") == ["The vault code hangs behind the clock."]
        async with connected_over_http(url) as other:
            assert await recalled(other, "vault clock") == []

    run(talk)


def test_need_04_long_keys_that_begin_alike_are_themes_of_their_own(url: str) -> None:
    async def talk() -> None:
        for tenant in ("a", "b"):
            async with connected_over_http(url, x_hermes_session_key="t" * 300 + tenant) as one:
                await called(one, "remember", content=f"The vault code of tenant {tenant}.", sync=True)
                assert await recalled(one, "vault code") == [f"The vault code of tenant {tenant}."]

    run(talk)


def test_many_clients_at_once_lose_nothing(url: str) -> None:
    async def one(number: int) -> None:
        async with connected_over_http(url) as client:
            for each in range(3):
                await called(client, "remember", content=f"Client {number} keeps the word {number}-{each}.")
                await called(client, "recall", query="word", of="memories")

    async def talk() -> int:
        await asyncio.gather(*(one(number) for number in range(12)))
        async with connected_over_http(url) as client:
            await called(client, "remember", content="The last word.", sync=True)
            known = await called(client, "profile")
            return int(known["known"]["memory"])

    assert run(talk) == 37


def test_pages_of_other_hosts_are_kept_out(url: str) -> None:
    ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"accept": "application/json, text/event-stream"}
    strange = httpx.post(url, json=ask, headers=accept | {"host": "evil.example"})
    assert strange.is_client_error
    for origin in ("https://evil.example", "http://127.0.0.1:80.evil.example", "http://127.0.0.1.evil.example"):
        assert httpx.post(url, json=ask, headers=accept | {"origin": origin}).is_client_error, origin


def test_an_address_that_is_taken_is_told(agent_home: HermesHome, url: str) -> None:
    address = url.removeprefix("http://").removesuffix("/mcp")
    done = cli_of(agent_home, "mcp", "--http", address)
    assert done.returncode == 1
    assert f"{address} cannot be listened on (Address already in use); give another" in done.stderr
    assert "Traceback" not in done.stderr
    log = agent_home.path / "mcp.log"
    until(
        lambda: f"at {url}; Ctrl-C ends it" in log.read_text(encoding="utf-8"), what="the line of the one that listens"
    )


def test_a_server_that_is_ended_while_a_client_listens_complains_of_nothing(agent_home: HermesHome) -> None:
    with ExitStack() as server:
        url = server.enter_context(serving(agent_home))

        async def talk() -> None:
            async with connected_over_http(url) as client:
                await called(client, "remember", content="The vault code hangs behind the clock.", sync=True)
                await asyncio.to_thread(server.close)

        run(talk)
    assert "ERROR" not in (agent_home.path / "mcp.log").read_text(encoding="utf-8")


def test_a_server_whose_terminal_is_closed_ends_as_at_sigterm(agent_home: HermesHome) -> None:
    with serving(agent_home, forking=False) as url:
        (server,) = [each for each in psutil.Process().children() if "--http" in each.cmdline()]

        async def talk() -> None:
            async with connected_over_http(url) as client:
                await called(client, "remember", content="The vault code hangs behind the clock.", sync=True)
                server.send_signal(signal.SIGHUP)
                assert await asyncio.to_thread(server.wait, 60) == 0

        run(talk)
    said = (agent_home.path / "mcp.log").read_text(encoding="utf-8")
    assert "ERROR" not in said and "Traceback" not in said


# A server to which SIGTERM comes at the worst moment of its start, if not at a better one.
STOPPED_AS_IT_STARTS_A_THREAD = """
import os, signal, sys, threading
from hermes_memory_pgvector import cli

class Stopped(threading.Thread):
    def start(self):
        super().start()
        os.kill(os.getpid(), signal.SIGTERM)

threading.Thread = Stopped
sys.argv = ["hermes-pgvector", "mcp", *sys.argv[1:]]
sys.exit(cli.main())
"""


@pytest.mark.parametrize("over", ["stdio", "http"])
def test_a_server_that_is_stopped_while_it_starts_ends(over: str, agent_home: HermesHome) -> None:
    words = ["--http", f"127.0.0.1:{free_port()}"] if over == "http" else []
    command = [sys.executable, "-P", "-c", STOPPED_AS_IT_STARTS_A_THREAD, *words]
    with subprocess.Popen(
        command, env=agent_home.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        try:
            assert server.wait(60) == 0
        finally:
            server.kill()


def test_a_client_that_does_not_finish_its_request_does_not_keep_the_server(agent_home: HermesHome) -> None:
    with serving(agent_home) as url:
        host, _, port = url.removeprefix("http://").removesuffix("/mcp").partition(":")
        client = socket.create_connection((host, int(port)))
        client.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n")
        client.sendall(b"Accept: application/json, text/event-stream\r\nContent-Length: 100\r\n\r\n{")
    client.close()
