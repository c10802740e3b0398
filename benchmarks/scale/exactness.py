"""Is recall by meaning exact at any size, and what does it cost beside the bare SQL?

A table of 1,000,000 turns in 500 themes of 10 to 193,000 rows, with generated vectors; or, with --sentences, real
sentences and their real vectors. Recall@10 counts, of the ten rows an exact scan finds, those that the product finds.
CPU time of the backend stands beside that of the two-step statement (codes, then exact) sent by plain psycopg.

    exactness.py --keep DIR                  the first run loads and indexes, for half an hour; later ones only ask
    exactness.py --sentences --data FILE     locomo10.json, or a text file with a sentence a line; needs --model-dir
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).resolve().parents[number]) for number in (0, 1, 2)]
import common
import population
import psycopg
import sentences
from pgvector.psycopg import register_vector
from psycopg.conninfo import make_conninfo
from truth import Asked, K, find_truth, share

from hermes_memory_pgvector.admin.common.migrations import migrate
from hermes_memory_pgvector.domain.types import Filters, Scope
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.store import vector_search
from hermes_memory_pgvector.store.backend import Backend
from tests.support.candidates import vector_candidates

NEVER = 10**12  # rows of a table
SERVER = {
    "shared_buffers": "2GB",
    "max_wal_size": "16GB",
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",  # nothing is written after the load
    "dynamic_shared_memory_type": "posix",
}
BARE = """
WITH candidates AS MATERIALIZED (
    SELECT id FROM conversations WHERE agent_identity = %(theme)s AND code IS NOT NULL
     ORDER BY code <~> (SELECT hermes_code(%(vector)s)) LIMIT %(depth)s)
SELECT t.id, 1 - (t.embedding <=> %(vector)s) AS similarity
  FROM candidates JOIN conversations AS t USING (id)
 ORDER BY (t.embedding <=> %(vector)s) + 0 LIMIT %(limit)s
"""


class Cpu:
    """CPU milliseconds of one backend and of the parallel workers that have ended."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._parent = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])

    def __call__(self) -> float:
        """So far."""
        own = int(Path(f"/proc/{self._pid}/schedstat").read_text().split()[0]) / 1e6
        ended = Path(f"/proc/{self._parent}/stat").read_text().rsplit(")", 1)[1].split()[13:15]
        return own + sum(map(int, ended)) * 1000 / os.sysconf("SC_CLK_TCK")


def in_themes(
    backend: Any, plain: psycopg.Connection[Any], asked: Sequence[Asked], rounds: int
) -> list[dict[str, Any]]:
    """Per bucket: recall of the theme's leg, and its CPU beside that of the bare statement for the same rows."""
    table = []
    for bucket, group in _buckets(asked).items():
        recall, cpu = [], {"product": 0.0, "bare": 0.0}
        of_plain = Cpu(plain.info.backend_pid)
        for turn in range(rounds + 1):
            if turn == 1:  # the first round warms up
                cpu = dict.fromkeys(cpu, 0.0)
            for one in group:
                with backend.connection(60) as conn:
                    of_backend = Cpu(conn.info.backend_pid)
                before = of_backend()
                with backend.connection(60) as conn:
                    found = vector_candidates(
                        conn, "turns", Scope("theme", one.theme), Filters(), one.vector.tolist(), limit=40
                    )
                cpu["product"] += of_backend() - before
                before = of_plain()
                plain.execute(BARE, one.row(), prepare=True).fetchall()
                cpu["bare"] += of_plain() - before
                if turn == 0:
                    recall.append(share(found, one.here, one.wanted))
        calls = rounds * len(group)
        table.append(
            {
                "theme rows": bucket,
                "themes": len({one.theme for one in group}),
                "questions": len(group),
                "recall@10": f"{statistics.fmean(recall):.4f}",
                "cpu_ms": round(cpu["product"] / calls, 2),
                "bare_cpu_ms": round(cpu["bare"] / calls, 2),
                "ratio": round(cpu["product"] / cpu["bare"], 2),
            }
        )
    return table


def in_all(backend: Backend, asked: Sequence[Asked]) -> list[dict[str, Any]]:
    """Across all themes: the signatures, and the graph where there is one; its breadth as it is and around that."""
    table = []
    legs = [("signatures", NEVER, vector_search.BREADTH), *(("graph", 0, breadth) for breadth in (200, 400, 1000))]
    chosen = vector_search.BREADTH
    for name, graph_rows, breadth in legs:
        vector_search.BREADTH = breadth
        recall, taken, cpu = [], [], []
        for one in asked:
            with backend.connection(60) as conn:
                used = Cpu(conn.info.backend_pid)
                cpu_before, before = used(), time.perf_counter()
                found = vector_candidates(
                    conn, "turns", Scope("all", ""), Filters(), one.vector.tolist(), limit=40, graph_rows=graph_rows
                )
                taken.append((time.perf_counter() - before) * 1000)
                cpu.append(used() - cpu_before)
            recall.append(share(found, one.anywhere, K))
        table.append(
            {
                "all themes by": name if graph_rows else f"{name}, breadth {breadth}{'*' if breadth == chosen else ''}",
                "questions": len(asked),
                "recall@10": f"{statistics.fmean(recall):.4f}",
                "p50_ms": round(statistics.median(taken), 1),
                "cpu_p50_ms": round(statistics.median(cpu), 1),
            }
        )
    vector_search.BREADTH = chosen
    return table


