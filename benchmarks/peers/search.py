"""Recall and prefetch in themes of very different share of one table: how long, and how near to an exact scan."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import population
import psycopg
from pgvector.psycopg import register_vector
from products import QUEUE, Product
from stage import Database, Files, Kept, Stage, in_turn
from tables import Table, in_order, percentile, short
from worker import Worker

SHARES = {"share-a": 0.001, "share-b": 0.01, "share-c": 0.1, "share-d": 0.5}
OTHERS = 10  # themes that share the rest
EACH = 15  # questions about each theme
K = 10
GRAPH_ROWS = 100_000  # of larger tables, no HNSW index that no question asked here looks at: to build it takes long
QUEUED_S = 0.06  # from queue_prefetch to prefetch: longer than any product takes
TOOLS = ("recall_memory", "recall_conversation")
WRITES = 3  # entries of memory a theme, at the end
ASKED = (*TOOLS, "prefetch", "prefetch, queued", "on_memory_write")
WORDED = "-words"
ELSEWHERE = "-elsewhere"
USES = (*(f"{asked}{kind}" for asked in (*TOOLS, "prefetch") for kind in ("", WORDED, ELSEWHERE)), "queued")
OWN, OTHERS_TOPICS = "found", "found on others' topics"
_FAR = 1_000_000
_START = datetime(2026, 1, 1, tzinfo=UTC)
_ROW = re.compile(r"\brow(\d+)\b")


def sizes_of(rows: int) -> dict[str, int]:
    """Rows of each theme."""
    sizes = {theme: round(share * rows) for theme, share in SHARES.items()}
    rest = rows - sum(sizes.values())
    return sizes | {f"other-{chr(97 + n)}": rest // OTHERS for n in range(OTHERS)}


@cache
def vectors_asked(rows: int, dims: int, elsewhere: bool) -> dict[str, Any]:
    """EACH vectors about the topics of every theme, or of the other themes (`elsewhere`); none of them is stored."""
    asked = dict(population.questions(sizes_of(rows), dims, EACH))
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


def known(args: argparse.Namespace, products: tuple[Product, ...], folder: Path) -> list[Path]:
    """A file with the vectors of all questions for each number of dimensions."""
    return [_questions(args, dims, folder) for dims in sorted({each.dims for each in products} - {0})]


def _questions(args: argparse.Namespace, dims: int, folder: Path) -> Path:
    texts, vectors = [], []
    for rows in args.rows:
        for use in USES:
            for theme, asked in vectors_asked(rows, dims, use.endswith(ELSEWHERE)).items():
                for number, vector in enumerate(asked):
                    for turn in range(args.rounds + 1):
                        texts.append(question(rows, theme, number, turn, use))
                        vectors.append(vector)
    path = folder / f"questions-{dims}.npz"
    np.savez(path, texts=np.array(texts), vectors=np.array(vectors, dtype=np.float32))
    return path


def load(place: Kept, product: Product, rows: int) -> None:
    """The rows of a size, wherever the product keeps them."""
    if isinstance(place, Database):
        _load_tables(place, rows, product.dims, graphs=product.graphs or rows <= GRAPH_ROWS)
    elif isinstance(place, Files):
        # Of a theme there is one file, so the other themes' rows would be asked by nobody.
        given = population.rows(sizes_of(rows), 8)
        fill(place, product, ((theme, f"row{number} {text}") for number, theme, text, _ in given if theme in SHARES))


def fill(files: Files, product: Product, facts: Iterable[tuple[str, str]]) -> None:
    """Theme and text of each fact into the files."""
    script = str(Path(__file__).with_name("facts.py"))
    command = [str(product.python), "-P", script, str(files.folder)]
    environ = dict(os.environ, HERMES_HOME=str(files.folder))
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdin is not None
        for theme, text in facts:
            process.stdin.write(json.dumps({"theme": theme, "text": text}) + "\n")
        process.stdin.close()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def _load_tables(database: Database, rows: int, dims: int, *, graphs: bool) -> None:
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
                    for number, theme, text, vector in population.rows(sizes_of(rows), dims):
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


@cache
def truth(rows: int, dims: int) -> dict[bool, dict[str, list[set[int]]]]:
    """The numbers of the K nearest rows of the theme to each question, by an exact scan; the key is `elsewhere`."""
    numbers: dict[str, list[int]] = defaultdict(list)
    vectors: dict[str, list[Any]] = defaultdict(list)
    for number, theme, _, vector in population.rows(sizes_of(rows), dims):
        if theme in SHARES:
            numbers[theme].append(number)
            vectors[theme].append(vector)
    found: dict[bool, dict[str, list[set[int]]]] = {False: {}, True: {}}
    for theme in SHARES:
        stored = np.array(vectors.pop(theme)).T
        for elsewhere, by_theme in found.items():
            near = vectors_asked(rows, dims, elsewhere)[theme] @ stored
            best = np.argsort(-near, axis=1)[:, :K]
            by_theme[theme] = [{numbers[theme][index] for index in row} for row in best]
    return found


def share_found(answers: list[list[str]], wanted: list[set[int]]) -> float:
    """Recall@K, as a mean over the questions."""
    found = [{int(row[1]) for text in answer if (row := _ROW.search(text))} for answer in answers]
    return statistics.fmean(len(have & want) / len(want) for have, want in zip(found, wanted, strict=True))


def run(stage: Stage, args: argparse.Namespace) -> list[Table]:
    """A table for each size."""
    places = {rows: [loaded(stage, product, rows) for product in stage.products] for rows in args.rows}
    if args.rounds == 0:
        return []
    for each in itertools.chain.from_iterable(places.values()):
        stage.read_all(each)
    stage.endpoint.be("ok", args.embed_ms / 1000)
    return [of_size(stage, rows, args.rounds, places[rows], args.embed_ms) for rows in args.rows]


def loaded(stage: Stage, product: Product, rows: int) -> Kept:
    """A place with so many rows in each table."""
    return stage.loaded(product, f"search_{rows}", partial(load, product=product, rows=rows))


@dataclass
class Figures:
    """What was measured by theme, what was asked, and product."""

    p50: dict[tuple[str, str], dict[str, list[float]]] = field(default_factory=lambda: defaultdict(_lists))
    p95: dict[tuple[str, str], dict[str, list[float]]] = field(default_factory=lambda: defaultdict(_lists))
    found: dict[tuple[str, str, str], dict[str, list[float]]] = field(default_factory=lambda: defaultdict(_lists))

    def add(self, theme: str, what: str, name: str, us: list[float], scores: dict[str, float]) -> None:
        """A round's."""
        self.p50[theme, what][name].append(percentile(us, 0.5) / 1000)
        self.p95[theme, what][name].append(percentile(us, 0.95) / 1000)
        for kind, score in scores.items():
            self.found[theme, what, kind][name].append(score)


