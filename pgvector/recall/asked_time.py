"""The time that a question names: which rows were told then, and what they gain by it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter

from ..domain.dates import Zone, in_zone
from ..domain.named_times import TimeSpan, asks_for_all, asks_what_was_said, named_periods, session_asked
from ..domain.types import Filters, Question, RowId, Store
from ..store.pipeline import Pipeline
from ..store.told_rows import ask_first, ask_session_span, ask_told
from .fuse import TOLD_THEN, by_time, favour

SHORT_PERIOD = timedelta(days=7, hours=1)  # longest named period of which beginnings of sessions are always proposed
FAINT = 0.01  # highest score of these turns before they gain from the time: below most candidates of a leg
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)

Scores = dict[Store, dict[int, float]]


def names_no_subject(text: str, filters: Filters) -> bool:
    """Return whether only its time, or that of the filters, tells what a question is about."""
    return asks_what_was_said(text, limited=filters.limits_time())


class AskedTime:
    """The time of one question. `told_then` are the rows that were found to have been told then."""

    def __init__(self, asked: Question, text: str, now: datetime, zone: Zone) -> None:
        self.told_then: set[RowId] = set()
        self._asked = asked
        self._zone = zone
        self._decides = names_no_subject(text, asked.filters)
        self._asks_for_all = asks_for_all(text)
        self._periods = named_periods(text, now, zone)
        self._says_when = bool(self._periods)
        if self._decides and not self._periods and asked.filters.limits_time():
            self._periods = [TimeSpan(asked.filters.since or _LONG_AGO, asked.filters.until or now)]
        self._named = "" if self._periods or asked.scope.kind != "theme" else session_asked(text)
        self._session: str | None = None  # to which the periods belong, if one is named

    def weighed(self, pipe: Pipeline, scores: Scores) -> Scores:
        """Return the scores, raised for rows told at the time; unchanged if the question names none.

        The turns with which sessions of such a time began are added behind the legs' candidates: "What did we speak
        about on 3 May?" has no word in common with them. Where only memories are asked for, the newest ones are.
        """
        self._note_session(pipe)
        if not self._periods:
            return scores
        store: Store = "turns" if "turns" in scores else "memories"
        first = self._first(pipe, store)
        told = self._told(pipe, scores)
        if new := _faint(first, scores[store]):
            scores = scores | {store: scores[store] | new}
            told[store] |= dict.fromkeys(new, TOLD_THEN)
        for name, rows in told.items():
            self.told_then |= {(name, row) for row, at in rows.items() if at == TOLD_THEN}
        if self._decides:
            begun = {store: first} if self._is_in_order(store) else {}
            return {name: by_time(found, told[name], begun.get(name, [])) for name, found in scores.items()}
        telling = self._telling(sum(map(len, scores.values())))
        return {name: favour(found, told[name], telling) for name, found in scores.items()}

    def _telling(self, candidates: int) -> float:
        """Return how much the named time tells rows apart, 0 to 1.

        A month may hold half of all rows, and each of them would come before one that holds the question. Whoever names
        a day means it, however much was told then.
        """
        if self._is_short_time():
            return 1.0
        return 1 - len(self.told_then) / max(1, candidates)

    def _is_in_order(self, store: Store) -> bool:
        """Return whether the rows that `_first` finds come first, in their order, whatever they have of the question.

        Turns of a long time would be the oldest ones, and a decision need not be at the beginning of a session. Within
        the limits of a call the next ones follow with `offset`.
        """
        if not self._asks_for_all:
            return False
        return store == "memories" or not self._says_when or self._is_short_time()

    def _is_short_time(self) -> bool:
        return all(map(_is_short, self._periods))

    def _note_session(self, pipe: Pipeline) -> None:
        """Look up the session that is named, and its period; the theme may have none but the asking one."""
        if not self._named:
            return
        which, self._named = self._named, ""  # if it takes too long, the rest is found without it
        for row in ask_session_span(pipe, self._asked.scope, which, self._asked.asking):
            self._session, self._periods = row.session, [TimeSpan(row.start, row.stop)]

    def _told(self, pipe: Pipeline, scores: Scores) -> dict[Store, dict[int, int]]:
        """Return for each store which of the rows were told then, or around then."""
        asked = {
            store: ask_told(pipe, store, self._asked.scope, list(found), self._periods, self._session)
            for store, found in scores.items()
            if found
        }
        return {store: {row.id: row.told for row in asked.get(store, ())} for store in scores}

    def _first(self, pipe: Pipeline, store: Store) -> list[int]:
        """Return the first turns of the time's sessions; of memories the newest, if only their time is asked for."""
        scope, filters, spans = self._asked.scope, self._asked.filters, self._short_periods()
        if not spans or scope.kind == "all" or (store == "memories" and not self._decides):
            return []
        return [row.id for row in ask_first(pipe, store, scope, filters, spans, self._session)]

    def _short_periods(self) -> list[TimeSpan]:
        """Return the short periods named, or all if only the time is asked for; of a date without a year, the last."""
        short = [each for each in self._periods if self._decides or _is_short(each)]
        days = {each: in_zone(each.start, self._zone) for each in short}
        last = {(day.month, day.day): each for each, day in sorted(days.items(), key=itemgetter(1))}
        return [each for each in short if each in last.values()]


def _is_short(period: TimeSpan) -> bool:
    return period.end - period.start <= SHORT_PERIOD


def _faint(rows: Sequence[int], known: Collection[int]) -> dict[int, float]:
    """Return scores below most others for the rows that are not `known`, in their order."""
    new = [row for row in dict.fromkeys(rows) if row not in known]
    return {row: FAINT * (1 - place / len(new)) for place, row in enumerate(new)}
