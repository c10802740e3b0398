"""Evidence recall on LoCoMo through both products' recall_conversation: the same turns, dates and vectors.

Scored as quality/recall.py does. The rows are loaded straight into the tables, since no hook of either takes a date. A
model of fewer than 768 dims is padded with zeros, which no cosine notices.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from corpora import CATEGORIES, Theme, read_corpus
from pgvector.psycopg import register_vector
from products import DIMS
from stage import Database, Stage
from tables import OURS, THEIRS, Table, ratio
from vectors import CachedModel, texts_of

from hermes_memory_pgvector.embed.instructions import instructions_for

_KS = (5, 10)


def name_of(args: argparse.Namespace) -> str:
    """The model's name."""
    return args.model_name or str(args.model_dir.name)


def known(args: argparse.Namespace, folder: Path) -> Path:
    """A file with the vectors of all turns and questions, as they are and after the model's instructions."""
    conversations = read_corpus(args.data)[: args.conversations]
    plain = texts_of(conversations, instructions_for(""))
    texts = list(dict.fromkeys([*plain, *texts_of(conversations, instructions_for(name_of(args)))]))
    vectors = np.array(CachedModel(args.model_dir, args.vectors).embed_all(texts), dtype=np.float32)
    path = folder / "locomo.npz"
    np.savez(path, texts=np.array(texts), vectors=np.pad(vectors, ((0, 0), (0, DIMS - vectors.shape[1]))))
    return path


def load(database: Database, conversations: list[Theme], file: Path, prefix: str) -> None:
    """Every turn with its date and its vector."""
    with np.load(file) as archive:
        vector_of = dict(zip(archive["texts"].tolist(), archive["vectors"], strict=True))
    columns = "session_id, agent_identity, role, content, ts, embedding"
    with psycopg.connect(database.admin, autocommit=True) as conn:
        register_vector(conn)
        with conn.cursor().copy(f"COPY conversations ({columns}) FROM STDIN (FORMAT binary)".encode()) as copy:
            copy.set_types(["text", "text", "text", "text", "timestamptz", "vector"])
            for conversation in conversations:
                for turn in conversation.turns:
                    session = f"{conversation.name}-{turn.session}"
                    vector = vector_of[prefix + turn.text]
                    copy.write_row((session, conversation.name, "user", turn.text, turn.at, vector))
        conn.execute("VACUUM ANALYZE")


def scored(conversation: Theme, answers: list[list[str]]) -> list[dict[Any, float]]:
    """Category and evidence recall of each question."""
    by_text: dict[str, set[str]] = {}
    for turn in conversation.turns:
        by_text.setdefault(turn.text, set()).add(turn.name)
    rows = []
    for asked, answer in zip(conversation.questions, answers, strict=True):
        found = [by_text.get(text, set()) for text in answer]
        at = {k: len(asked.gold & set().union(*found[:k])) / len(asked.gold) for k in _KS}
        rows.append({"category": asked.category} | at)
    return rows


def run(stage: Stage, args: argparse.Namespace) -> list[Table]:
    """Evidence recall by kind of question."""
    conversations = read_corpus(args.data)[: args.conversations]
    instructions, file = instructions_for(name_of(args)), stage.known
    assert file is not None
    rows: dict[str, list[dict[Any, float]]] = defaultdict(list)
    took: dict[str, list[float]] = defaultdict(list)
    with contextlib.ExitStack() as stack:
        themes = [each.name for each in conversations]
        workers = {}
        for product in stage.products:
            database = stage.database(product)
            load(database, conversations, file, instructions.document if product.name == OURS else "")
            workers[product.name] = stack.enter_context(
                stage.worker(product, database, themes, embed_model=name_of(args))
            )
        for place, conversation in enumerate(conversations):
            queries = [asked.text for asked in conversation.questions]
            for name, worker in workers.items():
                asked = {"tool": "recall_conversation", "queries": queries, "limit": max(_KS), "instance": place}
                answer = worker.ask("ask", timeout_s=600, **asked)
                rows[name] += scored(conversation, answer["answers"])
                took[name] += answer["us"]
    table = Table("incumbent-evidence", f"LoCoMo, {len(rows[OURS]):,} questions, {name_of(args)}: evidence recall")
    for label in ("all", *CATEGORIES.values()):
        line: dict[str, Any] = {"questions": label}
        chosen = {name: [row for row in each if label in ("all", row["category"])] for name, each in rows.items()}
        line["n"] = len(chosen[OURS])
        for k in _KS:
            ours, theirs = (statistics.fmean(row[k] for row in chosen[name]) for name in (OURS, THEIRS))
            line |= {f"ours @{k}": f"{ours:.3f}", f"theirs @{k}": f"{theirs:.3f}", f"ratio @{k}": ratio(ours, theirs)}
        table.rows.append(line)
    p50 = {name: statistics.median(each) / 1000 for name, each in took.items()}
    table.notes.append(f"A tool call took {p50[OURS]:.1f} ms (ours) and {p50[THEIRS]:.1f} ms (theirs) in the median.")
    return [table]
