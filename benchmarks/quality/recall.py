"""Evidence recall through the provider: is what answers a question among the best rows?

Each theme of the corpora is written with its dates, as turns or as memories, and each question asked as the recall
tools do, in its theme, before a tool folds exchanges and cuts long texts. A message of realmem is asked as when it was
said: without what was said in its session and later. evidence recall@k = found gold / gold among the first k, mean over
questions; of a session any turn counts. Beside it stand plain BM25 (k1 1.2, b 0.75, words as they are written) and
variants: the shipped code with one constant changed, and the difference to it with a paired bootstrap interval.

    python recall.py --data DIR [--corpus NAME ...] [--no-model | --model-dir DIR --model-name NAME --dims N]
                     [--themes N] [--embedded] [--cache FILE] [--variants [NAME ...]] [--held]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import random
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

sys.path += [str(folder) for folder in Path(__file__).resolve().parents[:3]]
import common
import psycopg
from corpora import ALL_NAMES, NAMES, Theme, read_corpus
from vectors import CachedModel, texts_of

from hermes_memory_pgvector.domain.operations import Message, RememberMemory, StoreTurn
from hermes_memory_pgvector.domain.types import Filters, Hit, Question, Scope, Store
from hermes_memory_pgvector.embed.instructions import instructions_for
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.recall import asked_time, fuse, search
from hermes_memory_pgvector.store import lexical, vector_search
from tests.support.embedding_server import EmbeddingServer
from tests.support.model_files import MODEL_DIMS, MODEL_NAME, model_dir
from tests.support.waiting import until

Found = list[tuple[float, float]]  # recall at 5 and at 10, by question
_ROUNDS = 1000  # of the bootstrap
_DEPTHS = (5, 10)
_PATIENCE_S = 30.0
_TERM = re.compile(r"[a-z0-9]+|[\u4e00-\u9fff]")
_K1, _B = 1.2, 0.75
VARIANTS: dict[str, dict[str, Any]] = {
    "lent nothing": {"LENT_SHARES": ()},
    "lent .35 to one on each side": {"LENT_SHARES": (0.35,)},
    "lent .35 .35": {"LENT_SHARES": (0.35, 0.35)},
    "lent .7 .7": {"LENT_SHARES": (0.7, 0.7)},
    "pivot 20": {"LENGTH_PIVOT": 20},
    "pivot 90": {"LENGTH_PIVOT": 90},
    "length does not count": {"LENGTH_PIVOT": 1e9},
    "dated 0": {"DATED_SHARE": 0.0},
    "dated .5": {"DATED_SHARE": 0.5},
    "dated 1.2": {"DATED_SHARE": 1.2},
    "around 0": {"AROUND_SHARE": 0.0},
    "around .75": {"AROUND_SHARE": 0.75},
    "around as the time itself": {"AROUND_SHARE": 1.0},
    "no beginnings": {"SHORT_PERIOD": timedelta(days=-1)},
    "depth 50": {"CANDIDATES": 50},
    "depth 200": {"CANDIDATES": 200},
    "vector weight .3": {"VECTOR_WEIGHT": 0.3},
    "vector weight .5": {"VECTOR_WEIGHT": 0.5},
    "vector weight .6": {"VECTOR_WEIGHT": 0.6},
    "words always in full": {"TELLING_SHARE": 1e-9},
    "words in full from two words on": {"TELLING_WORDS": 2.0},
    "words in full from four words on": {"TELLING_WORDS": 4.0},
    "words by their share alone": {"TELLING_WORDS": 1e9},
}
_OF_BOTH_LEGS = {"VECTOR_WEIGHT", "TELLING_SHARE", "TELLING_WORDS"}  # of no effect where only words are searched
_ALONE = {"LENT_SHARES": (), "DATED_SHARE": 0.0, "VECTOR_WEIGHT": 1.0, "FOREIGN_WEIGHT": 1.0}


class Stored:
    """A theme in the store: which gold names each row stands for, by the tool that returns it."""

    def __init__(self, theme: Theme, rows: Mapping[str, Sequence[int]]) -> None:
        self.theme = theme
        self.store: Store = "memories" if theme.turns[0].role == "memory" else "turns"
        by_text: dict[str, set[str]] = {}
        for turn in theme.turns:
            by_text.setdefault(turn.text, set()).add(turn.name)
        # Of rows with the same text a tool returns one.
        self._names = {row: by_text[turn.text] for n, turn in enumerate(theme.turns) for row in rows.get(str(n), ())}

    def names_of(self, hits: Sequence[Hit]) -> list[set[str]]:
        """The gold names that each row stands for."""
        return [self._names.get(hit.id, set()) for hit in hits]

    def ask(self, provider: PgvectorMemoryProvider, *, held: bool) -> tuple[Found, list[float]]:
        """Recall of each question of one half, and the milliseconds it took."""
        assert provider.runtime is not None
        found, took_ms = [], []
        for asked in (each for each in self.theme.questions if each.held == held):
            started = time.perf_counter()
            filters = Filters(until=asked.until)
            question = Question(asked.text, Scope("theme", self.theme.name), max(_DEPTHS), _PATIENCE_S, filters)
            hits = provider.runtime.searcher.recall([self.store], question).hits
            took_ms.append((time.perf_counter() - started) * 1000)
            found.append(_recall(asked.gold, self.names_of(hits)))
        return found, took_ms


def share_found(gold: frozenset[str], found: Sequence[set[str]], depth: int) -> float:
    """The share of the gold among the first rows."""
    return len(gold & set().union(*found[:depth])) / len(gold)


def _recall(gold: frozenset[str], found: Sequence[set[str]]) -> tuple[float, float]:
    at_5, at_10 = (share_found(gold, found, k) for k in _DEPTHS)
    return at_5, at_10


class _Index(NamedTuple):
    """The texts of a theme as BM25 has them: the words of each, their mean number, and who holds a word."""

    docs: list[Counter[str]]
    mean: float
    holding: dict[str, list[int]]


@lru_cache(maxsize=1)
def _index(theme: Theme, until: datetime | None) -> _Index:
    turns = [turn for turn in theme.turns if until is None or turn.at < until]
    docs = [Counter(_TERM.findall(turn.text.lower())) for turn in turns]
    holding: dict[str, list[int]] = {}
    for number, doc in enumerate(docs):
        for term in doc:
            holding.setdefault(term, []).append(number)
    return _Index(docs, statistics.fmean(doc.total() for doc in docs), holding)


def plain_bm25(theme: Theme, *, held: bool) -> Found:
    """Recall of each question of one half by what a search engine without any of this finds."""
    found = []
    for asked in (each for each in theme.questions if each.held == held):
        docs, mean, holding = _index(theme, asked.until)
        scores: Counter[int] = Counter()
        for term in set(_TERM.findall(asked.text.lower())):
            rows = holding.get(term, [])
            idf = math.log(1 + (len(docs) - len(rows) + 0.5) / (len(rows) + 0.5))
            for row in rows:
                often = docs[row][term]
                length = docs[row].total() / mean
                scores[row] += idf * often * (_K1 + 1) / (often + _K1 * (1 - _B + _B * length))  # type: ignore[assignment]
        best = sorted(scores, key=lambda row: (-scores[row], row))[: max(_DEPTHS)]
        found.append(_recall(asked.gold, [{theme.turns[row].name} for row in best]))
    return found


def write(provider: PgvectorMemoryProvider, theme: Theme) -> None:
    """Store a theme as the hooks would have, with its own dates."""
    assert provider.runtime is not None
    for number, turn in enumerate(theme.turns):
        at, metadata = turn.at.timestamp(), {"number": str(number)}
        if turn.role == "memory":
            provider.runtime.writer.submit(
                RememberMemory(theme=theme.name, at=at, target="memory", content=turn.text, metadata=metadata)
            )
            continue
        said = (Message("assistant" if turn.role == "assistant" else "user", turn.text),)
        session = f"{theme.name}-{turn.session}"
        provider.runtime.writer.submit(
            StoreTurn(theme=theme.name, at=at, session_id=session, messages=said, metadata=metadata)
        )


@contextlib.contextmanager
def embedding(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The settings of the model that the options name, which answers for the length of the block."""
    if args.no_model:
        yield {}
        return
    with EmbeddingServer(CachedModel(args.model_dir or model_dir(), args.cache)) as endpoint:
        yield {"embed_url": endpoint.url, "embed_model": args.model_name}


