"""Times as people and models write them in an argument."""

from __future__ import annotations

import re
from calendar import monthrange
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


def parse_when(
    text: object, name: str, *, end: bool = False, local: bool = False, now: datetime | None = None
) -> datetime | None:
    """Return the moment that an argument `name` means, None when it is not given.

    Without a zone it is UTC, or with `local` this machine's zone. A day, week, month or year means its first moment, or
    with `end` the first one after it. Raises WrongUsage.
    """
    if text is None or text == "":
        return None
    if not isinstance(text, str):
        raise WrongUsage(f"`{name}` must be text: {WAYS}")
    try:
        return _moment(text.strip(), now or datetime.now(UTC), end=end, local=local)
    except (ValueError, OverflowError):
        raise WrongUsage(f"`{name}` is not a date that can be read; write it like {WAYS}") from None


def _moment(text: str, now: datetime, *, end: bool, local: bool) -> datetime:
    """Return the moment that a text means. Raises ValueError or OverflowError."""
    word = text.lower()
    if ago := _SPAN_AGO.fullmatch(word):
        return now - timedelta(hours=int(ago[1]) * _HOURS[ago[2][0]])
    if days := _period(word, (now.astimezone() if local else now).date()):
        day = days[1] + timedelta(days=1) if end else days[0]
        return _with_zone(datetime(day.year, day.month, day.day), local=local)
    moment = datetime.fromisoformat(text)
    return _in_utc(moment) if moment.tzinfo is not None else _with_zone(moment, local=local)


def _with_zone(moment: datetime, *, local: bool) -> datetime:
    """Return in UTC a moment that was named without a zone."""
    if local:
        try:
            return moment.astimezone(UTC)
        except (ValueError, OverflowError, OSError):
            pass  # the system knows no local time there
    return moment.replace(tzinfo=UTC)


def _in_utc(moment: datetime) -> datetime:
    """Return a moment in UTC, since Postgres may lack its zone; outside of the calendar, the first or last moment."""
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
