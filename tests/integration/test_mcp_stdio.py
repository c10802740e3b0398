"""Other agents have the same memory: a client of the SDK, the server that it starts, a real Postgres."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import psycopg
import pytest
from mcp import ClientSession, McpError
from pydantic import AnyUrl

from hermes_memory_pgvector.mcp.access import project_theme
from tests.conftest import DIMS, MakeProvider
from tests.support.hermes import HermesHome
from tests.support.mcp_client import called, connected, mcp_home, recalled, refused, run, started_server
from tests.support.memory import called as called_in_plugin
from tests.support.memory import landed
from tests.support.memory import recalled as recalled_in_plugin
from tests.support.waiting import until

from .conftest import cli_of


@pytest.fixture
def agent_home(tmp_path: Path, dsn: str) -> HermesHome:
    return mcp_home(tmp_path / "agent", dsn=dsn, dims=DIMS)


def test_need_41_what_is_remembered_is_recalled_by_another_client(agent_home: HermesHome) -> None:
    async def talk() -> None:
        async with connected(agent_home) as one:
            stored = await called(one, "remember", content="The harbour opens at seven.", sync=True)
            assert (stored["state"], stored["theme"]) == ("stored", "default")
        async with connected(agent_home) as other:
            assert await recalled(other, "When does the harbour open?") == ["The harbour opens at seven."]
            known = await called(other, "profile")
            assert [each["content"] for each in known["memory"]] == ["The harbour opens at seven."]

    run(talk)


def test_need_41_themes_do_not_see_each_other(agent_home: HermesHome) -> None:
    async def talk() -> None:
        async with connected(agent_home, "--theme", "marketing") as one:
            await called(one, "remember", content="The launch is in May.", sync=True)
        async with connected(agent_home, "--theme", "sales") as other:
            assert await recalled(other, "launch") == []
        async with connected(agent_home, "--theme", "Marketing") as again:
            assert await recalled(again, "launch") == ["The launch is in May."]

    run(talk)


def test_a_project_has_a_theme_of_its_own(agent_home: HermesHome) -> None:
    theme = project_theme("/srv/code/heron")

    async def talk() -> None:
        async with connected(agent_home, folder="/srv/code/heron") as one:
            assert (await called(one, "remember", content="Heron uses tabs.", sync=True))["theme"] == theme
        async with connected(agent_home, folder="/srv/other/heron") as other:
            assert await recalled(other, "tabs") == []
        async with connected(agent_home, folder=str(agent_home.root)) as at_home:
            assert (await called(at_home, "profile"))["theme"] == "default"

        themes = set()
        for folder in ("/srv/her%FFon", "/srv/her%FEon", "/srv/her%EF%BF%BDon"):
            async with connected(agent_home, folder=folder) as odd:
                themes.add((await called(odd, "remember", content="Herons wade.", sync=True))["theme"])
        assert len(themes) == 3, "of no UTF-8 all the same"

    run(talk)
    assert theme.startswith("project-heron-")


def test_need_41_the_plugin_and_other_agents_share_a_theme(agent_home: HermesHome, make_provider: MakeProvider) -> None:
    plugin = make_provider({"tools": ("remember",)})
    called_in_plugin(plugin, "remember", {"content": "The red folder holds the contracts."})
    landed(plugin)

    async def talk() -> None:
        async with connected(agent_home, "--theme", "marketing") as client:
            assert await recalled(client, "contracts folder") == ["The red folder holds the contracts."]
            await called(client, "remember", content="The blue folder holds the invoices.", sync=True)

    run(talk)
    assert "The blue folder holds the invoices." in recalled_in_plugin(plugin, "invoices folder")


def test_forget_shows_what_would_go_before_it_goes(agent_home: HermesHome) -> None:
    async def talk() -> None:
        async with connected(agent_home) as client:
            await called(client, "remember", content="The printer is on the third floor.", sync=True)
            shown = await called(client, "forget", query="printer floor")
            assert [each["content"] for each in shown["would_forget"]] == ["The printer is on the third floor."]
            assert await recalled(client, "printer") != []
            assert (await called(client, "forget", confirm=shown["confirm"]))["count"] == 1
            assert await recalled(client, "printer") == []

    run(talk)


def test_a_recorded_turn_is_in_the_session_s_transcript(agent_home: HermesHome) -> None:
    said = ("Which port does the staging database use?", "Staging listens on port 5544, behind the bastion host.")

    async def talk() -> None:
        async with connected(agent_home) as client:
            turn = {"user": said[0], "assistant": said[1], "session": "tuesday"}
            assert await called(client, "record_turn", **turn) == {"state": "accepted"}
            listed = await called(client, "sessions")
            assert [each["session_id"] for each in listed["sessions"]] == ["tuesday"]
            read = await called(client, "sessions", session="tuesday")
            assert tuple(turn["content"] for turn in read["turns"]) == said
            assert read["session_id"] == "tuesday"
            for name in ("alice@example.com", "t" * 300, " two\tblanks ", "cut\0"):
                assert await called(client, "record_turn", **turn | {"session": name}) == {"state": "accepted"}
                read = await called(client, "sessions", session=name)
                assert tuple(turn["content"] for turn in read["turns"]) == said, name
                assert (await called(client, "sessions", session=read["session_id"]))["count"] == 2
            assert (await called(client, "record_turn", user="ok", assistant=""))["state"] == "skipped"
            assert (await recalled(client, "staging bastion", of="turns")) != []

    run(talk)


def test_a_long_transcript_comes_in_parts_that_a_client_takes(agent_home: HermesHome, dsn: str) -> None:
    said = [f"Turn {number}. " + "It was a long day in the harbour. " * 150 for number in range(25)]
    with psycopg.connect(dsn) as conn:
        conn.cursor().executemany(
            "INSERT INTO conversations (agent_identity, session_id, role, content, ts)"
            " VALUES ('default', 'long', 'user', %s, now() - make_interval(mins => %s))",
            [(text, 60 - number) for number, text in enumerate(said)],
        )

    async def talk() -> None:
        async with connected(agent_home) as client:
            read: list[str] = []
            while turns := (part := await called(client, "sessions", session="long", limit=500, offset=len(read)))[
                "turns"
            ]:
                assert len(json.dumps(turns)) < 70_000
                read += [turn["content"] for turn in turns]
                if len(read) < len(said):
                    assert part["note"].endswith(f"`offset` {len(read)}")
            assert read == said
            assert part["note"] == "this theme has no more turns of that session"
            (listed,) = (await called(client, "sessions", limit=1))["sessions"]
            assert listed["session_id"] == "long"
            assert "no such session" in (await called(client, "sessions", session="short"))["note"]

    run(talk)


def test_wrong_arguments_are_named(agent_home: HermesHome) -> None:
    async def talk() -> None:
        async with connected(agent_home) as client:
            assert "`content` is missing" in await refused(client, "remember")
            assert "no argument `scope`" in await refused(client, "remember", content="x", scope="all")
            assert "`limit` must be" in await refused(client, "sessions", limit=0)

    run(talk)


def test_tools_say_what_they_do(agent_home: HermesHome) -> None:
    async def talk() -> dict[str, Any]:
        async with connected(agent_home) as client:
            return {tool.name: tool for tool in (await client.list_tools()).tools}

    tools = run(talk)
    assert set(tools) == {"recall", "remember", "forget", "profile", "sessions", "record_turn"}
    assert {name for name, tool in tools.items() if tool.annotations.readOnlyHint} == {"recall", "profile", "sessions"}
    assert {name for name, tool in tools.items() if tool.annotations.destructiveHint} == {"forget"}
    assert all(tool.title and tool.description and tool.outputSchema for tool in tools.values())


def test_themes_profiles_and_sessions_are_resources(agent_home: HermesHome) -> None:
    async def read(client: ClientSession, uri: str) -> Any:
        return json.loads((await client.read_resource(AnyUrl(uri))).contents[0].text)  # type: ignore[union-attr]

    async def talk() -> None:
        async with connected(agent_home, "--theme", "ops team") as client:
            await called(client, "remember", content="Backups run at two.", target="user", sync=True)
            turn = {
                "user": "When do the backups of the ledger run?",
                "assistant": "They run at two in the night, on the second disk.",
            }
            assert (await called(client, "record_turn", session="night", **turn))["state"] == "accepted"
            addresses = [str(each.uri) for each in (await client.list_resources()).resources]
            assert addresses == ["memory://themes", "memory://theme/ops%20team/profile"]
            assert await read(client, addresses[0]) == {"own": "ops team", "themes": ["ops team"], "count": 1}
            assert [each["content"] for each in (await read(client, addresses[1]))["user"]] == ["Backups run at two."]
            told = await read(client, "memory://session/night")
            assert [each["content"] for each in told["turns"]] == list(turn.values())
            nul = await read(client, "memory://session/ni%00ght")
            assert nul["turns"] == told["turns"]
            for strange in ("memory://theme/other/profile", "memory://session/none", "memory://nothing", "file:///x"):
                with pytest.raises(McpError):
                    await read(client, strange)

    run(talk)


def test_the_prompt_tells_what_is_known_and_what_fits(agent_home: HermesHome) -> None:
    async def context(client: ClientSession, **arguments: str) -> str:
        return str((await client.get_prompt("context", arguments)).messages[0].content.text)  # type: ignore[union-attr]

    async def talk() -> None:
        async with connected(agent_home) as client:
            assert "Nothing is remembered" in await context(client)
            for number in range(60):
                text = f"The meeting room {number} has a projector and a whiteboard of its own."
                await called(client, "remember", content=text, sync=number == 59)
            assert "meeting room 59" in await context(client)
            assert len(await context(client, max_tokens="200")) < 1200

    run(talk)


def test_need_08_the_prompt_tells_what_is_known_and_fits_once(agent_home: HermesHome) -> None:
    async def talk() -> None:
        async with connected(agent_home) as client:
            for text in ("The lighthouse is painted white.", "Invoices go out on Mondays."):
                await called(client, "remember", content=text, sync=True)
            (message,) = (await client.get_prompt("context", {"message": "Who painted the lighthouse?"})).messages
            text = str(message.content.text)  # type: ignore[union-attr]
            assert text.count("The lighthouse is painted white.") == 1
            assert text.count("Invoices go out on Mondays.") == 1

    run(talk)


def test_messages_name_no_tool_that_is_not_here(agent_home: HermesHome) -> None:
    async def talk() -> None:
        async with connected(agent_home) as client:
            assert "as recall gave them" in await refused(client, "forget")
            for number in range(20):
                await called(client, "remember", content=f"Room {number} has a whiteboard.", sync=number == 19)
            assert (await called(client, "profile", max_tokens=200))["note"].endswith("recall finds them")

    run(talk)


@pytest.mark.parametrize("compat", [(), ("--compat", "hermes-memory"), ("--compat", "search-fetch")])
def test_the_model_is_told_of_tools_that_are_here(agent_home: HermesHome, compat: tuple[str, ...]) -> None:
    with Wire(agent_home, *compat) as wire:
        named = set(re.findall("`(.+?)`", wire.opened["instructions"]))
        assert named and named <= {tool["name"] for tool in wire.ask("tools/list")["result"]["tools"]}


def test_the_prompt_tells_each_conversation_of_a_client_what_fits_within_its_size(agent_home: HermesHome) -> None:
    """A client has one connection for all of its conversations, and asks for the prompt in each."""
    message = "When do the backups of the ledger run?"

    async def context(client: ClientSession, **arguments: str) -> str:
        return str((await client.get_prompt("context", arguments)).messages[0].content.text)  # type: ignore[union-attr]

    async def talk() -> None:
        async with connected(agent_home) as client:
            answer = "They run at two in the night, on the second disk of the ledger."
            await called(client, "record_turn", user=message, assistant=answer)
            await called(client, "sessions")
            assert answer in await context(client, message=message)
            assert answer in await context(client, message=message)
            for number in range(20):
                text = f"The backups of the ledger run on disk {number} of the night, {'and so on ' * 30}"
                await called(client, "remember", content=text, sync=number == 19)
            assert len(await context(client, message=message, max_tokens="150")) <= 3 * 150

    run(talk)


def test_connectors_search_and_fetch(agent_home: HermesHome) -> None:
    long = "The lighthouse keeper writes a line each night. " * 200

    async def talk() -> None:
        async with connected(agent_home) as client:
            await called(client, "remember", content=long, sync=True)
            turn = {"user": "Who keeps the lighthouse now?", "assistant": "Maren has kept the lighthouse since spring."}
            await called(client, "record_turn", session="s", **turn)
            await called(client, "sessions")
        async with connected(agent_home, "--compat", "search-fetch") as connector:
            assert [tool.name for tool in (await connector.list_tools()).tools] == ["search", "fetch"]
            found = (await called(connector, "search", query="lighthouse"))["results"]
            assert {each["id"][0] for each in found} == {"m", "t"}
            assert all(set(each) == {"id", "title", "url"} and len(each["title"]) <= 80 for each in found)
            texts = [(await called(connector, "fetch", id=each["id"]))["text"] for each in found]
            assert {long.strip(), turn["assistant"]} <= set(texts)
            assert "no memory m999" in await refused(connector, "fetch", id="m999")
            assert "one that search gave" in await refused(connector, "fetch", id="x")
        async with connected(agent_home, "--compat", "search-fetch", "--theme", "elsewhere") as stranger:
            assert "no memory" in await refused(stranger, "fetch", id=found[0]["id"])

    run(talk)


class Wire:
    """A server whose standard streams a test holds itself. What it logs is in the home's mcp.log, or in `log`."""

    def __init__(
        self,
        home: HermesHome,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        capabilities: Mapping[str, Any] | None = None,
        log: IO[bytes] | None = None,
    ) -> None:
        with log or (home.path / "mcp.log").open("ab") as logged:
            pipe = subprocess.PIPE
            self.process = started_server(
                home, *arguments, environment=environment, stdin=pipe, stdout=pipe, stderr=logged
            )
        self._numbers = iter(range(1, 1000))
        client = {"name": "wire", "version": "1"}
        opened = self.ask(
            "initialize", protocolVersion="2025-06-18", capabilities=capabilities or {}, clientInfo=client
        )
        self.opened: dict[str, Any] = opened["result"]
        self.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode())

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode())
        return self.answer(number)

    def answer(self, number: int) -> dict[str, Any]:
        """The answer to a request; every line before it has to be one of the protocol."""
        while (message := self.message()).get("id") != number:
            pass
        return message

    def message(self) -> dict[str, Any]:
        """What the server says next."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the server ended"
        said: dict[str, Any] = json.loads(line)
        return said

    def answers(self, numbers: Iterable[int]) -> dict[int, dict[str, Any]]:
        """The results of several requests, in whatever order they come."""
        assert self.process.stdout is not None
        wanted, found = set(numbers), {}
        while wanted - found.keys() and (line := self.process.stdout.readline()):
            message: dict[str, Any] = json.loads(line)
            if message.get("id") in wanted:
                found[message["id"]] = message["result"]
        assert found.keys() == wanted
        return found

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = self.ask("tools/call", name=tool, arguments=arguments)["result"]
        return result

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *exc: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait(60)
        self.process.stdout.close()
        if not self.process.stdin.closed:
            self.process.stdin.close()


def test_nothing_accepted_is_lost_by_a_kill(agent_home: HermesHome, dsn: str) -> None:
    accepted = []
    for run_number in range(2):
        with Wire(agent_home) as wire:
            for number in range(20):
                text = f"Run {run_number} keeps the number {number}."
                if not wire.call("remember", content=text)["isError"]:
                    accepted.append(text)
            wire.process.send_signal(signal.SIGKILL)
            wire.process.wait(60)
    with Wire(agent_home), psycopg.connect(dsn, autocommit=True) as conn:

        def stored() -> bool:
            rows = conn.execute("SELECT content FROM memory_entries").fetchall()
            return {content for (content,) in rows} >= set(accepted)

        until(stored, what="every memory that was accepted")
    assert len(accepted) == 40


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_server_though_its_client_stays(agent_home: HermesHome, number: signal.Signals) -> None:
    with Wire(agent_home) as wire:
        assert not wire.call("remember", content="The vault code hangs behind the clock.")["isError"]
        wire.process.send_signal(number)
        assert wire.process.wait(60) == 0
    said = (agent_home.path / "mcp.log").read_text(encoding="utf-8")
    assert "ERROR" not in said and "Traceback" not in said


def test_a_signal_ends_a_server_whose_log_nobody_reads(tmp_path: Path) -> None:
    nowhere = mcp_home(tmp_path / "agent", dsn="host=127.0.0.1 port=1 dbname=none user=nobody", dims=DIMS)
    reading, writing = os.pipe()
    os.close(reading)
    buffered = {"PYTHONUNBUFFERED": ""}  # as a client starts it
    with Wire(nowhere, log=os.fdopen(writing, "wb"), environment=buffered) as wire:
        assert not wire.call("remember", content="The harbour opens at seven.")["isError"]
        # What it then logs, of writes that wait, reaches nobody.
        wire.process.terminate()
        assert wire.process.wait(60) == 0


@pytest.mark.parametrize("deaf", [False, True], ids=["leaves", "leaves without listening"])
def test_a_client_that_leaves_before_its_answers_came_is_no_error(agent_home: HermesHome, dsn: str, deaf: bool) -> None:
    with Wire(agent_home) as wire:
        assert wire.process.stdin is not None and wire.process.stdout is not None
        for number in range(40):
            params = {"name": "remember", "arguments": {"content": f"The list has the number {number}."}}
            wire.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode())
        answered = wire.answer(0)
        if deaf:
            wire.process.stdout.close()
        wire.process.stdin.close()
        assert wire.process.wait(60) == 0
    assert answered["result"]["isError"] is False
    assert "error" not in (agent_home.path / "mcp.log").read_text()
    with psycopg.connect(dsn) as conn:
        found = conn.execute("SELECT count(*) FROM memory_entries WHERE content LIKE '%number 0.'").fetchone()
    assert found == (1,)


def test_frames_that_mean_nothing_are_survived(agent_home: HermesHome) -> None:
    with Wire(agent_home) as wire:
        for line in (
            b"nonsense",
            b"",
            b"\xff\xfe\x00",
            b"[1,2",
            b'{"jsonrpc":"2.0"}',
            b'{"id":7}',
            b"{}",
            b"[]",
            b"null",
        ):
            wire.send(line)
        wire.send(b'{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":5}}')
        assert not wire.call("remember", content="It still listens.")["isError"]


def test_a_huge_argument_is_answered(agent_home: HermesHome) -> None:
    with Wire(agent_home) as wire:
        huge = "The log says nothing new. " * 400_000  # ten megabytes
        assert wire.call("recall", query=huge)["isError"] is False
        assert "isError" in wire.call("remember", content=huge)
        assert not wire.call("record_turn", user=huge, assistant="It is long.")["isError"]
        assert not wire.call("remember", content="It still listens.")["isError"]


def test_need_04_nothing_goes_elsewhere_while_a_client_does_not_say_its_folder(agent_home: HermesHome) -> None:
    ask = {"name": "remember", "arguments": {"content": "Heron uses tabs.", "sync": True}}
    with Wire(agent_home, capabilities={"roots": {}}) as wire:

        def remember(name: str) -> int:
            wire.send(json.dumps({"jsonrpc": "2.0", "id": name, "method": "tools/call", "params": ask}).encode())
            asked = wire.message()
            assert asked["method"] == "roots/list"
            return int(asked["id"])

        remember("unanswered")
        refused = wire.message()
        assert (refused["id"], refused["result"]["isError"]) == ("unanswered", True)
        assert "--theme" in refused["result"]["content"][0]["text"]

        folder = {"roots": [{"uri": "file:///srv/code/heron"}]}
        wire.send(json.dumps({"jsonrpc": "2.0", "id": remember("answered"), "result": folder}).encode())
        kept = wire.message()["result"]["structuredContent"]
        assert (kept["state"], kept["theme"]) == ("stored", project_theme("/srv/code/heron"))

    with Wire(agent_home) as at_home:
        assert at_home.call("profile")["structuredContent"]["memory"] == []


def test_status_counts_the_server(agent_home: HermesHome) -> None:
    def status() -> str:
        return cli_of(agent_home, "status").stdout

    with Wire(agent_home) as wire:
        for _ in range(3):
            wire.call("profile")
        until(lambda: f"{wire.process.pid} runs, as MCP server with 3 calls" in status(), what="its counters")


def test_sigterm_brings_what_was_accepted_to_postgres(agent_home: HermesHome, dsn: str) -> None:
    with Wire(agent_home) as wire:
        wire.call("remember", content="Written just before the end.")
        wire.process.terminate()
        assert wire.process.wait(60) == 0
    with psycopg.connect(dsn) as conn:
        assert conn.execute("SELECT count(*) FROM memory_entries").fetchone() == (1,)


def test_a_call_that_is_taken_back_stops_in_postgres(agent_home: HermesHome, dsn: str, admin_dsn: str) -> None:
    slow = mcp_home(agent_home.root / "slow", dsn=dsn, dims=DIMS, recall_deadline_s=60)
    working = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with Wire(slow) as wire, psycopg.connect(admin_dsn) as holder, psycopg.connect(admin_dsn, autocommit=True) as look:
        assert not wire.call("profile")["isError"]
        holder.execute("LOCK TABLE memory_entries IN ACCESS EXCLUSIVE MODE")
        ask = {"name": "profile", "arguments": {}}
        wire.send(json.dumps({"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": ask}).encode())
        until(lambda: look.execute(working).fetchone() == (1,), what="the statement to wait")
        taken_back = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}}
        wire.send(json.dumps(taken_back).encode())
        until(lambda: look.execute(working).fetchone() == (0,), what="the statement to end")
        holder.rollback()
        assert not wire.call("profile")["isError"]
