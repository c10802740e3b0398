"""What grows when the table grows: load, index, disk, recall, drain, vacuum and the operator's verbs at each size.

The embedded server as it ships, one table that is filled up to one size after the other: the HNSW indexes are dropped,
turns come in by COPY, the indexes are built as `hermes-pgvector index build` does, and everything is measured. Seconds
of CPU say more than those on a clock where others use the machine too. `law.py` reads the figures.

    growth.py --keep DIR --json rows.json                              10,000 rows to 1,000,000, for an hour
    growth.py --keep DIR --rows 100000 --themes 50 --json themes.json  a table of its own beside it
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).resolve().parents[number]) for number in (0, 1, 2)]
import common
import numpy as np
import psycopg
import table
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.admin.common import hnsw
from hermes_memory_pgvector.admin.common.migrations import migrate
from hermes_memory_pgvector.admin.common.new_vectors import admin_connection
from hermes_memory_pgvector.admin.common.progress import building
from hermes_memory_pgvector.admin.index.build_memory import build_memory
from hermes_memory_pgvector.domain.types import Filters, Scope
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from tests.support.candidates import vector_candidates

PARTS = ("recall", "drain", "verbs", "vacuum")
QUESTIONS = 8  # a scope
POOL = 2_000  # vectors the endpoint gives to texts it does not know
NEVER = 10**12  # rows of a table
VERBS = (
    ("status",),
    ("doctor",),
    ("stats",),
    ("themes", "list"),
    ("sessions", "list", "--theme", table.LARGEST),
    ("list", "--store", "turns", "--theme", table.LARGEST, "--limit", "20"),
    ("search", f"{table.population.VOCABULARY[3]} {table.population.VOCABULARY[300]}", "--theme", table.LARGEST),
    ("prune", "--all-themes", "--older-than", "2024-01-01"),
)
_CLI = "import sys; from hermes_memory_pgvector.cli import main; sys.exit(main())"
_SIZES = """
SELECT (pg_relation_size('conversations') + pg_relation_size('conversations', 'vm')
        + pg_relation_size('conversations', 'fsm')) AS heap, pg_total_relation_size(reltoastrelid) AS toast
  FROM pg_class WHERE oid = 'conversations'::regclass"""


@contextlib.contextmanager
def server(keep: Path | None) -> Iterator[EmbeddedServer]:
    """The embedded server with its own settings, in `keep` or for this run only."""
    if keep is None:
        with common.postgres() as made:
            yield made.server
        return
    keep.parent.mkdir(parents=True, exist_ok=True)
    kept = EmbeddedServer(keep)
    kept.ensure()
    try:
        yield kept
    finally:
        kept.release()


def database(admin: str, name: str, dims: int) -> str:
    """The admin's conninfo of a migrated database, as it is or new."""
    with psycopg.connect(admin, autocommit=True) as conn:
        if conn.execute("SELECT FROM pg_database WHERE datname = %s", (name,)).fetchone() is None:
            conn.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())
    own = make_conninfo(admin, dbname=name)
    migrate(own, dims=dims, runtime_role="")
    with psycopg.connect(own) as conn:
        granted = conn.execute("SELECT has_table_privilege('hermes', 'conversations', 'SELECT')").fetchone()
    if granted != (True,):
        migrate(own, dims=dims, runtime_role="hermes")
    return own


