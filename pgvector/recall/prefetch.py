"""Prefetch: recall before a turn, without a request for it."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from ..config.settings import Settings
from ..domain.dates import in_zone
from ..domain.errors import HermesPgvectorError
from ..domain.times_ahead import only_what_comes, with_names
from ..domain.types import PAGES_END, Answer, Hit, Question, RowId, Scope
from .block import Line, exchanges_in, lines_of
from .follow_up import subject_of
from .relevance import fitting, worth_showing
from .render import render_block
from .searcher import Begun, Searcher
from .transcripts import Transcripts

_SHARE_BEFORE = 0.2  # of the deadline, for the turns of the preceding sessions
_SPARE = 3  # hits looked at for each line shown: some are not relevant enough, some were shown before


class MessagePlace(NamedTuple):
    """The session of a message. `starts`: the session began empty, not as a copy or a summary of another one.

    `subject`: the last of its messages that says what it is about. `reply`: what was answered last, in brief.
    """

    theme: str
    session_id: str
    parent_session_id: str = ""
    starts: bool = True
    subject: str = ""
    reply: str = ""

    @property
    def session(self) -> tuple[str, str]:
        """Return the key of the session: session ids are unique only within a theme."""
        return self.theme, self.session_id

    @property
    def talk(self) -> tuple[str, ...]:
        """Return the sessions of the present conversation: a session that began empty does not continue its parent."""
        return (self.session_id,) if self.starts else (self.session_id, self.parent_session_id)


def prefetch_block(
    searcher: Searcher, transcripts: Transcripts, text: str, where: MessagePlace, settings: Settings
) -> str:
    """Return a block of the rows relevant to `text`, best first; empty if none is both good enough and new.

    Raises StoreUnavailable or DeadlineExceeded within `prefetch_deadline_s`.
    """
    end = time.monotonic() + settings.prefetch_deadline_s
    begins = where.starts and not transcripts.was_asked(where.session)
    where = where._replace(subject=transcripts.subject(where.session), reply=transcripts.reply(where.session))
    transcripts.is_about(where.session, subject_of(text, where.subject))
    before = _end_of_the_sessions_before(searcher, transcripts, where, settings) if begins else []
    lines = _Prefetch(searcher, transcripts, text, where, settings, end, begins=begins).lines(before)
    named = with_names(text, in_zone(datetime.now(UTC), searcher.zone).date())
    block, told = render_block(lines, named, max_tokens=settings.prefetch_max_tokens)
    transcripts.add(where.session, [line.statement for line in told])
    return block


class _Prefetch:
    """The search for what a message should get by the moment `end` (monotonic); `begins`: a session begins with it."""

    def __init__(
        self,
        searcher: Searcher,
        transcripts: Transcripts,
        text: str,
        where: MessagePlace,
        settings: Settings,
        end: float,
        *,
        begins: bool,
    ) -> None:
        self._searcher = searcher
        self._transcripts = transcripts
        self._text = text
        self._where = where
        self._settings = settings
        self._end = end
        self._begins = begins
        self._without = transcripts.held(where.session)
        self._begun: Begun = {}  # the searches that the first answer took

    def lines(self, before: Sequence[Hit]) -> list[Line]:
        """Return lines of the rows that are worth showing and were not shown yet, and of what is added to them.

        Added are the procedure for the situation with which a session begins, and the turns `before` the session.
        Raises StoreUnavailable or DeadlineExceeded if nothing was found out.
        """
        searcher, settings, text, session = self._searcher, self._settings, self._text, self._where.session
        lines: list[Line] = []
        besides = list(before)
        found: dict[RowId, Hit] = {}
        for limit in (settings.prefetch_limit * _SPARE, PAGES_END):
            answer = self._answer(limit, first=not found)
            if answer is None:
                break
            besides += fitting(searcher, answer.procedures, text, settings, self._end)
            some = {hit.row: hit for hit in answer.hits}
            found |= some
            worth = worth_showing(searcher, list(found.values()), text, settings, self._end, answer.held)
            # What was written during the search is not among what the search leaves out.
            new = [hit for hit in worth if not self._transcripts.holds(session, hit)]
            # All together, as the last turns may say the same as what was found.
            said = lines_of([*besides, *new], text)
            lines = [line for line in said if not self._transcripts.was_shown(session, line.statement)]
            if len(some) < limit or not _may_miss_some(said, worth, some, settings.prefetch_limit, text):
                break
        return _limited(lines, besides, settings.prefetch_limit)

    def _answer(self, limit: int, *, first: bool) -> Answer | None:
        """Return what is found, the `first` time with the theme's procedures where a session begins.

        Return None if another search fails, as in a theme of long texts, where no time is left for it. Raises
        StoreUnavailable or DeadlineExceeded if the first one fails.
        """
        asked = Question(
            self._text,
            Scope("theme", self._where.theme),
            limit,
            max(0.01, self._end - time.monotonic()),
            around=True,
            rerank=self._searcher.reranks_prefetch,
            without=self._without,
            begins_task=self._begins and first,
            asking=self._where.talk,
            context=self._where.subject,
            reply=self._where.reply,
        )
        try:
            return self._searcher.recall(["memories", "turns"], asked, self._begun)
        except HermesPgvectorError:
            if first:
                raise
            return None


def _may_miss_some(said: Sequence[Line], worth: Sequence[Hit], found: Collection[RowId], limit: int, text: str) -> bool:
    """Return whether other rows may rank behind an often repeated question, or say of the days ahead that it names."""
    firm = sum(not line.repeats for line in said)
    looked_at = [hit for hit in worth if hit.row in found]
    return firm < limit and (only_what_comes(text) or len(exchanges_in(looked_at)) - firm > firm)


def _limited(lines: Sequence[Line], besides: Sequence[Hit], limit: int) -> list[Line]:
    """Return the first `limit` lines that answer, then those of `besides`: the procedure, and turns oldest first."""
    rows = {hit.row for hit in besides}
    last = [line for line in lines if line.told.row in rows]
    others = [line for line in lines if line not in last]
    return others[:limit] + sorted(last, key=lambda line: (line.told.store, line.told.at, line.told.id))


def _end_of_the_sessions_before(
    searcher: Searcher, transcripts: Transcripts, where: MessagePlace, settings: Settings
) -> list[Hit]:
    """Return the last turns of the preceding sessions; none if they are late or cannot be read."""
    limit = settings.prefetch_recent_turns if settings.prefetch_passes == "several" else 0
    if not limit:
        return []
    deadline_s = settings.prefetch_deadline_s * _SHARE_BEFORE
    try:
        before = searcher.before_session(
            where.theme,
            where.session_id,
            where.parent_session_id,
            limit=limit,
            sessions=settings.prefetch_recent_sessions,
            deadline_s=deadline_s,
        )
    except HermesPgvectorError:
        return []  # the search that follows has an answer of its own, or reports what is wrong
    transcripts.add(where.session, [])
    return [hit._replace(around=tuple(_beside(hit, before[max(0, n - 1) : n + 2]))) for n, hit in enumerate(before)]


def _beside(hit: Hit, near: Sequence[Hit]) -> Iterator[Hit]:
    """Yield the turns of the same session that stand before and after a turn."""
    return (other for other in near if other is not hit and other.session_id == hit.session_id)
