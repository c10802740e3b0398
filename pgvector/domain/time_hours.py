"""Times counted back from now in hours or minutes: "an hour ago", "in den letzten 24 Stunden", "半小时前"."""

from __future__ import annotations

from collections.abc import Iterator, Set
from datetime import date, datetime, timedelta

from . import east_asian_times as east_asian
from . import time_patterns as patterns
from . import time_words as words
from .text import has_cjk

_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_LEAST_SLACK = timedelta(minutes=5)
_DAWN = 6  # the hour before which people mean by "today" the day on which they got up
_NIGHT = timedelta(hours=-12), timedelta(hours=_DAWN)  # from noon, as the host's clock may not be the user's


def hours_ago(plain: str, said: Set[str]) -> Iterator[tuple[timedelta, timedelta]]:
    """Yield for each such time of a text in lower case and without accents how long ago it began and ended.

    People round: a number of hours gets half an hour on both sides, one of minutes a half of it. `said`: its words.
    """
    if said & words.HOUR_SIGNS:
        for match in patterns.ago(hours=True).finditer(plain):
            least, most, length = patterns.counted(match, words.HOUR_UNITS)
            yield _around(least * length, most * length, length)
        for match in patterns.within(hours=True).finditer(plain):
            _, most, length = patterns.counted(match, words.HOUR_UNITS)
            yield most * length, timedelta(0)
    if has_cjk(plain):
        for match in east_asian.hours().finditer(plain):
            unit = _MINUTE if match["minute"] else _HOUR
            low, high = east_asian.counted(match)
            yield (high * unit, timedelta(0)) if match["last"] else _around(low * unit, high * unit, unit)


def day_awake(local: datetime) -> date:
    """Return the day that is today to someone who is awake; before dawn that is mostly the one before."""
    return (local - timedelta(hours=_DAWN)).date()


def last_nights(local: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield the evening and night of "last night"; before dawn it may be the present one or the one before."""
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
    for days in range(2 if local.hour < _DAWN else 1):
        yield midnight + _NIGHT[0] - timedelta(days=days), midnight + _NIGHT[1] - timedelta(days=days)


def _around(least: timedelta, most: timedelta, unit: timedelta) -> tuple[timedelta, timedelta]:
    slack = timedelta(0) if least != most else _HOUR / 2 if unit == _HOUR else max(most / 2, _LEAST_SLACK)
    return most + slack, max(least - slack, timedelta(0))
