"""The turns that this process accepted in its sessions, and which of them the user undid."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from .fork_safety import fork_lock
from .lru import LruDict
from .operations import Span

Session = tuple[str, str]  # theme, session id

_ROUNDED_S = 1e-6  # the precision of times in Postgres
_SESSIONS = 2000
_TURNS = 50  # of a session


class Telling(NamedTuple):
    """Where a turn stands in its transcript: digests of what was before it and of its words.

    `first`: nothing was before it.
    """

    before: bytes
    asked: bytes
    answered: bytes
    first: bool


class _Turn(NamedTuple):
    """A turn: when it was accepted, and its operation's id, None if nothing of it was worth keeping."""

    at: float
    op_id: uuid.UUID | None
    told: Telling | None


@dataclass
class _Known:
    """One session."""

    turns: list[_Turn] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    times: int = 0  # how many undos the host has counted
    unnamed: int = 0  # how many it reported without saying of what


class SessionTurns:
    """The turns of the most recently active sessions. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = fork_lock()
        self._sessions: LruDict[Session, _Known] = LruDict(_SESSIONS)

    def add(self, session: Session, at: float, op_id: uuid.UUID | None, told: Telling | None = None) -> None:
        """Record a turn, once if the host reports it again."""
        with self._lock:
            known = self._known(session)
            if op_id is not None and any(turn.op_id == op_id for turn in known.turns):
                return
            known.turns = [*known.turns[1 - _TURNS :], _Turn(at, op_id, told)]

    def start_of_last(self, session: Session, turns: int) -> float:
        """Return when the first of the session's last `turns` was accepted; 0 if not so many are known."""
        with self._lock:
            accepted = self._session(session).turns
            return accepted[-turns].at if 0 < turns < len(accepted) else 0.0

    def time_of_last(self, session: Session) -> float:
        """Return when the session's last turn was accepted, by a clock that may have been set back since; 0 if none."""
        with self._lock:
            accepted = self._session(session).turns
            return accepted[-1].at if accepted else 0.0

    def generation(self, session: Session) -> str:
        """Return a mark that tells words repeated after an undo from the undone ones; "" while nothing was undone."""
        with self._lock:
            known = self._session(session)
            return f"{known.times}.{known.unnamed}" if known.times or known.unnamed else ""

    def undos(self, session: Session) -> int:
        """Return the host's count of undos that is known."""
        return self._session(session).times

    def take_back(self, session: Session, times: int, spans: Sequence[Span]) -> list[uuid.UUID] | None:
        """Record the host's count of undos; return the undone turns' operation ids, or None if the count is known."""
        with self._lock:
            known = self._known(session)
            if times <= known.times:
                return None
            known.times = times
            return _drop(known, spans)

    def take_back_more(self, session: Session, spans: Sequence[Span]) -> list[uuid.UUID]:
        """Record what a session that continues this one undid of it; return the operation ids of those turns."""
        with self._lock:
            return _drop(self._known(session), spans)

    def take_back_last(self, session: Session, now: float) -> tuple[Span, list[uuid.UUID]] | None:
        """Record that the last turn was undone; return its span and operation id, or None if nothing of it was kept."""
        with self._lock:
            known = self._known(session)
            if not known.turns:
                return None
            known.unnamed += 1
            at, op_id, _ = known.turns.pop()
            if op_id is None:
                return None
            span = (at, now)
            known.spans.append(span)
            return span, [op_id]

    def replaced_by(self, session: Session, told: Telling, *, edits: bool) -> int | None:
        """Return the index of the turn whose place another one takes, None if it takes the place of none.

        The same question is asked again there, or if `edits`, any other. If `edits`, an empty transcript may also have
        been cleared, so that there only the session's last turn can be repeated.
        """
        with self._lock:
            turns = self._known(session).turns
            same = {at: turn.told for at, turn in enumerate(turns) if turn.told and turn.told.before == told.before}
            if told in same.values():
                return None  # the host reports it again
            if edits and not told.first:
                return max(same, default=None)
            least = len(turns) - 1 if edits else 0
            return max((at for at, each in same.items() if each.asked == told.asked and at >= least), default=None)

    def take_back_from(self, session: Session, start: int) -> tuple[list[Span], list[uuid.UUID]]:
        """Record that the turns from index `start` on are gone; return their spans and operation ids."""
        with self._lock:
            known = self._known(session)
            gone = known.turns[start:]
            known.unnamed += 1
            known.turns = known.turns[:start]
            spans = [(turn.at, turn.at) for turn in gone]
            known.spans += spans
            return spans, _op_ids(gone)

    def is_undone(self, session: Session, at: datetime) -> bool:
        """Return whether the turn accepted at `at` was undone, which Postgres may not know yet."""
        spans, accepted = self._session(session).spans, at.timestamp()
        return any(since - _ROUNDED_S <= accepted <= until + _ROUNDED_S for since, until in spans)

    def _session(self, session: Session) -> _Known:
        """Return what is known of a session, only to be read: it may be nothing."""
        return self._sessions.get(session) or _Known()

    def _known(self, session: Session) -> _Known:
        known = self._sessions[session] = self._session(session)
        return known


def _drop(known: _Known, spans: Sequence[Span]) -> list[uuid.UUID]:
    known.spans += spans
    gone = [turn for turn in known.turns if any(since <= turn.at <= until for since, until in spans)]
    known.turns = [turn for turn in known.turns if turn not in gone]
    return _op_ids(gone)


def _op_ids(turns: Sequence[_Turn]) -> list[uuid.UUID]:
    return [turn.op_id for turn in turns if turn.op_id is not None]