@contextlib.contextmanager
def loaded(args: argparse.Namespace, themes: Sequence[Theme]) -> Iterator[tuple[PgvectorMemoryProvider, list[Stored]]]:
    """A provider over a store with every theme, embedded unless `--no-model`."""
    with contextlib.ExitStack() as stack:
        config: dict[str, Any] = {"dims": args.dims, "spool_max_mb": 2000, "recall_deadline_s": 30}
        dsn = config["dsn"] = args.dsn or stack.enter_context(common.postgres()).database(args.dims)
        config |= stack.enter_context(embedding(args))
        provider = stack.enter_context(common.provider(config))
        assert provider.runtime is not None
        provider.runtime.backend.bring_up()
        if not sum(provider.runtime.backend.counts().values()):
            for theme in themes:
                write(provider, theme)
            assert provider.runtime.writer.flush(7200)
        if not args.no_model:  # rows that a busy machine could not embed in time are embedded later
            until(lambda: not _pending(dsn), 7200)
        yield provider, [Stored(theme, _rows(dsn, theme)) for theme in themes]


def _pending(dsn: str) -> int:
    """How many rows wait for their vectors."""
    with psycopg.connect(dsn) as connection:
        asked = "SELECT count(*) FROM {} WHERE embedding IS NULL AND sig IS NULL"
        counts = [connection.execute(asked.format(each).encode()) for each in ("memory_entries", "conversations")]
        return sum(row[0] for each in counts for row in each)


