"""Points in time as people and models write them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_memory_pgvector.domain.dates import LAST_MOMENT, parse_when
from hermes_memory_pgvector.domain.errors import InvalidArgument

NOW = datetime(2026, 5, 20, 15, 30, tzinfo=UTC)


def when(text: object, *, end: bool = False) -> datetime | None:
    return parse_when(text, "since", zone=UTC, end=end, now=NOW)


@pytest.mark.parametrize("nothing", [None, ""])
def test_nothing_means_no_limit(nothing: object) -> None:
    assert when(nothing) is None


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2026-05-03", datetime(2026, 5, 3, tzinfo=UTC), datetime(2026, 5, 4, tzinfo=UTC)),
        (" 2026-05-03 ", datetime(2026, 5, 3, tzinfo=UTC), datetime(2026, 5, 4, tzinfo=UTC)),
        ("2024-02-29", datetime(2024, 2, 29, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC)),
        ("2026-12-31", datetime(2026, 12, 31, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
        ("20260503", datetime(2026, 5, 3, tzinfo=UTC), datetime(2026, 5, 4, tzinfo=UTC)),
        ("2026-W18-7", datetime(2026, 5, 3, tzinfo=UTC), datetime(2026, 5, 4, tzinfo=UTC)),
        ("today", datetime(2026, 5, 20, tzinfo=UTC), datetime(2026, 5, 21, tzinfo=UTC)),
        ("Yesterday", datetime(2026, 5, 19, tzinfo=UTC), datetime(2026, 5, 20, tzinfo=UTC)),
        ("tomorrow", datetime(2026, 5, 21, tzinfo=UTC), datetime(2026, 5, 22, tzinfo=UTC)),
    ],
)
def test_a_day_is_its_first_moment_and_as_an_end_the_moment_after_it(text: str, start: datetime, end: datetime) -> None:
    assert when(text) == start
    assert when(text, end=True) == end


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2026-W18", datetime(2026, 4, 27, tzinfo=UTC), datetime(2026, 5, 4, tzinfo=UTC)),
        ("2026w18", datetime(2026, 4, 27, tzinfo=UTC), datetime(2026, 5, 4, tzinfo=UTC)),
        ("2020-W53", datetime(2020, 12, 28, tzinfo=UTC), datetime(2021, 1, 4, tzinfo=UTC)),
        ("2026-05", datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 6, 1, tzinfo=UTC)),
        ("2024-02", datetime(2024, 2, 1, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC)),
        ("2026-12", datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
        (" 2026 ", datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
        ("this week", datetime(2026, 5, 18, tzinfo=UTC), datetime(2026, 5, 25, tzinfo=UTC)),
        ("Last week", datetime(2026, 5, 11, tzinfo=UTC), datetime(2026, 5, 18, tzinfo=UTC)),
        ("this month", datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 6, 1, tzinfo=UTC)),
        ("last month", datetime(2026, 4, 1, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC)),
        ("this year", datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
        ("last year", datetime(2025, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_week_month_or_year_ends_with_its_last_day(text: str, start: datetime, end: datetime) -> None:
    assert when(text) == start
    assert when(text, end=True) == end


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-05-03T14:00", datetime(2026, 5, 3, 14, tzinfo=UTC)),
        ("2026-05-03 14:00:30", datetime(2026, 5, 3, 14, 0, 30, tzinfo=UTC)),
        ("2026-05-03T14:00Z", datetime(2026, 5, 3, 14, tzinfo=UTC)),
        ("2026-05-03T14:00+02:00", datetime(2026, 5, 3, 12, tzinfo=UTC)),
        ("36h", NOW - timedelta(hours=36)),
        ("1 hour ago", NOW - timedelta(hours=1)),
        ("7d", NOW - timedelta(days=7)),
        ("7 Days", NOW - timedelta(days=7)),
        ("2 weeks ago", NOW - timedelta(weeks=2)),
        ("0d", NOW),
        ("30 minutes ago", NOW - timedelta(minutes=30)),
        ("90 min", NOW - timedelta(minutes=90)),
        ("3 months ago", datetime(2026, 2, 20, 15, 30, tzinfo=UTC)),
        ("6 months", datetime(2025, 11, 20, 15, 30, tzinfo=UTC)),
        ("1 Year ago", datetime(2025, 5, 20, 15, 30, tzinfo=UTC)),
        ("Now", NOW),
    ],
)
def test_a_moment_is_the_same_as_a_start_and_as_an_end(text: str, moment: datetime) -> None:
    assert when(text) == when(text, end=True) == moment


@pytest.mark.parametrize(
    "text",
    [
        "soon", "last spring", "2026-13-01", "2026-02-30", "03.05.2026", "7 moons ago", "-7d", "d", "  ", "9999-99-99",
        "999999w", "999999 years", "2m",
        "1 month from now", "0000-01-01", "2026-05-03T25:00", "1e5d", "now'; DROP TABLE conversations; --", "\0",
        "7" * 5000 + "d", "202605", "2026-5", "2026-W54", "2026-W00", "26", "0000", "0000-05", "2026-13", "2026-Q2",
        "2026-05-", "20261301", "٢٠٢٦", "2026-05-03 to 2026-05-04",
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_ways_to_write_it(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"`since` is not a date .*2 weeks ago"):
        when(text)


@pytest.mark.parametrize("value", [7, 7.5, True, ["2026-05-03"], {"day": 3}, object(), date(2026, 5, 3)])
def test_what_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgument, match="`since` must be text"):
        when(value)


def test_until_the_last_day_of_the_calendar_is_no_limit() -> None:
    for text in ("9999-12-31", "9999-12", "9999"):
        assert when(text) is not None
        assert when(text, end=True) == LAST_MOMENT


@pytest.mark.parametrize(
    ("now", "text", "moment"),
    [
        (datetime(2026, 5, 31, tzinfo=UTC), "3 months ago", datetime(2026, 2, 28, tzinfo=UTC)),
        (datetime(2024, 2, 29, tzinfo=UTC), "1 year ago", datetime(2023, 2, 28, tzinfo=UTC)),
        (datetime(2026, 1, 5, tzinfo=UTC), "1 month", datetime(2025, 12, 5, tzinfo=UTC)),
    ],
)
def test_a_month_that_is_shorter_ends_with_its_last_day(now: datetime, text: str, moment: datetime) -> None:
    assert parse_when(text, "since", zone=UTC, now=now) == moment


def test_the_last_month_in_january_is_of_the_year_before() -> None:
    january = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert parse_when("last month", "since", zone=UTC, now=january) == datetime(2025, 12, 1, tzinfo=UTC)
    assert parse_when("last month", "until", zone=UTC, end=True, now=january) == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_span_ahead_is_one_from_now_on() -> None:
    for text, moment in (("7d", NOW + timedelta(days=7)), ("3 months", datetime(2026, 8, 20, 15, 30, tzinfo=UTC))):
        assert parse_when(text, "expires_at", zone=UTC, ahead=True, now=NOW) == moment
    assert parse_when("7d ago", "expires_at", zone=UTC, ahead=True, now=NOW) == NOW - timedelta(days=7)


@given(st.text(max_size=40))
def test_any_text_is_a_moment_with_a_zone_or_refused(text: str) -> None:
    try:
        found = when(text)
    except InvalidArgument as exc:
        assert str(exc)
    else:
        assert found is None or found.tzinfo is not None


@given(
    st.datetimes(
        datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7))])
    )
)
def test_what_our_results_show_as_a_date_can_be_given_back(moment: datetime) -> None:
    assert when(moment.isoformat(timespec="seconds")) == moment.replace(microsecond=0)


@given(st.dates(date(1970, 1, 1), date(2100, 1, 1)))
def test_a_day_lasts_a_day(day: date) -> None:
    start, end = when(day.isoformat()), when(day.isoformat(), end=True)
    assert start is not None and end is not None
    assert end - start == timedelta(days=1)


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This machine in the zone of New York."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2026-05-03", datetime(2026, 5, 3, 4, tzinfo=UTC), datetime(2026, 5, 4, 4, tzinfo=UTC)),
        ("2026-03-08", datetime(2026, 3, 8, 5, tzinfo=UTC), datetime(2026, 3, 9, 4, tzinfo=UTC)),  # 23 hours
        ("2026-12", datetime(2026, 12, 1, 5, tzinfo=UTC), datetime(2027, 1, 1, 5, tzinfo=UTC)),
        ("today", datetime(2026, 5, 19, 4, tzinfo=UTC), datetime(2026, 5, 20, 4, tzinfo=UTC)),
        ("2026-05-03T14:00", datetime(2026, 5, 3, 18, tzinfo=UTC), datetime(2026, 5, 3, 18, tzinfo=UTC)),
        ("2026-05-03T14:00Z", datetime(2026, 5, 3, 14, tzinfo=UTC), datetime(2026, 5, 3, 14, tzinfo=UTC)),
    ],
)
def test_a_local_day_is_one_of_this_machines_zone(new_york: None, text: str, start: datetime, end: datetime) -> None:
    night = datetime(2026, 5, 20, 1, 30, tzinfo=UTC)
    assert parse_when(text, "since", zone=None, now=night) == start
    assert parse_when(text, "until", end=True, zone=None, now=night) == end


@pytest.mark.parametrize("text", ["0001-01-01", "9999-12-31"])
def test_at_the_ends_of_the_calendar_a_local_day_is_a_moment(new_york: None, text: str) -> None:
    found = parse_when(text, "since", zone=None, now=NOW)
    assert found is not None and found.tzinfo is not None
