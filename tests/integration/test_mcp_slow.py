"""Clients that do not read, or leave in the middle of a call, cost the others nothing."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest

from hermes_memory_pgvector.mcp.handlers import _THREADS, BUSY
from tests.conftest import DIMS
from tests.integration.test_mcp_stdio import Wire
from tests.support.hermes import HermesHome
from tests.support.mcp_client import called, connected_over_http, mcp_home, recalled, run, serving
from tests.support.waiting import until

FACT = "The slow clerk reads one page a day."


@pytest.fixture
def agent_home(tmp_path: Path, dsn: str) -> HermesHome:
    return mcp_home(tmp_path / "agent", dsn=dsn, dims=DIMS)


def ask(number: int, method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


def test_a_client_that_stops_reading_is_answered_when_it_goes_on(agent_home: HermesHome, dsn: str) -> None:
    with Wire(agent_home) as wire:
        assert not wire.call("remember", content=FACT, sync=True)["isError"]
        for number in range(400):  # answers of far more than a pipe holds
            wire.send(ask(10_000 + number, "tools/list"))
        wire.send(ask(20_000, "tools/call", name="remember", arguments={"content": "Said before anybody read."}))
        assert wire.answer(10_000 + 399)["result"]["tools"]
        assert not wire.answer(20_000)["result"]["isError"]


def test_a_client_that_leaves_unread_answers_behind_ends_the_server(agent_home: HermesHome, dsn: str) -> None:
    wire = Wire(agent_home)
    assert wire.process.stdout is not None and wire.process.stdin is not None
    assert not wire.call("remember", content=FACT)["isError"]
    for number in range(400):
        wire.send(ask(10_000 + number, "tools/list"))
    wire.process.stdout.close()
    wire.process.stdin.close()
    wire.process.wait(60)
    with Wire(agent_home), psycopg.connect(dsn, autocommit=True) as conn:
        rows = "SELECT content FROM memory_entries"
        until(lambda: conn.execute(rows).fetchall() == [(FACT,)], what="what was accepted before")


def test_http_clients_that_do_not_read_or_leave_keep_nobody_waiting(agent_home: HermesHome) -> None:
    with serving(agent_home, forking=False) as url:  # its open files are counted
        address = urlsplit(url)
        me = psutil.Process()

        async def remember() -> None:
            async with connected_over_http(url) as client:
                await called(client, "remember", content=FACT, sync=True)

        async def look() -> list[str]:
            async with connected_over_http(url) as client:
                return await recalled(client, "slow clerk")

        run(remember)
        (server,) = [each for each in me.children() if "--http" in each.cmdline()]
        before = server.num_fds()
        body = ask(
            1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "s", "version": "1"}
        )
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode()
        wires = [socket.create_connection((address.hostname, address.port)) for _ in range(40)]
        for number, wire in enumerate(wires):
            # Some say everything and read nothing, some stop in the middle of what they say.
            wire.sendall(head + (body if number % 2 else body[:20]))
        assert run(look) == [FACT]
        for wire in wires:
            wire.close()
        until(lambda: server.num_fds() <= before + 5, what="the connections to be let go")
        assert run(look) == [FACT]


def test_need_01_a_call_that_all_threads_are_busy_for_is_told_so_within_its_deadline(
    agent_home: HermesHome, dsn: str, admin_dsn: str
) -> None:
    home = mcp_home(agent_home.root / "busy", dsn=dsn, dims=DIMS, recall_deadline_s=8)
    with Wire(home) as wire, psycopg.connect(admin_dsn) as holder:
        assert not wire.call("profile")["isError"]
        holder.execute("LOCK TABLE memory_entries IN ACCESS EXCLUSIVE MODE")
        asked = range(1000, 1000 + 2 * _THREADS)
        for number in asked:
            wire.send(ask(number, "tools/call", name="profile", arguments={}))
        answers = wire.answers(asked)
        assert all(answer["isError"] for answer in answers.values())
        # Usually half of them; fewer where the threads of the first calls are free before the last ones have given up.
        assert any(answer["content"][0]["text"] == BUSY for answer in answers.values())
        holder.rollback()
        until(lambda: not wire.call("profile")["isError"], what="an answer")


@pytest.mark.parametrize(
    ("locked", "store", "there"), [("conversations", "turns", "memories"), ("memory_entries", "memories", "turns")]
)
def test_need_01_what_is_not_locked_is_recalled(
    tmp_path: Path, dsn: str, admin_dsn: str, locked: str, store: str, there: str
) -> None:
    turn = {
        "user": "How many pages does the slow clerk read on a Sunday?",
        "assistant": "The slow clerk reads two pages on a Sunday, and none on a Monday.",
    }
    home = mcp_home(tmp_path / "agent", dsn=dsn, dims=DIMS, recall_deadline_s=4)
    with Wire(home) as wire, Wire(home, "--compat", "search-fetch") as connector:
        assert not wire.call("record_turn", **turn)["isError"]
        assert not wire.call("remember", content=FACT, sync=True)["isError"]
        with psycopg.connect(dsn, autocommit=True) as conn:
            until(lambda: conn.execute("SELECT count(*) FROM conversations").fetchone() == (2,), what="the turn")
        with psycopg.connect(admin_dsn) as holder:
            holder.execute(f"LOCK TABLE {locked} IN ACCESS EXCLUSIVE MODE")
            found = wire.call("recall", query="slow clerk")["structuredContent"]
            assert found[store]["results"] == [] and found[store]["note"].startswith(f"{store} were not searched: ")
            assert "slow clerk" in found[there]["results"][0]["content"]
            assert wire.call("recall", query="slow clerk", of=store)["isError"]
            listed = connector.call("search", query="slow clerk")["structuredContent"]
            assert listed["note"] == found[store]["note"]
            assert {result["id"][0] for result in listed["results"]} == {there[0]}
            holder.rollback()
        assert wire.call("recall", query="slow clerk")["structuredContent"][store]["count"] > 0
