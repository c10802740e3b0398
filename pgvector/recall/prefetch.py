"""Recall before a turn, without being asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from operator import itemgetter

from ..config.settings import Settings
from ..domain.errors import HermesPgvectorError
from ..domain.lru import LruDict
from ..domain.text import digest
from ..domain.types import Hit, Question, Scope
from ..embed.instructions import MinSimilarity, min_similarity
from .ranking import newest_of_near_equals
from .render import render_block
from .searcher import Searcher

MIN_COVERAGE = 0.35  # share of the question's weight in words that makes a hit good enough
SURE_COVERAGE = 0.60  # likewise, however far off in meaning it seems: models know nothing of error codes
_FAR = 0.10  # below the similarity that is good enough, where words are held to be shared by chance
_SESSIONS = 4096  # remembered at once; a few hundred bytes each
_SHARE_BEFORE = 0.2  # of the deadline, for the turns of the session before
_SPARE = 3  # hits looked at for each one shown: some are too far off, some were shown before


@dataclass(frozen=True, slots=True)
class MessagePlace:
    """The session that a message stands in. `starts`: it began empty, not as a copy or a summary of another one."""

    theme: str
    session_id: str
    parent_session_id: str = ""
    starts: bool = True

    @property
    def session(self) -> tuple[str, str]:
        """Return what the session is known by: ids are unique in a theme only."""
        return self.theme, self.session_id


class ShownTexts:
    """What each session of this process was shown: the host keeps it in the transcript, once is enough."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: LruDict[tuple[str, str], set[bytes]] = LruDict(_SESSIONS)

    def unseen(self, session: tuple[str, str], hits: list[Hit]) -> list[Hit]:
        """Return those of `hits` that (theme, session id) was not shown yet."""
        with self._lock:
            seen = self._sessions.get(session, set())
            return [hit for hit in hits if digest(hit.content) not in seen]

    def add(self, session: tuple[str, str], texts: Iterable[str]) -> None:
        """Note that the session is shown `texts`."""
        with self._lock:
            self._sessions[session] = self._sessions.get(session, set()).union(map(digest, texts))

    def knows(self, session: tuple[str, str]) -> bool:
        """Return whether anything was noted of the session."""
        with self._lock:
            return session in self._sessions

    def branch(self, session: tuple[str, str], new: tuple[str, str]) -> None:
        """Note that the new session begins with a copy of the session's transcript."""
        with self._lock:
            if session in self._sessions:
                self._sessions[new] = set(self._sessions[session])

    def forget(self, session: tuple[str, str]) -> None:
        """Let everything be shown again: the transcript was cut."""
        with self._lock:
            self._sessions.pop(session, None)


def prefetch_block(searcher: Searcher, shown: ShownTexts, text: str, where: MessagePlace, settings: Settings) -> str:
    """Return a block of what is remembered for `text`, best first; empty when nothing is good enough and new.

    Raises StoreUnavailable or DeadlineExceeded within `prefetch_deadline_s`.
    """
    started = time.monotonic()
    several = settings.prefetch_passes == "several"
    before = _end_of_the_session_before(searcher, shown, where, settings) if several else []
    asked = Question(
        text,
        Scope("theme", where.theme),
        settings.prefetch_limit * _SPARE,
        max(0.01, settings.prefetch_deadline_s - (time.monotonic() - started)),
        rerank=searcher.reranks_prefetch,
    )
    found = searcher.recall(["memories", "turns"], asked)
    near = min_similarity(searcher.model)
    if settings.min_similarity != "auto":
        near = MinSimilarity(settings.min_similarity, settings.min_similarity)
    worth = [hit for hit in found.hits if is_worth_showing(hit, near)]
    if several:
        worth = _by_turns(worth)
    # Both together: what was said last may say the same as what was found.
    fresh = shown.unseen(where.session, newest_of_near_equals([*before, *worth]))
    fresh = _limited(fresh, {hit.id for hit in before}, settings.prefetch_limit)
    block, told = render_block(fresh, text, max_tokens=settings.prefetch_max_tokens)
    shown.add(where.session, [hit.content for hit in told])
    return block


def _limited(hits: Sequence[Hit], recent: Collection[int], limit: int) -> list[Hit]:
    """Return the turns `recent`, and of the other hits the first `limit`."""
    kept: list[Hit] = []
    for hit in hits:
        is_recent = hit.store == "turns" and hit.id in recent
        if is_recent or limit > 0:
            kept.append(hit)
            limit -= not is_recent
    return kept


def is_worth_showing(hit: Hit, near: MinSimilarity) -> bool:
    """Return whether a hit is near enough in meaning, or holds enough of the question's rare words and is not far."""
    if hit.similarity is None:
        return hit.coverage >= MIN_COVERAGE
    bar = near.turns if hit.store == "turns" else near.memories
    by_words = hit.coverage >= (MIN_COVERAGE if hit.similarity >= bar - _FAR else SURE_COVERAGE)
    return hit.similarity >= bar or by_words


def _end_of_the_session_before(
    searcher: Searcher, shown: ShownTexts, where: MessagePlace, settings: Settings
) -> list[Hit]:
    """Return the last turns of the session before, for the first message of a session only; none when they are late."""
    limit = settings.prefetch_recent_turns
    if not limit or not where.starts or shown.knows(where.session):
        return []
    deadline_s = settings.prefetch_deadline_s * _SHARE_BEFORE
    try:
        before = searcher.before_session(
            where.theme, where.session_id, where.parent_session_id, limit=limit, deadline_s=deadline_s
        )
    except HermesPgvectorError:
        return []  # the search that follows has an answer of its own, or says what is wrong
    shown.add(where.session, [])
    return before


def _by_turns(hits: Sequence[Hit]) -> list[Hit]:
    """Return the nearest by meaning and the best by words, one of each in turn; what neither proposed comes last."""
    nearest = _ranked((hit.vector_rank, hit) for hit in hits)
    worded = _ranked((hit.word_rank, hit) for hit in hits)
    in_turn = filter(None, chain.from_iterable(zip_longest(nearest, worded)))
    return list({(hit.store, hit.id): hit for hit in chain(in_turn, hits)}.values())


def _ranked(hits: Iterable[tuple[int | None, Hit]]) -> list[Hit]:
    return [hit for _, hit in sorted(((rank, hit) for rank, hit in hits if rank is not None), key=itemgetter(0))]
