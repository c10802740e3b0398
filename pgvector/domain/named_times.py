"""The times that a question names: "on 13 October 2023", "letzte Woche", "il y a deux mois", "5月4日"."""

from __future__ import annotations

import re
import unicodedata
from calendar import monthrange
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import islice

from . import time_words as words
from .dates import Zone, in_zone, midnight, whole_unit
from .said_words import SAID_MAX_CHARS, only_said, present_named, session_named
from .time_hours import hours_ago
from .time_ranges import Days, NamedDays, current, day_numbers, joined, spoken_times

MAX_PERIODS = 40  # of one question; a pasted log would name hundreds
YEARS = 8  # "in May" without a year means each of the last so many Mays
_WORD = re.compile(r"\w+")
_NUMERIC = re.compile(r"\d[-/.]\s?\d")
_UNIT_NAMES = {7: "week", 30: "month", 365: "year"}
_QUOTE = re.compile('["\u201c\u201e\u00ab\u300c\u300e]')
_ACCENTS = re.compile(r"[\u0300-\u036f]")


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """From `start` to before `end`."""

    start: datetime
    end: datetime


def named_periods(text: str, now: datetime, zone: Zone = UTC) -> list[TimeSpan]:
    """Return the times that `text` names, at most MAX_PERIODS; none in most texts. Days begin as in `zone`.

    A time without a year means that time in each of the last YEARS years, or beside "last year" in that one only.
    "2026" alone names no time: it is more often a part of a name. Neither does a "Monday" that may as well be the next
    one.
    """
    today, plain = in_zone(now, zone).date(), _plain(text)
    said = set(_WORD.findall(plain))
    hours = [TimeSpan(now - far, now - near) for far, near in islice(hours_ago(plain, said), MAX_PERIODS)]
    asian = _east_asian(text, today) if words.CJK.search(text) else ()
    days = [*_past(plain, _western(plain, said, today), today), *_past(text, asian, today)]
    found = _in_named_year(days[:MAX_PERIODS]) or list(() if hours else _present(text, today))
    in_days = [TimeSpan(midnight(first, zone), midnight(last + timedelta(days=1), zone)) for first, last in found]
    return (hours + in_days)[:MAX_PERIODS]


def asks_what_was_said(text: str, *, limited: bool = False) -> bool:
    """Return whether a text asks only what was said or done, at whatever time: it has no word of a subject.

    `limited`: the time is limited by other means, see `only_said`.
    """
    return len(text) <= SAID_MAX_CHARS and _only_said(text, limited=limited)


@lru_cache(maxsize=64)  # several steps of a recall ask it of one question
def _only_said(text: str, *, limited: bool) -> bool:
    return only_said(_plain(text), limited=limited)


def session_asked(text: str) -> str:
    """Return which session a question for what was said means, see `session_named`; "" if it names a subject."""
    return session_named(_plain(text)) if asks_what_was_said(text) else ""


def without_counted_times(text: str) -> str:
    """Return `text` without the times that are counted back from today, such as "two weeks ago" or "last Friday".

    What was said then does not hold these words. A text with a quoted phrase is returned unchanged.
    """
    if _QUOTE.search(text):
        return text
    if words.CJK.search(text):
        for pattern in (words.cjk_hours(), words.cjk_ago(), words.cjk_last()):
            text = pattern.sub(" ", text)
    said = set(_WORD.findall(_plain(text)))
    if not (words.SIGNS | words.HOUR_SIGNS) & said:
        return text
    # Letter by letter, so that a place in one is the same in the other.
    plain = "".join(folded if len(folded := _plain(char)) == 1 else char for char in text)
    found = (match.span() for pattern in _counted_times(said) for match in pattern.finditer(plain))
    kept, end = "", 0
    for start, stop in sorted(found):
        kept, end = f"{kept}{text[end:start]} ", max(end, stop)
    return kept + text[end:]


def _counted_times(said: Set[str]) -> Iterator[re.Pattern[str]]:
    """Yield the patterns of times that are counted back, for a text with these words."""
    yield from (words.days_ago(french=bool(said & words.FRENCH)), words.ago(), words.within(), words.last())
    if said & words.HOUR_SIGNS:
        yield from (words.ago(hours=True), words.within(hours=True))


def _in_named_year(spans: list[Days]) -> list[Days]:
    """Return only the times within the year that is named as well, if one is: "in May last year"."""
    for year in spans:
        if year == (date(year[0].year, 1, 1), date(year[0].year, 12, 31)):
            inside = [each for each in spans if each != year and year[0] <= each[0] and each[1] <= year[1]]
            return inside or spans
    return spans


def _past(text: str, named: Iterable[NamedDays], today: date) -> list[Days]:
    """Return the times of a text without those that are ahead."""
    return [days for days in joined(text, islice(named, MAX_PERIODS), today) if days[0] <= today]


def _western(plain: str, said: Set[str], today: date) -> Iterator[NamedDays]:
    """Yield the times that are named in digits, or in a language with letters."""
    if _NUMERIC.search(plain):
        for pattern in words.numeric_dates():
            for match in pattern.finditer(plain):
                yield _at(match, _dated(match, today))
    if said & words.SIGNS:
        for match in spoken_times(plain):
            days, year = day_numbers(match)
            yield _at(match, _days(year, words.MONTHS[match["month"]], days, today))
        yield from _relative(plain, today, french=bool(said & words.FRENCH))
        yield from _on_weekdays(plain, said, today)
        yield from current(plain, said, today)


