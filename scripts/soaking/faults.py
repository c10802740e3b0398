"""What goes wrong in a soak, when, and for how long: drawn from a seed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg

from tests.support.embedded import postmaster_of
from tests.support.own_postgres import OwnPostgres
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database

from .clients import Client
from .driver import AgentHandle
from .ledger import Ledger
from .server_faults import OlderCopy, end_connections, mend_sequence, reset_role, set_role, set_sequence_back
from .services import Service

MODES = (
    "down", "hanging", "http_500", "wrong_dims", "rate_limited", "hanging_body", "trickle", "reset", "cut_body", "nan",
    "wrong_count", "truncated_json", "not_json", "zeros",
)  # fmt: skip
VERBS = (
    ("status", "--json"),
    ("stats",),
    ("doctor", "--json"),
    ("themes", "list", "--json"),
    ("prune", "--older-than", "1d", "--all-themes", "--json"),
    ("spool", "list", "--json"),
    ("spool", "retry", "--all", "--yes"),
    ("themes", "delete", "scrap", "--yes"),
    ("search", "the crane", "--theme", "scrap", "--json"),
    ("export", "{home}/quay.jsonl", "--theme", "quay", "--replace"),
    ("forget", "--query", "crane", "--theme", "scrap", "--yes", "--json"),
)
VERB_TIMEOUT_S = 120.0
_ALL = "everything"  # the group of a fault that stands alone
_NOTICED_S = 15.0  # a silent agent looks after its files every five seconds, after a failed attempt of ten


@dataclass
class World:
    """All that can fail."""

    server: OwnPostgres
    database: Database
    other: Database  # where nothing may arrive
    endpoint: ScriptedEmbedder
    agents: list[AgentHandle]
    services: list[Service]
    clients: list[Client]
    ledger: Ledger

    @property
    def admin_dsn(self) -> str:
        """The superuser's conninfo of the database."""
        return self.server.admin_of(self.database)


class Fault:
    """Something that has begun; `group` is what no two faults may touch at once, `ends_at` in monotonic seconds."""

    def __init__(self, name: str, group: str, ends_at: float, end: Callable[[], None]) -> None:
        self.name, self.group, self.ends_at, self.end = name, group, ends_at, end


