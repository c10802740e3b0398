"""Times as people and models write them: the moment that an argument means, and the periods that a question names."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from .errors import WrongUsage

_SPAN_AGO = re.compile(r"(\d{1,6})\s*(h|hours?|d|days?|w|weeks?)(?:\s+ago)?", re.ASCII)
_HOURS = {"h": 1, "d": 24, "w": 168}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}|\d{8}|\d{4}-?w\d{2}-?\d", re.ASCII)
_WEEK = re.compile(r"\d{4}-?w\d{2}", re.ASCII)
_ONE_MONTH = re.compile(r"(\d{4})-(\d{2})", re.ASCII)
_ONE_YEAR = re.compile(r"\d{4}", re.ASCII)
WAYS = (
    '"2026-05-03", "2026-05", "2026", "2026-W18", "2026-05-03T14:00+02:00", "today", "yesterday", "36h", "7d" '
    'or "2 weeks ago"'
)


def parse_when(text: object, name: str, *, end: bool = False, now: datetime | None = None) -> datetime | None:
    """Return the moment that an argument `name` means, None when it is not given; without a zone it is UTC.

    A day, week, month or year means its first moment, or with `end` the first one after it. Raises WrongUsage.
    """
    if text is None or text == "":
        return None
    now = now or datetime.now(UTC)
    if not isinstance(text, str):
        raise WrongUsage(f"`{name}` must be text: {WAYS}")
    word = text.strip().lower()
    try:
        if ago := _SPAN_AGO.fullmatch(word):
            return now - timedelta(hours=int(ago[1]) * _HOURS[ago[2][0]])
        if days := _period(word, now.date()):
            day = days[1] + timedelta(days=1) if end else days[0]
            return datetime(day.year, day.month, day.day, tzinfo=UTC)
        moment = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        raise WrongUsage(f"`{name}` is not a date that can be read; write it like {WAYS}") from None
    return _in_utc(moment) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _in_utc(moment: datetime) -> datetime:
    """Return a moment without its zone, which Postgres may lack; outside of the calendar, its first or last one."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return (datetime.min if moment.year == 1 else datetime.max).replace(tzinfo=UTC)


def _period(word: str, today: date) -> tuple[date, date] | None:
    """Return the first and the last day of what `word` names, None when it names no day, week, month or year."""
    if word in ("today", "yesterday"):
        day = today - timedelta(days=word == "yesterday")
        return day, day
    if _DATE.fullmatch(word):
        day = date.fromisoformat(word.upper())
        return day, day
    if _WEEK.fullmatch(word):
        monday = date.fromisoformat(word.upper())
        return monday, monday + timedelta(days=6)
    if month := _ONE_MONTH.fullmatch(word):
        first = date(int(month[1]), int(month[2]), 1)
        return first, first.replace(day=monthrange(first.year, first.month)[1])
    if _ONE_YEAR.fullmatch(word):
        return date(int(word), 1, 1), date(int(word), 12, 31)
    return None


# -- named in a question: "on 13 October 2023", "in May", "2026-05-03", "yesterday", "two weeks ago"

MAX_PERIODS = 40  # of one question; a pasted log would name hundreds
YEARS = 8  # "in May" without a year means the last so many Mays
EARLIER = timedelta(days=1)  # a day of the asker's is up to a day off from one of the store's, which counts in UTC
LATER = timedelta(days=3)  # what happened on a day is told on that day or soon after

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "couple of": 2}
_MONTH = rf"\b({'|'.join(_MONTHS)}|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\b\.?"
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"((?:19|20)\d\d)"
_SPOKEN = re.compile(
    rf"(?:\b{_DAY}(?:\s+of)?[\s-]+)?{_MONTH}(?:\s+{_DAY}\b)?(?:,?\s+(?:of\s+|in\s+)?{_YEAR}\b)?", re.IGNORECASE
)
# A month alone is one only after such a word: "march" and "may" are verbs, "April" and "June" are people.
_LEADING = re.compile(
    r"\b(?:in|of|since|during|last|this|until|before|after|by|from|early|late|mid|to)[\s-]+$", re.IGNORECASE
)
_WRITTEN = re.compile(rf"\b{_YEAR}-(\d\d)(?:-(\d\d))?\b")
_AGO = re.compile(rf"\b(\d{{1,3}}|{'|'.join(_NUMBERS)})\s+(day|week|month|year)s?\s+ago\b", re.IGNORECASE)
_LAST = re.compile(r"\b(?:(yesterday)|last\s+(week|month|year))\b", re.IGNORECASE)
_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """From `start` to before `end`: when things that happened in a named time were likely told."""

    start: datetime
    end: datetime


def named_periods(text: str, now: datetime) -> list[TimeSpan]:
    """Return the times that `text` names in English or as ISO dates, at most MAX_PERIODS; none in most texts.

    A time without a year means that time of each of the last YEARS years. "2026" alone names no time: it is more often
    a part of a name.
    """
    found: list[TimeSpan] = []
    for first, last in _spans(text, now.astimezone(UTC).date()):
        start, end = _midnight(first) - EARLIER, _midnight(last) + timedelta(days=1) + LATER
        if len(found) == MAX_PERIODS:
            break
        if start <= now:
            found.append(TimeSpan(start, end))
    return found


def _spans(text: str, today: date) -> Iterator[tuple[date, date]]:
    """Yield the first and last day of each named time."""
    for match in _WRITTEN.finditer(text):
        yield from _dated(int(match[1]), int(match[2]), int(match[3]) if match[3] else None)
    for match in _SPOKEN.finditer(text):
        if not _is_something_else(match):
            yield from _spoken(match, today)
    for match in _AGO.finditer(text):
        days = _DAYS[match[2].lower()]
        yield from _around(today, (_NUMBERS.get(match[1].lower()) or int(match[1])) * days, days)
    for match in _LAST.finditer(text):
        days = 1 if match[1] else _DAYS[match[2].lower()]
        yield from _around(today, days, days)


def _is_something_else(match: re.Match[str]) -> bool:
    """Return whether the name of a month stands for a verb or a person."""
    before, name, after, year = match.groups()
    if year:
        return False
    if name in ("may", "march", "mar"):
        return True
    alone = not (before or after)
    return alone and not _LEADING.search(match.string[max(0, match.start() - 12) : match.start()])


def _spoken(match: re.Match[str], today: date) -> Iterator[tuple[date, date]]:
    before, name, after, year = match.groups()
    day = int(before or after) if before or after else None
    month = next(number for number, each in enumerate(_MONTHS, 1) if each.startswith(name.lower()[:3]))
    for number in [int(year)] if year else range(today.year, today.year - YEARS, -1):
        yield from _dated(number, month, day)


def _dated(year: int, month: int, day: int | None) -> Iterator[tuple[date, date]]:
    """Yield a day or a whole month; nothing when there is no such day."""
    if 1 <= month <= 12 and year >= 1 and (day is None or 1 <= day <= monthrange(year, month)[1]):
        yield date(year, month, day or 1), date(year, month, day or monthrange(year, month)[1])


def _around(today: date, days_ago: int, unit_days: int) -> Iterator[tuple[date, date]]:
    """Yield the day so long ago and half a unit to both sides, for people round; a day is meant exactly."""
    if days_ago < (today - date(1970, 1, 1)).days:
        middle = today - timedelta(days=days_ago)
        slack = timedelta(days=unit_days // 2)
        yield middle - slack, min(middle + slack, today)


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