def _lists() -> dict[str, list[float]]:
    return defaultdict(list)


def of_size(stage: Stage, rows: int, rounds: int, places: list[Kept], embed_ms: int) -> Table:
    """All products over tables of that size, in turn."""
    figures = Figures()
    with contextlib.ExitStack() as stack:
        workers = {}
        for product, place in zip(stage.products, places, strict=True):
            workers[product.name] = stack.enter_context(stage.worker(product, place, list(SHARES)))
        for turn in range(rounds + 1):  # the first one warms up
            for place_of, theme in enumerate(SHARES):
                for product in in_turn(stage.products, turn):
                    for what, us, scores in measured(workers[product.name], product, rows, place_of, turn):
                        if turn:
                            figures.add(theme, what, product.name, us, scores)
        # After everything that was asked: these are rows which no question knows.
        for turn, (place_of, theme) in itertools.product(range(rounds), enumerate(SHARES)):
            for product in in_turn(stage.products, turn):
                first = _FAR + time.time_ns() % _FAR  # another run over the same rows writes other ones
                us = workers[product.name].ask("memories", first=first, count=WRITES, instance=place_of, pause_s=0.02)[
                    "us"
                ]
                figures.add(theme, "on_memory_write", product.name, us, {})
    return table_of(stage.products, rows, embed_ms, figures)