class Schedule:
    """Draws faults and ends them in time. `step` is called often and rarely waits."""

    def __init__(self, world: World, seed: int, *, every_s: float, spared: AgentHandle) -> None:
        """`spared` is the one agent that is never ended, so that its memory can be watched."""
        self._world = world
        self._random = random.Random(seed)
        self._every_s = every_s
        self.spared = spared
        self._next_at = time.monotonic() + every_s
        self._running: list[Fault] = []
        self._verbs: list[tuple[str, float, subprocess.Popen[str]]] = []
        self._alone_next = False  # a fault waits until nothing else is wrong
        self.counts: Counter[str] = Counter()
        self.verb_exits: Counter[str] = Counter()

    @property
    def running_groups(self) -> set[str]:
        """What something is wrong with now."""
        return {fault.group for fault in self._running}

    def step(self) -> None:
        """End what is over, and begin what is due."""
        now = time.monotonic()
        self._end_overdue()
        self._collect_verbs()
        if now >= self._next_at:
            self._next_at = now + self._random.expovariate(1 / self._every_s)
            self._begin(now)

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for fault in [fault for fault in self._running if fault.ends_at <= now]:
            self._running.remove(fault)
            self._end(fault)

    def _end(self, fault: Fault) -> None:
        fault.end()
        with self._world.ledger.lock:
            self._world.ledger.note("over", fault.group, fault=fault.name)

    def heal(self) -> None:
        """End everything that is wrong, at once."""
        while self._running:
            self._end(self._running.pop())
        for _, _, process in self._verbs:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(VERB_TIMEOUT_S)
        self._collect_verbs()
        self._next_at = time.monotonic() + self._every_s

    def _begin(self, now: float) -> None:
        kinds: dict[str, tuple[float, Callable[[], tuple[str, str, float, Callable[[], None]]]]] = {
            "kill agent": (4, self._kill_agent),
            "other database": (0.5, self._send_elsewhere),
            "kill server": (2, self._kill_service),
            "kill postgres": (1.2, self._stop_postgres),
            "deaf postgres": (1.2, self._freeze_postgres),
            "lock": (1.2, self._lock_tables),
            "cut": (1.5, self._cut_connections),
            "endpoint": (3.5, self._spoil_endpoint),
            "slow endpoint": (1, self._slow_endpoint),
            "disk": (1.5, self._fill_disk),
            "lock spool": (1, self._lock_spool),
            "delete spool": (0.7, self._delete_spool),
            "verb": (1.5, self._run_verb),
            "read-only": (0.7, self._make_read_only),
            "role settings": (0.7, self._set_role),
            "sequence": (0.5, self._set_sequence_back),
            "older copy": (0.7, self._set_server_back),
        }
        (begin,) = self._random.choices(
            [begin for _, begin in kinds.values()], [weight for weight, _ in kinds.values()]
        )
        if self._alone_next:
            if self._running:
                return
            begin, self._alone_next = self._set_server_back, False
        with contextlib.suppress(_Busy):
            name, group, duration_s, end = begin()
            self.counts[name] += 1
            with self._world.ledger.lock:
                self._world.ledger.note("fault", group, fault=name, for_s=round(duration_s, 2))
            self._running.append(Fault(name, group, now + duration_s, end))

    def _claim(self, group: str) -> str:
        if group == _ALL and self._running:
            self._alone_next = True
            raise _Busy
        if any(fault.group in (group, _ALL) for fault in self._running):
            raise _Busy
        return group

    # -- agents

    def _victim(self) -> AgentHandle:
        victim = self._random.choice([agent for agent in self._world.agents if agent is not self.spared])
        self._claim(victim.name)
        return victim

    def _ended(self, victim: AgentHandle | Service) -> tuple[str, float]:
        """End a process in some way; return the way, and for how long it stays away."""
        how = self._random.choices(("SIGKILL", "SIGTERM", "quit"), (4, 2, 1))[0]
        away_s = self._random.choice((0.0, 0.0, self._random.uniform(0, 6)))
        victim.end(how, self._end_overdue)
        return how, away_s

    def _kill_agent(self) -> tuple[str, str, float, Callable[[], None]]:
        victim = self._victim()
        how, away_s = self._ended(victim)
        return f"agent ended by {how}", victim.name, away_s, victim.start

    def _send_elsewhere(self) -> tuple[str, str, float, Callable[[], None]]:
        """What its home still has to write is for the database that it was accepted for."""
        victim = self._victim()
        victim.end("SIGKILL", self._end_overdue)
        victim.start(self._world.other.dsn)

        def back() -> None:
            victim.end("SIGTERM")
            victim.start()

        return "agent sent to another database", victim.name, self._random.uniform(4, 10), back

    def _kill_service(self) -> tuple[str, str, float, Callable[[], None]]:
        victim = self._random.choice(self._world.services)
        group = self._claim(victim.name)
        how, away_s = self._ended(victim)
        return f"{victim.name} ended by {how}", group, away_s, victim.start

    def _fill_disk(self) -> tuple[str, str, float, Callable[[], None]]:
        """Who begins on a full disk cannot read what was left to it, and does not wait for that: such is left out."""
        victim = self._random.choice(self._world.agents)
        self._claim(victim.name)
        if not victim.ready:
            raise _Busy
        victim.fill_disk(True)
        return "disk of an agent full", victim.name, self._random.uniform(1, 8), lambda: victim.fill_disk(False)

    def _spool_files(self, agent: AgentHandle) -> list[Path]:
        return sorted((agent.home / "pgvector" / "spool").glob(f"{agent.pid}-*.db")) if agent.runs else []

    def _lock_spool(self) -> tuple[str, str, float, Callable[[], None]]:
        victim = self._random.choice(self._world.agents)
        group = self._claim(victim.name)
        held = [sqlite3.connect(path, timeout=1.0, isolation_level=None) for path in self._spool_files(victim)]
        try:
            for connection in held:
                connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error:
            _close_all(held)
            raise _Busy from None
        return "spool of an agent locked", group, self._random.uniform(1, 8), lambda: _close_all(held)

    def _delete_spool(self) -> tuple[str, str, float, Callable[[], None]]:
        """What waits is written anew at the next write, or some seconds later; until then nobody may end the agent."""
        victim = self._random.choice(self._world.agents)
        group = self._claim(victim.name)
        for path in self._spool_files(victim):
            for each in path.parent.glob(f"{path.name}*"):
                each.unlink(missing_ok=True)
        return "spool of an agent deleted", group, _NOTICED_S, lambda: None

    # -- Postgres

    def _stop_postgres(self) -> tuple[str, str, float, Callable[[], None]]:
        group, server = self._claim("postgres"), self._world.server
        server.stop("kill")
        return "Postgres killed -9", group, self._random.uniform(0.2, 8), server.start

    def _freeze_postgres(self) -> tuple[str, str, float, Callable[[], None]]:
        group = self._claim("postgres")
        postmaster = psutil.Process(postmaster_of(self._world.server.server))
        frozen = [postmaster, *postmaster.children(recursive=True)]
        for process in frozen:
            _signal(process, signal.SIGSTOP)

        def thaw() -> None:
            for process in frozen:
                _signal(process, signal.SIGCONT)

        return "Postgres deaf (SIGSTOP)", group, self._random.uniform(1, 10), thaw

    def _lock_tables(self) -> tuple[str, str, float, Callable[[], None]]:
        group = self._claim("postgres")
        mode, table = (
            self._random.choice(("ACCESS EXCLUSIVE", "EXCLUSIVE")),
            self._random.choice(("conversations", "memory_entries", "hermes_operations")),
        )
        connection = psycopg.connect(self._world.admin_dsn, connect_timeout=10)
        try:
            connection.execute("SET lock_timeout = '3s'")
            connection.execute(f"LOCK TABLE {table} IN {mode} MODE".encode())
        except psycopg.Error:
            connection.close()
            raise _Busy from None
        return f"{table} locked", group, self._random.uniform(1, 8), connection.close

    def _cut_connections(self) -> tuple[str, str, float, Callable[[], None]]:
        group = self._claim("postgres")
        end_connections(self._world.admin_dsn)
        return "connections terminated", group, 0.0, lambda: None

    def _make_read_only(self) -> tuple[str, str, float, Callable[[], None]]:
        group, admin_dsn = self._claim("postgres"), self._world.admin_dsn
        set_role(admin_dsn, self._random, read_only=True)
        return "role read-only", group, self._random.uniform(1, 10), lambda: reset_role(admin_dsn)

    def _set_role(self) -> tuple[str, str, float, Callable[[], None]]:
        group, admin_dsn = self._claim("postgres"), self._world.admin_dsn
        name = set_role(admin_dsn, self._random, read_only=False)
        return f"role: {name}", group, self._random.uniform(3, 12), lambda: reset_role(admin_dsn)

    def _set_sequence_back(self) -> tuple[str, str, float, Callable[[], None]]:
        group, admin_dsn = self._claim("postgres"), self._world.admin_dsn
        set_sequence_back(admin_dsn)
        return "sequence set back", group, self._random.uniform(1, 8), lambda: mend_sequence(admin_dsn)

    def _set_server_back(self) -> tuple[str, str, float, Callable[[], None]]:
        """What was acknowledged since is kept by the agents."""
        group, since = self._claim(_ALL), time.monotonic()
        older = OlderCopy(self._world.server)

        def put_back() -> None:
            with contextlib.ExitStack() as standing:
                for client in self._world.clients:
                    standing.enter_context(client.still())
                    client.forget_numbers()
                older.put_back(self._forget_numbers)
                with self._world.ledger.lock:
                    self._world.ledger.set_back(since)

        return "server set back some seconds", group, self._random.uniform(2, 8), put_back

    def _forget_numbers(self) -> None:
        for agent in self._world.agents:
            with contextlib.suppress(OSError, ValueError):  # it is dead
                agent.order("numbers")

    # -- the endpoint

    def _spoil_endpoint(self) -> tuple[str, str, float, Callable[[], None]]:
        group, mode = self._claim("endpoint"), self._random.choice(MODES)
        self._world.endpoint.mode = mode  # type: ignore[assignment]
        return f"endpoint: {mode}", group, self._random.uniform(2, 12), self._mend_endpoint

    def _slow_endpoint(self) -> tuple[str, str, float, Callable[[], None]]:
        group = self._claim("endpoint")
        self._world.endpoint.latency_ms = self._random.uniform(200, 1200)
        return "endpoint: slow", group, self._random.uniform(3, 15), self._mend_endpoint

    def _mend_endpoint(self) -> None:
        self._world.endpoint.latency_ms = 2.0
        self._world.endpoint.mode = "ok"

    # -- the operator

    def _run_verb(self) -> tuple[str, str, float, Callable[[], None]]:
        group = self._claim("operator")
        home = self._random.choice(self._world.agents).home
        verb = [word.format(home=home) for word in self._random.choice(VERBS)]
        command = [sys.executable, "-P", "-m", "hermes_memory_pgvector.cli", *verb, "--hermes-home", str(home)]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self._verbs.append((" ".join(verb[:2]), time.monotonic(), process))
        return "operator's verb", group, 0.0, lambda: None

    def _collect_verbs(self) -> None:
        for entry in list(self._verbs):
            name, began, process = entry
            if process.poll() is None:
                if time.monotonic() - began > VERB_TIMEOUT_S:
                    process.kill()
                    self._world.ledger.accuse(f"{name} did not end within {VERB_TIMEOUT_S} s")
                continue
            self._verbs.remove(entry)
            assert process.stderr is not None
            said = process.stderr.read()
            process.stderr.close()
            self.verb_exits[f"{name}: {process.returncode}"] += 1
            if process.returncode not in (0, 1) or "Traceback" in said:
                self._world.ledger.accuse(f"{name} ended with {process.returncode}: {said[-1500:]}")


def _close_all(connections: list[sqlite3.Connection]) -> None:
    for connection in connections:
        connection.close()


class _Busy(Exception):
    """What the fault would touch is being touched."""


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def write_config(home: Path, config: dict[str, Any]) -> None:
    """What the operator's verbs read; JSON is YAML."""
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": config}}))


@contextlib.contextmanager
def watched(server: OwnPostgres) -> Iterator[None]:
    """End the server also when this process is killed."""
    script = (
        f'while kill -0 {os.getpid()} 2>/dev/null; do sleep 2; done; kill -QUIT "$(head -1 "$0")" 2>/dev/null; exit 0'
    )
    pid_file = server.server.root / "data" / "postmaster.pid"
    watcher = subprocess.Popen(["/bin/sh", "-c", script, str(pid_file)], start_new_session=True)
    try:
        yield
    finally:
        watcher.kill()
        watcher.wait()
