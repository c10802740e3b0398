"""Recall as an operator asks for it: the same search as the agents' tools, with both stores side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...domain.errors import InvalidArgument, WrongUsage
from ...domain.text import both_ends, clean
from ...domain.types import PAGES_END, Answer, Question, Store
from ...recall.render import as_result
from ..common.refs import Ref

QUESTION_MAX_CHARS = 8000  # looked at in a pasted file; the search itself takes less still

Recall = Callable[[Sequence[Store], Question], Answer]


@dataclass(frozen=True)
class Found:
    """What each store answers, best first: the tools' own results, with what an operator calls the row."""

    results: list[dict[str, Any]]
    mode: str
    reranked: bool

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {"results": self.results, "count": len(self.results), "mode": self.mode, "reranked": self.reranked}


def question(text: str) -> str:
    """A question as it is looked up. Raises WrongUsage for an empty one."""
    kept = both_ends(clean(text), QUESTION_MAX_CHARS).strip()
    if not kept:
        raise WrongUsage("the question is empty; say in plain words what to look for")
    return kept


def find(recall: Recall, stores: Sequence[Store], asked: dict[Store, Question], *, explain: bool) -> Found:
    """Look up a question in each store by itself, as each tool does. Raises InvalidArgument for a page too far down."""
    results: list[dict[str, Any]] = []
    modes, reranked = set(), False
    for store in stores:
        if asked[store].offset + asked[store].limit > PAGES_END:
            raise InvalidArgument(f"--offset and --limit reach {PAGES_END} results at most; ask a narrower question")
        answer = recall([store], asked[store])
        modes.add(answer.mode)
        reranked |= answer.reranked
        for hit in answer.hits:
            row = {"ref": str(Ref(store, hit.id)), "store": store}
            results.append(row | as_result(hit, asked[store].text, explain=explain))
    return Found(results, "hybrid" if "hybrid" in modes else "lexical", reranked)
