"""What a token may do over HTTP, and nothing more, with a real Postgres behind the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import httpx
import psycopg
import pytest
from mcp import ClientSession, McpError
from pydantic import AnyUrl

from hermes_memory_pgvector.admin.mcp.token_changes import add_token
from hermes_memory_pgvector.mcp.tokens import TokenFile, dumped
from tests.conftest import DIMS
from tests.support.hermes import HermesHome
from tests.support.mcp_client import (
    called,
    connected_over_http,
    mcp_home,
    recalled,
    refused,
    run,
    serving,
)
from tests.support.ports import free_port
from tests.support.records import fill_theme
from tests.support.waiting import until

from .conftest import Run, cli_of


@pytest.fixture
def agent_home(tmp_path: Path, dsn: str) -> HermesHome:
    return mcp_home(tmp_path / "agent", dsn=dsn, dims=DIMS)


@pytest.fixture
def url(agent_home: HermesHome) -> Iterator[str]:
    with serving(agent_home) as address:
        yield address


def joined(url: str, secret: str, **headers: str) -> AbstractAsyncContextManager[ClientSession]:
    """A session of whoever shows a token."""
    return connected_over_http(url, authorization=f"Bearer {secret}", **headers)


def test_a_token_reads_and_writes_in_its_themes_alone(agent_home: HermesHome, url: str) -> None:
    work = add_token(agent_home.path, "work", ["work", "shared"], read_only=False).secret
    other = add_token(agent_home.path, "other", ["other"], read_only=False).secret

    async def talk() -> None:
        async with joined(url, work) as one:
            stored = await called(one, "remember", content="The launch is in May.", sync=True)
            assert stored["theme"] == "work"
        async with joined(url, work, x_hermes_session_key="shared") as one:
            assert (await called(one, "profile"))["theme"] == "shared"
            assert await recalled(one, "launch", scope="work") == ["The launch is in May."]
            said = await refused(one, "recall", query="launch", scope="other")
            assert "token is for work, shared alone" in said and "cross_theme" not in said
        async with joined(url, other) as another:
            assert await recalled(another, "launch") == []
            nothing = (await called(another, "recall", query="launch"))["memories"]["note"]
            assert "no memory fits" in nothing and "recall_conversation" not in nothing, "that tool is not here"
            said = await refused(another, "recall", query="launch", scope="work")
            assert "token is for " in said and "cross_theme" not in said
            assert "all" in await refused(another, "recall", query="launch", scope="all")

    run(talk)


def test_the_themes_of_a_token_have_profiles_however_their_names_are_written(tmp_path: Path, dsn: str) -> None:
    home = mcp_home(tmp_path / "agent", dsn=dsn, dims=DIMS, theme_aliases={"mkt": "marketing"})
    secret = add_token(home.path, "work", ["work", "Shared", "mkt"], read_only=False).secret
    fill_theme(dsn, "other", prefix="Launch")

    async def talk(url: str) -> None:
        for theme in ("shared", "mkt"):
            async with joined(url, secret, x_hermes_session_key=theme) as one:
                await called(one, "remember", content=f"The launch is in May, says {theme}.", sync=True)
        async with joined(url, secret) as one:
            for name, theme in {
                "shared": "shared",
                "SHARED": "shared",
                "marketing": "marketing",
                "mkt": "marketing",
            }.items():
                found = await one.read_resource(AnyUrl(f"memory://theme/{name}/profile"))
                assert f'"theme": "{theme}"' in found.contents[0].text and "in May" in found.contents[0].text  # type: ignore[union-attr]
            with pytest.raises(McpError, match="'other' is not the theme of this session: the profile of others"):
                await one.read_resource(AnyUrl("memory://theme/other/profile"))

    with serving(home) as url:
        run(lambda: talk(url))


def test_need_04_no_theme_of_a_token_opens_those_whose_names_begin_so(
    agent_home: HermesHome, url: str, dsn: str
) -> None:
    """A file of tokens may hold such a name; a theme may have it, as it may be called `all`."""
    made = add_token(agent_home.path, "odd", ["work", "all"], read_only=False)
    odd = replace(made.token, themes=("sal*", "all"))
    TokenFile(agent_home.path).path.write_bytes(dumped([odd]))
    fill_theme(dsn, "sales", prefix="Launch")

    async def talk() -> None:
        async with joined(url, made.secret) as one:
            assert await recalled(one, "launch", scope="theme:all") == []
            for scope in ("sales", "all"):
                said = await refused(one, "recall", query="launch", scope=scope)
                assert "token is for sal*, all alone" in said and "cross_theme" not in said
            assert "sales" not in str(await one.read_resource(AnyUrl("memory://themes")))

    run(talk)


def test_need_04_a_theme_that_is_not_allowed_is_refused_and_not_exchanged_for_the_default(
    tmp_path: Path, dsn: str, cli: Run
) -> None:
    home = mcp_home(tmp_path / "agent", dsn=dsn, dims=DIMS, allowed_themes=["work"])
    work = add_token(home.path, "work", ["work"], read_only=False).secret
    partner = add_token(home.path, "partner", ["partner"], read_only=False).secret
    fill_theme(dsn, "default", prefix="Launch")

    async def talk(url: str) -> None:
        async with joined(url, work) as one:
            await called(one, "remember", content="The launch is in May.", sync=True)
        async with joined(url, partner) as other:
            noted = {"content": "A bell."}
            for tool, given in {
                "recall": {"query": "launch"},
                "profile": {},
                "sessions": {},
                "remember": noted,
            }.items():
                assert "allowed_themes does not name 'partner'" in await refused(other, tool, **given)

    with serving(home) as url:
        run(lambda: talk(url))
    chat = replace(TokenFile(home.path).read()[1], themes=("@slack/default/0123456789abcdef",))  # written by hand
    TokenFile(home.path).path.write_bytes(dumped([chat]))

    async def read(url: str) -> None:
        async with joined(url, partner) as other:
            assert "allowed_themes does not name '@slack" in await refused(other, "recall", query="launch")

    with serving(home) as url:
        run(lambda: read(url))
    made = cli("mcp", "token", "add", "other", "--theme", "other", "--hermes-home", str(home.path))
    assert made.returncode == 0 and "allowed_themes does not name 'other'" in made.stderr
    fixed = cli_of(home, "mcp", "--theme", "partner")
    assert fixed.returncode == 1 and "allowed_themes does not name 'partner'" in fixed.stderr
    fixed = cli_of(home, "mcp", "--theme", "@slack/default/0123456789abcdef")
    assert fixed.returncode == 1 and "the theme of a messaging chat" in fixed.stderr


def test_the_session_of_another_token_gives_nothing_away(agent_home: HermesHome, url: str) -> None:
    work = add_token(agent_home.path, "work", ["work"], read_only=False).secret
    other = add_token(agent_home.path, "other", ["other"], read_only=False).secret

    def ask(secret: str, method: str, session: str = "", **params: object) -> httpx.Response:
        shown = {"Authorization": f"Bearer {secret}", "Accept": "application/json, text/event-stream"}
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        numbered = message if method.startswith("notifications/") else message | {"id": 1}
        return httpx.post(url, json=numbered, headers=shown | ({"Mcp-Session-Id": session} if session else {}))

    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    session = ask(work, "initialize", **hello).headers["mcp-session-id"]
    ask(work, "notifications/initialized", session)
    kept = ask(
        work, "tools/call", session, name="remember", arguments={"content": "The launch is in May.", "sync": True}
    )
    stolen = ask(other, "tools/call", session, name="recall", arguments={"query": "launch"})

    assert '"theme":"work"' in kept.text.replace(" ", "").replace("\\", "")
    assert stolen.status_code == 404
    assert "May" not in stolen.text
    assert "May" in ask(work, "tools/call", session, name="recall", arguments={"query": "launch"}).text


def test_a_token_for_reading_writes_nothing(agent_home: HermesHome, url: str, dsn: str) -> None:
    writer = add_token(agent_home.path, "writer", ["work"], read_only=False).secret
    reader = add_token(agent_home.path, "reader", ["work"], read_only=True).secret

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


def test_any_theme_is_the_one_that_the_header_names(agent_home: HermesHome, url: str) -> None:
    every = add_token(agent_home.path, "every", [], read_only=False).secret

    async def talk() -> None:
        async with joined(url, every, x_hermes_session_key="marketing") as one:
            assert (await called(one, "profile"))["theme"] == "marketing"

    run(talk)


def test_whoever_claims_many_addresses_does_not_fill_the_log(agent_home: HermesHome, url: str) -> None:
    with httpx.Client(headers={"Host": "evil.example"}) as client:
        for number in range(200):
            assert client.get(url, headers={"X-Forwarded-For": f"10.0.0.{number}"}).status_code == 403

    lines = [line for line in (agent_home.path / "mcp.log").read_text().splitlines() if "was refused" in line]
    assert 20 <= len(lines) < 100
    assert all("from 127.0.0.1 " in line for line in lines)


def test_requests_that_are_refused_reach_no_tool(agent_home: HermesHome) -> None:
    secret = add_token(agent_home.path, "a", ["work"], read_only=False).secret
    shown = {"Authorization": f"Bearer {secret}", "Accept": "application/json, text/event-stream"}

    with serving(agent_home, "--rate", "1", "--allow-host", "memory.example.com") as url:
        assert httpx.post(url, json={}).status_code == 401
        assert httpx.post(url, json={}, headers=shown | {"Origin": "https://evil.example"}).status_code == 403
        assert httpx.post(url, json={}, headers=shown | {"Host": "evil.example"}).status_code == 403
        assert httpx.post(url, json={}, headers=shown | {"Host": "memory.example.com"}).status_code == 400
        assert httpx.post(url, content=b"x" * 5_000_000, headers=shown).status_code == 413
        assert 429 in [httpx.post(url, json={}, headers=shown).status_code for _ in range(10)]

    log = (agent_home.path / "mcp.log").read_text()
    assert "was refused: the request is larger" in log
    assert secret[4:] not in log


def test_an_address_with_a_slash_at_its_end_is_answered_there_and_leads_nowhere_else(
    agent_home: HermesHome, url: str
) -> None:
    work = add_token(agent_home.path, "work", ["work"], read_only=False).secret

    async def talk() -> None:
        async with joined(f"{url}/", work) as one:
            assert (await called(one, "profile"))["theme"] == "work"

    run(talk)
    for path in ("/", "//"):
        answer = httpx.post(f"{url}{path}", json={"secret": 1}, headers={"Host": "evil.example"})
        assert answer.is_client_error and "location" not in answer.headers


@pytest.mark.parametrize("address", ["0.0.0.0:8766", "[::]:8766"])
def test_it_does_not_listen_to_others_without_a_token(agent_home: HermesHome, address: str) -> None:
    done = cli_of(agent_home, "mcp", "--http", address)

    assert (done.returncode, done.stdout) == (1, "")
    assert "mcp token add" in done.stderr


def test_an_outage_is_told_without_the_place_of_the_database(tmp_path: Path) -> None:
    port = free_port()
    nowhere = f"host=127.0.0.1 port={port} user=ledger_clerk dbname=ledger"
    home = mcp_home(tmp_path / "agent", dsn=nowhere, dims=DIMS)
    work = add_token(home.path, "work", ["work"], read_only=False).secret

    async def ask(url: str) -> list[str]:
        async with joined(url, work) as one:
            said = [await refused(one, "profile"), await refused(one, "recall", query="launch")]
            with pytest.raises(McpError) as error:
                await one.get_prompt("context", {})
            return [*said, str(error.value)]

    with serving(home) as url:
        told = until(lambda: [each for each in [run(lambda: ask(url))] if "starting" not in str(each)])[0]
    for said in told:
        assert "Connection refused" in said and "`dsn`" in said, "what to do about it"
        assert not [word for word in ("127.0.0.1", str(port), "ledger") if word in said]
