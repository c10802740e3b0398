"""What gets harder to find once old turns are compacted: measured on the operator's own turns, changing nothing."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ...domain.text import both_ends
from ...domain.types import Candidate, Filters, Scope
from ...recall.fuse import fuse
from ...recall.pipeline import CANDIDATES
from ...recall.searcher import QUERY_MAX_CHARS
from ...store.connection import DeadlineConnection
from ...store.lexical import lexical_candidates
from ...store.vector_search import vector_candidates
from . import compact_rows as store

K = 10
_LIKE = 50  # pairs of likenesses; from fewer no scale is learnt
_MEASURE_S = 60.0  # after that, the questions asked so far have to do


@dataclass(frozen=True, slots=True)
class Loss:
    """Recall of ten, by `questions` stored turns, each within its theme and not counting itself.

    `before` and `after` are shares of the ten nearest by exact vectors that the vector leg finds; `margin` is two
    standard errors of their difference. `kept` is the share of the ten best by words and meaning together that are
    the same after.
    """

    questions: int
    before: float
    after: float
    margin: float
    kept: float


def learn_scale(conn: DeadlineConnection, asked: Sequence[store.Asked]) -> store.Scale:
    """The straight line by which signatures tell best how near vectors are; with too few turns the one in use."""
    pairs = [pair for each in asked for pair in store.likenesses(conn, each)]
    known = store.scale(conn)
    if len(pairs) < _LIKE or len({told for told, _ in pairs}) < 2:
        return known
    slope, offset = statistics.linear_regression([told for told, _ in pairs], [real for _, real in pairs])
    return store.Scale(slope, offset) if slope > 0 else known


def choose_questions(conn: DeadlineConnection, turns: Mapping[str, int], sample: int) -> list[store.Asked]:
    """About `sample` turns of the themes, in proportion to how many each has; the same ones each time."""
    total = sum(turns.values()) or 1
    asked = [
        each
        for theme, count in turns.items()
        for each in store.questions(conn, theme, max(1, round(sample * count / total)))
    ]
    # Whoever is cut short must not have asked the first themes only.
    random.Random(0).shuffle(asked)
    return asked[:sample]


def measure(
    conn: DeadlineConnection,
    asked: Iterable[store.Asked],
    scale: store.Scale,
    before: datetime,
    *,
    replaced: Mapping[int, int],
    cooling: bool,
    languages: Callable[[str], Sequence[str]],
    advance: Callable[[int], None],
) -> Loss | None:
    """Ask each question now, and as if all were done; None without a question.

    `replaced` are the turns that go, each with the one that stays for it; `cooling`: vectors go as well.
    """
    shares: list[tuple[float, float, float]] = []
    end = time.monotonic() + _MEASURE_S
    for each in asked:
        if shares and time.monotonic() > end:
            break
        shares.append(_ask(conn, each, scale, before, replaced, cooling, languages(each.theme)))
        advance(1)
    if not shares:
        return None
    lost = [now - after for now, after, _ in shares]
    spread = statistics.stdev(lost) / len(lost) ** 0.5 if len(lost) > 1 else 0.0
    now, after, kept = (statistics.fmean(each) for each in zip(*shares, strict=True))
    return Loss(len(shares), round(now, 4), round(after, 4), round(2 * spread, 4), round(kept, 4))


def _ask(
    conn: DeadlineConnection,
    asked: store.Asked,
    scale: store.Scale,
    before: datetime,
    replaced: Mapping[int, int],
    cooling: bool,
    languages: Sequence[str],
) -> tuple[float, float, float]:
    """The three shares of one question. A turn that goes is found where the one that stays for it is."""
    scope, filters = Scope("theme", asked.theme), Filters()
    vector = asked.vector.to_list()
    exact = store.nearest_exactly(conn, asked, scale, K + 1)
    now = vector_candidates(conn, "turns", scope, filters, vector, limit=CANDIDATES)
    after = store.nearest_when_cold(conn, asked, scale, before, CANDIDATES) if cooling else now
    after = [each for each in after if each.id not in replaced]
    text = both_ends(asked.text, QUERY_MAX_CHARS)
    words = lexical_candidates(conn, "turns", scope, filters, text, limit=CANDIDATES, languages=languages)
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
    """How many of the wanted turns are found; 1 where none was wanted."""
    there = set(found)
    return sum(replaced.get(each, each) in there for each in wanted) / len(wanted) if wanted else 1.0
