"""Recall and prefetch in themes of very different share of one table: how long, and how near to an exact scan."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import population
import psycopg
from pgvector.psycopg import register_vector
from products import DIMS, Product
from stage import Database, Stage, in_turn
from tables import Table, percentile, short
from worker import Worker

SHARES = {"share-a": 0.001, "share-b": 0.01, "share-c": 0.1, "share-d": 0.5}
OTHERS = 10  # themes that share the rest
EACH = 15  # questions about each theme
K = 10
GRAPH_ROWS = 100_000  # of larger tables, no HNSW index that no question asked here looks at: to build it takes long
QUEUED_S = 0.06  # from queue_prefetch to prefetch: longer than either product takes
TOOLS = ("recall_memory", "recall_conversation")
WORDED = "-words"
ELSEWHERE = "-elsewhere"
USES = (*(f"{asked}{kind}" for asked in (*TOOLS, "prefetch") for kind in ("", WORDED, ELSEWHERE)), "queued")
OWN, OTHERS_TOPICS = "found", "found on others' topics"
_START = datetime(2026, 1, 1, tzinfo=UTC)
_ROW = re.compile(r"\brow(\d+)\b")


def sizes_of(rows: int) -> dict[str, int]:
    """Rows of each theme."""
    sizes = {theme: round(share * rows) for theme, share in SHARES.items()}
    rest = rows - sum(sizes.values())
    return sizes | {f"other-{chr(97 + n)}": rest // OTHERS for n in range(OTHERS)}


@cache
def vectors_asked(rows: int, elsewhere: bool) -> dict[str, Any]:
    """EACH vectors about the topics of every theme, or of the other themes (`elsewhere`); none of them is stored."""
    asked = dict(population.questions(sizes_of(rows), DIMS, EACH))
    if not elsewhere:
        return {theme: asked[theme] for theme in SHARES}
    dice = np.random.default_rng(population.SEED)
    chosen = {theme: [each for each in asked if each != theme] for theme in SHARES}
    return {
        theme: np.array([asked[other][dice.integers(EACH)] for other in dice.choice(others, size=EACH)])
        for theme, others in chosen.items()
    }


@cache
def question(rows: int, theme: str, number: int, turn: int, use: str) -> str:
    """The text of a question, another one for each round and use, so that no cache answers."""
    dice = random.Random(f"{rows} {theme} {number} {turn} {use}")
    worded = use.endswith(WORDED)  # rows have its words
    words = " ".join(dice.choices(population.VOCABULARY[:2000], k=5)) if worded else "nothing that any row would say"
    return f"{words}, asked {rows}-{theme}-{number}-{turn}-{use}?"


def known(args: argparse.Namespace, folder: Path) -> Path:
    """A file with the vectors of all questions."""
    texts, vectors = [], []
    for rows in args.rows:
        for use in USES:
            for theme, asked in vectors_asked(rows, use.endswith(ELSEWHERE)).items():
                for number, vector in enumerate(asked):
                    for turn in range(args.rounds + 1):
                        texts.append(question(rows, theme, number, turn, use))
                        vectors.append(vector)
    path = folder / "questions.npz"
    np.savez(path, texts=np.array(texts), vectors=np.array(vectors, dtype=np.float32))
    return path


def load(database: Database, rows: int, graphs: bool) -> None:
    """The same rows into both tables: binary COPY without indexes, then the product's own indexes over all of it.

    Without `graphs` the HNSW ones stay away.
    """
    with psycopg.connect(database.admin, autocommit=True) as conn:
        register_vector(conn)
        with _without_indexes(conn, graphs):
            for table, column, fixed in (("conversations", "role", "user"), ("memory_entries", "target", "memory")):
                session, at = ("session_id, ", "ts") if table == "conversations" else ("", "updated_at")
                columns = f"{session}agent_identity, {column}, content, {at}, embedding"
                with conn.cursor().copy(f"COPY {table} ({columns}) FROM STDIN (FORMAT binary)".encode()) as copy:
                    texts = ["text"] * (4 if session else 3)
                    copy.set_types([*texts, "timestamptz", "vector"])
                    for number, theme, text, vector in population.rows(sizes_of(rows), DIMS):
                        # A session a turn: ours lends scores to neighbours, of which an exact scan knows nothing.
                        first = (f"session-{number}",) if session else ()
                        at_time = _START + timedelta(seconds=number)
                        copy.write_row((*first, theme, fixed, f"row{number} {text}", at_time, vector))
        conn.execute("VACUUM ANALYZE")


@contextlib.contextmanager
def _without_indexes(conn: psycopg.Connection[Any], graphs: bool) -> Iterator[None]:
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
        if "hnsw" not in definition or graphs:
            conn.execute(definition.encode())
            print(f"{datetime.now(UTC):%H:%M:%S} {definition}", file=sys.stderr, flush=True)


def truth(rows: int) -> dict[bool, dict[str, list[set[int]]]]:
    """The numbers of the K nearest rows of the theme to each question, by an exact scan; the key is `elsewhere`."""
    numbers: dict[str, list[int]] = defaultdict(list)
    vectors: dict[str, list[Any]] = defaultdict(list)
    for number, theme, _, vector in population.rows(sizes_of(rows), DIMS):
        if theme in SHARES:
            numbers[theme].append(number)
            vectors[theme].append(vector)
    found: dict[bool, dict[str, list[set[int]]]] = {False: {}, True: {}}
    for theme in SHARES:
        stored = np.array(vectors.pop(theme)).T
        for elsewhere, by_theme in found.items():
            near = vectors_asked(rows, elsewhere)[theme] @ stored
            best = np.argsort(-near, axis=1)[:, :K]
            by_theme[theme] = [{numbers[theme][index] for index in row} for row in best]
    return found


def share_found(answers: list[list[str]], wanted: list[set[int]]) -> float:
    """Recall@K, as a mean over the questions."""
    found = [{int(row[1]) for text in answer if (row := _ROW.search(text))} for answer in answers]
    return statistics.fmean(len(have & want) / len(want) for have, want in zip(found, wanted, strict=True))


def run(stage: Stage, args: argparse.Namespace) -> list[Table]:
    """A table for each size."""
    databases = {rows: [loaded(stage, product, rows) for product in stage.products] for rows in args.rows}
    if args.rounds == 0:
        return []
    for each in itertools.chain.from_iterable(databases.values()):
        stage.read_all(each)
    return [of_size(stage, rows, args.rounds, databases[rows]) for rows in args.rows]


def loaded(stage: Stage, product: Product, rows: int) -> Database:
    """A database with so many rows in each table."""
    graphs = product.graphs or rows <= GRAPH_ROWS
    return stage.loaded(product, f"search_{rows}", partial(load, rows=rows, graphs=graphs))


def of_size(stage: Stage, rows: int, rounds: int, databases: list[Database]) -> Table:
    """Both products over tables of that size, in turn."""
    wanted = truth(rows)
    took: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    slow: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    found: dict[tuple[str, str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with contextlib.ExitStack() as stack:
        workers = {}
        for product, database in zip(stage.products, databases, strict=True):
            workers[product.name] = stack.enter_context(stage.worker(product, database, list(SHARES)))
        for turn in range(rounds + 1):  # the first one warms up
            for place, theme in enumerate(SHARES):
                for product in in_turn(stage.products, turn):
                    name = product.name
                    for what, us, scores in measured(workers[name], rows, place, turn, wanted):
                        if turn:
                            took[theme, what][name].append(percentile(us, 0.5) / 1000)
                            slow[theme, what][name].append(percentile(us, 0.95) / 1000)
                            for kind, score in scores.items():
                                found[theme, what, kind][name].append(score)
    table = Table(f"incumbent-search-{rows}", f"Recall among {rows:,} turns and {rows:,} memories")
    for (theme, what), by_product in took.items():
        of_rows = sizes_of(rows)[theme]
        table.compare({"theme": f"{SHARES[theme]:.1%}, {of_rows:,}", "asked": what}, by_product, "p50 ms")
        line, tails = table.rows[-1], slow[theme, what]
        line["p95 ms, ours / theirs"] = " / ".join(short(statistics.median(tails[name])) for name in workers)
        for kind in (OWN, OTHERS_TOPICS):
            scores = found[theme, what, kind]
            both = [f"{statistics.median(scores[name]):.3g}" for name in workers if name in scores]
            line[f"{kind}, ours / theirs"] = " / ".join(both)
    return table


def measured(
    worker: Worker, rows: int, place: int, turn: int, wanted: dict[bool, dict[str, list[set[int]]]]
) -> Iterator[tuple[str, list[float], dict[str, float]]]:
    """What was asked, how long each call took with words in the question, and how good it was by meaning alone."""
    theme = list(SHARES)[place]
    own, others = (wanted[elsewhere][theme] for elsewhere in (False, True))

    def ask(what: str, kind: str = "", **more: object) -> dict[str, Any]:
        queries = [question(rows, theme, number, turn, what + kind) for number in range(EACH)]
        if what in TOOLS:
            return worker.ask("ask", tool=what, queries=queries, limit=K, instance=place)
        session = f"{theme}-{turn}-{what}{kind}"
        return worker.ask("prefetch", queries=queries, instance=place, sessions=session, **more)

    for what in (*TOOLS, "prefetch"):
        share = share_found if what in TOOLS else fitting
        plain, worded, elsewhere = (ask(what, kind) for kind in ("", WORDED, ELSEWHERE))
        yield (
            what,
            worded["us"],
            {OWN: share(plain["answers"], own), OTHERS_TOPICS: share(elsewhere["answers"], others)},
        )
    shown = ask("queued", queued_s=QUEUED_S)
    yield "prefetch, queued", shown["us"], {OWN: fitting(shown["answers"], own)}


def fitting(blocks: list[str], wanted: list[set[int]]) -> float:
    """How many of the K nearest rows a block shows, as a mean; a block has five lines at most."""
    shown = [{int(number) for number in _ROW.findall(block)} for block in blocks]
    return statistics.fmean(len(have & want) for have, want in zip(shown, wanted, strict=True))
