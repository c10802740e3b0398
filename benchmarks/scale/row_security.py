"""What row-level security costs: recall of one theme and of all, and the drain with and without vectors.

The same is asked by turns of one database: as the gateway's role without row-level security ("off"), as the same role
with it ("every theme"), and as a role that has three of the themes ("tenant"). What is given is the median of the
ratios to "off", round by round, and their middle half; "again" is "off" a second time, for the noise.
"""

from __future__ import annotations

import contextlib
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path += map(str, Path(__file__).resolve().parents[:3])
import common
import psycopg
from psycopg.conninfo import make_conninfo
from words import COMMON, VOCABULARY, texts

from hermes_memory_pgvector.admin.common import row_security
from hermes_memory_pgvector.domain.operations import Message, StoreTurn
from hermes_memory_pgvector.domain.types import EmbeddingSpace, Filters, Scope
from hermes_memory_pgvector.store.backend import Backend
from hermes_memory_pgvector.store.pipeline import Pipeline
from hermes_memory_pgvector.store.pool import connect
from hermes_memory_pgvector.store.vector_search import as_sent, ask_hits, ask_neighbours
from tests.support.candidates import lexical_candidates, vector_candidates

DIMS = 384
THEMES = 20  # of equal share
OWN = ("theme-1", "theme-2", "theme-3")
READ, WRITTEN = OWN[0], OWN[2]
SPACE = EmbeddingSpace("bench", DIMS)
QUESTIONS = (
    "barnacle", "sextant lighthouse", f"{COMMON} {VOCABULARY[40]}",
    f"{COMMON} {VOCABULARY[3]} {VOCABULARY[300]} sextant",
    f'"{VOCABULARY[2]} {COMMON}" {VOCABULARY[60]}',
)  # fmt: skip


def load(admin: str, rows: int) -> None:
    """Fill the table with rows of random vectors."""
    dice = random.Random(common.SEED)
    with psycopg.connect(admin, autocommit=True) as conn:
        conn.execute("DROP INDEX conversations_embedding_idx")
        columns = "session_id, agent_identity, role, content, ts"
        with conn.cursor().copy(f"COPY conversations ({columns}) FROM STDIN".encode()) as copy:
            for number, text in enumerate(texts(rows, dice)):
                # In blocks, as sessions come.
                theme = f"theme-{number // 50 % THEMES + 1}"
                copy.write_row((f"s{number // 50}", theme, "user", text, f"2025-01-01 00:00:{number % 60:02}"))
        conn.execute(
            "UPDATE conversations SET embedding = v FROM (SELECT n, array_agg(sin(n * 12.9898 + d * 78.233))::vector"
            f" AS v FROM generate_series(0, 999) AS n, generate_series(1, {DIMS}) AS d GROUP BY n) AS made"
            " WHERE n = id % 1000"
        )
        conn.execute("VACUUM (FULL, ANALYZE) conversations")
        conn.execute("VACUUM conversations")
        conn.execute(
            "CREATE INDEX conversations_embedding_idx ON conversations USING hnsw (sig bit_hamming_ops)"
            " WITH (m = 16, ef_construction = 64)"
        )


def recall(backend: Backend, scope: Scope, text: str, vector: list[float]) -> int:
    """Both legs, the rows behind them and their neighbours, as one question reads them."""
    with backend.connection(60) as conn:
        conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")  # as a question has it
        words = lexical_candidates(conn, "turns", scope, Filters(), text, limit=40)
        near = vector_candidates(conn, "turns", scope, Filters(), vector, limit=40)
        ids = [each.id for each in [*words, *near]][:60]
        pipe = Pipeline(conn)
        found = [row.id for row in ask_hits(pipe, "turns", scope, ids, as_sent(vector), "")]
        ask_neighbours(pipe, scope, found[:10], reach=2).all()
    return len(found)


def batch(numbers: range, theme: str) -> list[StoreTurn]:
    """Turns as the drain writes them together."""
    ops = []
    for number in numbers:
        said = common.turn(number)
        messages = tuple(Message(role, text) for role, text in zip(("user", "assistant"), said, strict=True))
        ops.append(StoreTurn(theme=theme, at=time.time(), session_id="bench", messages=messages))
    return ops


