"""Puts the two legs of a search together.

The constants were chosen on five of ten long conversations and measured on the other five; docs/recall-quality.md has
the figures, and those of what was tried besides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..domain.types import Candidate

VECTOR_WEIGHT = 0.4  # convex combination; flat from 0.3 to 0.45. Reciprocal ranks are worse than words alone
SHARPNESS = 1.5  # exponent of a leg's scores: the many rows that match a little weigh less than the few that match well
LENT_SHARES = (0.5, 0.5)  # of a turn's score, to each turn right beside it and to each one after next
LENDERS = 40  # turns that lend: the best ones; with every candidate results are no better, and the look-up is dearer
DATED_SHARE = 0.5  # of the best score, that a row gains from a time that the question names


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


def smooth(scores: Mapping[int, float], beside: Mapping[int, Sequence[Sequence[int]]]) -> dict[int, float]:
    """Let each turn lend a part of its score to the turns beside it: what answers often stands next to what matches.

    `beside` has, for a turn, the turns before it and those after it, nearest first. Scores count as chances that a turn
    answers, and what is lent as further, independent evidence (noisy or): two halves make three quarters. Added up,
    half matches on both sides would lift a turn above a whole one. The best score stays what it was, so that turns and
    memories can still be compared.
    """
    doubt = {turn: 1 - score for turn, score in scores.items()}
    for turn, score in scores.items():
        for side in beside.get(turn, ()):
            for neighbour, share in zip(side, LENT_SHARES, strict=False):
                doubt[neighbour] = doubt.get(neighbour, 1.0) * (1 - share * score)
    best = 1 - min(doubt.values(), default=0.0)
    scale = max(scores.values(), default=0.0) / best if best > 0 else 0.0
    return {turn: (1 - left) * scale for turn, left in doubt.items()}


def favour(scores: Mapping[int, float], dated: Collection[int]) -> dict[int, float]:
    """Raise the rows `dated`, which were written at a time that the question names, by a share of the best score.

    Every score shrinks as well, so that none passes what the best was.
    """
    gain = DATED_SHARE * max(scores.values(), default=0.0)
    return {row: (score + gain * (row in dated)) / (1 + DATED_SHARE) for row, score in scores.items()}


def _stretched(leg: Sequence[Candidate]) -> dict[int, float]:
    if not leg:
        return {}
    low, high = min(c.score for c in leg), max(c.score for c in leg)
    if high - low < 1e-9:
        return {c.id: 1.0 for c in leg}
    return {c.id: ((c.score - low) / (high - low)) ** SHARPNESS for c in leg}
