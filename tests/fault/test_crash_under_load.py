"""The embedded Postgres dies under several agents that write and recall, and nobody looks after it."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psutil
import psycopg
import pytest
from psycopg import sql

from hermes_memory_pgvector.server.cluster import EmbeddedServer
from tests.conftest import DIMS
from tests.support.agent_process import AgentProcess
from tests.support.embedded import BIN_DIR, postmaster_of, starts_in
from tests.support.places import server_place
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.turns import ANSWER, question, seconds, turn
from tests.support.waiting import until

AGENTS = 3
HOST_PATIENCE_S = 8.0  # the host gives up a recall after that; ours ends after `recall_deadline_s`, 1.5 s
RECOVERY_S = 90.0
PAUSE_S = 0.05  # what is tested needs some load, not all of the machine's
_BACKENDS = (
    "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name = 'hermes-pgvector'"
)


class LoadedAgent:
    """An agent of a process of its own: a turn and two recalls, again and again."""

    def __init__(self, process: AgentProcess, number: int) -> None:
        self.told: list[str] = []
        self.recall_s: list[float] = []
        self.answered = 0  # recalls with a result
        self._process = process
        self._first = number * 10_000
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends.is_set():
            number = self._first + len(self.told)
            self._process.call("sync_turn", turn(number), ANSWER)
            self.told.append(turn(number))
            self.recall_s.append(seconds(lambda: self._process.call("prefetch", question(self._first))))
            self.recall_s.append(seconds(self._ask))
            self._ends.wait(PAUSE_S)

    def _ask(self) -> None:
        answer = json.loads(self._process.call("handle_tool_call", "recall_conversation", {"query": turn(self._first)}))
        assert "error" in answer or "results" in answer
        self.answered += any(hit["content"] == turn(self._first) for hit in answer.get("results", []))

    def end(self) -> None:
        self._ends.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


class Fleet:
    """The agents, and the server that they started."""

    def __init__(self, server: EmbeddedServer, agents: list[LoadedAgent]) -> None:
        self.server = server
        self.agents = agents

    def wait_for_work(self) -> None:
        """Returns when every agent has written and recalled something more."""
        before = [agent.answered for agent in self.agents]
        until(
            lambda: all(agent.answered > had + 3 for agent, had in zip(self.agents, before, strict=True)),
            RECOVERY_S,
            "every agent's recall",
        )

    def processes(self) -> list[psutil.Process]:
        """The server's processes, the first of them first."""
        first = psutil.Process(postmaster_of(self.server))
        return [first, *first.children(recursive=True)]

    def servers(self) -> int:
        """How many processes were started as a server on this data."""
        data = str(self.server.root / "data")
        commands = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
        return sum(command[1:3] == ["-D", data] for command in commands)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with server_place() as place:
        home = tmp_path_factory.mktemp("fleet") / "home"
        home.mkdir()
        server = EmbeddedServer(place / "pg", bin_dir=BIN_DIR)
        with ScriptedEmbedder(dims=DIMS) as embedder:
            config = {"embedded_dir": str(server.root), "embedded_bin_dir": BIN_DIR, "dims": DIMS}
            config |= {"embed_url": embedder.url, "prefetch_min_similarity": 0.0}
            processes = [AgentProcess(config, home) for _ in range(AGENTS)]
            agents = [LoadedAgent(process, number) for number, process in enumerate(processes, 1)]
            try:
                running = Fleet(server, agents)
                running.wait_for_work()
                yield running
            finally:
                for agent in agents:
                    agent.end()
                for process in processes:
                    process.kill()
                server.stop()
                server.release()


def _all(fleet: Fleet) -> list[int]:
    return [process.pid for process in fleet.processes()]


def _first(fleet: Fleet) -> list[int]:
    return [postmaster_of(fleet.server)]


def _one_session(fleet: Fleet) -> list[int]:
    return Database(fleet.server.ensure().admin).column(_BACKENDS)[:1]


@pytest.mark.parametrize(
    ("victims", "starts"),
    [(_all, 1), (_first, 1), (_one_session, 0)],
    ids=["the whole server", "its first process", "one session"],
)
def test_need_03_a_server_killed_under_load_comes_back_by_itself(fleet: Fleet, victims: Any, starts: int) -> None:
    fleet.wait_for_work()
    before = starts_in(fleet.server)
    killed = victims(fleet)
    assert killed
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    fleet.wait_for_work()
    assert starts_in(fleet.server) == before + starts
    assert fleet.servers() == 1
    assert max(max(agent.recall_s) for agent in fleet.agents) < HOST_PATIENCE_S


def test_need_03_what_was_accepted_is_there_once_and_indexes_find_it(fleet: Fleet) -> None:
    fleet.wait_for_work()
    for agent in fleet.agents:
        agent.end()
    admin = fleet.server.ensure().admin
    database = Database(admin)
    told = [text for agent in fleet.agents for text in agent.told]
    users = "SELECT content FROM conversations WHERE role = 'user'"
    until(lambda: len(database.column(users)) >= len(told), RECOVERY_S, "everything accepted")
    pending = "SELECT FROM conversations WHERE embedding IS NULL"
    until(lambda: not database.column(f"SELECT 1 WHERE EXISTS ({pending})"), RECOVERY_S, "every vector")
    assert Counter(database.column(users)) == Counter(told)
    assert database.column("SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid") == []
    assert database.column("SELECT sum(checksum_failures) FROM pg_stat_database") == [0]
    (*exactly, walked), (*counted, rows) = _finds(admin, by_index=True), _finds(admin, by_index=False)
    assert exactly == counted == [rows, rows]
    # A graph leads to most rows, also where nothing ever failed.
    assert rows / 2 < walked <= rows
    _check_indexes(admin)


def _finds(admin: str, *, by_index: bool) -> list[int]:
    """How many rows the index on themes, that on words and the HNSW index find, or reading the whole table does."""
    off = ("enable_seqscan",) if by_index else ("enable_indexscan", "enable_bitmapscan", "enable_indexonlyscan")
    with psycopg.connect(admin) as connection:
        for name in (*off, "enable_sort") if by_index else off:
            connection.execute(sql.SQL("SET LOCAL {} = off").format(sql.Identifier(name)))
        connection.execute("SET LOCAL hnsw.iterative_scan = strict_order")
        connection.execute("SET LOCAL hnsw.max_scan_tuples = 1000000")
        found = []
        for statement in (
            "SELECT count(*) FROM conversations WHERE agent_identity = 'marketing'",
            "SELECT count(*) FROM conversations WHERE tsv @@ to_tsquery('simple', 'harbour')",
            "SELECT count(*) FROM (SELECT id FROM conversations ORDER BY embedding <=> "
            "(SELECT embedding FROM conversations WHERE id = (SELECT min(id) FROM conversations))) AS all_of_them",
        ):
            row = connection.execute(statement.encode()).fetchone()
            assert row is not None
            found.append(int(row[0]))
        return found


def _check_indexes(admin: str) -> None:
    """Has amcheck compare each B-tree with its table, where this Postgres brings it."""
    with psycopg.connect(admin, autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'amcheck'").fetchone():
            return
        connection.execute("CREATE EXTENSION amcheck")
        checked = connection.execute(
            "SELECT count(bt_index_check(i.indexrelid::regclass, true)::text) FROM pg_index AS i "
            "JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_am AS a ON a.oid = c.relam "
            "WHERE a.amname = 'btree' AND i.indrelid IN ('conversations'::regclass, 'memory_entries'::regclass, "
            "'hermes_operations'::regclass)"
        ).fetchone()
        assert checked is not None and checked[0] > 5
