"""What the host's transcripts hold: the turns that it replays, and what was put before them."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..domain.lru import LruDict
from ..domain.session_turns import Session, SessionTurns
from ..domain.text import digest
from ..domain.types import HeldTurns, Hit

_SESSIONS = 4096  # remembered at once; a few hundred bytes each
_ROUNDED_S = 2e-6  # more than a time loses by rounding in Postgres


@dataclass
class _Transcript:
    """A transcript. `shown`: digests of texts. `since`: when the oldest of the session's own turns in it was said.

    `copied`: other sessions whose turns it begins with, each with the period of these (seconds since the epoch).
    """

    shown: set[bytes] = field(default_factory=set)
    asked: bool = False  # whether something was looked up for it
    since: float = 0.0
    copied: HeldTurns = ()


class Transcripts:
    """The transcripts of this process's latest sessions, whose texts need not be shown. Safe for several threads.

    Unless `begins` or `switch` says otherwise, a session's transcript counts as holding all of its turns.
    """

    def __init__(self, said: SessionTurns) -> None:
        self._said = said
        self._lock = threading.Lock()
        self._sessions: LruDict[Session, _Transcript] = LruDict(_SESSIONS)

    def holds(self, session: Session, hit: Hit) -> bool:
        """Return whether `hit` is a turn that the session's transcript holds word for word."""
        if hit.store != "turns" or hit.theme != session[0]:
            return False
        said = hit.at.timestamp()
        return any(hit.session_id == name and since <= said <= until for name, since, until in self.held(session))

    def held(self, session: Session) -> HeldTurns:
        """Return the sessions whose turns the transcript holds, each with the start and end of their period."""
        known = self._sessions.get(session) or _Transcript()
        return ((session[1], known.since - _ROUNDED_S, math.inf), *known.copied)

    def was_shown(self, session: Session, text: str) -> bool:
        """Return whether the session was shown `text`."""
        known = self._sessions.get(session)
        return known is not None and digest(text) in known.shown

    def add(self, session: Session, texts: Iterable[str]) -> None:
        """Note that the session is shown `texts`."""
        with self._lock:
            known = self._known(session)
            known.shown |= set(map(digest, texts))
            known.asked = True

    def was_asked(self, session: Session) -> bool:
        """Return whether something was looked up for the session."""
        known = self._sessions.get(session)
        return known is not None and known.asked

    def begins(self, session: Session, turns: int) -> None:
        """Note that the transcript holds only the session's last `turns`, or nothing at all if that is 0.

        A client of the host's API server that starts over with the same words gets the same session id.
        """
        if not turns:
            self._forget(session)
            return
        with self._lock:
            self._known(session).since = self._said.start_of_last(session, turns)

    def switch(self, old: Session, new: Session, *, reason: object, rewound: bool) -> None:
        """Follow the host to another session, or to another transcript of the same one."""
        if reason == "compression":
            self._forget(new)
        elif rewound:
            with self._lock:
                self._known(new).shown.clear()
        elif reason == "branch":
            with self._lock:
                known = self._known(old)
                copied = (*known.copied, (old[1], known.since - _ROUNDED_S, time.time()))
                self._sessions[new] = _Transcript(set(known.shown), known.asked, 0.0, copied)

    def _forget(self, session: Session) -> None:
        """Note that the transcript holds nothing of what was said or shown until now."""
        with self._lock:
            self._sessions[session] = _Transcript(asked=self._known(session).asked, since=time.time())

    def _known(self, session: Session) -> _Transcript:
        known = self._sessions[session] = self._sessions.get(session) or _Transcript()
        return known