def _buckets(asked: Sequence[Asked]) -> dict[str, list[Asked]]:
    groups: dict[str, list[Asked]] = defaultdict(list)
    for one in sorted(asked, key=lambda one: int(one.bucket.split("-")[0].split()[0].replace(",", ""))):
        groups[one.bucket].append(one)
    return groups


def questions(sizes: dict[str, int], dims: int, themes: int, each: int) -> list[Asked]:
    """`each` questions about up to `themes` themes of every bucket, with words that stand in the rows."""
    words, per_bucket, asked = common_words(), defaultdict(int), []
    for theme, vectors in population.questions(sizes, dims, each):
        bucket = population.bucket_of(sizes[theme])
        per_bucket[bucket] += 1
        if per_bucket[bucket] <= themes:
            asked += [Asked(theme, sizes[theme], f"{next(words)} {len(asked)}", vector) for vector in vectors]
    return asked


def common_words() -> Iterator[str]:
    """Texts like those of the rows."""
    import random

    dice = random.Random(population.SEED + 3)
    while True:
        yield population.sentence(dice)


@contextlib.contextmanager
def database(args: argparse.Namespace, name: str, dims: int) -> Iterator[tuple[str, bool]]:
    """The admin's conninfo of a database of that name on a server of our own, and whether it must be loaded."""
    with contextlib.ExitStack() as stack:
        if args.keep:
            server = EmbeddedServer(args.keep, settings=SERVER)
            stack.callback(server.release)
        else:
            server = stack.enter_context(common.postgres(SERVER)).server
        admin = server.ensure().admin
        with psycopg.connect(admin, autocommit=True) as conn:
            known = conn.execute("SELECT FROM pg_database WHERE datname = %s", (name,)).fetchone()
            if known is None:
                conn.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())
        own = make_conninfo(admin, dbname=name)
        migrate(own, dims=dims, runtime_role="hermes")
        with psycopg.connect(own) as conn:
            row = conn.execute("SELECT count(*) FROM (SELECT FROM conversations LIMIT 1) AS first_row").fetchone()
        yield own, row == (0,)


def main() -> None:
    """Load where needed, ask, print."""
    options = common.parser(__doc__)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument("--rows", type=int, default=1_000_000, metavar="N")
    options.add_argument("--themes", type=int, default=500, metavar="N")
    options.add_argument("--dims", type=int, default=768, metavar="N")
    options.add_argument("--ask-themes", type=int, default=12, metavar="N", help="of each size are asked about")
    options.add_argument("--each", type=int, default=5, metavar="N", help="questions a theme")
    options.add_argument("--rounds", type=int, default=3, metavar="N", help="costs are measured over")
    options.add_argument("--build-memory", default="5GB", metavar="SIZE", help="maintenance_work_mem of index builds")
    options.add_argument(
        "--keep", type=Path, metavar="DIR", help="a server's directory to use again, loaded when empty"
    )
    options.add_argument("--only", choices=("themes", "all"), action="append", metavar="PART")
    sentences.add_options(options)
    args = options.parse_args()
    parts = args.only or ["themes", "all"]
    with contextlib.ExitStack() as stack:
        if args.sentences:
            stored, asked = sentences.read(args.data, args.model_dir, args.cache, Asked)
            dims, name = stored.dims, f"sentences_{len(stored.rows)}"
            sizes, rows = stored.sizes, stored.rows
        else:
            dims, name = args.dims, f"fleet_{args.rows}_{args.dims}"
            sizes = population.theme_sizes(args.rows, args.themes)
            asked, rows = questions(sizes, dims, args.ask_themes, args.each), population.rows(sizes, dims)
        admin, empty = stack.enter_context(database(args, name, dims))
        if empty:
            population.load(admin, rows, memory=args.build_memory)
        find_truth(admin, asked)
        plain = stack.enter_context(psycopg.connect(make_conninfo(admin, user="hermes"), autocommit=True))
        register_vector(plain)
        backend = Backend(lambda: make_conninfo(admin, user="hermes"), dims=dims, pool_max_size=1)
        stack.callback(backend.close)
        backend.bring_up()
        tables = []
        if "themes" in parts:
            tables.append(in_themes(backend, plain, asked, args.rounds))
        if "all" in parts:
            tables.append(in_all(backend, asked))
        for table in tables:
            print()
            common.report("scale/exactness", {"rows": sum(sizes.values()), "dims": dims}, table, None)
        everything = [row for table in tables for row in table]
        if args.json:
            common.report("scale/exactness", {"rows": sum(sizes.values()), "dims": dims}, everything, args.json)


if __name__ == "__main__":
    main()
