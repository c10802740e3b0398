"""What the bundled cross-encoder makes of the order on LoCoMo, and what it costs: evidence recall at 1, 5 and 10.

`search`: as words and meaning have it. `whole`: the best 20 reranked, however long that takes. `in time`: what is
scored within the default deadline on this machine as it is. `ms` is the median of what each adds to the search.
The data (locomo10.json, CC BY-NC 4.0, for evaluation only) is not part of this repository: name it with --data.
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
from corpus import Asked, Conversation, halves, read_conversations
from locomo import loaded, options

from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.domain.latency import Latencies
from hermes_memory_pgvector.domain.types import Hit, Question, Scope
from hermes_memory_pgvector.embed.cross_encoder import CrossEncoder
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.recall.reranking import BUNDLED_S, BundledReorderer

_DEPTHS = (1, 5, 10)
_PATIENCE_S = 600.0


def evaluate(
    provider: PgvectorMemoryProvider, asked: Asked, conversation: Conversation, ways: dict[str, BundledReorderer]
) -> dict[str, Any]:
    """One row a question: what each way finds, and what it takes beside the search."""
    assert provider.runtime is not None
    names: dict[str, set[str]] = {}
    for turn in conversation.turns:
        names.setdefault(turn.text, set()).add(turn.name)
    question = Question(asked.text, Scope("theme", conversation.theme), 40, _PATIENCE_S)
    began = time.perf_counter()
    hits = list(provider.runtime.searcher.recall(["turns"], question).hits)
    row: dict[str, Any] = {"theme": conversation.theme, "search ms": (time.perf_counter() - began) * 1000}
    row["search"] = _recalls(asked, hits, names)
    for way, reorderer in ways.items():
        began = time.perf_counter()
        order, _ = reorderer.reorder(asked.text, hits, time.monotonic() + _PATIENCE_S)
        row[f"{way} ms"] = (time.perf_counter() - began) * 1000
        row[way] = _recalls(asked, order, names)
    return row


def _recalls(asked: Asked, hits: Sequence[Hit], names: dict[str, set[str]]) -> list[float]:
    found = [names.get(hit.content, set()) for hit in hits]
    return [len(asked.gold & set().union(*found[:depth])) / len(asked.gold) for depth in _DEPTHS]


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
    conversations = read_conversations(args.data)
    held_out = [each for each in conversations if each.theme in halves(conversations)[1]]
    asked = [(conversation, question) for conversation in held_out for question in conversation.questions]
    sample = random.Random(common.SEED).sample(asked, min(args.questions, len(asked)))
    ways = {}
    for way, deadline_s in (("whole", _PATIENCE_S), ("in time", BUNDLED_S)):
        encoder = CrossEncoder(args.reranker, threads=args.threads)
        encoder.load()
        candidates = Settings().rerank_candidates
        ways[way] = BundledReorderer(encoder, Latencies(), candidates=candidates, deadline_s=deadline_s)
    with loaded(args, held_out) as provider:
        rows = [evaluate(provider, question, conversation, ways) for conversation, question in sample]
    parameters = {
        "questions": len(rows),
        "threads": args.threads,
        "texts scored in time": round(ways["in time"].stats()["rerank_texts"] / len(rows), 1),
    }
    common.report("quality/reranking", parameters, summary(rows, ["search", *ways]), args.json)
    print(parameters)


if __name__ == "__main__":
    main()
