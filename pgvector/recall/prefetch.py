"""What is put before a turn without being asked for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from ..domain.models import Hit, Question, Scope
from ..domain.settings import Settings
from ..domain.text import digest
from .render import render_block
from .search import Searcher
from .settle import newest_of_near_equals

MIN_COVERAGE = 0.35  # share of the question's weight in words that makes a hit good enough without a vector
_SESSIONS = 4096  # remembered at once; a few hundred bytes each
_SPARE = 3  # hits looked at for each one shown: some are too far off, some were shown before


class Shown:
    """What each session of this process was shown: the host keeps it in the transcript, once is enough."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: OrderedDict[tuple[str, str], set[bytes]] = OrderedDict()

    def unseen(self, session: tuple[str, str], hits: list[Hit]) -> list[Hit]:
        """Those of `hits` that (theme, session id) was not shown yet."""
        with self._lock:
            seen = self._sessions.get(session, set())
            return [hit for hit in hits if digest(hit.content) not in seen]

    def add(self, session: tuple[str, str], texts: Iterable[str]) -> None:
        """Note that the session is shown `texts`."""
        with self._lock:
            self._sessions.setdefault(session, set()).update(map(digest, texts))
            self._sessions.move_to_end(session)
            while len(self._sessions) > _SESSIONS:
                self._sessions.popitem(last=False)

    def branch(self, session: tuple[str, str], new: tuple[str, str]) -> None:
        """Note that the new session begins with a copy of the session's transcript."""
        with self._lock:
            if session in self._sessions:
                self._sessions[new] = set(self._sessions[session])

    def forget(self, session: tuple[str, str]) -> None:
        """The transcript was cut: what stood there may be shown again."""
        with self._lock:
            self._sessions.pop(session, None)


def prefetch_block(searcher: Searcher, shown: Shown, text: str, theme: str, session_id: str, settings: Settings) -> str:
    """A block of what is remembered for `text`, best first; empty when nothing is good enough or new to the session.

    Raises StoreUnavailable or DeadlineExceeded within `prefetch_deadline_s`.
    """
    found = searcher.recall(
        ["memories", "turns"],
        Question(text, Scope("theme", theme), settings.prefetch_limit * _SPARE, settings.prefetch_deadline_s),
    )
    worth = [hit for hit in newest_of_near_equals(found.hits) if is_worth_showing(hit, settings.min_similarity)]
    session = (theme, session_id)
    fresh = shown.unseen(session, worth)[: settings.prefetch_limit]
    block, told = render_block(fresh, text, max_tokens=settings.prefetch_max_tokens)
    shown.add(session, [hit.content for hit in told])
    return block


def is_worth_showing(hit: Hit, min_similarity: float) -> bool:
    """Whether a hit is close enough in meaning, or holds enough of the question's rare words."""
    return (hit.similarity is not None and hit.similarity >= min_similarity) or hit.coverage >= MIN_COVERAGE
