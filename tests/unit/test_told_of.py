"""Whether a text names the day that is asked for."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from hermes_memory_pgvector.domain.dates import FIRST_MOMENT, LAST_MOMENT
from hermes_memory_pgvector.domain.named_times import named_periods
from hermes_memory_pgvector.domain.types import Hit
from hermes_memory_pgvector.recall.told_of import announces_any, tells_of

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def told(text: str, at: datetime, question: str) -> bool:
    said = Hit(store="turns", id=1, theme="team", kind="user", session_id="s-1", content=text, at=at, similarity=None)
    return tells_of(said, named_periods(question, NOW, at.tzinfo))


@pytest.mark.parametrize("at", [FIRST_MOMENT, LAST_MOMENT], ids=["first", "last"])
@pytest.mark.parametrize("text", ["Today I paid", "Yesterday I paid", "Tomorrow I pay", "On 3 May I pay", "last year"])
def test_need_26_a_text_of_the_ends_of_the_calendar_is_of_no_day_that_is_asked_for(text: str, at: datetime) -> None:
    assert not told(text, at, "What did I do on 27 November?")


@pytest.mark.parametrize("zone", [UTC, ZoneInfo("America/New_York"), ZoneInfo("Pacific/Auckland")], ids=str)
@pytest.mark.parametrize("day", [date(2024, 2, 29), date(2026, 1, 1), date(2026, 11, 1), date(2026, 3, 8)], ids=str)
def test_need_39_a_day_is_one_of_the_zone_in_which_a_text_was_written(zone: ZoneInfo, day: date) -> None:
    """Also where it is a leap day, the first of a year, or one of 23 or 25 hours."""
    question = f"What did I do on {day:%-d %B %Y}?"
    for text, away in (("Tomorrow I pay the deposit", -1), ("Yesterday I paid the deposit", 1)):
        written = day + timedelta(days=away)
        for hour in (0, 23):
            at = datetime(written.year, written.month, written.day, hour, 30, tzinfo=zone)
            assert told(text, at, question)
            assert not told(text, at + timedelta(days=1), question)


@pytest.mark.parametrize("question", ["on 28 November 2026", "on 28 November", "yesterday"])
def test_need_39_a_day_without_a_year_is_the_one_near_to_when_the_text_was_written(question: str) -> None:
    asked = f"What did I do {question}?"
    assert told("The books go back by 28 November", NOW - timedelta(days=20), asked)
    assert not told("The books go back by 27 November", NOW - timedelta(days=20), asked)


def test_need_39_a_day_of_another_year_is_another_day() -> None:
    for question in ("What did I do on 28 November 2026?", "What did I do yesterday?"):
        assert not told("The books go back by 28 November", NOW - timedelta(days=385), question)
        assert not told("The books went back on 28 November 2025", NOW - timedelta(days=20), question)
    both = "What did I do on 27 November 2026 and 28 November 2026?"
    assert told("Tomorrow I pay", NOW - timedelta(days=2), both)
    assert not told("Tomorrow I pay", NOW - timedelta(days=2 + 365), both)


@pytest.mark.parametrize(
    ("text", "days", "announced"),
    [
        ("The exam is on 4 December", 20, True),
        ("The exam is on 4 December 2026", 20, True),
        ("The exam is on 4 December 2025", 20, False),
        ("Grandma stays from 3 to 7 December", 20, True),
        ("Abroad from 1 August to 20 December", 20, False),
        ("The fitter comes on Friday", 1, True),
        ("The fitter comes on Friday", 9, False),
        ("Notes. " * 100 + "The exam is on 4 December", 20, True),
        ("The exam was on 4 December", 300, False),
        ("In the last 3 days I slept badly", -5, False),
        ("The last few days were hard", -5, False),
        ("The exam is at noon on 4 December", -5, True),
    ],
)
def test_need_39_a_text_announces_a_day_ahead(text: str, days: int, announced: bool) -> None:
    said = Hit("turns", 1, "team", "user", "s-1", text, NOW - timedelta(days=days), None)
    assert announces_any(said, [date(2026, 12, 4)]) is announced


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("The exam is on 2 January", [2]),
        ("Zahnarzt am 2.1.", [2]),
        ("Grandma stays from 30 December to 3 January", [1, 2, 3]),
        ("We met on 2 January 2026", []),
    ],
)
def test_need_39_a_day_after_the_turn_of_the_year_is_announced_before_it(text: str, days: list[int]) -> None:
    said = Hit("turns", 1, "team", "user", "s-1", text, datetime(2026, 12, 20, 12, tzinfo=UTC), None)
    assert [day for day in range(1, 6) if announces_any(said, [date(2027, 1, day)])] == days
    assert announces_any(said, [date(2026, 12, 31)]) is (len(days) > 1)


def test_need_39_what_was_hours_ago_is_not_ahead_on_the_same_day() -> None:
    said = Hit("turns", 1, "team", "user", "s-1", "Two hours ago I paid the rent", NOW, None)
    assert not announces_any(said, [NOW.date()])
