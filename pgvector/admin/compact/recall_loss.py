"""Measurement of what becomes harder to find by compacting old turns, on the operator's own turns, changing nothing."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ...domain.text import both_ends
from ...domain.theme import Languages
from ...domain.types import Candidate, Filters, Scope
from ...recall.fuse import fuse
from ...recall.search import CANDIDATES
from ...recall.searcher import QUERY_MAX_CHARS
from ...store.connection import DeadlineConnection
from ...store.lexical import LexicalSearch, QuestionReader, ask_size, search_words, size_of
from ...store.pipeline import Pipeline
from ...store.vector_search import VectorSearch
from . import compact_rows as store

K = 10
_FEWEST_PAIRS = 50  # of similarities by signature and by vector; with fewer, no scale is measured
_MEASURE_S = 60.0  # after that, only the questions asked so far are used


@dataclass(frozen=True, slots=True)
class RecallLoss:
    """Recall of ten for `questions` stored turns, each asked within its theme and not counted as its own result.

    `before` and `after` are the shares of the ten nearest by exact vectors that the vector leg finds; `margin` is two
    standard errors of their difference. `kept` is the share of the ten best by words and meaning together that are
    still the same afterwards.
    """

    questions: int
    before: float
    after: float
    margin: float
    kept: float


@dataclass(frozen=True, slots=True)
class Compacted:
    """Turns from before a time as they would be once compacted: the keys of `replaced` are deleted, their values stay.

    `without_vectors`: their vectors are dropped as well, and `scale` estimates their similarity from their signatures.
    """

    before: datetime
    replaced: Mapping[int, int]
    without_vectors: bool
    scale: store.Scale


def measure_scale(conn: DeadlineConnection, asked: Sequence[store.Asked]) -> store.Scale:
    """Fit the line that best estimates vectors' similarity from signatures; return the one in use for too few turns."""
    pairs = [pair for each in asked for pair in store.likenesses(conn, each)]
    known = store.scale(conn)
    if len(pairs) < _FEWEST_PAIRS or len({told for told, _ in pairs}) < 2:
        return known
    slope, offset = statistics.linear_regression([told for told, _ in pairs], [real for _, real in pairs])
    return store.Scale(slope, offset) if slope > 0 else known


def choose_questions(conn: DeadlineConnection, turns: Mapping[str, int], sample: int) -> list[store.Asked]:
    """Return about `sample` turns of the themes, in proportion to their numbers of turns; the same ones each time."""
    total = sum(turns.values()) or 1
    asked = [
        each
        for theme, count in turns.items()
        for each in store.questions(conn, theme, count, max(1, round(sample * count / total)))
    ]
    # If time runs out, the questions asked must not be from the first themes only.
    random.Random(0).shuffle(asked)
    return asked[:sample]


def measure_loss(
    conn: DeadlineConnection,
    asked: Sequence[store.Asked],
    compacted: Compacted,
    languages: Languages,
    advance: Callable[[int], None],
) -> RecallLoss:
    """Ask each question, at least one of them, of the turns as they are and as they would be; return the loss."""
    shares: list[tuple[float, float, float]] = []
    end = time.monotonic() + _MEASURE_S
    for each in asked:
        if shares and time.monotonic() > end:
            break
        shares.append(_ask(conn, each, compacted, languages.of(each.theme)))
        advance(1)
    lost = [now - after for now, after, _ in shares]
    spread = statistics.stdev(lost) / len(lost) ** 0.5 if len(lost) > 1 else 0.0
    now, after, kept = (statistics.fmean(each) for each in zip(*shares, strict=True))
    return RecallLoss(len(shares), round(now, 4), round(after, 4), round(2 * spread, 4), round(kept, 4))


def _ask(
    conn: DeadlineConnection, asked: store.Asked, compacted: Compacted, language: str
) -> tuple[float, float, float]:
    """Return the three shares of one question. A deleted turn counts as found if the one that replaces it is found."""
    scope, filters, replaced = Scope("theme", asked.theme), Filters(), compacted.replaced
    pipe = Pipeline(conn)
    exact = store.nearest_exactly(conn, asked, compacted.scale, K + 1)
    now = VectorSearch(pipe, "turns", scope, filters, asked.vector, limit=CANDIDATES, rows=asked.turns).candidates()
    after = now
    if compacted.without_vectors:
        after = store.nearest_when_cold(conn, asked, compacted.scale, compacted.before, CANDIDATES)
    after = [each for each in after if each.id not in replaced]
    question = QuestionReader(pipe, both_ends(asked.text, QUERY_MAX_CHARS), (language,))
    size = size_of(ask_size(pipe, "turns", scope)).rows
    (words,) = search_words([LexicalSearch(pipe, "turns", scope, filters, question, size, limit=CANDIDATES)])
    wanted = _first(exact, asked.id)
    together = _first(_fused(now, words), asked.id)
    left = _first(_fused(after, [each for each in words if each.id not in replaced]), asked.id)
    return (
        _share(wanted, _first([each.id for each in now], asked.id), {}),
        _share(wanted, _first([each.id for each in after], asked.id), replaced),
        _share(together, left, replaced),
    )


def _first(ids: Sequence[int], own: int) -> list[int]:
    return [each for each in ids if each != own][:K]


def _fused(vector: Sequence[Candidate], words: Sequence[Candidate]) -> list[int]:
    scores = fuse(vector, words)
    return sorted(scores, key=lambda row: (-scores[row], -row))


def _share(wanted: Collection[int], found: Collection[int], replaced: Mapping[int, int]) -> float:
    """Return the share of the wanted turns that are found; 1 if none is wanted."""
    there = set(found)
    return sum(replaced.get(each, each) in there for each in wanted) / len(wanted) if wanted else 1.0