def vectors(ops: list[StoreTurn], dice: random.Random) -> dict[str, list[float]]:
    """One for each message."""
    said = (text for op in ops for text in op.texts())
    return {text: [dice.gauss(0, 1) for _ in range(DIMS)] for text in said}


def milliseconds(act: Callable[[], object]) -> float:
    """How long it takes once."""
    started = time.perf_counter()
    act()
    return (time.perf_counter() - started) * 1000


def main() -> None:
    """Load, measure by turns, print."""
    options = common.parser(__doc__)
    options.add_argument("--rows", type=int, default=100_000, metavar="N", help="in the table, of 20 themes")
    options.add_argument("--rounds", type=int, default=12, metavar="N", help="of each question and batch")
    args = options.parse_args()
    dice = random.Random(common.SEED)
    with contextlib.ExitStack() as stack:
        postgres = stack.enter_context(common.postgres())
        dsn = postgres.database(DIMS)
        admin = make_conninfo(dsn, user="postgres")
        load(admin, args.rows)
        with connect(admin) as conn:
            # A role that may become the tenant: the private server lets no other in.
            conn.execute("CREATE ROLE tenant")
            conn.execute("GRANT tenant TO hermes WITH INHERIT FALSE")
            row_security.enable(conn)
            row_security.grant(conn, "tenant", OWN)
            row_security.disable(conn)
        backends = {
            name: Backend(lambda dsn=where: dsn, dims=DIMS, pool_max_size=1)
            for name, where in (
                ("off", dsn), ("again", dsn), ("every theme", dsn),
                ("tenant", make_conninfo(dsn, options="-c role=tenant")),
            )
        }  # fmt: skip
        taken: dict[tuple[str, str], list[list[float]]] = {}
        written = 0
        for name in ("off", "again"):
            backends[name].bring_up()
        for turn in range(args.rounds + 2):
            vector = [dice.gauss(0, 1) for _ in range(DIMS)]
            for name in ("off", "again", "every theme", "tenant"):
                with connect(admin) as conn:
                    (row_security.disable if name in ("off", "again") else row_security.enable)(conn)
                    if name == "off":
                        conn.execute("ANALYZE conversations")  # it brings the statistics back that were taken away
                backend = backends[name]
                backend.bring_up()
                backend.claim_space(SPACE)
                for scope in (Scope("theme", READ), Scope("all", READ)):
                    # Once to plan again, which a change of the tables makes necessary.
                    for text in QUESTIONS:
                        recall(backend, scope, text, vector)
                    for text in QUESTIONS:
                        cost = milliseconds(lambda b=backend, s=scope, t=text, v=vector: recall(b, s, t, v))
                        taken.setdefault((f"recall, {scope.kind}", name), [[] for _ in range(args.rounds + 2)])[
                            turn
                        ].append(cost)
                for embedded in (False, True):
                    what = f"drain, 64 turns, {'with' if embedded else 'without'} vectors"
                    for _ in range(4):
                        ops = batch(range(written, written + 64), WRITTEN)
                        made = vectors(ops, dice) if embedded else {}
                        written += 64
                        cost = milliseconds(lambda b=backend, o=ops, m=made: b.apply(o, m))
                        taken.setdefault((what, name), [[] for _ in range(args.rounds + 2)])[turn].append(cost)
        table = _table(taken)
        for backend in backends.values():
            backend.close()
    common.report("row_security", {"rows": args.rows, "rounds": args.rounds, "themes": THEMES}, table, args.json)


def _table(taken: dict[tuple[str, str], list[list[float]]]) -> list[dict[str, Any]]:
    """One row a kind of work; the first two rounds warmed up."""
    table = []
    for what in dict.fromkeys(what for what, _ in taken):
        rounds = {
            name: [sum(each) / len(each) for each in taken[what, name][2:]]
            for _, name in taken
            if (what, name) in taken
        }
        row: dict[str, Any] = {"what": what, "off_ms": round(statistics.median(rounds["off"]), 2)}
        for name in ("again", "every theme", "tenant"):
            ratios = sorted(there / off for there, off in zip(rounds[name], rounds["off"], strict=True))
            quarter = len(ratios) // 4
            row[name] = f"{statistics.median(ratios):.2f} ({ratios[quarter]:.2f}-{ratios[-1 - quarter]:.2f})"
        table.append(row)
    return table


if __name__ == "__main__":
    main()
