"""Points in time as people and models write them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from .errors import InvalidArgument

_AGO = re.compile(r"(\d{1,6})\s*(h|hours?|d|days?|w|weeks?)(?:\s+ago)?")
_HOURS = {"h": 1, "d": 24, "w": 168}
WAYS = '"2026-05-03", "2026-05-03T14:00+02:00", "today", "yesterday", "36h", "7d" or "2 weeks ago"'


def parse_when(text: object, name: str, *, end: bool = False, now: datetime | None = None) -> datetime | None:
    """The moment that an argument `name` means, None when it is not given; without a zone it is UTC.

    A day means its first moment, or with `end` the first one after it. Raises InvalidArgument.
    """
    if text is None or text == "":
        return None
    now = now or datetime.now(UTC)
    if not isinstance(text, str):
        raise InvalidArgument(f"`{name}` must be text: {WAYS}")
    word = text.strip().lower()
    day = {"today": now.date(), "yesterday": now.date() - timedelta(days=1)}.get(word)
    try:
        if ago := _AGO.fullmatch(word):
            return now - timedelta(hours=int(ago[1]) * _HOURS[ago[2][0]])
        if day is None and re.fullmatch(r"\d{4}-\d{2}-\d{2}", word):
            day = date.fromisoformat(word)
        if day is not None:
            return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1 if end else 0)
        moment = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        raise InvalidArgument(f"`{name}` is not a date that can be read; write it like {WAYS}") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
