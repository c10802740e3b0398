"""Evidence recall through the products' tools, on the corpora of quality/recall.py: the same texts, dates and vectors.

Scored as there, over the rows that a tool shows, in order: what it shows around a row counts as a row as well. The rows
are loaded straight into the tables, since no hook takes a date: ours without vectors, which it then asks the endpoint
for by itself, in parts where a text is long; the others' with the vector of the text as the model gives it, which ends
after 512 tokens. For columns that are wider than the model's vectors these are padded with zeros, which no cosine
notices.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psycopg
from corpora import LOCOMO, NAMES, Theme, read_corpus
from pgvector.psycopg import register_vector
from products import Product
from search import fill
from stage import Database, Files, Kept, Stage
from tables import OURS, Table, in_order, ratio
from vectors import CachedModel, texts_of

from hermes_memory_pgvector.embed.instructions import instructions_for
from tests.support.model_files import MODEL_DIMS, model_dir

OUR_DIMS = MODEL_DIMS
_KS = (5, 10)
_ONE = {"madial_zh": "madial_en"}  # the same memories in two languages, which count as one in the mean
_SETTLE_S = 600.0
_MEASURED = 64  # texts at most by which ours measures what is near for a model: no tool heeds it

Row = dict[Any, Any]  # corpus, category, and recall by the number of rows


def corpora_of(args: argparse.Namespace) -> dict[str, list[Theme]]:
    """The themes of each corpus, with about --sample of its questions."""
    found = {}
    for name in NAMES:
        themes = read_corpus(args.data, name)[: args.themes]
        every = max(1, round(sum(len(theme.questions) for theme in themes) / args.sample))
        found[name] = [replace(theme, questions=theme.questions[::every]) for theme in themes]
    return found


def model_of(args: argparse.Namespace) -> CachedModel:
    """What makes the vectors, each only once."""
    return CachedModel(args.model_dir or model_dir(), args.vectors)


def known(args: argparse.Namespace, products: tuple[Product, ...], folder: Path) -> list[Path]:
    """A file with the vectors of all questions for each number of dimensions; in ours also those of the texts."""
    themes = [theme for each in corpora_of(args).values() for theme in each]
    questions = [asked.text for theme in themes for asked in theme.questions]
    every = texts_of(themes, instructions_for(args.model_name))
    files = []
    for dims in sorted({each.dims for each in products} - {0}):
        texts = list(dict.fromkeys([*questions, *(every if dims == OUR_DIMS else ())]))
        files.append(folder / f"corpora-{dims}.npz")
        np.savez(files[-1], texts=np.array(texts, dtype=object), vectors=_padded(model_of(args), texts, dims))
    return files


def _padded(model: CachedModel, texts: Sequence[str], dims: int) -> Any:
    vectors = np.array(model.embed_all(texts), dtype=np.float32)
    return np.pad(vectors, ((0, 0), (0, dims - vectors.shape[1])))


def table_of(theme: Theme) -> str:
    """Where its rows belong."""
    return "memory_entries" if theme.turns[0].role == "memory" else "conversations"


def load(place: Kept, product: Product, themes: list[Theme], model: CachedModel) -> int:
    """Every text with its date, of equal memories one; how many rows there are."""
    rows = [row for theme in themes for row in _rows_of(theme, distinct=isinstance(place, Files))]
    if isinstance(place, Files):
        fill(place, product, ((row[0], row[3]) for row in rows))
        return len(rows)
    assert isinstance(place, Database)
    vectors = [None] * len(rows) if product.name == OURS else _padded(model, [row[3] for row in rows], product.dims)
    turns = table_of(themes[0]) == "conversations"
    columns = (
        "agent_identity, role, ts, content, session_id" if turns else "agent_identity, target, updated_at, content"
    )
    types = ["text", "text", "timestamptz", "text", *(["text"] if turns else []), "vector"]
    with psycopg.connect(place.admin, autocommit=True) as conn:
        register_vector(conn)
        with conn.cursor().copy(
            f"COPY {table_of(themes[0])} ({columns}, embedding) FROM STDIN (FORMAT binary)".encode()
        ) as copy:
            copy.set_types(types)
            for row, vector in zip(rows, vectors, strict=True):
                copy.write_row((*row[: len(types) - 1], vector))
        conn.execute("VACUUM ANALYZE")
    return len(rows)


def _rows_of(theme: Theme, *, distinct: bool) -> Iterator[tuple[Any, ...]]:
    memories, seen = table_of(theme) == "memory_entries", set[str]()
    for turn in theme.turns:
        if turn.text in seen and (memories or distinct):
            continue
        seen.add(turn.text)
        kind = "memory" if memories else "assistant" if turn.role == "assistant" else "user"
        yield theme.name, kind, turn.at, turn.text, f"{theme.name}-{turn.session}"


def scored(theme: Theme, texts: dict[int, str], answers: list[list[int]]) -> list[Row]:
    """Corpus, category and evidence recall of each question."""
    by_text: dict[str, set[str]] = defaultdict(set)
    for turn in theme.turns:
        by_text[turn.text.strip()].add(turn.name)
    rows: list[Row] = []
    for asked, ids in zip(theme.questions, answers, strict=True):
        found = [by_text[texts[row].strip()] for row in ids]
        at = {k: len(asked.gold & set().union(*found[:k])) / len(asked.gold) for k in _KS}
        rows.append({"corpus": theme.corpus, "category": asked.category} | at)
    return rows


def ask_all(
    stage: Stage, product: Product, themes: list[Theme], args: argparse.Namespace
) -> tuple[list[Row], list[float]]:
    """The scores of every question of a corpus, and the milliseconds each call took."""
    place, before = stage.place(product), unknown_of(stage)
    count = load(place, product, themes, model_of(args))
    asked = "recall_memory" if table_of(themes[0]) == "memory_entries" else "recall_conversation"
    arguments = {"scope": "current", **product.tools.get(asked, product.tools["recall_memory"])}
    tool = arguments.pop("tool", asked)
    rows: list[Row] = []
    took: list[float] = []
    names = [theme.name for theme in themes]
    with stage.worker(product, place, names, embed_model=args.model_name) as worker:
        settled = place.wait_for(count, embedded=count, still_s=60, at_most_s=_SETTLE_S)
        if settled != (count, count):
            raise RuntimeError(f"{product.name}: {settled} rows and embeddings of {count}")
        for number, theme in enumerate(themes):
            queries = [each.text for each in theme.questions]
            request = {"tool": tool, "arguments": arguments, "queries": queries, "limit": max(_KS), "instance": number}
            answer = worker.ask("ask", timeout_s=600, **request)
            rows += scored(theme, place.texts(table_of(theme), theme.name), answer["ids"])
            took += [us / 1000 for us in answer["us"]]
    unknown = unknown_of(stage) - before
    if unknown > (_MEASURED if product.name == OURS else 0):
        raise RuntimeError(f"{product.name}: {unknown} texts got a vector of another text")
    return rows, took


def unknown_of(stage: Stage) -> int:
    """How many texts the endpoint did not know."""
    return int(httpx.post(f"{stage.endpoint.base}/mood", json={}).json()["unknown"])


def run(stage: Stage, args: argparse.Namespace) -> list[Table]:
    """Evidence recall by corpus, and of LoCoMo by kind of question."""
    rows: dict[str, list[Row]] = defaultdict(list)
    took: dict[tuple[str, str], list[float]] = {}
    for corpus, themes in corpora_of(args).items():
        for product in stage.products:
            found, took[corpus, product.name] = ask_all(stage, product, themes, args)
            rows[product.name] += found
    notes = [note for product in stage.products for note in product.notes if product.dims == 0]
    notes.append(f"Of a corpus about {args.sample:,} questions at most, evenly spaced.")
    table = Table("peers-evidence", f"Evidence recall, {args.model_name}", notes=notes)
    for corpus in NAMES:
        line = _line(
            {"corpus": corpus}, {name: [row for row in each if row["corpus"] == corpus] for name, each in rows.items()}
        )
        for name in in_order(rows):
            line[f"{name}, p50 ms"] = f"{statistics.median(took[corpus, name]):.1f}"
        table.rows.append(line)
    table.rows.append(_mean(rows))
    locomo = Table("peers-evidence-locomo", "Evidence recall on LoCoMo by kind of question")
    of_locomo = {name: [row for row in each if row["corpus"] == LOCOMO] for name, each in rows.items()}
    for category in dict.fromkeys(row["category"] for row in of_locomo[OURS]):
        chosen = {name: [row for row in each if row["category"] == category] for name, each in of_locomo.items()}
        locomo.rows.append(_line({"questions": category}, chosen))
    return [table, locomo]


def _line(begin: dict[str, Any], rows: dict[str, list[Row]]) -> dict[str, Any]:
    """Recall by product, and ours beside the best other one."""
    means = {k: {name: statistics.fmean(row[k] for row in rows[name]) for name in rows} for k in _KS}
    return begin | {"n": len(rows[OURS])} | _shown(means)


def _mean(rows: dict[str, list[Row]]) -> dict[str, Any]:
    """The mean over the corpora, whatever their size."""
    means: dict[int, dict[str, float]] = {}
    for k in _KS:
        means[k] = {}
        for name, each in rows.items():
            by_corpus: dict[str, list[float]] = defaultdict(list)
            for corpus in NAMES:
                of_it = statistics.fmean(row[k] for row in each if row["corpus"] == corpus)
                by_corpus[_ONE.get(corpus, corpus)].append(of_it)
            means[k][name] = statistics.fmean(statistics.fmean(values) for values in by_corpus.values())
    return {"corpus": "mean of the corpora", "n": len(rows[OURS])} | _shown(means)


def _shown(means: dict[int, dict[str, float]]) -> dict[str, str]:
    shown = {}
    for k, by_name in means.items():
        shown |= {f"{name} @{k}": f"{by_name[name]:.3f}" for name in in_order(by_name)}
        others = [value for name, value in by_name.items() if name != OURS]
        shown[f"ours / best other @{k}"] = ratio(by_name[OURS], max(others, default=0.0))
    return shown