def _at(match: re.Match[str], days: Iterable[Days]) -> NamedDays:
    return NamedDays(*match.span(), list(days))


def _present(text: str, today: date) -> Iterator[Days]:
    """Yield today or this week for a question of what was said then; other texts with these words are about plans."""
    present = present_named(_plain(text)) if asks_what_was_said(text) else ""
    if present:
        yield (today if present == "day" else today - timedelta(days=today.weekday())), today


def _plain(text: str) -> str:
    """Return `text` in lower case and without accents, like the words it is compared with."""
    text = text.casefold()
    if text.isascii():
        return text
    text = text.replace("há ", "hace ")  # Portuguese; without its accent it is Italian for "has"
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", text)))


def _relative(plain: str, today: date, *, french: bool) -> Iterator[NamedDays]:
    """Yield the times that are counted back from today."""
    for match in words.days_ago(french=french).finditer(plain):
        day = today - timedelta(days=words.DAYS_AGO[match[1]])
        yield _at(match, [(day, day)])
    for match in words.ago().finditer(plain):
        least, most, unit_days = words.counted(match, words.UNITS)
        yield _at(match, _around(today, least * unit_days, most * unit_days, unit_days))
    within: set[int] = set()
    for match in words.within().finditer(plain):
        within.add(match.end())
        _, most, unit_days = words.counted(match, words.UNITS)
        yield _at(match, _around(today, 0, most * unit_days, 1))
    for match in words.last().finditer(plain):
        if match.end() not in within:
            yield _at(match, _last(match[1] or match[2], today))


def _on_weekdays(plain: str, said: Set[str], today: date) -> Iterator[NamedDays]:
    """Yield the last weekday of a name where a text asks what was, or since when."""
    for past, pattern in words.on_weekday():
        if not past or said & past:
            for match in pattern.finditer(plain):
                yield NamedDays(*match.span(1), [next(_last(match[1], today))])


def _last(name: str, today: date) -> Iterator[Days]:
    """Yield the last whole week, month or year, the weekend, or the weekday."""
    if name in words.WEEKENDS:
        saturday = today - timedelta(days=today.weekday() + 2)
        yield saturday, saturday + timedelta(days=1)
    elif name in words.WEEKDAYS:
        yield from _last_weekday(words.WEEKDAYS[name], today)
    else:
        yield whole_unit(today, _UNIT_NAMES[words.UNITS[name]], last=True)


def _last_weekday(weekday: int, today: date) -> Iterator[Days]:
    """Yield the last such weekday; if it is in this week, also the one before, which people may mean."""
    day = today - timedelta(days=(today.weekday() - weekday) % 7 or 7)
    yield day, day
    if day.isocalendar()[:2] == today.isocalendar()[:2]:
        yield day - timedelta(days=7), day - timedelta(days=7)


def _around(today: date, least: float, most: float, unit_days: int) -> Iterator[Days]:
    """Yield the days so long ago; one number gets half a unit on both sides, because people round, unless in days."""
    if most < (today - date(1970, 1, 1)).days:
        slack = unit_days // 2 if least == most else 0
        first, last = today - timedelta(days=int(most) + slack), today - timedelta(days=int(least) - slack)
        yield first, min(last, today)


def _east_asian(text: str, today: date) -> Iterator[NamedDays]:
    """Yield the times that are named in Chinese, Japanese or Korean."""
    for match in words.cjk_date().finditer(text):
        month, day = words.cjk_number(match["m"]), words.cjk_number(match["d"] or "")
        yield _at(match, _days(match["y"], month, (day or None,), today))
    for match in words.cjk_ago().finditer(text):
        least, most, unit_days = words.cjk_count(match)
        yield _at(match, _around(today, least * unit_days, most * unit_days, unit_days))
    for match in words.cjk_last().finditer(text):
        yield _at(match, _last_in_east_asian(match, today))


def _last_in_east_asian(match: re.Match[str], today: date) -> Iterator[Days]:
    if match["one"] or match["two"]:
        day = today - timedelta(days=2 if match["two"] else 1)
        yield day, day
    elif match["month"] or match["year"]:
        yield whole_unit(today, "month" if match["month"] else "year", last=True)
    else:
        monday, sunday = whole_unit(today, "week", last=True)
        if weekday := match["weekday"] or match["weekday_ko"]:
            monday = sunday = monday + timedelta(days=words.CJK_WEEKDAYS[weekday])
        yield monday, sunday


def _dated(match: re.Match[str], today: date) -> Iterator[Days]:
    groups = match.groupdict()
    day = groups["d"]
    yield from _days(groups.get("y"), int(groups["m"]), (int(day) if day else None,), today)


def _days(year: str | None, month: int, days: Sequence[int | None], today: date) -> Iterator[Days]:
    """Yield the first to the last of some days of a month, or all of it, in each of the last YEARS years if none is
    named; skip what does not exist."""
    for each in [int(year)] if year else range(today.year, today.year - YEARS, -1):
        if 1 <= month <= 12 and all(day is None or 1 <= day <= monthrange(each, month)[1] for day in days):
            yield date(each, month, days[0] or 1), date(each, month, days[-1] or monthrange(each, month)[1])