def table_of(products: tuple[Product, ...], rows: int, embed_ms: int, figures: Figures) -> Table:
    """A line for each theme and what was asked, or a word where a product has nothing to ask."""
    notes = [note for product in products for note in product.notes]
    name, title = f"peers-search-{rows}", f"Recall among {rows:,} turns and {rows:,} memories"
    if embed_ms:
        name, title = f"{name}-{embed_ms}ms", f"{title}, an embedding takes {embed_ms} ms"
    table = Table(name, title, notes=notes)
    names = in_order([product.name for product in products])
    for theme, what in sorted(figures.p50, key=lambda each: (list(SHARES).index(each[0]), ASKED.index(each[1]))):
        missing = {each.name: word for each in products if (word := lacking(each, what))}
        line = {"theme": f"{SHARES[theme]:.1%}, {sizes_of(rows)[theme]:,}", "asked": what}
        table.compare(line, figures.p50[theme, what] | missing, "p50 ms")
        line, tails = table.rows[-1], figures.p95[theme, what]
        each = [short(statistics.median(tails[name])) if tails[name] else "-" for name in names]
        line[f"p95 ms, {' / '.join(names)}"] = " / ".join(each)
        for kind in (OWN, OTHERS_TOPICS):
            scores = figures.found[theme, what, kind]
            each = [f"{statistics.median(scores[name]):.3g}" if scores[name] else "-" for name in names]
            line[f"{kind}, {' / '.join(names)}"] = " / ".join(each) if any(scores.values()) else ""
    return table


def lacking(product: Product, what: str) -> str:
    """Why a product is not asked that; empty when it is."""
    if what in TOOLS and what not in product.tools:
        return "no such tool"
    return product.without(QUEUE) if what == ASKED[3] else ""


def measured(
    worker: Worker, product: Product, rows: int, place: int, turn: int
) -> Iterator[tuple[str, list[float], dict[str, float]]]:
    """What was asked, how long each call took with words in the question, and how good it was by meaning alone."""
    theme = list(SHARES)[place]
    wanted = {each: truth(rows, product.dims)[each][theme] for each in (False, True)} if product.dims else {}

    def ask(what: str, kind: str = "", **more: object) -> dict[str, Any]:
        queries = [question(rows, theme, number, turn, what + kind) for number in range(EACH)]
        if what in TOOLS:
            arguments = {"scope": "current", **product.tools[what]}
            tool = arguments.pop("tool", what)
            return worker.ask("ask", tool=tool, arguments=arguments, queries=queries, limit=K, instance=place)
        session = f"{theme}-{turn}-{what}{kind}"
        return worker.ask("prefetch", queries=queries, instance=place, sessions=session, **more)

    for what in ASKED[:3]:
        if lacking(product, what):
            continue
        share = share_found if what in TOOLS else fitting
        worded, scores = ask(what, WORDED), {}
        for kind, elsewhere in ((OWN, False), (OTHERS_TOPICS, True)) if wanted else ():
            scores[kind] = share(ask(what, ELSEWHERE if elsewhere else "")["answers"], wanted[elsewhere])
        yield what, worded["us"], scores
    if not lacking(product, ASKED[3]):
        shown = ask("queued", queued_s=QUEUED_S)
        yield ASKED[3], shown["us"], {OWN: fitting(shown["answers"], wanted[False])}


def fitting(blocks: list[str], wanted: list[set[int]]) -> float:
    """How many of the K nearest rows a block shows, as a mean; a block has five lines at most."""
    shown = [{int(number) for number in _ROW.findall(block)} for block in blocks]
    return statistics.fmean(len(have & want) for have, want in zip(shown, wanted, strict=True))
