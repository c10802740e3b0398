"""Loading of times that Postgres holds and Python cannot: `infinity`, and years before 1 or after 9999.

Whoever may write can store one. psycopg's own loader raises for it, so that a single such row of any theme would fail
every statement that returns it beside others: a recall across themes, the list of themes, an operator's command.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from psycopg import DataError, adapters
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import AdaptersMap, Loader
from psycopg.pq import Format

_TYPE: Final = "timestamptz"
# A year from the ends, where `import` takes them and no time zone leads out of the calendar again.
FIRST_MOMENT: Final = datetime(2, 1, 1, tzinfo=UTC)
LAST_MOMENT: Final = datetime(9998, 12, 31, tzinfo=UTC)
_BEFORE: Final = re.compile(rb"-infinity|.* BC")
_AFTER: Final = re.compile(rb"infinity|\d{5,}-.*")


class _CalendarLoader(Loader):
    """Loads a time as psycopg does; one outside of the calendar as FIRST_MOMENT or LAST_MOMENT."""

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        usual = adapters.get_loader(oid, self.format)
        assert usual is not None, "psycopg knows the type"
        self._usual = usual(oid, context)

    def load(self, data: Buffer) -> datetime:
        """Return the moment. Raises DataError for what is no time."""
        try:
            moment: datetime = self._usual.load(data)
        except DataError:
            outer = self._outer(bytes(data))
            if outer is None:
                raise
            return outer
        return moment

    def _outer(self, data: bytes) -> datetime | None:
        return _outside(data)


class _BinaryCalendarLoader(_CalendarLoader):
    format = Format.BINARY

    def _outer(self, data: bytes) -> datetime | None:
        """Return on which side of the calendar it is: it counts from the year 2000."""
        return FIRST_MOMENT if int.from_bytes(data, "big", signed=True) < 0 else LAST_MOMENT


def _outside(text: bytes) -> datetime | None:
    if _BEFORE.fullmatch(text):
        return FIRST_MOMENT
    return LAST_MOMENT if _AFTER.fullmatch(text) else None


def calendar_adapters() -> AdaptersMap:
    """Return psycopg's adapters, of which those for times never raise on a time that Postgres holds."""
    made = AdaptersMap(adapters)
    made.register_loader(_TYPE, _CalendarLoader)
    made.register_loader(_TYPE, _BinaryCalendarLoader)
    return made


def read_moment(text: str) -> datetime:
    """Return the moment that Postgres wrote into JSON, one outside of the calendar as the loaders do."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        outer = _outside(text.encode())
        if outer is None:
            raise
        return outer
