"""Times named in a question."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_memory_pgvector.domain.dates import EARLIER, LATER, MAX_PERIODS, YEARS, named_periods

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def days(text: str) -> list[tuple[date, date]]:
    """The first and last day of each named time, without what is added on both sides."""
    return [((period.start + EARLIER).date(), (period.end - LATER - DAY).date()) for period in named_periods(text, NOW)]


@pytest.mark.parametrize(
    "text",
    [
        "What did we decide on 13 October 2023?",
        "what did we decide on october 13, 2023",
        "On October 13th 2023 we met",
        "the 13th of October, 2023",
        "Oct. 13, 2023",
        "2023-10-13",
    ],
)
def test_a_day(text: str) -> None:
    assert days(text) == [(date(2023, 10, 13), date(2023, 10, 13))]


@pytest.mark.parametrize("text", ["in February 2024", "since Feb 2024", "February of 2024", "2024-02"])
def test_a_month(text: str) -> None:
    assert days(text) == [(date(2024, 2, 1), date(2024, 2, 29))]


def test_without_a_year_it_is_any_of_the_last_ones_but_none_ahead() -> None:
    assert days("in May") == [(date(year, 5, 1), date(year, 5, 31)) for year in range(2026, 2026 - YEARS, -1)]
    assert days("on December 3") == [(date(year, 12, 3),) * 2 for year in range(2025, 2026 - YEARS, -1)]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("yesterday", date(2026, 11, 21), date(2026, 11, 21)),
        ("3 days ago", date(2026, 11, 19), date(2026, 11, 19)),
        ("two weeks ago", date(2026, 11, 5), date(2026, 11, 11)),
        ("last month", date(2026, 10, 8), date(2026, 11, 7)),
    ],
)
def test_counted_back_from_now(text: str, first: date, last: date) -> None:
    assert days(f"What did I say {text}?") == [(first, last)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "May I march to the office in 2024?",
        "April and June sing",
        "you may do it in may",
        "31 February 2024",
        "2024-13 and v2026-05 and 12024-05-06",
        "999 years ago",
        "Ticket 2026 of the 13th node",
        "Marching bands in Augsburg",
    ],
)
def test_no_time(text: str) -> None:
    assert days(text) == []


@given(st.text(st.sampled_from("0123456789-, MayJuneoflastdsweek."), max_size=80))
def test_any_text_names_periods_in_order(text: str) -> None:
    for period in named_periods(text, NOW):
        assert period.start < period.end
        assert period.start <= NOW


def test_need_19_a_pasted_log_names_a_bounded_number() -> None:
    started = time.thread_time()
    assert len(named_periods("2024-05-06 in May " * 20_000, NOW)) == MAX_PERIODS
    assert time.thread_time() - started < 10
