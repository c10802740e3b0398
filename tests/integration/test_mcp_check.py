"""`mcp check`, and the entry by which hermes-agent starts the server, with a real Postgres."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.conftest import DIMS
from tests.support.blocked_packages import PoorEnvironment
from tests.support.forked_cli import run_forked
from tests.support.hermes import HermesHome, describe
from tests.support.mcp_client import PREPARED, SERVER, mcp_home


@pytest.fixture
def agent_home(tmp_path: Path, dsn: str) -> HermesHome:
    return mcp_home(tmp_path / "agent", dsn=dsn, dims=DIMS)


def command(home: HermesHome, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`hermes-pgvector mcp ARGUMENTS`, run to its end."""
    return run_forked("mcp", *arguments, environment=home.environment(), prepared=PREPARED)


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
        ({"command": "false", "args": None, "env": None}, "exit code 1"),
        ({"command": "false", "args": [1]}, "`args` is a list of texts"),
        ({"command": "false", "env": {"PORT": 5432}}, "`env` gives names of variables a text each"),
        ({"command": "fal\0se"}, "cannot be started"),
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


ODD_SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        print(sys.argv[1].replace("ID", str(asked["id"])), flush=True)
"""


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ('{"id": ID, "result": 5}', "initialize: the server answers with what is no result: 5"),
        ('{"id": ID}', "initialize: the server answers with what is no result: None"),
        ('{"id": ID, "error": "no such thing"}', "initialize: no such thing"),
        ('{"id": ID, "result": {"serverInfo": 5, "tools": [{"title": "x"}]}}', "lists no tools of the protocol"),
        ('{"id": ID, "result": {"serverInfo": 5, "tools": 5}}', "lists no tools of the protocol"),
        ("[" * 100_000, "no message of the protocol"),
    ],
)
def test_check_says_what_another_program_answers(agent_home: HermesHome, reply: str, says: str) -> None:
    entry = {"command": sys.executable, "args": ["-c", ODD_SERVER, reply]}
    (agent_home.root / ".claude.json").write_text(json.dumps({"mcpServers": {"pgvector": entry}}))

    code, told = checked(agent_home, "--client", "claude-code")

    assert (code, [call["state"] for call in told["calls"]]) == (1, ["failed"])
    assert says in told["calls"][0]["note"]


def test_need_22_check_shows_no_variable_of_an_entry(agent_home: HermesHome) -> None:
    environment = {"HERMES_HOME": "/nowhere", "HERMES_PGVECTOR_DSN": "postgresql://me:Xq7@db/x", "API_KEY": "Xq7"}
    entry = {"command": "false", "args": ["--dsn=postgresql://me:Xq7@db/x"], "env": environment}
    (agent_home.root / ".claude.json").write_text(json.dumps({"mcpServers": {"pgvector": entry}}))

    _, told = checked(agent_home, "--client", "claude-code")

    assert "Xq7" not in json.dumps(told)
    assert told["entry"]["env"] == {"HERMES_HOME": "/nowhere", "HERMES_PGVECTOR_DSN": "***", "API_KEY": "***"}


# A server whose Postgres takes its time: the first call is told to come again.
LATE_SERVER = """
import json, sys
told = 0
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "tools/list":
        result = {"tools": [{"name": "recall", "inputSchema": {}, "annotations": {"readOnlyHint": True}}]}
    elif asked["method"] == "tools/call":
        told += 1
        text = "Postgres has not answered yet; try again in a moment" if told == 1 else "nothing"
        result = {"content": [{"type": "text", "text": text}], "isError": told == 1}
    else:
        result = {"serverInfo": {"name": "late", "version": "1"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def test_check_waits_for_a_postgres_that_is_being_started(agent_home: HermesHome) -> None:
    entry = {"command": sys.executable, "args": ["-c", LATE_SERVER]}
    (agent_home.root / ".claude.json").write_text(json.dumps({"mcpServers": {"pgvector": entry}}))

    code, told = checked(agent_home, "--client", "claude-code")

    assert (code, [call["state"] for call in told["calls"]]) == (0, ["ok", "ok"]), told


def test_install_says_that_the_server_lacks_its_sdk(agent_home: HermesHome, tmp_path: Path) -> None:
    poor = PoorEnvironment(tmp_path / "packages", ["mcp"])

    done = poor.run(
        "import sys; from hermes_memory_pgvector.cli import main; sys.exit(main(sys.argv[1:]))",
        *("mcp", "install", "--client", "cursor", "--project", str(tmp_path)),
        home=agent_home.path,
    )

    assert done.returncode == 0, done.stderr
    assert "cannot start yet" in done.stderr and "install 'mcp>=" in done.stderr


# A server whose client gets SIGINT as it asks for what it has written.
PRESSED_AT_RECALL = """
import os, signal, subprocess, sys

server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)
pressed = False
for line in sys.stdin.buffer:
    if b'"probe' in line and b'"recall"' in line and not pressed:
        pressed = True
        os.kill(os.getppid(), signal.SIGINT)
    server.stdin.write(line)
    server.stdin.flush()
server.stdin.close()
server.wait()
"""


def test_need_16_an_interrupted_check_leaves_nothing(agent_home: HermesHome, dsn: str) -> None:
    entry = {
        "command": sys.executable,
        "args": ["-P", "-c", PRESSED_AT_RECALL, *SERVER],
        "env": {"HERMES_HOME": str(agent_home.path)},
    }
    (agent_home.root / ".claude.json").write_text(json.dumps({"mcpServers": {"pgvector": entry}}), encoding="utf-8")
    done = command(agent_home, "check", "--client", "claude-code")
    assert done.returncode == 130, done.stdout + done.stderr
    with psycopg.connect(dsn) as conn:
        assert conn.execute("SELECT content FROM memory_entries").fetchall() == []
        assert conn.execute("SELECT count(*) > 0 FROM memory_history").fetchone() == (True,)
