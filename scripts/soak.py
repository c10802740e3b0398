#!/usr/bin/env python3
"""Minutes or hours of mixed load with random faults; what was accepted must be in Postgres in the end, once.

Several agent processes with the real provider talk, write memories, recall, change sessions, die and begin again, on
one private Postgres and one scripted embedding endpoint. Meanwhile, by a seeded schedule: processes are killed,
Postgres is killed, frozen, locked, read-only, set otherwise or replaced by an older copy, or its connections are cut,
the endpoint is down, hangs, lies or is slow, disks take nothing, spool files are locked or deleted, and an operator's
verbs run. Every minute all faults end, and what was accepted until then has to arrive unattended.

What each hook returned is written down outside of the agents. At the end that is compared with the tables: nothing
lost, twice, in another theme or session, or out of order; memories as they were left; a vector for every row; nothing
of another theme in any recall; hooks and recalls within their bounds; no process and no file left behind; memory flat.

Exit code 1 on a violation. Runs from a checkout, in the environment of scripts/test.sh; needs `psutil` besides the
package. While it runs, leave the checkout as it is.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path += [str(folder) for folder in Path(__file__).resolve().parents[:2]]
from soaking import texts
from soaking.driver import AgentHandle
from soaking.faults import Schedule, World, watched, write_config
from soaking.ledger import RECALLS, WRITES, Ledger, Verdict, compare

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
# Beyond the deadlines: for a thread that is given its turn late, on a machine that does other things as well.
MARGIN_MS = 1500.0
HOOK_BOUND_MS = 1000.0
# A tool that writes may wait for its own writes first, and asks the database twice.
BOUNDS_MS = {
    "prefetch": 500 + MARGIN_MS,
    "recall_memory": 2000 + MARGIN_MS,
    "recall_conversation": 2000 + MARGIN_MS,
    "memory_profile": 2000 + MARGIN_MS,
    "remember": 2000 + MARGIN_MS,
    "forget": 2000 + MARGIN_MS,
    "shutdown": 1000 + MARGIN_MS,
    "end by SIGTERM": 10_000.0,
    "end by quit": 10_000.0,
}
MEMORY_BOUND_MB = 30.0


class Soak:
    """One run."""

    def __init__(self, world: World, schedule: Schedule, say: Callable[[str], None]) -> None:
        self.world, self.schedule, self._say = world, schedule, say
        self.ledger = world.ledger
        self.settled_s: list[float] = []
        self._seen: set[tuple[str, int]] = set()
        self._last_id = 0
        self._started = time.monotonic()

    def run(self, minutes: float) -> Verdict:
        """Faults for so many minutes, then peace, and the comparison."""
        for agent in self.world.agents:
            agent.start()
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
        for agent in self.world.agents:
            if not agent.runs and agent.name not in ours:
                with self.ledger.lock:
                    self.ledger.accuse(f"{agent.name} died by itself")
                agent.end("SIGKILL")
                agent.start()

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
        while (missing := missing - self._arrived()) and time.monotonic() - began < SETTLE_TIMEOUT_S:
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
        began = time.monotonic()
        for agent in self.world.agents:
            agent.order("pause")
        self._until(lambda: all(agent.paused and agent.depth == 0 for agent in self.world.agents), "empty spools")
        pending = "SELECT count(*) FROM {} WHERE embedding IS NULL"
        for table in ("conversations", "memory_entries"):
            self._until(lambda table=table: self._rows(pending.format(table))[0][0] == 0, f"vectors in {table}")  # type: ignore[misc]
        self.settled_s.append(time.monotonic() - began)
        for agent in self.world.agents:
            agent.end("quit")
        for home in {agent.home for agent in self.world.agents}:
            if left := [path.name for path in (home / "pgvector" / "spool").iterdir()]:
                self.ledger.accuse(f"left in the spool of {home.name}: {left}")
        turns = self._rows("SELECT agent_identity, session_id, role, content FROM conversations ORDER BY id")
        memories = self._rows("SELECT agent_identity, content FROM memory_entries ORDER BY id")
        homes = Counter(agent.home for agent in self.world.agents)
        alone = {agent.name for agent in self.world.agents if homes[agent.home] == 1}
        return compare(self.ledger, turns, memories, alone=alone)

    def _until(self, done: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + SETTLE_TIMEOUT_S
        while not done():
            if time.monotonic() > end:
                self.ledger.accuse(f"waited {SETTLE_TIMEOUT_S:.0f} s in vain for {what}")
                return
            time.sleep(0.2)


def figures(soak: Soak, verdict: Verdict, spared: AgentHandle, *, judge_times: bool) -> dict[str, Any]:
    """Everything worth keeping of a run; bounds are judged here."""
    ledger, world = soak.ledger, soak.world
    hooks = [ms for what in WRITES - {"remember", "forget"} for ms in ledger.took_ms[what]]
    hooks += ledger.took_ms["switch"]
    took = {"hooks": hooks} | {what: ledger.took_ms[what] for what in sorted({*RECALLS, *BOUNDS_MS})}
    times = {what: _spread(values) for what, values in took.items() if values}
    # While a machine gives a thread its turn seconds late, times say nothing of us: `--no-times` leaves them unjudged.
    for what, spread in times.items() if judge_times else ():
        bound = BOUNDS_MS.get(what, HOOK_BOUND_MS)
        if spread["worst"] > bound:
            ledger.accuse(f"{what} took {spread['worst']:.0f} ms, more than {bound:.0f}")
    memory = _growth(spared)
    if memory.get("grown_mb", 0) > MEMORY_BOUND_MB:
        ledger.accuse(f"the memory of {spared.name} grew by {memory['grown_mb']} MB")
    for agent in world.agents:
        for what, count in agent.failed.items():
            ledger.accuse(f"{agent.name}: an error reached the border to the host {count} times: {what}")
        for said in agent.logged:
            if said.startswith(("ERROR", "CRITICAL")) and "refused and is lost" not in said:
                ledger.accuse(f"{agent.name} logged {said}")
    logged = sum((agent.logged for agent in world.agents), Counter())
    return {
        "faults": dict(soak.schedule.counts.most_common()),
        "verbs": dict(soak.schedule.verb_exits.most_common()),
        "lives": sum(agent.life for agent in world.agents),
        "accepted": dict(ledger.accepted),
        "refused": dict(ledger.refused),
        "unclear": dict(ledger.unclear),
        "recalls": dict(ledger.recalls.most_common()),
        "errors_told": dict(ledger.errors.most_common(20)),
        "stored": {"turns": len(ledger.turns), "facts": len(ledger.facts)},
        "verdict": verdict.counts,
        "times_ms": times,
        "settled_s": {"median": round(statistics.median(soak.settled_s), 1), "worst": round(max(soak.settled_s), 1)},
        "memory": memory,
        "logged": dict(logged.most_common(40)),
        "violations": [*ledger.wrong, *(f"{name}: {each}" for name, found in vars(verdict).items() for each in found)],
    }


def _spread(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    at = {"p50": 0.5, "p99": 0.99, "worst": 1.0}
    return {"calls": len(ordered)} | {
        name: round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2) for name, share in at.items()
    }


def _growth(agent: AgentHandle) -> dict[str, float]:
    """Memory of a process over its life: the last fifth against the second one, for the first is the start."""
    fifth = len(agent.memory_mb) // 5
    if fifth < 3:
        return {}
    early, late = agent.memory_mb[fifth : 2 * fifth], agent.memory_mb[-fifth:]
    (then, now) = (statistics.median(each[1] for each in some) for some in (early, late))
    return {
        "then_mb": round(then, 1),
        "now_mb": round(now, 1),
        "grown_mb": round(now - then, 1),
        "most_threads": max(each[2] for each in agent.memory_mb),
        "most_files": max(each[3] for each in agent.memory_mb),
    }


def show(found: dict[str, Any], minutes: float, seed: int) -> None:
    """The summary."""
    print(f"\n{minutes:g} minutes, seed {seed}, {found['lives']} lives of the agents")
    for title in ("faults", "accepted", "refused", "unclear", "recalls", "verbs"):
        print(f"\n{title}:")
        for name, count in found[title].items():
            print(f"  {count:8d}  {name}")
    print("\nms                      calls       p50       p99     worst")
    for what, spread in found["times_ms"].items():
        print(f"{what:20s} {spread['calls']:8d} {spread['p50']:9.2f} {spread['p99']:9.2f} {spread['worst']:9.2f}")
    print(f"\nuntil all had arrived (s): {found['settled_s']}")
    print(f"memory of the agent that lived all the time: {found['memory']}")
    print(f"verdict: {found['verdict']}")
    for wrong in found["violations"][:40]:
        print(f"VIOLATION {wrong}")


def tables(found: dict[str, Any], minutes: float) -> list[dict[str, Any]]:
    """What benchmarks/page.py puts into a page: what happened and what came of it, and how long calls took."""
    counts = {
        "writes accepted": sum(found["accepted"].values()),
        "of them in memory only, or under way, when their process was killed": sum(found["unclear"].values()),
        "faults": sum(found["faults"].values()),
        "lives of the agents": found["lives"],
        "turns stored": found["stored"]["turns"],
        "recalls": sum(found["recalls"].values()),
        **{what.replace("_", " "): count for what, count in found["verdict"].items()},
        "violations of any kind": len(found["violations"]),
    }
    notes = [
        f"{minutes:g} minutes. Everything had arrived {found['settled_s']['median']} s after all faults had ended, "
        f"at most {found['settled_s']['worst']} s. Memory of the agent that lived all the time: "
        f"{found['memory'].get('then_mb')} MB, later {found['memory'].get('now_mb')} MB."
    ]
    times = [
        {"what": what} | {name if name == "calls" else f"{name}, ms": each for name, each in spread.items()}
        for what, spread in found["times_ms"].items()
    ]
    return [
        {
            "name": "soak",
            "rows": [{"what": what, "count": f"{count:,}"} for what, count in counts.items()],
            "notes": notes,
        },
        {"name": "soak-times", "rows": times, "notes": []},
    ]


@contextmanager
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
            database = server.database()
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
            try:
                yield World(server, database, endpoint, agents, ledger)
            finally:
                for agent in agents:
                    agent.kill()
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
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)

    with world_of(arguments.processes, arguments.seed, arguments.per_s) as world:
        spared = world.agents[0]
        schedule = Schedule(world, arguments.seed, every_s=arguments.fault_every_s, spared=spared)
        soak = Soak(world, schedule, lambda line: print(line, flush=True))
        try:
            verdict = soak.run(arguments.minutes)
        finally:
            schedule.heal()  # what is frozen could not be stopped
        found = figures(soak, verdict, spared, judge_times=not arguments.no_times)
    show(found, arguments.minutes, arguments.seed)
    if arguments.json:
        given = {name: value for name, value in vars(arguments).items() if name != "json"}
        made = {"arguments": given, "tables": tables(found, arguments.minutes)}
        arguments.json.write_text(json.dumps(made | found, indent=1, ensure_ascii=False) + "\n")
    if found["violations"]:
        print(f"\n{len(found['violations'])} violations; again with --seed {arguments.seed}")
    return bool(found["violations"])


if __name__ == "__main__":
    sys.exit(main())
