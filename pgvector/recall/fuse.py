"""Puts the two legs of a search together.

The constants were chosen on halves of several corpora by their mean, and measured on the other halves;
docs/recall-quality.md has the figures, and those of what was tried besides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from ..domain.types import Candidate
from ..store.vector_search import Beside

VECTOR_WEIGHT = 0.4  # convex combination; reciprocal ranks are worse than words alone
# Of vectors by a model for English, where the question is in other letters: it tells next to nothing of these.
FOREIGN_WEIGHT = 0.1
LENT_SHARES = (0.5, 0.5)  # of a turn's score, to each turn right beside it and to each one after next
LENDERS = 40  # turns that lend: the best ones; with every candidate results are no better, and the look-up is dearer
DATED_SHARE = 0.8  # of the best score, that a row gains from a time that the question names
AROUND_SHARE = 0.5  # of that, what a row gains that was told up to a day before that time or three after it
TOLD_THEN = 2  # what the store says of a row of that time; of one around it 1


def fuse(
    vector: Sequence[Candidate], lexical: Sequence[Candidate], *, vector_weight: float | None = None
) -> dict[int, float]:
    """Score every candidate 0 to 1: each leg's scores on a scale up to 1, then weighed; absent from a leg counts 0.

    Nothing matches by words that holds none, so that leg has a zero; of vectors the last candidate is it. With one leg
    empty the other decides alone. `vector_weight` is VECTOR_WEIGHT unless given.
    """
    weight = VECTOR_WEIGHT if vector_weight is None else vector_weight
    dense, words = _stretched(vector), _scaled(lexical)
    if not dense or not words:
        return dense or words
    return {
        row: weight * dense.get(row, 0.0) + (1 - weight) * words.get(row, 0.0) for row in dense.keys() | words.keys()
    }


def smooth(scores: Mapping[int, float], beside: Mapping[int, Beside]) -> dict[int, float]:
    """Let each turn lend a part of its score to the turns beside it: what answers often stands next to what matches.

    A long turn lends little: what it holds of the question is a small part of what it is about. Scores count as chances
    that a turn answers, and what is lent as further, independent evidence (noisy or): two halves make three quarters.
    Added up, half matches on both sides would lift a turn above a whole one. The best score stays what it was, so that
    turns and memories can still be compared.
    """
    doubt = {turn: 1 - score for turn, score in scores.items()}
    for turn, score in scores.items():
        if (near := beside.get(turn)) is None:
            continue
        lent = [share * near.brevity * score for share in LENT_SHARES]
        for neighbour, part in chain(zip(near.before, lent, strict=False), zip(near.after, lent, strict=False)):
            doubt[neighbour] = doubt.get(neighbour, 1.0) * (1 - part)
    best = 1 - min(doubt.values(), default=0.0)
    scale = max(scores.values(), default=0.0) / best if best > 0 else 0.0
    return {turn: (1 - left) * scale for turn, left in doubt.items()}


def favour(scores: Mapping[int, float], told: Mapping[int, int]) -> dict[int, float]:
    """Raise the rows that were `told` at a time which the question names, or around it, by a share of the best score.

    Every score shrinks as well, so that none passes what the best was.
    """
    best = max(scores.values(), default=0.0)
    then, around = best * DATED_SHARE, best * DATED_SHARE * AROUND_SHARE
    gains = {row: then if when == TOLD_THEN else around for row, when in told.items()}
    return {row: (score + gains.get(row, 0.0)) / (1 + DATED_SHARE) for row, score in scores.items()}


def stretched(scores: Sequence[float]) -> list[float]:
    """Return the scores on a scale from 0, the least of them, to 1, the best; 1 each where they are equal."""
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    return [(score - low) / (high - low) if high - low > 1e-9 else 1.0 for score in scores]


def _scaled(leg: Sequence[Candidate]) -> dict[int, float]:
    best = max((c.score for c in leg), default=0.0)
    return {c.id: c.score / best if best > 0 else 1.0 for c in leg}


def _stretched(leg: Sequence[Candidate]) -> dict[int, float]:
    return dict(zip((c.id for c in leg), stretched([c.score for c in leg]), strict=True))
