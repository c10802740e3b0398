"""What the bundled cross-encoder makes of the order on a corpus, and what it costs: evidence recall at 1, 5 and 10.

`search`: as words and meaning have it. `whole`: the best 20 reranked, however long that takes. `in time`: what is
scored within the default deadline on this machine as it is. `ms` is the median of what each adds to the search.
    python reranking.py --data DIR --corpus locomo10 --reranker DIR [--questions N] [--themes N] [--cache FILE]
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path += [str(folder) for folder in Path(__file__).resolve().parents[:3]]
import common
from corpora import Asked, read_corpus
from recall import Stored, loaded, options, share_found

from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.domain.measures import Latencies
from hermes_memory_pgvector.domain.types import Question, Scope
from hermes_memory_pgvector.embed.cross_encoder import CrossEncoder
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.recall.reranking import BUNDLED_S, BundledReorderer

_DEPTHS = (1, 5, 10)
_PATIENCE_S = 600.0


def evaluate(
    provider: PgvectorMemoryProvider, asked: Asked, stored: Stored, ways: dict[str, BundledReorderer]
) -> dict[str, Any]:
    """One row a question: what each way finds, and what it takes beside the search."""
    assert provider.runtime is not None
    question = Question(asked.text, Scope("theme", stored.theme.name), 40, _PATIENCE_S)
    began = time.perf_counter()
    hits = list(provider.runtime.searcher.recall([stored.store], question).hits)
    row: dict[str, Any] = {"search ms": (time.perf_counter() - began) * 1000}
    row["search"] = [share_found(asked.gold, stored.names_of(hits), depth) for depth in _DEPTHS]
    for way, reorderer in ways.items():
        began = time.perf_counter()
        order, _ = reorderer.reorder(asked.text, hits, time.monotonic() + _PATIENCE_S)
        row[f"{way} ms"] = (time.perf_counter() - began) * 1000
        row[way] = [share_found(asked.gold, stored.names_of(order), depth) for depth in _DEPTHS]
    return row


def summary(rows: Sequence[dict[str, Any]], ways: Sequence[str]) -> list[dict[str, Any]]:
    """One line a way."""
    return [
        {"order": way}
        | {
            f"recall@{depth}": f"{statistics.fmean(row[way][place] for row in rows):.3f}"
            for place, depth in enumerate(_DEPTHS)
        }
        | {"ms": round(statistics.median(row[f"{way} ms"] for row in rows), 1)}
        for way in ways
    ]


def main() -> None:
    """Load, ask, print."""
    parser = options(__doc__)
    parser.add_argument("--reranker", type=Path, required=True, metavar="DIR", help="the cross-encoder's folder")
    parser.add_argument("--questions", type=int, default=300, metavar="N", help="a sample of the held-out half")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="as `embed_threads`")
    args = parser.parse_args()
    themes = [theme for name in args.corpus for theme in read_corpus(args.data / f"{name}.json")[: args.themes]]
    ways = {}
    for way, deadline_s in (("whole", _PATIENCE_S), ("in time", BUNDLED_S)):
        encoder = CrossEncoder(args.reranker, threads=args.threads)
        encoder.load()
        candidates = Settings().rerank_candidates
        ways[way] = BundledReorderer(encoder, Latencies(), candidates=candidates, deadline_s=deadline_s)
    with loaded(args, themes) as (provider, stored):
        held = [(question, each) for each in stored for question in each.theme.questions if question.held]
        sample = random.Random(common.SEED).sample(held, min(args.questions, len(held)))
        rows = [evaluate(provider, question, each, ways) for question, each in sample]
    parameters = {
        "corpora": list(args.corpus),
        "questions": len(rows),
        "threads": args.threads,
        "texts scored in time": round(ways["in time"].stats()["rerank_texts"] / len(rows), 1),
    }
    common.report("quality/reranking", parameters, summary(rows, ["search", *ways]), args.json)
    print(parameters)


if __name__ == "__main__":
    main()