@contextlib.contextmanager
def endpoint(rows: table.Rows, asked: dict[str, list[tuple[str, Any]]]) -> Iterator[str]:
    """An endpoint that answers at once: a question with its vector, another text with one such as sentences have."""
    with tempfile.TemporaryDirectory(prefix="hermes-growth-") as folder:
        pool, known = Path(folder, "pool"), Path(folder, "known.npz")
        dice = np.random.default_rng((table.SEED, 7))
        vectors = rows.mixture.sample(dice.integers(0, 2_000, POOL), dice)
        pool.write_text("".join(json.dumps([round(float(x), 6) for x in each]) + "\n" for each in vectors))
        every = [one for group in asked.values() for one in group]
        np.savez(known, texts=np.array([text for text, _ in every]), vectors=np.array([vector for _, vector in every]))
        script = Path(__file__).resolve().parents[1] / "peers" / "embedder.py"
        command = [sys.executable, "-P", str(script), "0", str(pool), str(known)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/api/embed"
        finally:
            process.terminate()
            process.wait(10)


def sizes(conn: psycopg.Connection[Any]) -> dict[str, float]:
    """MB of the table and of each of its indexes."""
    found = conn.execute(_SIZES.encode()).fetchone()
    assert found is not None
    mb = {"table MB": found[0], "vectors MB": found[1]}
    for name, size in conn.execute(
        "SELECT relname, pg_relation_size(oid) FROM pg_class WHERE oid IN"
        " (SELECT indexrelid FROM pg_index WHERE indrelid = 'conversations'::regclass)"
    ):
        mb[f"{name.removeprefix('conversations_').removesuffix('_idx')} index MB"] = size
    row = conn.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    mb["all MB"] = row[0]
    return {name: round(size / 2**20, 1) for name, size in mb.items()}


def clocked(name: str, watcher: table.Watcher) -> dict[str, Any]:
    """What was watched, for the table."""
    return {
        f"{name} s": round(watcher.wall_s, 2),
        f"{name} cpu s": round(watcher.cpu_s, 2),
        f"{name} backend MB": round(watcher.own_mb),
    }


class Asking:
    """Questions to one provider, each once to warm up and then `rounds` times, on the clock and by the server's CPU."""

    def __init__(self, provider: PgvectorMemoryProvider, postmaster: int, rounds: int) -> None:
        assert provider.runtime is not None
        self._provider, self._runtime = provider, provider.runtime
        self._postmaster, self._rounds = postmaster, rounds

    def _timed(self, name: str, asked: list[tuple[str, Any]], call: Callable[[str, Any], object]) -> dict[str, Any]:
        for text, vector in asked:
            call(text, vector)
        taken = []
        with table.Watcher(self._postmaster) as watcher:
            for _ in range(self._rounds):
                for text, vector in asked:
                    began = time.perf_counter()
                    call(text, vector)
                    taken.append((time.perf_counter() - began) * 1000)
        low, middle, high = statistics.quantiles(taken, n=4)
        return {
            f"{name} p50 ms": round(middle, 2),
            f"{name} q1": round(low, 2),
            f"{name} q3": round(high, 2),
            f"{name} cpu ms": round(watcher.cpu_s / len(taken) * 1000, 2),
            f"{name} backend MB": round(watcher.own_mb),
        }

    def recall(self, name: str, asked: list[tuple[str, Any]], scope: str) -> dict[str, Any]:
        """recall_conversation, the question's embedding known; and how many answers were not by both legs."""
        lacking = 0

        def call(text: str, _: Any) -> None:
            nonlocal lacking
            said = self._provider.handle_tool_call("recall_conversation", {"query": text, "scope": scope})
            lacking += '"hybrid"' not in said

        return self._timed(f"recall {name}", asked, call) | {f"recall {name} degraded": lacking}

    def prefetch(self, name: str, asked: list[tuple[str, Any]]) -> dict[str, Any]:
        """prefetch at the first message of a session, its embedding known; and how many were late or failed."""
        number, failed = itertools.count(), self._runtime.counts["prefetch_failures"]

        def call(text: str, _: Any) -> None:
            self._provider.on_session_switch(f"asked-{next(number)}", reset=True)
            self._provider.prefetch(text)

        figures = self._timed(f"prefetch {name}", asked, call)
        return figures | {f"prefetch {name} failed": self._runtime.counts["prefetch_failures"] - failed}

    def legs(self, asked: list[tuple[str, Any]]) -> dict[str, Any]:
        """Across all themes, the part by meaning alone: all signatures, and the walk along the HNSW graph."""
        figures: dict[str, Any] = {}
        for name, graph_rows in (("signatures of all", NEVER), ("graph of all", 0)):

            def call(_: str, vector: Any, graph_rows: int = graph_rows) -> None:
                with self._runtime.backend.connection(60) as conn:
                    vector_candidates(
                        conn, "turns", Scope("all", ""), Filters(), vector.tolist(), limit=40, graph_rows=graph_rows
                    )

            figures |= self._timed(name, asked, call)
        return figures


def drain(config: dict[str, Any], turns: int, rounds: int, postmaster: int) -> dict[str, Any]:
    """Rows a second from the first sync_turn to the last row with its vector."""
    speeds, cpu, own = [], 0.0, 0.0
    words = random.Random(time.time_ns())  # a turn that was said before is not written again
    with common.provider(config, theme=table.DRAIN) as made:
        assert made.runtime is not None
        for turn in range(rounds + 1):
            said = [(table.sentence(words, 25), table.sentence(words, 25)) for _ in range(turns if turn else 10)]
            with table.Watcher(postmaster) as watcher:
                for user, assistant in said:
                    made.sync_turn(user, assistant)
                if not made.runtime.writer.flush(900):
                    raise SystemExit("the drain did not end")
            if turn:
                speeds.append(2 * turns / watcher.wall_s)
                cpu, own = cpu + watcher.cpu_s, max(own, watcher.own_mb)
    return {
        "drain rows/s": round(statistics.median(speeds), 1),
        "drain least": round(min(speeds), 1),
        "drain most": round(max(speeds), 1),
        "drain cpu ms/row": round(cpu / (2 * turns * rounds) * 1000, 2),
        "drain backend MB": round(own),
    }


def verbs(config: dict[str, Any], postmaster: int) -> dict[str, Any]:
    """Seconds that each of the operator's verbs takes, the start of its process included, and of the server's CPU."""
    home = Path(tempfile.mkdtemp(prefix="hermes-growth-home-"))
    figures: dict[str, Any] = {}
    try:
        settings = "".join(f"    {key}: {json.dumps(value)}\n" for key, value in config.items())
        (home / "config.yaml").write_text(f"memory:\n  provider: pgvector\nplugins:\n  pgvector:\n{settings}")
        for verb in VERBS:
            command = [sys.executable, "-P", "-c", _CLI, *verb, "--hermes-home", str(home), "--json"]
            env = os.environ | {"HERMES_HOME": str(home)}
            with table.Watcher(postmaster) as watcher:
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900, env=env)
            name = f"verb {verb[0]}"
            figures |= {f"{name} s": round(watcher.wall_s, 2), f"{name} cpu s": round(watcher.cpu_s, 2)}
            if done.returncode not in (0, 1) or (done.returncode and verb[0] != "doctor"):
                print(f"{' '.join(verb)}: {done.returncode}: {done.stderr.strip()[-500:]}", file=sys.stderr)
                figures[f"verb {verb[0]} s"] = None
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return figures


