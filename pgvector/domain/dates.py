"""Times as people and models write them in an argument, and the zone in which their days begin."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, date, datetime, timedelta, tzinfo

from .errors import WrongUsage
from .fork_safety import at_import
from .patterns import late_pattern

Zone = tzinfo | None  # None is this machine's

_SPAN = late_pattern(
    r"(?P<count>\d{1,6})\s*(?:(?P<months>months?)|(?P<years>years?)"
    r"|(?P<unit>min|minutes?|h|hours?|d|days?|w|weeks?))(?P<ago>\s+ago)?",
    re.ASCII | re.IGNORECASE,
)
_MINUTES = {"m": 1, "h": 60, "d": 1440, "w": 10080}
_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
_NEAR = late_pattern(r"(?P<which>this|last) (?P<unit>week|month|year)")
_DATE = late_pattern(r"\d{4}-\d{2}-\d{2}|\d{8}|\d{4}-?w\d{2}-?\d", re.ASCII)
_WEEK = late_pattern(r"\d{4}-?w\d{2}", re.ASCII)
_ONE_MONTH = late_pattern(r"(\d{4})-(\d{2})", re.ASCII)
_ONE_YEAR = late_pattern(r"\d{4}", re.ASCII)
# A year from the ends, where `import` takes them and no time zone leads out of the calendar again.
FIRST_MOMENT = datetime(2, 1, 1, tzinfo=UTC)
LAST_MOMENT = datetime(9998, 12, 31, tzinfo=UTC)
_BEFORE = late_pattern("-infinity|.* BC")
_AFTER = late_pattern(r"infinity|\d{5,}-.*", re.ASCII)
WAYS = (
    '"2026-05-03", "2026-05", "2026", "2026-W18", "2026-05-03T14:00+02:00", "today", "last month", "36h", "7d" '
    'or "2 weeks ago"'
)
WAYS_AHEAD = '"2026-05-03", "2026-05", "2026-05-03T14:00+02:00", "tomorrow", or "7d" or "3 months" from now'


def zone_named(name: str) -> Zone:
    """Return the zone of a name such as Europe/Berlin, this machine's for an empty one. Raises WrongUsage."""
    if not name:
        return None
    if name.upper() == "UTC":  # also where the system knows no other zone
        return UTC
    with at_import:
        from zoneinfo import ZoneInfo
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise WrongUsage(f"{name[:60]!r} is no time zone known here; write it like Europe/Berlin or UTC") from None


def knows_zones() -> bool:
    """Return whether this machine knows any zone but UTC."""
    with at_import:
        from zoneinfo import available_timezones
    return bool(available_timezones())


def in_zone(moment: datetime, zone: Zone) -> datetime:
    """Return a moment as the clocks of a zone show it; unchanged at the ends of the calendar."""
    try:
        return moment.astimezone(zone)
    except (ValueError, OverflowError, OSError):
        return moment


def midnight(day: date, zone: Zone) -> datetime:
    """Return in UTC the moment when a day begins in a zone."""
    return _with_zone(datetime(day.year, day.month, day.day), zone)


def parse_when(
    text: object,
    name: str,
    *,
    zone: Zone,
    end: bool = False,
    now: datetime | None = None,
    ahead: bool = False,
) -> datetime | None:
    """Return the moment that an argument `name` means, None when it is not given.

    A time that names no zone is meant in `zone`. A day, week, month or year means its first moment, or with `end` the
    first one after it; "7d" means seven days ago, or with `ahead` from now on. Raises WrongUsage.
    """
    ways = WAYS_AHEAD if ahead else WAYS
    if text is None or text == "":
        return None
    if not isinstance(text, str):
        raise WrongUsage(f"`{name}` must be text: {ways}")
    try:
        now, text = now or datetime.now(UTC), text.strip()
        if span := _SPAN.fullmatch(text):
            return _away(now, span, 1 if ahead and not span["ago"] else -1)
        return _moment(text, now, end=end, zone=zone)
    except (ValueError, OverflowError):
        raise WrongUsage(f"`{name}` is not a date that can be read; write it like {ways}") from None


def read_moment(text: str) -> datetime:
    """Return the moment that Postgres wrote as text; one outside of the calendar as FIRST_MOMENT or LAST_MOMENT."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        outer = outside_calendar(text)
        if outer is None:
            raise
        return outer


def outside_calendar(text: str) -> datetime | None:
    """Return FIRST_MOMENT or LAST_MOMENT for a time that Postgres holds and Python cannot, None for any other text."""
    if _BEFORE.fullmatch(text):
        return FIRST_MOMENT
    return LAST_MOMENT if _AFTER.fullmatch(text) else None


def days_after(moment: datetime, days: float) -> datetime:
    """Return the moment so many days later, or the last one of the calendar."""
    try:
        return moment + timedelta(days=days)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def _away(now: datetime, span: re.Match[str], way: int) -> datetime:
    """Return the moment that a match of _SPAN is before `now`, or with a `way` of 1 after it. Raises OverflowError or
    ValueError."""
    count = way * int(span["count"])
    if span["unit"]:
        return now + timedelta(minutes=count * _MINUTES[span["unit"][0].lower()])
    months = now.year * 12 + now.month - 1 + count * (12 if span["years"] else 1)
    year, month = months // 12, months % 12 + 1
    return now.replace(year=year, month=month, day=min(now.day, monthrange(year, month)[1]))


def _moment(text: str, now: datetime, *, end: bool, zone: Zone) -> datetime:
    """Return the moment that a text means. Raises ValueError or OverflowError."""
    word = text.lower()
    if word == "now":
        return now
    if days := _period(word, in_zone(now, zone).date()):
        if end and days[1] == date.max:
            return LAST_MOMENT
        return midnight(days[1] + timedelta(days=1) if end else days[0], zone)
    moment = datetime.fromisoformat(text)
    return _in_utc(moment) if moment.tzinfo is not None else _with_zone(moment, zone)


def _with_zone(moment: datetime, zone: Zone) -> datetime:
    """Return in UTC a moment that was named without a zone."""
    try:
        return (moment if zone is None else moment.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError, OSError):  # the system knows no local time there
        return moment.replace(tzinfo=UTC)


def _in_utc(moment: datetime) -> datetime:
    """Return a moment in UTC, since Postgres may lack its zone; outside of the calendar, the first or last moment."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return (datetime.min if moment.year == 1 else datetime.max).replace(tzinfo=UTC)


def _period(word: str, today: date) -> tuple[date, date] | None:
    """Return the first and the last day of what `word` names, None when it names no day, week, month or year."""
    if word in _DAYS:
        day = today + timedelta(days=_DAYS[word])
        return day, day
    if near := _NEAR.fullmatch(word):
        return whole_unit(today, near["unit"], last=near["which"] == "last")
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


def whole_unit(today: date, unit: str, *, last: bool) -> tuple[date, date]:
    """Return the first and the last day of this or the last `week`, `month`, `quarter` or `year`."""
    if unit == "week":
        monday = today - timedelta(days=today.weekday() + (7 if last else 0))
        return monday, monday + timedelta(days=6)
    if unit == "quarter":
        year, quarter = divmod(today.year * 4 + (today.month - 1) // 3 - last, 4)
        end = 3 * quarter + 3
        return date(year, end - 2, 1), date(year, end, monthrange(year, end)[1])
    year, month = divmod(today.year * 12 + today.month - 1 - (last if unit == "month" else 0), 12)
    if unit == "month":
        return date(year, month + 1, 1), date(year, month + 1, monthrange(year, month + 1)[1])
    return date(today.year - last, 1, 1), date(today.year - last, 12, 31)
