"""What this process knows of its sessions: which turns it accepted, and which of them the user took back."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from .fork_safety import fork_lock
from .lru import LruDict

Session = tuple[str, str]  # theme, session id
Span = tuple[float, float]  # seconds since the epoch: turns that were accepted from the first to the second

_ROUNDED_S = 1e-6  # as Postgres keeps times
_SESSIONS = 2000
_TURNS = 50  # of a session


@dataclass
class _Known:
    """`turns`: when each was accepted, and its operation, None where nothing of it was worth keeping."""

    turns: list[tuple[float, uuid.UUID | None]] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    times: int = 0  # how often the host says that something was taken back
    unnamed: int = 0  # how often it said so without a word of what


class SessionTurns:
    """Of the sessions that spoke last. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = fork_lock()
        self._sessions: LruDict[Session, _Known] = LruDict(_SESSIONS)

    def add(self, session: Session, at: float, op_id: uuid.UUID | None) -> None:
        """Note a turn."""
        with self._lock:
            known = self._known(session)
            known.turns = [*known.turns[1 - _TURNS :], (at, op_id)]

    def start_of_last(self, session: Session, turns: int) -> float:
        """Return when the first of the session's last `turns` was accepted; 0 where as many are not known."""
        with self._lock:
            known = self._sessions.get(session)
            return known.turns[-turns][0] if known and 0 < turns < len(known.turns) else 0.0

    def time_of_last(self, session: Session) -> float:
        """Return when the session's last turn was accepted, by a clock that may have been set back since; 0 if none."""
        with self._lock:
            known = self._sessions.get(session)
            return known.turns[-1][0] if known and known.turns else 0.0

    def generation(self, session: Session) -> str:
        """Return what tells words that are said again after they were taken back from those; "" while nothing was."""
        with self._lock:
            known = self._sessions.get(session)
            return f"{known.times}.{known.unnamed}" if known and (known.times or known.unnamed) else ""

    def take_back(self, session: Session, times: int, spans: Sequence[Span]) -> list[uuid.UUID] | None:
        """Note what the host has named `times` so far; the operations of those turns. None when that was known."""
        with self._lock:
            known = self._known(session)
            if times <= known.times:
                return None
            known.times = times
            return _drop(known, spans)

    def take_back_more(self, session: Session, spans: Sequence[Span]) -> list[uuid.UUID]:
        """Note what was taken back of a session by one that continues it; the operations of those turns."""
        with self._lock:
            return _drop(self._known(session), spans)

    def take_back_last(self, session: Session, now: float) -> tuple[Span, list[uuid.UUID]] | None:
        """Note that the last turn was taken back; when, and its operation. None when it left nothing."""
        with self._lock:
            known = self._known(session)
            if not known.turns:
                return None
            known.unnamed += 1
            at, op_id = known.turns.pop()
            if op_id is None:
                return None
            span = (at, now)
            known.spans.append(span)
            return span, [op_id]

    def is_undone(self, session: Session, at: float) -> bool:
        """Return whether what was accepted at `at` was taken back, for Postgres may not have heard of it yet."""
        known = self._sessions.get(session)
        if known is None:
            return False
        return any(since - _ROUNDED_S <= at <= until + _ROUNDED_S for since, until in known.spans)

    def _known(self, session: Session) -> _Known:
        known = self._sessions[session] = self._sessions.get(session) or _Known()
        return known


def _drop(known: _Known, spans: Sequence[Span]) -> list[uuid.UUID]:
    known.spans += spans
    gone = [turn for turn in known.turns if any(since <= turn[0] <= until for since, until in spans)]
    known.turns = [turn for turn in known.turns if turn not in gone]
    return [op_id for _, op_id in gone if op_id is not None]
