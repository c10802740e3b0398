"""Puts the two legs of a search together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..domain.models import Candidate

VECTOR_WEIGHT = 0.5  # convex combination; equal weights measured best, and reciprocal ranks worse than words alone

LENT_SHARE = 0.35  # of a turn's score, to each turn beside it


def fuse(vector: Sequence[Candidate], lexical: Sequence[Candidate]) -> dict[int, float]:
    """Score every candidate 0 to 1: each leg's scores stretched to 0..1, then weighed; absent from a leg counts 0.

    With one leg empty the other decides alone.
    """
    dense, words = _stretched(vector), _stretched(lexical)
    if not dense or not words:
        return dense or words
    return {
        row: VECTOR_WEIGHT * dense.get(row, 0.0) + (1 - VECTOR_WEIGHT) * words.get(row, 0.0)
        for row in dense.keys() | words.keys()
    }


def smooth(scores: Mapping[int, float], beside: Mapping[int, Sequence[int]]) -> dict[int, float]:
    """Let each turn lend a part of its score to the turns beside it: what answers often stands next to what matches.

    The best score stays what it was, so that turns and memories can still be compared.
    """
    lent = dict(scores)
    for turn, score in scores.items():
        for neighbour in beside.get(turn, ()):
            lent[neighbour] = lent.get(neighbour, 0.0) + LENT_SHARE * score
    shrink = max(scores.values(), default=1.0) / max(lent.values(), default=1.0)
    return {turn: score * shrink for turn, score in lent.items()}


def _stretched(leg: Sequence[Candidate]) -> dict[int, float]:
    if not leg:
        return {}
    low, high = min(c.score for c in leg), max(c.score for c in leg)
    if high - low < 1e-9:
        return {c.id: 1.0 for c in leg}
    return {c.id: (c.score - low) / (high - low) for c in leg}
