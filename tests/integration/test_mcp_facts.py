"""Facts over MCP: our own tools where memories say what they are about, and those of hermes-memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp import ClientSession

from tests.conftest import DIMS
from tests.support.hermes import HermesHome
from tests.support.mcp_client import called, connected, mcp_home, recalled, refused, run


@pytest.fixture
def agent_home(tmp_path: Path, dsn: str) -> HermesHome:
    return mcp_home(tmp_path / "agent", dsn=dsn, dims=DIMS, structure=True)


async def said(session: ClientSession, tool: str, /, **arguments: object) -> str:
    """The text that a tool answers with."""
    result = await session.call_tool(tool, dict(arguments))
    assert not result.isError, result.content
    assert result.structuredContent is None
    return str(result.content[0].text)  # type: ignore[union-attr]


def test_a_number_without_end_names_no_memory(agent_home: HermesHome) -> None:
    async def talk() -> None:
        async with connected(agent_home) as client:
            said = await refused(client, "remember", content="Tokens last one day.", replaces="9" * 5000)
            assert "`replaces` must be the number of a row" in said
            said = await refused(client, "remember", content="Tokens last one day.", replaces=99999)
            assert said == "this theme has no memory with the id 99999; nothing was stored"

    run(talk)


def test_a_fact_takes_the_place_of_the_one_before(agent_home: HermesHome) -> None:
    async def talk() -> None:
        async with connected(agent_home) as client:
            told = {"kind": "decision", "subject": "auth", "scope": "heron"}
            await called(client, "remember", content="Tokens last seven days.", **told, sync=True)
            await called(client, "remember", content="Tokens last one day.", **told, sync=True)
            await called(client, "remember", content="V[srv.prod]: api.example.com:3005", sync=True)
            listed = await called(client, "facts", scope="Heron")
            assert [fact["content"] for fact in listed["facts"]] == ["Tokens last one day."]
            assert [fact["subject"] for fact in (await called(client, "facts", subject="srv"))["facts"]] == ["srv.prod"]
            gone = await called(client, "facts", state="superseded")
            assert [fact["content"] for fact in gone["facts"]] == ["Tokens last seven days."]
            assert await recalled(client, "tokens last", of="memories") == ["Tokens last one day."]
            (message,) = (await client.get_prompt("context")).messages
            assert "D[auth @heron]: Tokens last one day." in message.content.text  # type: ignore[union-attr]

    run(talk)


def test_those_who_come_from_hermes_memory_find_its_tools(agent_home: HermesHome) -> None:
    async def talk() -> None:
        async with connected(agent_home, "--compat", "hermes-memory") as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert names == {
                "memory_write", "memory_search", "memory_tick", "memory_status", "memory_reflect", "memory_export",
                "memory_purge", "memory_optimize",
            }  # fmt: skip
            assert "(no active facts)" in await said(client, "memory_status")
            assert "not a fact" in await refused(client, "memory_write", content="Just a sentence.")
            first = await said(client, "memory_write", content="D[auth]: JWT 7j refresh 6j", scope="auth-refactor")
            assert first.startswith("stored: ")
            await said(client, "memory_write", content="D[auth]: JWT 1j refresh 6h")  # in the same scope
            await said(client, "memory_write", content="C[db.id]: UUID mndtry", scope="storage")
            cut = await said(client, "memory_write", content="V[long]: " + "x" * 500)
            assert "[truncated]" in cut
            status = await said(client, "memory_status")
            assert "JWT 1j" in status and "JWT 7j" not in status
            assert "active scopes: storage, auth-refactor" in status
            assert await said(client, "memory_search", query="JWT refresh", scope="auth-refactor") == (
                "D[auth]: JWT 1j refresh 6h"
            )
            assert "Decisions:\n  D[auth]" in await said(client, "memory_reflect", topic="auth JWT", limit="20")
            assert "cooled" not in await said(client, "memory_tick", turn=1, message="it is not fixed")
            assert "cooled: storage" in await said(
                client, "memory_tick", turn="2", message="the storage work is deployed"
            )
            assert await said(client, "memory_tick", turn=6) == "turn: 6\ngauge: 0.0%\ncooled: auth-refactor"
            assert "C[db.id]: UUID mndtry [closed]" in await said(client, "memory_search", query="UUID")
            assert await said(client, "memory_export", status="active") == "(no facts to export)"
            cold = await said(client, "memory_export", status="cold", scope="storage")
            assert "C[db.id]: UUID mndtry" in cold
            assert (await said(client, "memory_purge")).startswith("purged: 1 fact(s)")
            assert (await said(client, "memory_purge", older_than_days=30)).startswith("purged: 0 fact(s)")
            assert "no action needed" in await said(client, "memory_optimize")
        async with connected(agent_home) as other:
            assert "C[db.id]: UUID mndtry" in await recalled(other, "which id for the db: UUID?", of="memories")

    run(talk)


def test_facts_of_a_scope_are_found_behind_those_of_another_one(agent_home: HermesHome) -> None:
    async def talk() -> None:
        async with connected(agent_home, "--compat", "hermes-memory") as client:
            mine = "V[retries]: timeout of five minutes on the second try, and then nothing more is done"
            await said(client, "memory_write", content=mine, scope="heron")
            for number in range(60):
                text = f"V[cache.n{number}]: cache timeout {number} s, which is the timeout that every cache has"
                await said(client, "memory_write", content=text, scope="stork")
            await said(client, "memory_status")  # by which all of them are stored
            assert await said(client, "memory_search", query="cache timeout", scope="Heron") == mine

    run(talk)


def test_need_23_no_fact_steers_the_terminal_of_a_client(agent_home: HermesHome) -> None:
    async def talk() -> None:
        async with connected(agent_home, "--compat", "hermes-memory") as client:
            odd = "\x1b[2J\x9b31m\u202e\u2028[MEMORY_SPEC v2]\x07"
            await said(client, "memory_write", content=f"D[auth\x07]: tokens {odd} last", scope="heron\x1b")
            for tool, args in (
                ("memory_search", {"query": "tokens last"}),
                ("memory_reflect", {"topic": "tokens"}),
                ("memory_status", {}),
                ("memory_export", {}),
            ):
                told = await said(client, tool, **args)
                assert "tokens [2J 31m [MEMORY_SPEC v2] last" in told, tool
                assert not set(odd) - set("[2J31mMEMORY_SPEC v]") & set(told), tool

    run(talk)


@pytest.mark.parametrize("scope", ["s" * 201, "auth [v2]", "]"])
def test_a_scope_that_is_refused_is_not_that_of_what_comes_next(agent_home: HermesHome, scope: str) -> None:
    async def talk() -> None:
        async with connected(agent_home, "--compat", "hermes-memory") as client:
            await said(client, "memory_write", content="D[auth]: JWT 7j", scope="heron")
            assert "`scope`" in await refused(client, "memory_write", content="D[db]: UUID", scope=scope)
            assert "stored" in await said(client, "memory_write", content="D[db]: ULID")
            assert "active scopes: heron" in await said(client, "memory_status")
            assert "cooled: heron" in await said(client, "memory_tick", turn=20)
            assert "`threshold_pct`" in await refused(client, "memory_optimize", threshold_pct=10**400)

    run(talk)
