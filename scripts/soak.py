#!/usr/bin/env python3
"""Minutes or hours of mixed load with random faults; what was accepted must be in Postgres in the end, once.

Several agent processes with the real provider talk, write memories, recall, change sessions, die and begin again, on
one private Postgres and one scripted embedding endpoint. Clients use MCP servers over stdio and HTTP, and somebody
works at the memory page. Meanwhile, by a seeded schedule: agents and servers are killed, an agent is sent to another
database; Postgres is killed, frozen, locked, read-only, set otherwise or replaced by an older copy, or its connections
are cut; the endpoint is down, hangs, lies or is slow, disks take nothing, spool files are locked or deleted, and an
operator's verbs run. Every minute all faults end, and what was accepted until then has to arrive unattended.

What each hook and each server answered is written down outside of them. At the end that is compared with the tables:
nothing lost, twice, in another theme, session or database, or out of order; memories as they were left; a vector for
every row; nothing of another theme in any recall; hooks and recalls within their bounds; no process and no file left
behind; memory flat.

Exit code 1 on a violation. Runs from a checkout, in the environment of scripts/test.sh; needs `psutil` besides the
package. While it runs, leave the checkout as it is.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path += [str(folder) for folder in Path(__file__).resolve().parents[:2]]
from soaking import texts
from soaking.clients import Client
from soaking.driver import AgentHandle
from soaking.faults import Schedule, World, watched, write_config
from soaking.ledger import Ledger, Verdict, compare
from soaking.mcp_client import McpClient, McpStdioClient
from soaking.page import PageClient
from soaking.report import figures, show, tables
from soaking.services import McpOverHttp, McpOverStdio, Service, Web

from hermes_memory_pgvector.admin.common.spool_views import inspect_spools
from tests.support.own_postgres import own_postgres
from tests.support.scripted_embedder import ScriptedEmbedder

DIMS = 64
SETTINGS: dict[str, Any] = {
    "dims": DIMS,
    "embed_model": "scripted",
    "embed_timeout_s": 1.5,
    "prefetch_deadline_s": 0.5,
    "recall_deadline_s": 2.0,
    "shutdown_timeout_s": 1.0,
    "pool_max_size": 3,
    "tools": ["remember", "forget", "memory_profile"],
    "messaging_theme": "chat",
}
SHARED, SCRAP = "quay", "scrap"  # a theme of all agents; one that an operator deletes again and again
CHECK_EVERY_S = 60.0
SETTLE_TIMEOUT_S = 180.0
BUSY_SETTLE_TIMEOUT_S = 900.0  # on a machine whose times are not judged


class Soak:
    """One run."""

    def __init__(
        self, world: World, schedule: Schedule, say: Callable[[str], None], *, settle_timeout_s: float
    ) -> None:
        self.world, self.schedule, self._say = world, schedule, say
        self.ledger = world.ledger
        self._settle_timeout_s = settle_timeout_s
        self.settled_s: list[float] = []
        self._seen: set[tuple[str, int]] = set()
        self._last_id = 0
        self._started = time.monotonic()

    def run(self, minutes: float) -> Verdict:
        """Faults for so many minutes, then peace, and the comparison."""
        for each in [*self.world.agents, *self.world.services, *self.world.clients]:
            each.start()
        end, check_at, weigh_at = self._started + 60 * minutes, self._started + CHECK_EVERY_S, 0.0
        while (now := time.monotonic()) < end:
            self.schedule.step()
            self._watch_agents()
            if now >= weigh_at:
                weigh_at = now + 5
                self._weigh()
            if now >= check_at:
                self._checkpoint()
                check_at = time.monotonic() + CHECK_EVERY_S
            time.sleep(0.05)
        return self._end()

    def _watch_agents(self) -> None:
        ours = self.schedule.running_groups
        for each in [*self.world.agents, *self.world.services]:
            if not each.runs and each.name not in ours:
                with self.ledger.lock:
                    self.ledger.accuse(f"{each.name} died by itself")
                each.end("SIGKILL")
                each.start()

    def _weigh(self) -> None:
        for agent in self.world.agents:
            if agent.runs:
                agent.weigh(round(time.monotonic() - self._started, 1))
        endpoint = self.world.endpoint
        del endpoint.bodies[:], endpoint.headers[:]

    def _checkpoint(self) -> None:
        """End all faults; what is accepted by now must arrive, while the agents go on."""
        self.schedule.heal()
        with self.ledger.lock:
            wanted = {key for key in self.ledger.sure_turns() if key[0] not in self.ledger.ignored} - self._seen
        began = time.monotonic()
        missing = wanted
        while (missing := missing - self._arrived()) and time.monotonic() - began < self._settle_timeout_s:
            time.sleep(0.2)
        took_s = time.monotonic() - began
        self.settled_s.append(took_s)
        if missing:
            with self.ledger.lock:
                self.ledger.accuse(f"{len(missing)} turns did not arrive in {took_s:.0f} s, as {sorted(missing)[:3]}")
        with self.ledger.lock:
            wrong, accepted = len(self.ledger.wrong), sum(self.ledger.accepted.values())
        self._say(
            f"{(time.monotonic() - self._started) / 60:5.1f} min: {accepted} writes accepted, "
            f"{sum(self.schedule.counts.values())} faults, all there after {took_s:.1f} s of peace"
            + (f", {wrong} VIOLATIONS" if wrong else "")
        )

    def _arrived(self) -> set[tuple[str, int]]:
        """The turns that stand in the table; looks only at what is new, and a little before."""
        rows = self._rows("SELECT id, content FROM conversations WHERE role = 'user' AND id > %s", self._last_id - 5000)
        self._last_id = max([self._last_id, *(row[0] for row in rows)])
        found = {key for _, content in rows for key in texts.tags_in(content)[:1]}
        self._seen |= found
        return found

    def _rows(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(self.world.admin_dsn, autocommit=True, connect_timeout=10) as connection:
            return connection.execute(statement.encode(), parameters).fetchall()

    def _end(self) -> Verdict:
        """No more faults and no more writes: everything has to come home."""
        self.schedule.heal()
        for client in self.world.clients:
            if not client.runs:
                self.ledger.accuse(f"{client.name} failed; see what was printed")
        began = time.monotonic()
        self._dismiss_clients()
        for agent in self.world.agents:
            agent.order("pause")
        self._until(lambda: all(agent.paused and agent.depth == 0 for agent in self.world.agents), "empty spools")
        homes = Counter(agent.home for agent in self.world.agents)
        # An agent comes to what the servers left when it next looks for files of dead processes.
        self._until(
            lambda: not any(view.waiting for home in homes for view in inspect_spools(home)), "files of the dead"
        )
        pending = "SELECT count(*) FROM {} WHERE embedding IS NULL"
        for table in ("conversations", "memory_entries"):
            self._until(lambda table=table: self._rows(pending.format(table))[0][0] == 0, f"vectors in {table}")  # type: ignore[misc]
        self.settled_s.append(time.monotonic() - began)
        for agent in self.world.agents:
            agent.end("quit")
        for home in homes:
            # What was acknowledged is kept in the files; nothing may wait in one, or be unreadable.
            if left := [view for view in inspect_spools(home) if view.waiting or view.rejected or view.problem]:
                self.ledger.accuse(f"left in the spool of {home.name}: {left}")
        for table in ("conversations", "memory_entries"):
            if (strays := self.world.other.column(f"SELECT count(*) FROM {table}")) != [0]:
                self.ledger.accuse(f"{strays} rows of {table} went to another database")
        turns = self._rows("SELECT agent_identity, session_id, role, content FROM conversations ORDER BY id")
        memories = self._rows("SELECT agent_identity, content FROM memory_entries ORDER BY id")
        alone = {agent.name for agent in self.world.agents if homes[agent.home] == 1}
        return compare(self.ledger, turns, memories, alone=alone)

    def _dismiss_clients(self) -> None:
        """What their servers have not brought home when they end, an agent of the same home does."""
        for client in self.world.clients:
            client.paused = True
            with client.still():
                pass
        for service in self.world.services:
            service.end("SIGTERM")
        for client in self.world.clients:
            client.close()

    def _until(self, done: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + self._settle_timeout_s
        while not done():
            if time.monotonic() > end:
                self.ledger.accuse(f"waited {self._settle_timeout_s:.0f} s in vain for {what}")
                return
            time.sleep(0.2)


def customers(home: Path, ledger: Ledger, first: int, *, seed: int, per_s: float) -> tuple[list[Service], list[Client]]:
    """The servers of a home and their clients, who count from client `first` on."""
    http, stdio, web = McpOverHttp(home, ledger), McpOverStdio(home, ledger, "mole"), Web(home, ledger)
    pace: dict[str, Any] = {"seed": seed, "per_s": per_s}
    over_mcp = [
        McpStdioClient("mcp-stdio-client", first, stdio, "mole", ledger, **pace),
        McpClient("mcp-http-client", first + 1, http, "raft", ledger, **pace),
        McpClient("mcp-shared-client", first + 2, http, SHARED, ledger, **pace),
    ]
    page = PageClient(first + 3, web, "desk", over_mcp, ledger, **pace)
    return [http, stdio, web], [*over_mcp, page]


@contextlib.contextmanager
def world_of(processes: int, seed: int, per_s: float) -> Iterator[World]:
    """A database, an endpoint and agents that have not begun; all but the last two have homes of their own."""
    place = Path(tempfile.mkdtemp(prefix="hermes-soak-"))
    place.chmod(0o755)
    agents: list[AgentHandle] = []
    try:
        with (
            own_postgres(DIMS, max_connections="80") as server,
            watched(server),
            ScriptedEmbedder(dims=DIMS) as endpoint,
        ):
            database, other = server.database(), server.database()
            config = SETTINGS | {"dsn": database.dsn, "embed_url": endpoint.url}
            ledger = Ledger({SCRAP})
            for index in range(processes):
                home = place / f"home{min(index, max(processes - 2, 0))}"
                home.mkdir(exist_ok=True)
                write_config(home, config)
                inherits = index < processes - 2
                letters = "abcdefgh"[index]
                themes = [f"dock{letters}", f"pier{letters}", SHARED, SCRAP]
                agents.append(
                    AgentHandle(index, home, themes, config, ledger, seed=seed, per_s=per_s, inherits=inherits)
                )
            services, clients = customers(home, ledger, processes, seed=seed, per_s=per_s)
            try:
                yield World(server, database, other, endpoint, agents, services, clients, ledger)
            finally:
                for each in [*agents, *services]:
                    each.kill()
                for client in clients:
                    client.close()
    finally:
        shutil.rmtree(place, ignore_errors=True)


def main() -> int:
    """Run, print and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0, metavar="N", help="of faults (default: 30)")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="of load and faults")
    parser.add_argument(
        "--processes", type=int, default=6, choices=range(3, 9), metavar="3..8", help="agents (default: 6)"
    )
    parser.add_argument(
        "--per-s", type=float, default=4.0, metavar="N", help="actions of an agent a second (default: 4)"
    )
    parser.add_argument("--fault-every-s", type=float, default=3.0, metavar="N", help="on average (default: 3)")
    parser.add_argument("--no-times", action="store_true", help="show times, but do not judge them: a busy machine")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write there what happened, a line each")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no server is left behind
    # A shell that runs this in the background has it ignored, and so would a server that has no handler yet.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print(f"seed {arguments.seed}", flush=True)

    with contextlib.ExitStack() as stack:
        record = stack.enter_context(arguments.record.open("w", encoding="utf-8")) if arguments.record else None
        world = stack.enter_context(world_of(arguments.processes, arguments.seed, arguments.per_s))
        world.ledger.record = record
        schedule = Schedule(world, arguments.seed, every_s=arguments.fault_every_s, spared=world.agents[0])
        settle_timeout_s = BUSY_SETTLE_TIMEOUT_S if arguments.no_times else SETTLE_TIMEOUT_S
        soak = Soak(world, schedule, lambda line: print(line, flush=True), settle_timeout_s=settle_timeout_s)
        try:
            verdict = soak.run(arguments.minutes)
        finally:
            schedule.heal()  # what is frozen could not be stopped
        found = figures(world, schedule, soak.settled_s, verdict, judge_times=not arguments.no_times)
    show(found, arguments.minutes, arguments.seed)
    if arguments.json:
        given = {name: value for name, value in vars(arguments).items() if name not in ("json", "record")}
        made = {"arguments": given, "tables": tables(found, arguments.minutes)}
        arguments.json.write_text(json.dumps(made | found, indent=1, ensure_ascii=False) + "\n")
    if found["violations"]:
        print(f"\n{len(found['violations'])} violations; again with --seed {arguments.seed}")
    return bool(found["violations"])


if __name__ == "__main__":
    sys.exit(main())
