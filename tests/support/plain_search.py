"""What a search engine and a vector store alone would find, to compare recall with."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

_TERM = re.compile(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+")
_K1, _B = 1.2, 0.75


def bm25(texts: Sequence[str], question: str) -> list[str]:
    """The texts that share a word with the question, best first by BM25."""
    docs = [Counter(_TERM.findall(text.lower())) for text in texts]
    mean = sum(doc.total() for doc in docs) / len(docs)
    scores: dict[str, float] = {}
    for term in set(_TERM.findall(question.lower())):
        holding = [(text, doc) for text, doc in zip(texts, docs, strict=True) if term in doc]
        idf = math.log(1 + (len(docs) - len(holding) + 0.5) / (len(holding) + 0.5))
        for text, doc in holding:
            length = 1 - _B + _B * doc.total() / mean
            scores[text] = scores.get(text, 0.0) + idf * doc[term] * (_K1 + 1) / (doc[term] + _K1 * length)
    return sorted(scores, key=lambda text: -scores[text])


def nearest(vectors: dict[str, Sequence[float]], question: Sequence[float]) -> list[str]:
    """The texts by the cosine of their vectors, of unit length, to the question's."""
    return sorted(vectors, key=lambda text: -sum(a * b for a, b in zip(vectors[text], question, strict=True)))