def built(admin: str, memory: str, postmaster: int) -> dict[str, Any]:
    """As `hermes-pgvector index build` builds them: with which maintenance_work_mem, and what it took."""
    with admin_connection(admin) as conn:
        todo = [index for index in hnsw.indexes(conn) if index.state != "whole"]
        if not todo:
            return {}
        wants, given = max(index.wants_bytes for index in todo), todo[0].given_bytes
        chosen = memory or build_memory(wants, given, on_this_machine=True)
        with table.Watcher(postmaster) as watcher, building() as tell:
            hnsw.build(conn, admin, tell, memory=chosen)
    return clocked("build", watcher) | {
        "build memory": chosen or "as it is",
        "build mapped MB": round(watcher.mapped_mb),
    }


def measured(args: argparse.Namespace, admin: str, rows: table.Rows, upto: int) -> dict[str, Any]:
    """Bring the table to `upto` rows, and every figure of it."""
    figures: dict[str, Any] = {"rows": upto, "themes": args.themes, "dims": args.dims, "graph": not args.without_graph}

    def note(**more: Any) -> None:
        figures.update({name.replace("_", " "): value for name, value in more.items()})
        print(f"{time.strftime('%H:%M:%S')} {more}", file=sys.stderr, flush=True)

    with psycopg.connect(admin, autocommit=True) as conn:
        postmaster = table.postmaster_of(conn)
        have = table.loaded(conn)
        if have > upto:
            raise SystemExit(f"there are {have:,} rows already")
        if have < upto or args.without_graph:
            with admin_connection(admin) as own:
                hnsw.drop(own)
        if have < upto:
            conn.execute("DELETE FROM conversations WHERE agent_identity = %s", (table.DRAIN,))
            wall, cpu = table.load(conn, rows, upto)
            count = upto - have
            note(
                **{
                    "load rows": count,
                    "load rows/s": round(count / wall),
                    "load cpu ms/row": round(cpu / count * 1000, 3),
                }
            )
            with table.Watcher(postmaster) as watcher:
                conn.execute("VACUUM ANALYZE conversations")
            note(**clocked("vacuum after load", watcher))
        if not args.without_graph:
            note(**built(admin, args.build_memory, postmaster))
        note(**sizes(conn))
    parts = args.only or PARTS
    asked = {theme: rows.asked(theme, QUESTIONS) for theme in (table.SMALL, table.PERCENT, table.LARGEST)}
    with endpoint(rows, asked) as url:
        dsn = make_conninfo(admin, user="hermes")
        config = {"dsn": dsn, "dims": args.dims, "embed_url": url, "embed_model": "bench"}
        for theme, questions in asked.items() if "recall" in parts else ():
            with common.provider(config, theme=theme) as made:
                asking = Asking(made, postmaster, args.rounds)
                note(**asking.recall(theme, questions, f"theme:{theme}"))
                note(**asking.prefetch(theme, questions))
                if theme == table.PERCENT:
                    note(**asking.recall("all", questions, "all"))
                    note(**asking.legs(questions))
        if "drain" in parts:
            note(**drain(config, args.turns, 3, postmaster))
        if "verbs" in parts:
            note(**verbs(config, postmaster))
    if "vacuum" in parts:
        with psycopg.connect(admin, autocommit=True) as conn:
            gone = conn.execute("DELETE FROM conversations WHERE agent_identity = %s", (table.DRAIN,)).rowcount
            with table.Watcher(postmaster) as watcher:
                # Not left out, as Postgres does where few pages hold dead rows: then it comes with a later one.
                conn.execute("VACUUM (INDEX_CLEANUP ON, ANALYZE) conversations")
        name = "vacuum without graph" if args.without_graph else "vacuum with graph"
        note(**{"vacuumed rows": gone}, **clocked(name, watcher))
    note(**{"load average": round(os.getloadavg()[0], 1)})
    return figures


