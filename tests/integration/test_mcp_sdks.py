"""Clients and servers of both lines of the MCP SDK understand each other, over both transports."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest

from tests.conftest import DIMS
from tests.integration.test_mcp_stdio import Wire
from tests.support.forked_cli import forked
from tests.support.hermes import HermesHome, describe
from tests.support.mcp_client import PREPARED, SERVER, mcp_home, serving
from tests.support.mcp_sdk_files import newer_sdk

Line = Literal["1", "2"]

# A client in the words that both lines have: prints what it was answered.
PROGRAM = """
import asyncio, json, sys
from importlib.metadata import version
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ListRootsResult, Root
from pydantic import AnyUrl

asked = json.loads(sys.argv[1])
newer = version("mcp").startswith("2.")
told = []

async def roots(context):
    return ListRootsResult(roots=[Root(uri="file:///srv/heron")])

async def progress(done, total, message):
    told.append(message)

def plain(result):
    return json.loads(result.model_dump_json(by_alias=True, exclude_none=True))

async def use(streams):
    async with ClientSession(streams[0], streams[1], list_roots_callback=roots) as session:
        answers = {"sdk": version("mcp"), "server": plain(await session.initialize())["serverInfo"]["name"]}
        answers["tools"] = plain(await session.list_tools())["tools"]
        for name, arguments in asked["calls"]:
            answers[name] = plain(await session.call_tool(name, arguments, progress_callback=progress))
        uri = "memory://themes"
        answers["themes"] = plain(await session.read_resource(uri if newer else AnyUrl(uri)))
        answers["context"] = plain(await session.get_prompt("context", {}))
        print(json.dumps(answers))

async def main():
    if "url" in asked:
        async with streamable_http_client(asked["url"]) as streams:
            await use(streams)
    else:
        parameters = StdioServerParameters(command=asked["command"][0], args=asked["command"][1:], env=asked["env"])
        async with stdio_client(parameters) as streams:
            await use(streams)

asyncio.run(main())
"""
FACT = "Heron is released on Thursdays."
CALLS = [["remember", {"content": FACT, "sync": True}], ["recall", {"query": "Heron released"}], ["forget", {}]]


def path_of(line: Line) -> Mapping[str, str]:
    """The variable that gives a process this line of the SDK."""
    return {"PYTHONPATH": str(newer_sdk())} if line == "2" else {}


def ask(home: HermesHome, client: Line, **asked: Any) -> dict[str, Any]:
    """What a client of this line is answered."""
    command = [sys.executable, "-P", "-W", "ignore", "-c", PROGRAM, json.dumps({"calls": CALLS, **asked})]
    done = subprocess.run(
        command, env=home.environment(path_of(client)), capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, describe(done)
    answers: dict[str, Any] = json.loads(done.stdout)
    assert answers["sdk"].startswith(f"{client}.")
    return answers


def check(answers: dict[str, Any]) -> None:
    """What every pair has to say."""
    assert answers["server"] == "hermes-memory"
    assert all(tool["outputSchema"] and tool["annotations"]["title"] for tool in answers["tools"])
    stored = answers["remember"]["structuredContent"]
    assert stored["state"] == "stored"
    assert stored["theme"].startswith("project-heron-")
    (found,) = answers["recall"]["structuredContent"]["memories"]["results"]
    assert found["content"] == FACT
    assert json.loads(answers["recall"]["content"][0]["text"]) == answers["recall"]["structuredContent"]
    assert answers["forget"]["isError"] and "say what to forget" in answers["forget"]["content"][0]["text"]
    assert json.loads(answers["themes"]["contents"][0]["text"])["own"] == stored["theme"]
    assert FACT in answers["context"]["messages"][0]["content"]["text"]


@pytest.fixture
def agent_home(tmp_path: Path, dsn: str) -> HermesHome:
    return mcp_home(tmp_path / "agent", dsn=dsn, dims=DIMS)


@pytest.mark.parametrize("client", ["1", "2"])
@pytest.mark.parametrize("server", ["1", "2"])
def test_every_pair_of_versions_over_stdio(agent_home: HermesHome, server: Line, client: Line) -> None:
    command = forked("mcp", prepared=PREPARED) if server == "1" else [*SERVER]
    check(ask(agent_home, client, command=command, env=agent_home.environment(path_of(server))))


@pytest.mark.parametrize("server", ["1", "2"])
def test_every_pair_of_versions_over_http(agent_home: HermesHome, server: Line) -> None:
    with serving(agent_home, environment=path_of(server)) as url:
        for client in ("1", "2"):
            check(ask(agent_home, client, url=url))


CUT = {"content": "The boat is called \ud83d\ude80 Rocket \ud83d", "sync": True}
KEPT = "The boat is called \U0001f680 Rocket \ufffd"


@pytest.mark.parametrize("server", ["1", "2"])
def test_need_26_a_text_that_was_cut_within_an_emoji_is_answered_over_stdio(
    agent_home: HermesHome, server: Line
) -> None:
    with Wire(agent_home, environment=path_of(server)) as wire:
        answer = wire.call("remember", **CUT)["structuredContent"]
    assert (answer["state"], answer["content"]) == ("stored", KEPT)


@pytest.mark.parametrize("server", ["1", "2"])
def test_need_26_a_text_that_was_cut_within_an_emoji_is_answered_over_http(
    agent_home: HermesHome, server: Line
) -> None:
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    opening = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "cut", "version": "1"}}

    with serving(agent_home, environment=path_of(server)) as url, httpx.Client(headers=headers, timeout=60) as client:

        def send(method: str, params: Mapping[str, Any]) -> httpx.Response:
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return client.post(url, content=json.dumps(message))

        client.headers["Mcp-Session-Id"] = send("initialize", opening).headers["Mcp-Session-Id"]
        client.post(url, content=json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        assert KEPT in send("tools/call", {"name": "remember", "arguments": CUT}).text
