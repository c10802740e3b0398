"""Loading of times that Postgres holds and Python cannot: `infinity`, and years before 1 or after 9999.

Whoever may write can store one. psycopg's own loader raises for it, so that a single such row of any theme would fail
every statement that returns it beside others: a recall across themes, the list of themes, an operator's command.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from psycopg import DataError, adapters
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import AdaptersMap, Loader
from psycopg.pq import Format

from ..domain.dates import FIRST_MOMENT, LAST_MOMENT, outside_calendar

_TYPE: Final = "timestamptz"


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
        return outside_calendar(data.decode())


class _BinaryCalendarLoader(_CalendarLoader):
    format = Format.BINARY

    def _outer(self, data: bytes) -> datetime | None:
        """Return on which side of the calendar it is: it counts from the year 2000."""
        return FIRST_MOMENT if int.from_bytes(data, "big", signed=True) < 0 else LAST_MOMENT


def calendar_adapters() -> AdaptersMap:
    """Return psycopg's adapters, of which those for times never raise on a time that Postgres holds."""
    made = AdaptersMap(adapters)
    made.register_loader(_TYPE, _CalendarLoader)
    made.register_loader(_TYPE, _BinaryCalendarLoader)
    return made
