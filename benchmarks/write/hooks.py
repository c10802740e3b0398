"""What a hook costs the agent, beside a bare insert into a SQLite file of the same settings."""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))
import common

DIMS = 384
# After 0.2 s the drain sleeps again, after 20 ms it may be at work. What runs after a pause finds cold caches, the
# floor as well: `nothing` is the call alone.
PAUSES = {"0.2 s apart": (200, 0.2), "20 ms apart": (500, 0.02)}


def timed(calls: int, call: Callable[[int], object], first: int = 0, pause_s: float = 0.0) -> dict[str, float]:
    """The duration of each of `calls` calls, in microseconds, after a pause each."""
    durations = []
    for number in range(first, first + calls):
        time.sleep(pause_s)
        started = time.perf_counter_ns()
        call(number)
        durations.append((time.perf_counter_ns() - started) / 1000)
    return common.spread(durations)


def bare_insert(calls: int, pause_s: float = 0.0) -> dict[str, float]:
    """The floor: one row of the same size into a WAL file, synchronous=NORMAL, never checkpointed."""
    with tempfile.TemporaryDirectory() as folder:
        conn = sqlite3.connect(Path(folder) / "floor.db", isolation_level=None)
        conn.execute("PRAGMA journal_mode=WAL")
        conn.execute("PRAGMA synchronous=NORMAL")
        conn.execute("PRAGMA wal_autocheckpoint=0")
        conn.execute("CREATE TABLE operations (seq INTEGER PRIMARY KEY AUTOINCREMENT, payload TEXT NOT NULL)")
        payload = "".join(common.turn(1)) + "x" * 300
        measured = timed(
            calls, lambda _: conn.execute("INSERT INTO operations (payload) VALUES (?)", (payload,)), 0, pause_s
        )
        conn.close()
    return measured


def main() -> None:
    """Measure and print."""
    options = common.parser(__doc__)
    options.add_argument("--calls", type=int, default=3000, metavar="N")
    options.add_argument("--backlog", type=int, default=10_000, metavar="N", help="writes that wait, for a full queue")
    args = options.parse_args()
    rows: list[dict[str, Any]] = []

    def add(state: str, hook: str, figures: dict[str, float]) -> None:
        rows.append({"state": state, "hook": hook} | {f"{key}_us": value for key, value in figures.items()})

    floors = {"": bare_insert(args.calls)} | {name: bare_insert(*pause) for name, pause in PAUSES.items()}
    for name, floor in floors.items():
        add(f"floor {name}".strip(), "bare SQLite insert", floor)
    add("floor 20 ms apart", "nothing", timed(500, lambda _: None, pause_s=0.02))
    with common.postgres() as server:
        dsn = server.database(DIMS)
        with common.endpoint(DIMS, 0) as url:
            config = {"dsn": dsn, "dims": DIMS, "embed_url": url, "spool_max_mb": 2000}
            with common.provider(config) as made:
                assert made.runtime is not None
                made.sync_turn(*common.turn(-1))
                made.runtime.writer.flush(60)

                def idle(number: int) -> None:
                    made.sync_turn(*common.turn(number))

                def remember(number: int) -> None:
                    made.on_memory_write("add", "memory", f"Fact {number}: " + common.turn(number)[1])

                for number, (name, (calls, pause_s)) in enumerate(PAUSES.items(), 1):
                    first = 1_000_000 * number
                    add(name, "sync_turn", timed(calls, idle, first, pause_s))
                    add(name, "on_memory_write", timed(calls, remember, first, pause_s))
                add("drain at work", "sync_turn", timed(args.calls, idle, first=1000))
                add("drain at work", "on_memory_write", timed(args.calls, remember))
                add(f"queue full of {args.backlog:,}", "sync_turn", _with_backlog(made, args.calls, args.backlog))
                made.runtime.writer.flush(600)
                add(
                    "warm",
                    "initialize",
                    timed(
                        300,
                        lambda n: type(made)(config).initialize(
                            f"s{n}",
                            hermes_home=str(made.runtime.home),
                            platform="api_server",
                            gateway_session_key="bench",
                        ),
                    ),
                )
    with common.provider({"dsn": "host=/nonexistent dbname=none", "dims": DIMS}) as made:
        add("Postgres down", "sync_turn", timed(args.calls, lambda n: made.sync_turn(*common.turn(n))))
    for row in rows:
        row["p50_to_floor"] = round(
            row["p50_us"] / floors.get(row["state"].removeprefix("floor "), floors[""])["p50"], 1
        )
    common.report("write/hooks", {"calls": args.calls, "dims": DIMS}, rows, args.json)


def _with_backlog(made: Any, calls: int, backlog: int) -> dict[str, float]:
    for number in range(100_000, 100_000 + backlog):
        made.sync_turn(*common.turn(number))
    return timed(calls, lambda n: made.sync_turn(*common.turn(n)), first=200_000)


if __name__ == "__main__":
    main()
