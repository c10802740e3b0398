"""How fast accepted writes reach Postgres, beside a loop that embeds and inserts row by row, and a bare binary COPY."""

from __future__ import annotations

import statistics
import sys
import time
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


def ours(server: common.Postgres, url: str, turns: int) -> float:
    """Rows a second from the first hook to the last row, through the provider."""
    config = {"dsn": server.database(DIMS), "dims": DIMS, "embed_url": url, "embed_model": MODEL, "spool_max_mb": 2000}
    with common.provider(config) as made:
        assert made.runtime is not None
        made.sync_turn(*common.turn(-1))
        assert made.runtime.writer.flush(60)
        started = time.perf_counter()
        for number in range(turns):
            made.sync_turn(*common.turn(number))
        assert made.runtime.writer.flush(600)
        return 2 * turns / (time.perf_counter() - started)


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
    """The floor: vectors at hand, one binary COPY and one commit for each batch of 64 turns."""
    texts = [
        (role, text) for n in range(turns) for role, text in zip(("user", "assistant"), common.turn(n), strict=True)
    ]
    vectors = httpx.post(url, json={"model": MODEL, "input": [text for _, text in texts[:64]]}).json()["embeddings"]
    with psycopg.connect(server.database(DIMS), autocommit=True) as conn:
        register_vector(conn)
        started = time.perf_counter()
        for first in range(0, len(texts), 128):
            with conn.cursor().copy(
                "COPY conversations (session_id, agent_identity, role, content, embedding) FROM STDIN (FORMAT binary)"
            ) as copy:
                copy.set_types(["text", "text", "text", "text", "vector"])
                for index, (role, text) in enumerate(texts[first : first + 128]):
                    copy.write_row(("session", "bench", role, text, Vector(vectors[index % 64])))
        return len(texts) / (time.perf_counter() - started)


def main() -> None:
    """Measure in turn, and print the medians and ratios."""
    options = common.parser(__doc__)
    options.add_argument("--turns", type=int, default=600, metavar="N", help="of two rows each, for us and for COPY")
    options.add_argument("--naive-turns", type=int, default=100, metavar="N", help="for the row-at-a-time loop")
    options.add_argument("--rounds", type=int, default=3, metavar="N")
    args = options.parse_args()
    rows: list[dict[str, Any]] = []
    with common.postgres() as server:
        for latency_ms in (20, 0):
            with common.endpoint(DIMS, latency_ms) as url:
                measured: dict[str, list[float]] = {"provider": [], "row at a time": [], "bare COPY": []}
                for _ in range(args.rounds):
                    measured["provider"].append(ours(server, url, args.turns))
                    measured["row at a time"].append(row_at_a_time(server, url, args.naive_turns))
                    measured["bare COPY"].append(bare_copy(server, url, args.turns))
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
    common.report("write/drain", parameters, rows, args.json)


if __name__ == "__main__":
    main()
