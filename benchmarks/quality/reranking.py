"""What the bundled cross-encoder makes of the order on the corpora, and what it costs: evidence recall at 1, 5 and 10.

`search`: as words and meaning have it. `reranked`: the best of it blended as shipped, however long that takes. `in
time`: with what is scored within the default deadline on this machine as it is. `--variants`: the shipped code with one
constant changed. Changes are those to `search`, question by question. `read` is the share of the questions that the
provider has reranked; here all of them are. `--by-length`: questions that are short enough for it, and the others.

    python reranking.py --data DIR --reranker DIR [--corpus NAME ...] [--themes N] [--embedded] [--cache FILE]
                        [--half chosen held] [--variants [NAME ...]] [--questions N] [--by-length]
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

sys.path += [str(folder) for folder in Path(__file__).resolve().parents[:3]]
import common
from corpora import Asked
from recall import Stored, loaded, options, share_found, themes_of, with_interval

from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.domain.measures import Latencies
from hermes_memory_pgvector.domain.types import Filters, Question, Scope
from hermes_memory_pgvector.embed.cross_encoder import LANGUAGE, QUESTION_MAX_CHARS, CrossEncoder, Logits
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.recall import reranking
from hermes_memory_pgvector.recall.reranking import BUNDLED_S, MAX_CANDIDATES, BundledReorderer

_DEPTHS = (1, 5, 10)
_HALVES = {"chosen": False, "held": True}  # the one that constants were chosen on, and the one that was held out
_PATIENCE_S = 600.0
VARIANTS: dict[str, dict[str, Any]] = {
    "cross-encoder alone": {"MODEL_WEIGHT": 1.0},
    "weight .3": {"MODEL_WEIGHT": 0.3},
    "weight .5": {"MODEL_WEIGHT": 0.5},
    "weight .6": {"MODEL_WEIGHT": 0.6},
    "weight .7": {"MODEL_WEIGHT": 0.7},
    "10 results": {"candidates": 10},
    "40 results": {"candidates": 40},
    "400 characters": {"PIECE_MAX_CHARS": 400},
}


class _Once(CrossEncoder):
    """A cross-encoder that scores each pair once, however many ways want it."""

    def __init__(self, folder: Path, *, threads: int) -> None:
        super().__init__(folder, threads=threads)
        self._known: dict[tuple[str, str], Logits] = {}

    def logits(self, question: str, texts: Sequence[str], *, until: float) -> Logits:
        """One number for each of the texts, those that are not known yet by the model."""
        for text in texts:
            if (question, text) not in self._known:
                self._known[question, text] = super().logits(question, [text], until=until)
        return tuple(self._known[question, text][0] for text in texts)


class Way(NamedTuple):
    """Who reranks, and the constants that it does so with."""

    reorderer: BundledReorderer
    changed: Mapping[str, Any] = {}

    def order(self, asked: Asked, hits: Sequence[Any]) -> tuple[list[Any], float]:
        """The hits, best first, and the milliseconds that it took to order them."""
        began = time.perf_counter()
        with mock.patch.multiple(reranking, **self.changed) if self.changed else contextlib.nullcontext():
            order, _ = self.reorderer.reorder(asked.text, hits, time.monotonic() + _PATIENCE_S)
        return order, (time.perf_counter() - began) * 1000


def ways(folder: Path, threads: int, variants: Sequence[str]) -> dict[str, Way]:
    """The ways to be compared, by their names."""
    once, timed = _Once(folder, threads=threads), CrossEncoder(folder, threads=threads)
    once.load()
    candidates = Settings().rerank_candidates

    def patient(candidates: int) -> BundledReorderer:
        return BundledReorderer(once, Latencies(), candidates=candidates, deadline_s=_PATIENCE_S)

    made = {
        "in time": Way(BundledReorderer(timed, Latencies(), candidates=candidates, deadline_s=BUNDLED_S)),
        "reranked": Way(patient(candidates)),
    }
    for name in variants:
        changed = VARIANTS[name]
        rest = {key: value for key, value in changed.items() if key != "candidates"}
        made[name] = Way(patient(changed.get("candidates", candidates)), rest)
    return made


def evaluate(
    provider: PgvectorMemoryProvider, asked: Asked, stored: Stored, ways: Mapping[str, Way]
) -> dict[str, tuple[list[float], float]]:
    """By way, the share of what answers a question that it finds at each depth, and what it takes beside the search."""
    assert provider.runtime is not None
    scope, filters = Scope("theme", stored.theme.name), Filters(until=asked.until)
    question = Question(asked.text, scope, MAX_CANDIDATES, _PATIENCE_S, filters)
    began = time.perf_counter()
    hits = list(provider.runtime.searcher.recall([stored.store], question).hits)
    orders = {"search": (hits, (time.perf_counter() - began) * 1000)}
    orders |= {name: way.order(asked, hits) for name, way in ways.items()}
    return {
        name: ([share_found(asked.gold, stored.names_of(order), depth) for depth in _DEPTHS], took_ms)
        for name, (order, took_ms) in orders.items()
    }


def summary(about: dict[str, Any], rows: Sequence[dict[str, tuple[list[float], float]]]) -> Iterator[dict[str, Any]]:
    """One line a way: recall, its intervals, and the change to the search."""
    for way in rows[0]:
        line = about | {"n": len(rows), "order": way}
        for place, depth in enumerate(_DEPTHS):
            line[f"@{depth}"] = with_interval([row[way][0][place] for row in rows])
        for place, depth in enumerate(_DEPTHS if way != "search" else ()):
            changes = [row[way][0][place] - row["search"][0][place] for row in rows]
            line[f"change @{depth}"] = with_interval(changes, "+.3f")
        if way in ("search", "in time"):
            line["ms"] = round(statistics.median(row[way][1] for row in rows), 1)
        yield line


def main() -> None:
    """Load, ask, print."""
    parser = options(__doc__)
    parser.add_argument("--reranker", type=Path, required=True, metavar="DIR", help="the cross-encoder's folder")
    parser.add_argument(
        "--half", nargs="+", default=["chosen"], choices=list(_HALVES), help="`held` is to be looked at once"
    )
    parser.add_argument(
        "--variants", nargs="*", choices=list(VARIANTS), metavar="NAME", help="one constant changed; of all by default"
    )
    parser.add_argument("--questions", type=int, default=300, metavar="N", help="of a half of a corpus, a sample")
    parser.add_argument("--by-length", action="store_true", help="a line for short questions, and one for longer ones")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="as `embed_threads`")
    args = parser.parse_args()
    names = list(VARIANTS) if args.variants == [] else args.variants or []
    compared = ways(args.reranker, args.threads, names)
    table: list[dict[str, Any]] = []
    read: dict[str, float] = {}
    with loaded(args, themes_of(args)) as (provider, stored):
        for corpus, half in itertools.product(args.corpus, args.half):
            every = [each for each in stored if each.theme.corpus == corpus]
            asked = [(q, each) for each in every for q in each.theme.questions if q.held == _HALVES[half]]
            sample = random.Random(common.SEED).sample(asked, min(args.questions, len(asked)))
            rows = [evaluate(provider, question, each, compared) for question, each in sample]
            about = {"corpus": corpus, "half": half}
            lines = list(summary(about, rows))
            if args.by_length:
                for name, is_long in (("short", False), ("long", True)):
                    some = [
                        row
                        for row, (question, _) in zip(rows, sample, strict=True)
                        if (len(question.text) > QUESTION_MAX_CHARS) == is_long
                    ]
                    lines += summary(about | {"questions": name}, some) if some else []
            table += lines
            reads = compared["reranked"].reorderer.reads
            read[corpus] = round(statistics.fmean(reads(question.text, [LANGUAGE]) for question, _ in sample), 2)
            for line in lines:
                print(json.dumps(line), file=sys.stderr, flush=True)
    timed = compared["in time"].reorderer.stats()
    parameters = {
        "model": None if args.no_model else args.model_name,
        "threads": args.threads,
        "read": read,
        "texts scored in time": round(timed["rerank_texts"] / max(1, timed["reranked"]), 1),
    }
    common.report("quality/reranking", parameters, table, args.json)
    print(parameters)


if __name__ == "__main__":
    main()
