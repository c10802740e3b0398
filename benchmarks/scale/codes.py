"""What do codes of three bits for each number of a vector cost and find, beside the one bit they took the place of?

Themes of 1,000 to 150,000 turns with generated vectors. Asked is about the theme's own topics, and about some that it
never spoke of, where what is near is hard to tell. CPU of the backend for the vector leg as it is shipped, and for the
same two steps over signatures of one bit in an index of their own, with 1,200 and 400 rows compared by their vectors:
the lower quartile, since others may use the machine. Then the bytes a row of each index. A server without parallel
workers, whose CPU nobody would see.

    codes.py [--keep DIR] [--json FILE]      loads for some minutes; with --keep the next run only asks
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).resolve().parents[number]) for number in (0, 1, 2)]
import common
import numpy as np
import population
import psycopg
from exactness import SERVER, Cpu, database
from pgvector import Vector
from pgvector.psycopg import register_vector
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.domain.types import Filters, Scope
from hermes_memory_pgvector.store.backend import Backend
from hermes_memory_pgvector.store.pipeline import Pipeline
from hermes_memory_pgvector.store.vector_search import VectorSearch, as_sent

SIZES = (1_000, 10_000, 50_000, 150_000)
K, LIMIT = 10, 100
SERVER["max_parallel_workers_per_gather"] = "0"
ONE_BIT = """
WITH candidates AS MATERIALIZED (
    SELECT id FROM conversations WHERE agent_identity = %(theme)s AND sig IS NOT NULL
     ORDER BY (sig <~> (SELECT binary_quantize(%(vector)s))) + 0 LIMIT %(depth)s)
SELECT id, 1 - distance AS similarity
  FROM candidates CROSS JOIN LATERAL (
       SELECT embedding <=> %(vector)s AS distance FROM conversations AS t WHERE t.id = candidates.id OFFSET 0) AS near
 ORDER BY distance + 0 LIMIT %(limit)s
"""
EXACT = """
SELECT id FROM conversations WHERE agent_identity = %(theme)s ORDER BY (embedding <=> %(vector)s) + 0 LIMIT %(limit)s
"""
BYTES = """
SELECT c.relname AS index, pg_relation_size(c.oid) AS bytes, (SELECT count(*) FROM conversations) AS rows
  FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
 WHERE i.indrelid = 'conversations'::regclass ORDER BY 1
"""
Ask = Callable[[str, Any], list[int]]


def asked(sizes: dict[str, int], dims: int, each: int) -> Iterator[tuple[str, str, Any]]:
    """(theme, kind, vector) of every question."""
    for theme, vectors in population.questions(sizes, dims, each):
        for vector in vectors:
            yield theme, "own", vector
    mixture, dice = population.Mixture(dims), np.random.default_rng(population.SEED + 4)
    for number, (theme, size) in enumerate(sizes.items(), 1):
        spoken = set(population.Mixture.topics_of(number, 10 * size, np.random.default_rng(0)).tolist())
        others = np.array([topic for topic in range(population.TOPICS) if topic not in spoken])
        for vector in mixture.sample(dice.choice(others, size=each), dice):
            yield theme, "foreign", vector


def in_themes(
    ways: dict[str, tuple[Ask, Cpu]], plain: psycopg.Connection[Any], sizes: dict[str, int], args: argparse.Namespace
) -> list[dict[str, Any]]:
    """A row for each theme and kind of question: recall@10 and CPU of each way."""
    recall: dict[tuple[str, str], list[float]] = {}
    cpu: dict[tuple[str, str], list[float]] = {}
    for theme, kind, vector in asked(sizes, args.dims, args.each):
        row = {"theme": theme, "vector": Vector(vector), "limit": K}
        wanted = {found[0] for found in plain.execute(EXACT, row)}
        for name, (ask, used) in ways.items():
            found = ask(theme, vector)[:K]
            recall.setdefault((theme, f"{kind} {name}"), []).append(len(wanted & set(found)) / K)
            for _ in range(args.rounds):
                before = used()
                ask(theme, vector)
                cpu.setdefault((theme, name), []).append(used() - before)
    return [
        {"theme rows": size}
        | {f"{name}, cpu_ms": f"{statistics.quantiles(cpu[theme, name], n=4)[0]:.1f}" for name in ways}
        | {
            f"{name}, {kind}": f"{statistics.fmean(recall[theme, f'{kind} {name}']):.3f}"
            for name in ways
            for kind in ("own", "foreign")
        }
        for theme, size in sizes.items()
    ]


@contextlib.contextmanager
def ways_to_ask(
    admin: str, plain: psycopg.Connection[Any], dims: int, sizes: dict[str, int]
) -> Iterator[dict[str, tuple[Ask, Cpu]]]:
    """Yield the vector leg and the statements over one bit, each with what measures its backend's CPU."""
    backend = Backend(lambda: make_conninfo(admin, user="hermes"), dims=dims, pool_max_size=1)
    backend.bring_up()

    def shipped(theme: str, vector: Any) -> list[int]:
        pipe = Pipeline()
        with backend.reading(60, pipe):
            scope, sent, rows = Scope("theme", theme), as_sent(vector), sizes[theme]
            found = VectorSearch(pipe, "turns", scope, Filters(), sent, limit=LIMIT, rows=rows)
            return [each.id for each in found.candidates()]

    def one_bit(depth: int) -> Ask:
        def ask(theme: str, vector: Any) -> list[int]:
            row = {"theme": theme, "vector": Vector(vector), "limit": LIMIT, "depth": depth}
            return [found[0] for found in plain.execute(ONE_BIT, row, prepare=True)]

        return ask

    try:
        with backend.connection(60) as conn:
            of_backend = Cpu(conn.info.backend_pid)
        of_plain = Cpu(plain.info.backend_pid)
        yield {
            "codes": (shipped, of_backend),
            "one bit, 1200": (one_bit(1200), of_plain),
            "one bit, 400": (one_bit(400), of_plain),
        }
    finally:
        backend.close()


def main() -> None:
    """Load where needed, ask, print."""
    options = common.parser(__doc__)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument("--dims", type=int, default=768, metavar="N")
    options.add_argument("--each", type=int, default=60, metavar="N", help="questions of each kind a theme")
    options.add_argument("--rounds", type=int, default=2, metavar="N", help="costs are measured over")
    options.add_argument("--keep", type=Path, metavar="DIR", help="a server's directory to use again")
    args = options.parse_args()
    sizes = {f"theme-{size}": size for size in SIZES}
    with contextlib.ExitStack() as stack:
        admin, empty = stack.enter_context(database(args, f"codes_{args.dims}", args.dims))
        if empty:
            population.load(admin, population.rows(sizes, args.dims), memory="2GB", graphs=False)
        plain = stack.enter_context(psycopg.connect(admin, autocommit=True))
        register_vector(plain)
        plain.execute("CREATE INDEX IF NOT EXISTS former_sig_idx ON conversations (agent_identity) INCLUDE (sig, id)")
        plain.execute("VACUUM ANALYZE conversations")
        plain.execute("SET plan_cache_mode = force_generic_plan")
        table = in_themes(stack.enter_context(ways_to_ask(admin, plain, args.dims, sizes)), plain, sizes, args)
        taken = [
            {"index": name, "bytes a row": round(size / rows)} for name, size, rows in plain.execute(BYTES).fetchall()
        ]
        parameters = {"rows": sum(sizes.values()), "dims": args.dims, "each": args.each, "rounds": args.rounds}
        common.report("scale/codes", parameters, table, args.json)
        print()
        common.report("scale/codes", parameters, taken, None)


if __name__ == "__main__":
    main()