def main() -> None:
    """Each size in turn."""
    options = common.parser(__doc__)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument(
        "--rows", type=int, nargs="+", default=[10_000, 30_000, 100_000, 300_000, 1_000_000], metavar="N"
    )
    options.add_argument("--themes", type=int, default=500, metavar="N")
    options.add_argument("--dims", type=int, default=768, metavar="N")
    options.add_argument("--rounds", type=int, default=7, metavar="N", help="of each question")
    options.add_argument("--turns", type=int, default=150, metavar="N", help="of two rows, written for the drain rate")
    options.add_argument("--build-memory", default="", metavar="SIZE", help="of the build, as `index build --memory`")
    options.add_argument("--without-graph", action="store_true", help="measure without the HNSW index")
    options.add_argument("--only", choices=PARTS, action="append", help="measure only this; repeatable")
    options.add_argument("--keep", type=Path, metavar="DIR", help="a server's directory, to go on in")
    args = options.parse_args()
    if any(size % table.CHUNK for size in args.rows):
        raise SystemExit(f"sizes are multiples of {table.CHUNK:,}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the endpoint and the server end with us
    rows, figures = table.Rows(args.themes, args.dims), []
    with server(args.keep) as embedded:
        admin = database(embedded.ensure().admin, f"growth_{args.themes}_{args.dims}", args.dims)
        for upto in sorted(args.rows):
            figures.append(measured(args, admin, rows, upto))
            parameters = {name: str(value) for name, value in vars(args).items() if name != "json"}
            if args.json:  # each size at once: the next one may take half an hour
                common.report("growth", parameters, figures, args.json)


if __name__ == "__main__":
    main()
