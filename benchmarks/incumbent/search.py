"""Recall and prefetch in themes of very different share of one table: how long, and how near to an exact scan."""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import fleet
import numpy as np
import psycopg
from pgvector.psycopg import register_vector
from products import DIMS
from stage import Database, Stage
from tables import Table, percentile, short
from worker import Worker

SHARES = {"share-a": 0.001, "share-b": 0.01, "share-c": 0.1, "share-d": 0.5}
OTHERS = 10  # themes that share the rest
EACH = 15  # questions about each theme
K = 10
TOOLS = {"recall_memory": "memory_entries", "recall_conversation": "conversations"}
_START = datetime(2026, 1, 1, tzinfo=UTC)
_ROW = re.compile(r"\brow(\d+)\b")


def sizes_of(rows: int) -> dict[str, int]:
    """Rows of each theme."""
    sizes = {theme: round(share * rows) for theme, share in SHARES.items()}
    rest = rows - sum(sizes.values())
    return sizes | {f"other-{chr(97 + n)}": rest // OTHERS for n in range(OTHERS)}


@cache
def vectors_asked(rows: int) -> dict[str, Any]:
    """EACH vectors about every theme, none of them stored."""
    return {theme: vectors for theme, vectors in fleet.questions(sizes_of(rows), DIMS, EACH) if theme in SHARES}


@cache
def question(rows: int, theme: str, number: int, turn: int, worded: bool) -> str:
    """The text of a question, another one in each round, so that no cache answers; `worded`: rows have its words."""
    dice = random.Random(f"{rows} {theme} {number} {turn}")
    words = " ".join(dice.choices(fleet.VOCABULARY[:2000], k=5)) if worded else "nothing that any row would say"
    return f"{words}, asked {rows}-{theme}-{number}-{turn}?"


def known(args: argparse.Namespace, folder: Path) -> Path:
    """A file with the vectors of all questions."""
    texts, vectors = [], []
    for rows in args.rows:
        for theme, asked in vectors_asked(rows).items():
            for number, vector in enumerate(asked):
                for turn in range(args.rounds + 1):
                    for worded in (False, True):
                        texts.append(question(rows, theme, number, turn, worded))
                        vectors.append(vector)
    path = folder / "questions.npz"
    np.savez(path, texts=np.array(texts), vectors=np.array(vectors, dtype=np.float32))
    return path


def load(database: Database, rows: int) -> None:
    """The same rows into both tables: binary COPY without indexes, then the product's own indexes over all of it."""
    with psycopg.connect(database.admin, autocommit=True) as conn:
        register_vector(conn)
        with _without_indexes(conn):
            for table, column, fixed in (("conversations", "role", "user"), ("memory_entries", "target", "memory")):
                session, at = ("session_id, ", "ts") if table == "conversations" else ("", "updated_at")
                columns = f"{session}agent_identity, {column}, content, {at}, embedding"
                with conn.cursor().copy(f"COPY {table} ({columns}) FROM STDIN (FORMAT binary)".encode()) as copy:
                    texts = ["text"] * (4 if session else 3)
                    copy.set_types([*texts, "timestamptz", "vector"])
                    for number, theme, text, vector in fleet.rows(sizes_of(rows), DIMS):
                        # A session a turn: ours lends scores to neighbours, of which an exact scan knows nothing.
                        first = (f"session-{number}",) if session else ()
                        at_time = _START + timedelta(seconds=number)
                        copy.write_row((*first, theme, fixed, f"row{number} {text}", at_time, vector))
        conn.execute("VACUUM ANALYZE")


@contextlib.contextmanager
def _without_indexes(conn: psycopg.Connection[Any]) -> Iterator[None]:
    found = conn.execute(
        "SELECT i.indexname, i.indexdef FROM pg_indexes AS i"
        " WHERE i.tablename IN ('conversations', 'memory_entries') AND NOT EXISTS"
        "       (SELECT FROM pg_constraint AS c WHERE c.conname = i.indexname)"
    ).fetchall()
    for name, _ in found:
        conn.execute(f"DROP INDEX {name}".encode())
    yield
    conn.execute("SET maintenance_work_mem = '2GB'")
    conn.execute("SET max_parallel_maintenance_workers = 2")
    for _, definition in sorted(found, key=lambda each: "hnsw" in each[1]):
        conn.execute(definition.encode())


def truth(rows: int) -> dict[str, list[set[int]]]:
    """The numbers of the K nearest rows of the theme to each question, by an exact scan."""
    numbers: dict[str, list[int]] = defaultdict(list)
    vectors: dict[str, list[Any]] = defaultdict(list)
    for number, theme, _, vector in fleet.rows(sizes_of(rows), DIMS):
        if theme in SHARES:
            numbers[theme].append(number)
            vectors[theme].append(vector)
    found = {}
    for theme, asked in vectors_asked(rows).items():
        near = asked @ np.array(vectors[theme]).T
        best = np.argsort(-near, axis=1)[:, :K]
        found[theme] = [{numbers[theme][index] for index in row} for row in best]
    return found


def share_found(answers: list[list[str]], wanted: list[set[int]]) -> float:
    """Recall@K, as a mean over the questions."""
    found = [{int(row[1]) for text in answer if (row := _ROW.search(text))} for answer in answers]
    return statistics.fmean(len(have & want) / len(want) for have, want in zip(found, wanted, strict=True))


def run(stage: Stage, args: argparse.Namespace) -> list[Table]:
    """A table for each size."""
    return [of_size(stage, rows, args.rounds) for rows in args.rows]


def of_size(stage: Stage, rows: int, rounds: int) -> Table:
    """Both products over tables of that size, in turn."""
    wanted = truth(rows)
    took: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    slow: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with contextlib.ExitStack() as stack:
        workers = {}
        for product in stage.products:
            database = stage.database(product)
            load(database, rows)
            workers[product.name] = stack.enter_context(stage.worker(product, database, list(SHARES)))
        for turn in range(rounds + 1):  # the first one warms up
            for place, theme in enumerate(SHARES):
                for name, worker in workers.items():
                    for what, us, score in measured(worker, rows, place, turn, wanted[theme]):
                        if turn:
                            took[theme, what][name].append(percentile(us, 0.5) / 1000)
                            slow[theme, what][name].append(percentile(us, 0.95) / 1000)
                            found[theme, what][name].append(score)
    table = Table(f"Recall among {rows:,} turns and {rows:,} memories")
    for (theme, what), by_product in took.items():
        table.compare({"theme": f"{SHARES[theme]:.1%}", "asked": what}, by_product, "p50 ms")
        line, scores, tails = table.rows[-1], found[theme, what], slow[theme, what]
        line["p95 ms, ours / theirs"] = " / ".join(short(statistics.median(tails[name])) for name in workers)
        kind = "shown" if what == "prefetch" else "recall@10"
        line["recall@10 or lines, ours / theirs"] = " / ".join(
            f"{statistics.median(scores[name]):.3g}" for name in workers
        ) + (" lines" if kind == "shown" else "")
    return table


def measured(
    worker: Worker, rows: int, place: int, turn: int, wanted: list[set[int]]
) -> Iterator[tuple[str, list[float], float]]:
    """What was asked, how long each call took, and how good it was: by meaning alone, then with words in it."""
    theme = list(SHARES)[place]
    plain, worded = ([question(rows, theme, n, turn, has) for n in range(EACH)] for has in (False, True))
    for tool in TOOLS:
        by_meaning = worker.ask("ask", tool=tool, queries=plain, limit=K, instance=place)
        with_words = worker.ask("ask", tool=tool, queries=worded, limit=K, instance=place)
        yield tool, with_words["us"], share_found(by_meaning["answers"], wanted)
    shown = worker.ask("prefetch", queries=worded, instance=place, sessions=f"{theme}-{turn}")
    yield "prefetch", shown["us"], statistics.fmean(len(set(_ROW.findall(block))) for block in shown["answers"])