def _rows(dsn: str, theme: Theme) -> dict[str, list[int]]:
    """The ids of the rows by the number of their turn."""
    table = "memory_entries" if theme.turns[0].role == "memory" else "conversations"
    asked = f"SELECT metadata ->> 'number', array_agg(id) FROM {table} WHERE agent_identity = %s GROUP BY 1"
    with psycopg.connect(dsn) as connection:
        return dict(connection.execute(asked.encode(), (theme.name,)).fetchall())


def run(provider: PgvectorMemoryProvider, stored: Sequence[Stored], args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each corpus and way, of the half to choose on or the one held out."""
    ways: dict[str, dict[str, Any]] = {"as shipped": {}}
    if not args.no_model:
        ways["dense alone"] = _ALONE
    if args.variants is not None:
        chosen = args.variants or [name for name in VARIANTS if not args.no_model or _counts_without_model(name)]
        ways |= {name: VARIANTS[name] for name in chosen}
    table, reference = [], {}
    for name, changed in {"plain BM25": None, **ways}.items():
        found, took_ms = [], []
        with contextlib.ExitStack() as stack:
            for module in (asked_time, fuse, search, lexical, vector_search):
                known = {key: value for key, value in (changed or {}).items() if hasattr(module, key)}
                stack.enter_context(mock.patch.multiple(module, **known) if known else contextlib.nullcontext())
            for each in stored:
                plain = changed is None
                values, ms = (
                    (plain_bm25(each.theme, held=args.held), []) if plain else each.ask(provider, held=args.held)
                )
                found += [(each.theme.corpus, value) for value in values]
                took_ms += ms
        reference = reference or {"as shipped": found} if name == "as shipped" else reference
        table += summary(name, found, reference.get("as shipped"), statistics.median(took_ms or [0.0]))
        for line in table[-len({corpus for corpus, _ in found}) :]:
            print(json.dumps(line), file=sys.stderr, flush=True)
    return table


def _counts_without_model(name: str) -> bool:
    return _OF_BOTH_LEGS.isdisjoint(VARIANTS[name])


def summary(
    way: str, found: Sequence[tuple[str, tuple[float, float]]], reference: Sequence[tuple[str, Any]] | None, p50: float
) -> list[dict[str, Any]]:
    """A row a corpus: the recall, its interval, and the difference to the reference."""
    table = []
    for corpus in dict.fromkeys(corpus for corpus, _ in found):
        mine = [value for name, value in found if name == corpus]
        theirs = [value for name, value in reference or () if name == corpus]
        line: dict[str, Any] = {"way": way, "corpus": corpus, "n": len(mine)}
        for at, k in enumerate(_DEPTHS):
            line[f"@{k}"] = with_interval([value[at] for value in mine])
        for at, k in enumerate(_DEPTHS if theirs and reference is not found else ()):
            line[f"change @{k}"] = with_interval([a[at] - b[at] for a, b in zip(mine, theirs, strict=True)], "+.3f")
        table.append(line | {"p50_ms": round(p50, 1)})
    return table


def with_interval(values: Sequence[float], form: str = ".3f") -> str:
    """The mean and its interval, as they are printed."""
    low, high = interval(values, random.Random(common.SEED))
    return f"{statistics.fmean(values):{form}} ({low:{form}} {high:{form}})"


def interval(values: Sequence[float], generator: random.Random) -> tuple[float, float]:
    """A 95 % bootstrap confidence interval of the mean."""
    means = sorted(statistics.fmean(generator.choices(values, k=len(values))) for _ in range(_ROUNDS))
    return means[_ROUNDS * 25 // 1000], means[_ROUNDS * 975 // 1000 - 1]


def options(doc: str | None, *, data: bool = True) -> argparse.ArgumentParser:
    """The options of every program here that searches; `data`: also those about the corpora."""
    made = common.parser(doc)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    if data:
        made.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder with the corpora")
        made.add_argument(
            "--corpus", nargs="+", default=NAMES, metavar="NAME", help=f"{', '.join(ALL_NAMES)}, or a file there"
        )
        made.add_argument("--themes", type=int, metavar="N", help="of each corpus no more than the first N")
        made.add_argument("--embedded", action="store_true", help="only themes whose vectors are all in the cache")
    made.add_argument("--no-model", action="store_true", help="recall by words only")
    made.add_argument("--model-dir", type=Path, metavar="DIR", help="another model than the tests' (see vectors.py)")
    made.add_argument("--model-name", default=MODEL_NAME, metavar="NAME", help="its name, by which instructions go")
    made.add_argument("--dims", type=int, default=MODEL_DIMS, metavar="N", help="floats in its vectors")
    made.add_argument("--cache", type=Path, metavar="FILE", help="where vectors are kept (see vectors.py)")
    made.add_argument("--dsn", metavar="DSN", help="a migrated database to use again, loaded when it is empty")
    return made


def themes_of(args: argparse.Namespace) -> list[Theme]:
    """The themes that the options choose."""
    themes = [theme for name in args.corpus for theme in read_corpus(args.data, name)[: args.themes]]
    if not args.embedded:
        return themes
    model, instructions = CachedModel(args.model_dir or model_dir(), args.cache), instructions_for(args.model_name)
    return [theme for theme in themes if not model.missing(texts_of([theme], instructions))]


def main() -> None:
    """Load, ask, print."""
    parser = options(__doc__)
    parser.add_argument(
        "--variants", nargs="*", choices=list(VARIANTS), metavar="NAME", help="one constant changed; of all by default"
    )
    parser.add_argument("--held", action="store_true", help="the half held out, to be looked at once")
    args = parser.parse_args()
    with loaded(args, themes_of(args)) as (provider, stored):
        rows = run(provider, stored, args)
    parameters = {"model": None if args.no_model else args.model_name, "held": args.held, "corpora": list(args.corpus)}
    common.report("quality/recall", parameters, rows, args.json)


if __name__ == "__main__":
    main()
