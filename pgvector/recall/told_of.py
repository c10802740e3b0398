"""Tells whether a text names a day that a question asks for, whenever it was written."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import product

from ..domain.coming_days import announced_days
from ..domain.dates import in_zone
from ..domain.named_times import TimeSpan, named_periods
from ..domain.types import Hit

_TEXT_MAX_CHARS = 400  # a longer text names many times
_DAY_MOST = timedelta(days=1, hours=1)
_SAME_YEAR = timedelta(days=183)  # from when a text was written to a day that it names without a year


def tells_of(hit: Hit, asked: Sequence[TimeSpan]) -> bool:
    """Return whether a text names a day that is asked for, as "Yesterday I paid" of 4 May names 3 May.

    `asked` are the times that the question names, in the zone of the hit's time.
    """
    days = _days(asked, hit.at)
    if not days or len(hit.content) > _TEXT_MAX_CHARS:
        return False
    return _names(hit, days) or _announces(hit, days, any_year=len(asked) > 1)


def _days(asked: Sequence[TimeSpan], at: datetime) -> list[TimeSpan]:
    """Return the single days that are asked for; one of a known year only if the text is of about that time."""
    days = [span for span in asked if span.end - span.start <= _DAY_MOST]
    return days if len(asked) > 1 else [span for span in days if abs(at - span.start) < _SAME_YEAR]


def _names(hit: Hit, days: Sequence[TimeSpan]) -> bool:
    try:
        named = named_periods(hit.content, hit.at, hit.at.tzinfo)
    except (OverflowError, ValueError):  # "yesterday" on the calendar's first day
        return False
    return any(day.start <= each.start and each.end <= day.end for each, day in product(named, days))


def _announces(hit: Hit, days: Sequence[TimeSpan], *, any_year: bool) -> bool:
    """Return whether a text says "tomorrow" on the day before such a day, with `any_year` of any year."""
    form = "%m-%d" if any_year else "%Y-%m-%d"
    asked = {f"{in_zone(day.start, hit.at.tzinfo):{form}}" for day in days}
    return any(f"{day:{form}}" in asked for day in announced_days(hit.content, hit.at.date()))
