"""Tells whether a text names a day that a question asks for, whenever it was written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import product

from ..domain.coming_days import announced_days
from ..domain.dates import Zone, in_zone, midnight
from ..domain.named_times import TimeSpan, named_periods
from ..domain.types import Hit

_TEXT_MAX_CHARS = 400  # a longer text names many times
_AHEAD_MAX_CHARS = 1200  # of a text about what comes, in which a list of dates is as good as one
_LASTS_MOST = timedelta(days=14, hours=1)  # of what happens on each of its days, such as a visit
DAY_MOST = timedelta(days=1, hours=1)
SAME_YEAR = timedelta(days=183)  # from when a text was written to a day that it names without a year


def tells_of(hit: Hit, asked: Sequence[TimeSpan]) -> bool:
    """Return whether a text names a day that is asked for, as "Yesterday I paid" of 4 May names 3 May.

    `asked` are the times that the question names, in the zone of the hit's time.
    """
    if len(hit.content) > _TEXT_MAX_CHARS:
        return False
    days = _days(asked, hit.at)
    return bool(days) and (_names(hit, days) or _announces(hit, days))


def announces_any(hit: Hit, ahead: Sequence[date]) -> bool:
    """Return whether a text names one of the days `ahead` of now, each of which begins as where the hit's time is."""
    near = [day for day in ahead if timedelta() <= day - hit.at.date() < SAME_YEAR]
    if not near or len(hit.content) > _AHEAD_MAX_CHARS:
        return False
    return not set(near).isdisjoint(announced_days(hit.content, hit.at.date())) or _lasts_over(hit, near)


def _lasts_over(hit: Hit, days: Sequence[date]) -> bool:
    """Return whether a text names one of some days, or a short time such as that of a visit to which one belongs."""
    zone = hit.at.tzinfo or UTC
    named = [each for each in _named(hit) if each.end - each.start <= _LASTS_MOST]
    yearly = each_year(named, zone)
    # "2 January" of a text of December is read as that of the years before.
    again = [each for each in named if _in_year(each, zone) in yearly]
    return _reach([each for each in named if _may_come(each, hit)], days, zone) or _reach(
        again, filter(None, map(_year_before, days)), zone
    )


def _reach(spans: Iterable[TimeSpan], days: Iterable[date], zone: Zone) -> bool:
    """Return whether one of the days belongs to one of some times."""
    begun = [(midnight(day, zone), midnight(day + timedelta(days=1), zone)) for day in days]
    return any(each.start < end and start < each.end for each, (start, end) in product(spans, begun))


def _may_come(named: TimeSpan, hit: Hit) -> bool:
    """Return whether a time was not over when a text named it, as "two hours ago" and "the last days" are."""
    day, zone = hit.at.date(), hit.at.tzinfo or UTC
    up_to_now = named.start < midnight(day, zone) < named.end <= midnight(day + timedelta(days=1), zone)
    return named.end > hit.at and not up_to_now


def _year_before(day: date) -> date | None:
    try:
        return day.replace(year=day.year - 1)
    except ValueError:  # 29 February
        return None


def _days(asked: Sequence[TimeSpan], at: datetime) -> list[TimeSpan]:
    """Return the single days that are asked for; one of a known year only if the text is of about that time."""
    days = [span for span in asked if span.end - span.start <= DAY_MOST]
    again = each_year(days, at.tzinfo)
    return [day for day in days if _in_year(day, at.tzinfo) in again or abs(at - day.start) < SAME_YEAR]


def _named(hit: Hit) -> Sequence[TimeSpan]:
    try:
        return named_periods(hit.content, hit.at, hit.at.tzinfo or UTC, ahead=True)
    except (OverflowError, ValueError):  # "yesterday" on the calendar's first day
        return ()


def _names(hit: Hit, days: Sequence[TimeSpan]) -> bool:
    zone = hit.at.tzinfo
    named = _named(hit)
    if any(day.start <= each.start and each.end <= day.end for each, day in product(named, days)):
        return True
    # "By 26 November" may as well be meant of the next one.
    again = each_year((span for span in named if span.end - span.start <= DAY_MOST), zone)
    return any(_in_year(day, zone) in again for day in days)


def _announces(hit: Hit, days: Sequence[TimeSpan]) -> bool:
    """Return whether a text says "tomorrow" on the day before such a day."""
    asked = {_in_year(day, hit.at.tzinfo) for day in days}
    return any(f"{day:%m-%d}" in asked for day in announced_days(hit.content, hit.at.date()))


def each_year(days: Iterable[TimeSpan], zone: Zone) -> set[str]:
    """Return as "05-31" the days that are named without a year, which are those of each of the last years."""
    times = Counter(_in_year(day, zone) for day in days)
    return {day for day, count in times.items() if count > 1}


def _in_year(day: TimeSpan, zone: Zone) -> str:
    return f"{in_zone(day.start, zone):%m-%d}"
