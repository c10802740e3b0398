"""Fuses the two legs of a search.

The constants were chosen on halves of several corpora by their mean, and measured on the other halves;
docs/recall-quality.md has the figures, and those of the alternatives tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from ..domain.types import Candidate
from ..store.vector_search import Beside

VECTOR_WEIGHT = 0.4  # convex combination; reciprocal ranks are worse than words alone
# Weight of a model for English when the question is in another script, of which it knows next to nothing.
FOREIGN_WEIGHT = 0.1
# Words weigh in full where some row holds that share of a question or that many of its words, and else in proportion.
TELLING_SHARE, TELLING_WORDS = 0.5, 3.0
LENT_SHARES = (0.5, 0.5)  # of a turn's score, lent to each turn right beside it and to each one after next
LENDERS = 40  # the best turns lend; if every candidate does, results are no better and the look-up costs more
DATED_SHARE = 0.8  # of the best score, gained by a row told at a time that the question names
AROUND_SHARE = 0.5  # of that gain, for a row told up to a day before that time or three days after it
_DECIDING_SHARE = 2.0  # likewise, if only the time tells what is meant: more than all else together
TOLD_THEN = 2  # how the store marks a row of that time; one around it has 1


def fuse(
    vector: Sequence[Candidate],
    lexical: Sequence[Candidate],
    *,
    vector_weight: float | None = None,
    far: float | None = None,
    trust: float = 1.0,
) -> dict[int, float]:
    """Score every candidate 0 to 1: the weighted mean of the legs' scores, scaled up to 1; absent from a leg counts 0.

    A row without any of the words scores 0, so the lexical leg has a natural zero; for vectors the last candidate's
    score is used, or `far` if that is lower. If one leg is empty, the other decides alone. `vector_weight` is
    VECTOR_WEIGHT unless given; then `trust` is the share that words keep of their own weight.
    """
    weight = 1 - (1 - VECTOR_WEIGHT) * trust if vector_weight is None else vector_weight
    dense, words = _stretched(vector, far), _scaled(lexical)
    if not dense or not words:
        return dense or words
    return {
        row: weight * dense.get(row, 0.0) + (1 - weight) * words.get(row, 0.0) for row in dense.keys() | words.keys()
    }


def trust_in_words(lexical: Sequence[Candidate], words: float) -> float:
    """Return the share of their weight that the words of a question keep, by how much of it the best row holds.

    `words` is their number. The best row by words gets the full score however little it holds: to "I'm looking for a
    good speaker", a row would stand first that only shares "look" with it. So meaning decides then.
    """
    coverage = max((row.coverage for row in lexical), default=0.0)
    return min(1.0, max(coverage / TELLING_SHARE, coverage * words / TELLING_WORDS))


def smooth(scores: Mapping[int, float], beside: Mapping[int, Beside]) -> dict[int, float]:
    """Let each turn lend a part of its score to the turns beside it: the answer is often next to what matches.

    A long turn lends little: what matches the question is a small part of what it is about. Scores are treated as
    probabilities that a turn answers, lent scores as further, independent evidence (noisy or): two halves make three
    quarters. If they were added up, half matches on both sides would lift a turn above a full match. The best score
    stays what it was, so that turns and memories can still be compared.
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


def favour(scores: Mapping[int, float], told: Mapping[int, int], telling: float = 1.0) -> dict[int, float]:
    """Raise the rows that were `told` at or around a time that the question names, by a share of the best score.

    `telling`, 0 to 1, is how much that time tells rows apart. All scores are also scaled down, so that none exceeds the
    previous best.
    """
    return _raised(scores, told, DATED_SHARE * telling)


def by_time(scores: Mapping[int, float], told: Mapping[int, int], begun: Sequence[int]) -> dict[int, float]:
    """Put the rows first that were `told` at the time that the question names, because it names nothing else.

    The first of them are `begun`, in their order. The other rows follow, those around that time first.
    """
    best = max(scores.values(), default=0.0)
    own = {row: score / 2 for row, score in scores.items()}
    own |= {row: best * (1 - place / (2 * len(begun))) for place, row in enumerate(begun) if row in scores}
    return _raised(own, told, _DECIDING_SHARE)


def _raised(scores: Mapping[int, float], told: Mapping[int, int], share: float) -> dict[int, float]:
    best = max(scores.values(), default=0.0)
    then, around = best * share, best * share * AROUND_SHARE
    gains = {row: then if when == TOLD_THEN else around for row, when in told.items()}
    return {row: (score + gains.get(row, 0.0)) / (1 + share) for row, score in scores.items()}


def stretched(scores: Sequence[float]) -> list[float]:
    """Return the scores scaled so that the least is 0 and the best 1; all 1 if they are equal."""
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    return [(score - low) / (high - low) if high - low > 1e-9 else 1.0 for score in scores]


def _scaled(leg: Sequence[Candidate]) -> dict[int, float]:
    best = max((c.score for c in leg), default=0.0)
    return {c.id: c.score / best if best > 0 else 1.0 for c in leg}


def _stretched(leg: Sequence[Candidate], far: float | None) -> dict[int, float]:
    scores = [c.score for c in leg]
    lower = [] if far is None else [far for score in scores[-1:] if far < score]
    return dict(zip((c.id for c in leg), stretched(scores + lower), strict=False))
