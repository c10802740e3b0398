"""Puts the two legs of a search together."""

from __future__ import annotations

from collections.abc import Sequence

from ..domain.models import Candidate

VECTOR_WEIGHT = 0.5  # convex combination; equal weights measured best, and reciprocal ranks worse than words alone


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


def _stretched(leg: Sequence[Candidate]) -> dict[int, float]:
    if not leg:
        return {}
    low, high = min(c.score for c in leg), max(c.score for c in leg)
    if high - low < 1e-9:
        return {c.id: 1.0 for c in leg}
    return {c.id: (c.score - low) / (high - low) for c in leg}
