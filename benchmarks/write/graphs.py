"""What does a row cost by the HNSW index that it goes into: none, that of signatures, that of whole vectors?

A table of turns with generated vectors; into it more rows by COPY, a hundred a transaction, as the drain writes them.
CPU of the backend and WAL for each of these rows, the bytes of the index a row, and the time in which it was built.
Pages are written whole into the WAL after a checkpoint, as on a server by default; there is one before each way.

    graphs.py [--rows N] [--json FILE]
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).resolve().parents[number]) for number in (1, 2)]
sys.path.append(str(Path(__file__).resolve().parents[1] / "scale"))
import common
import population
import psycopg
from exactness import Cpu
from pgvector.psycopg import register_vector
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.admin.common import hnsw
from hermes_memory_pgvector.store.pool import connect

WAYS = ("none", "signatures", "whole vectors")
BATCH = 100


def main() -> None:
    """Load, then write beside each index."""
    options = common.parser(__doc__)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument("--rows", type=int, default=40_000, metavar="N", help="there before")
    options.add_argument("--more", type=int, default=2_000, metavar="N", help="written beside each index")
    options.add_argument("--dims", type=int, default=768, metavar="N")
    args = options.parse_args()
    sizes = population.theme_sizes(args.rows + len(WAYS) * args.more, 50)
    given = population.rows(sizes, args.dims)
    settings = {"max_wal_size": "16GB", "checkpoint_timeout": "1h", "autovacuum": "off", "shared_buffers": "2GB"}
    table = []
    with common.postgres(settings) as postgres:
        admin = make_conninfo(postgres.database(args.dims), user="postgres")
        population.load(admin, itertools.islice(given, args.rows), memory="2GB", graphs=False)
        with psycopg.connect(admin, autocommit=True) as conn:
            register_vector(conn)
            for way in WAYS:
                table.append({"HNSW index": way} | _with(conn, admin, way, itertools.islice(given, args.more)))
    parameters = {"rows": args.rows, "more": args.more, "dims": args.dims}
    common.report("write/graphs", parameters, table, args.json)


def _with(conn: psycopg.Connection[Any], admin: str, way: str, given: Iterator[Any]) -> dict[str, Any]:
    """What the rows `given` cost beside one kind of index."""
    began = time.monotonic()
    with connect(admin) as other:
        if way == "none":
            hnsw.drop(other)
        else:
            hnsw.build(other, admin, lambda *_: None, memory="2GB", full=way == "whole vectors")
    built_s = time.monotonic() - began
    conn.execute("CHECKPOINT")
    rows = list(given)
    cpu, wal = Cpu(conn.info.backend_pid), "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
    cpu_before, wal_before = cpu(), _number(conn, wal)
    for first in range(0, len(rows), BATCH):
        _write(conn, rows[first : first + BATCH])
    index = _number(
        conn,
        "SELECT coalesce(sum(pg_relation_size(indexrelid)), 0) FROM pg_stat_user_indexes"
        " WHERE relname = 'conversations' AND indexrelname LIKE '%_embedding%'",
    )
    return {
        "CPU ms a row": f"{(cpu() - cpu_before) / len(rows):.2f}",
        "WAL KB a row": f"{(_number(conn, wal) - wal_before) / len(rows) / 1024:.1f}",
        "index bytes a row": round(index / _number(conn, "SELECT count(*) FROM conversations")),
        "built in s": round(built_s) if way != "none" else "",
    }


def _write(conn: psycopg.Connection[Any], rows: list[Any]) -> None:
    with conn.cursor().copy(population.COPY) as copy:
        copy.set_types(population.COPY_TYPES)
        for _, theme, text, vector in rows:
            copy.write_row((f"{theme}/1", theme, "user", text, population.START, vector))


def _number(conn: psycopg.Connection[Any], statement: str) -> float:
    row = conn.execute(statement.encode()).fetchone()
    assert row is not None
    return float(row[0])


if __name__ == "__main__":
    main()
