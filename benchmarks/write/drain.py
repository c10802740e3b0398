"""How fast accepted writes reach Postgres, beside a loop that embeds and inserts row by row, and a bare binary COPY."""

from __future__ import annotations

import functools
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))
import common
import httpx
import psycopg
from pgvector import Vector
from pgvector.psycopg import register_vector

DIMS = 768
MODEL = "bench"


def ours(server: common.Postgres, url: str, turns: int, themes: int) -> float:
    """Rows a second from the first hook to the last row, through a provider for each theme."""
    config = {"dsn": server.database(DIMS), "dims": DIMS, "embed_url": url, "embed_model": MODEL, "spool_max_mb": 2000}
    with common.provider(config) as first:
        assert first.runtime is not None
        made = [first]
        for number in range(1, themes):
            more = type(first)(config)
            about = {"hermes_home": str(first.runtime.home), "platform": "api_server"}
            more.initialize("session", **about, gateway_session_key=f"bench-{number}")
            made.append(more)
        first.sync_turn(*common.turn(-1))
        assert first.runtime.writer.flush(60)
        started = time.perf_counter()
        for number in range(turns):
            made[number % themes].sync_turn(*common.turn(number))
        assert first.runtime.writer.flush(600)
        took_s = time.perf_counter() - started
        for each in made[1:]:
            each.shutdown()
        return 2 * turns / took_s


def row_at_a_time(server: common.Postgres, url: str, turns: int) -> float:
    """The naive way over the same schema and endpoint: for each row one request, one insert, one commit."""
    with httpx.Client() as client, psycopg.connect(server.database(DIMS), autocommit=True) as conn:
        register_vector(conn)
        started = time.perf_counter()
        for number in range(turns):
            for role, text in zip(("user", "assistant"), common.turn(number), strict=True):
                reply = client.post(url, json={"model": MODEL, "input": [text]}).json()
                conn.execute(
                    "INSERT INTO conversations (session_id, agent_identity, role, content, embedding) "
                    "VALUES ('session', 'bench', %s, %s, %s)",
                    (role, text, Vector(reply["embeddings"][0])),
                )
        return 2 * turns / (time.perf_counter() - started)


def bare_copy(server: common.Postgres, url: str, turns: int) -> float:
    """The floor: the same vectors at hand, one binary COPY and one commit for each batch of 64 turns."""
    texts = [
        (role, text) for n in range(turns) for role, text in zip(("user", "assistant"), common.turn(n), strict=True)
    ]
    vectors: list[Vector] = []
    for first in range(0, len(texts), 128):
        asked = [text for _, text in texts[first : first + 128]]
        reply = httpx.post(url, json={"model": MODEL, "input": asked}, timeout=60).json()
        vectors += [Vector(each) for each in reply["embeddings"]]
    with psycopg.connect(server.database(DIMS), autocommit=True) as conn:
        register_vector(conn)
        started = time.perf_counter()
        for first in range(0, len(texts), 128):
            with conn.cursor().copy(
                "COPY conversations (session_id, agent_identity, role, content, embedding) FROM STDIN (FORMAT binary)"
            ) as copy:
                copy.set_types(["text", "text", "text", "text", "vector"])
                for index, (role, text) in enumerate(texts[first : first + 128], first):
                    copy.write_row(("session", "bench", role, text, vectors[index]))
        return len(texts) / (time.perf_counter() - started)


def main() -> None:
    """Measure in turn, and print the medians and ratios."""
    options = common.parser(__doc__)
    options.add_argument("--turns", type=int, default=600, metavar="N", help="of two rows each, for us and for COPY")
    options.add_argument("--naive-turns", type=int, default=100, metavar="N", help="for the row-at-a-time loop")
    options.add_argument("--themes", type=int, default=8, metavar="N", help="for the row with several")
    options.add_argument("--endpoint-ms", type=float, nargs="+", default=[20, 0], metavar="MS")
    options.add_argument("--rounds", type=int, default=3, metavar="N")
    args = options.parse_args()
    rows: list[dict[str, Any]] = []
    with common.postgres() as server:
        for latency_ms in args.endpoint_ms:
            with common.endpoint(DIMS, latency_ms, "sentences") as url:
                ways: dict[str, Callable[[], float]] = {
                    "bare COPY": functools.partial(bare_copy, server, url, args.turns),
                    "provider": functools.partial(ours, server, url, args.turns, 1),
                    f"provider, {args.themes} themes": functools.partial(ours, server, url, args.turns, args.themes),
                    "row at a time": functools.partial(row_at_a_time, server, url, args.naive_turns),
                }
                measured: dict[str, list[float]] = {way: [] for way in ways}
                for _ in range(args.rounds):
                    for way, measure in ways.items():
                        measured[way].append(measure())
            naive = statistics.median(measured["row at a time"])
            floor = statistics.median(measured["bare COPY"])
            for way, speeds in measured.items():
                median = statistics.median(speeds)
                rows.append(
                    {
                        "endpoint_ms": latency_ms,
                        "way": way,
                        "rows_per_s": round(median),
                        "min": round(min(speeds)),
                        "max": round(max(speeds)),
                        "times_row_at_a_time": round(median / naive, 1),
                        "cost_to_copy": round(floor / median, 2),
                    }
                )
    parameters = {"turns": args.turns, "naive_turns": args.naive_turns, "rounds": args.rounds, "dims": DIMS}
    parameters |= {"themes": args.themes}
    common.report("write/drain", parameters, rows, args.json)


if __name__ == "__main__":
    main()
