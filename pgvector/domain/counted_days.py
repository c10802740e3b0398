"""Days that are counted back from today, and those of a month in the last years."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from itertools import islice
from math import ceil

from . import time_words as words
from .dates import whole_unit

Days = tuple[date, date]  # the first and the last one

YEARS = 8  # "in May" without a year means each of the last so many Mays
# How many days a count of units may be off, because people round, by the days of the unit.
_SLACK = {1: 0, 7: 3, 14: 3, 30: 15, 91: 45, 365: 182}
_LEAST_PARTED = 7
UNIT_NAMES = {7: "week", 30: "month", 91: "quarter", 365: "year"}


def around(today: date, least: float, most: float, unit_days: int) -> Iterator[Days]:
    """Yield the days so long ago; one number gets about half a unit on both sides."""
    far, near = int(most * unit_days), int(least * unit_days)
    if far < (today - date(1970, 1, 1)).days:
        slack = _SLACK[unit_days] if least == most else 0
        first, last = today - timedelta(days=far + slack), today - timedelta(days=near - slack)
        yield first, min(last, today)


def last_few(today: date, most: float, unit_days: int) -> Iterator[Days]:
    """Yield the days since so many units ago, until today."""
    yield from around(today, 0, int(most * unit_days), 1)


def last_of(name: str, today: date) -> Iterator[Days]:
    """Yield the last whole week, month or year, the weekend, or the weekday."""
    if name in words.WEEKENDS:
        saturday = today - timedelta(days=today.weekday() + 2)
        yield saturday, saturday + timedelta(days=1)
    elif (weekday := (words.WEEKDAYS | words.SHORT_WEEKDAYS).get(name)) is not None:
        yield from last_weekday(weekday, today)
    else:
        yield whole_unit(today, UNIT_NAMES[words.UNITS[name]], last=True)


def before_last(name: str, today: date) -> Iterator[Days]:
    """Yield the week, month or year, the weekend or the weekday before the last one."""
    for first, _ in islice(last_of(name, today), 1):
        yield from islice(last_of(name, first), 1)


def weekdays_ago(name: str, count: float, today: date) -> Iterator[Days]:
    """Yield the weekday or weekend so many weekdays or weekends ago, if it is a whole number of them."""
    for first, last in islice(last_of(name, today), 1):
        if 1 <= count == int(count):
            back = timedelta(days=7 * (int(count) - 1))
            yield first - back, last - back


def last_weekday(weekday: int, today: date) -> Iterator[Days]:
    """Yield the last such weekday; if it is in this week, also the one before, which people may mean."""
    day = today - timedelta(days=(today.weekday() - weekday) % 7 or 7)
    yield day, day
    if day.isocalendar()[:2] == today.isocalendar()[:2]:
        yield day - timedelta(days=7), day - timedelta(days=7)


def from_weekday(first: int, last: int, today: date) -> Days:
    """Return the days from one weekday to another, the last ones that are over or end today."""
    stop = today - timedelta(days=(today.weekday() - last) % 7)
    return stop - timedelta(days=(last - first) % 7), stop


def since_first(unit: str, today: date) -> Days:
    """Return the days of the present week, month or year until today."""
    return whole_unit(today, unit, last=False)[0], today


def part_of(days: Days, share: tuple[float, float]) -> Days:
    """Return the days of a share of some days, which are rounded up; of a few days, all."""
    first, last = days
    count = (last - first).days + 1
    if count < _LEAST_PARTED:
        return days
    return first + timedelta(days=int(count * share[0])), first + timedelta(days=ceil(count * share[1]) - 1)


def is_unit(days: Days, today: date) -> bool:
    """Return whether days are a whole year, the last week, or the present week, month or year until today."""
    first, last = days
    if days in ((date(first.year, 1, 1), date(first.year, 12, 31)), whole_unit(today, "week", last=True)):
        return True
    return first < last and any(days == since_first(unit, today) for unit in UNIT_NAMES.values())


def of_month(year: str | None, month: int, days: Sequence[int | None], today: date) -> Iterator[Days]:
    """Yield the first to the last of some days of a month, or all of it, in each of the last YEARS years if none is
    named; skip what does not exist."""
    for each in [int(year)] if year else range(today.year, today.year - YEARS, -1):
        if 1 <= month <= 12 and all(day is None or 1 <= day <= monthrange(each, month)[1] for day in days):
            yield date(each, month, days[0] or 1), date(each, month, days[-1] or monthrange(each, month)[1])


def of_last_month(day: int, today: date) -> Iterator[Days]:
    """Yield a day of the last month, if that has it."""
    first, _ = whole_unit(today, "month", last=True)
    yield from of_month(str(first.year), first.month, (day,), today)
