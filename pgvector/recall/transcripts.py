"""What the host's transcripts hold: the turns that it replays, and what was put before them."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ..domain.lru import LruDict
from ..domain.session_turns import Session, SessionTurns
from ..domain.text import digest
from ..domain.types import HeldTurns, Hit

_Noted = TypeVar("_Noted")  # a text, or its digest
_SESSIONS = 4096  # remembered at once; several hundred bytes each, and what they are about
_UNCOUNTED = -(10**9)  # from here on, turns are counted where the host's own count is not known
_MESSAGES = 8  # of a session, of which it is remembered where they stood
_ROUNDED_S = 2e-6  # more than a time loses by rounding in Postgres


@dataclass
class _Transcript:
    """A transcript. `since`: when the oldest of the session's own turns in it was said.

    `shown`: digests of texts, each with the number of turns before the message that it was put before.
    `copied`: other sessions whose turns it begins with, each with the period of these (seconds since the epoch).
    `keeps`: what is put before a message stays in it.
    `turns`: how many are before the last message. `messages`: digests of the last ones, by how many were before each.
    `subjects`: what it is about, by how many turns were before the message that says so, the last one last.
    `replies`: likewise, what was answered in brief.
    """

    shown: dict[bytes, int] = field(default_factory=dict)
    keeps: bool = True
    asked: bool = False  # whether something was looked up for it
    since: float = 0.0
    copied: HeldTurns = ()
    turns: int = _UNCOUNTED
    messages: dict[int, bytes] = field(default_factory=dict)
    subjects: dict[int, str] = field(default_factory=dict)
    replies: dict[int, str] = field(default_factory=dict)

    @property
    def reply(self) -> str:
        """Return what was last answered, in brief; empty if that is not known."""
        return next(reversed(self.replies.values()), "")

    @property
    def subject(self) -> str:
        """Return what it is about now; empty if that is not known."""
        return next(reversed(self.subjects.values()), "")

    def goes_to(self, turns: int, message: bytes) -> None:
        """Note the number of turns before the message that comes now; those that stood there or later are gone."""
        self.shown = {text: at for text, at in self.shown.items() if self.keeps and at < turns}
        self.subjects, self.replies = _until(self.subjects, turns), _until(self.replies, turns)
        self.asked = self.asked and turns != 0
        self.turns, self.messages = turns, _with(_until(self.messages, turns), turns, message)


def _until(noted: Mapping[int, _Noted], turns: int) -> dict[int, _Noted]:
    return {at: each for at, each in noted.items() if at < turns}


def _with(noted: Mapping[int, _Noted], turns: int, text: _Noted) -> dict[int, _Noted]:
    """Return what was noted by the number of turns before it, with one text more; of many, the last."""
    return dict([*noted.items(), (turns, text)][-_MESSAGES:])


class Transcripts:
    """The transcripts of this process's latest sessions, whose texts need not be shown. Safe for several threads.

    Unless `goes_on` or `switch` says otherwise, a session's transcript counts as holding all of its turns.
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
        known = self._transcript(session)
        return ((session[1], known.since - _ROUNDED_S, math.inf), *known.copied)

    def was_shown(self, session: Session, text: str) -> bool:
        """Return whether the session was shown `text`."""
        return digest(text) in self._transcript(session).shown

    def add(self, session: Session, texts: Iterable[str]) -> None:
        """Note that the session is shown `texts`."""
        with self._lock:
            known = self._known(session)
            known.shown |= dict.fromkeys(map(digest, texts), known.turns)
            known.asked = True

    def subject(self, session: Session) -> str:
        """Return what the session was last known to be about; empty if that is not known."""
        return self._transcript(session).subject

    def is_about(self, session: Session, subject: str) -> None:
        """Note what the session is about. What was answered before is not about another subject."""
        with self._lock:
            known = self._known(session)
            if subject != known.subject:
                known.subjects = _with(known.subjects, known.turns, subject)
                known.replies = _with(known.replies, known.turns, "")

    def reply(self, session: Session) -> str:
        """Return what the session's last turn was known to be answered in brief; empty if that is not known."""
        return self._transcript(session).reply

    def was_answered(self, session: Session, reply: str) -> None:
        """Note what the session's last message was answered in brief."""
        with self._lock:
            known = self._known(session)
            known.replies = _with(known.replies, known.turns, reply)

    def was_asked(self, session: Session) -> bool:
        """Return whether something was looked up for the session."""
        return self._transcript(session).asked

    def goes_on(self, session: Session, message: str, turns: int | None, *, unique: bool) -> None:
        """Note that `message` comes after the session's last `turns`, None if the host did not count them anew.

        If a message stood there before, it is gone (`/retry`, `/undo`, an edit), and so is what was put before it.
        Unless session ids are `unique`, the same first message may be another conversation's.
        """
        asked = digest(message)
        with self._lock:
            known = self._known(session)
            at = known.turns if turns is None else turns
            repeated = bool(message) and known.messages.get(at) == asked
            if turns is None:
                at += not repeated
            elif not turns and not (repeated and unique):
                known = self._sessions[session] = _Transcript(keeps=known.keeps, since=time.time())
            elif not repeated:
                known.since = self._said.start_of_last(session, turns)
            known.goes_to(at, asked)

    def learn(self, session: Session, *, keeps: bool, seen: bool = False) -> None:
        """Note whether what is put before a message stays in it; if `seen`, by the transcript of the last turn."""
        with self._lock:
            known = self._known(session)
            if keeps or not seen or any(at < known.turns for at in known.shown.values()):
                known.keeps = keeps

    def switch(self, old: Session, new: Session, *, reason: object, rewound: bool) -> None:
        """Follow the host to another session, or to another transcript of the same one."""
        if reason == "compression":
            self._forget(new)
        elif rewound:
            with self._lock:
                known = self._known(new)
                known.shown, known.messages, known.turns = {}, {}, _UNCOUNTED
                known.subjects, known.replies = {}, {}
        elif reason == "branch":
            self.branch(old, new, time.time())

    def knows(self, session: Session) -> bool:
        """Return whether anything was noted of the session."""
        return self._sessions.get(session) is not None

    def branch(self, old: Session, new: Session, at: float) -> None:
        """Note that the new session began with a copy of the old one's transcript at that time."""
        with self._lock:
            known = self._known(old)
            copied = (*known.copied, (old[1], known.since - _ROUNDED_S, at))
            self._sessions[new] = replace(known, shown=dict(known.shown), since=0.0, copied=copied)

    def _forget(self, session: Session) -> None:
        """Note that the transcript holds nothing of what was said or shown until now."""
        with self._lock:
            known = self._known(session)
            self._sessions[session] = _Transcript(
                keeps=known.keeps,
                asked=known.asked,
                since=time.time(),
                subjects={_UNCOUNTED: known.subject},
                replies={_UNCOUNTED: known.reply},
            )

    def _transcript(self, session: Session) -> _Transcript:
        """Return the transcript of a session, only to be read: it is a new one if nothing was noted."""
        return self._sessions.get(session) or _Transcript()

    def _known(self, session: Session) -> _Transcript:
        known = self._sessions[session] = self._transcript(session)
        return known
