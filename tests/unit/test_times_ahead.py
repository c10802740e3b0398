"""Which days ahead a question asks about, and whether it names anything else."""

from __future__ import annotations

from datetime import date

import pytest

from hermes_memory_pgvector.domain.times_ahead import days_ahead, only_what_comes, with_names

SUNDAY, WEDNESDAY = date(2026, 11, 29), date(2026, 11, 25)
NEXT_WEEK = [date(2026, 11, 30), *(date(2026, 12, day) for day in range(1, 7))]
WEEKEND = [date(2026, 12, 5), date(2026, 12, 6)]


@pytest.mark.parametrize(
    ("question", "days"),
    [
        ("What do I have tomorrow?", [date(2026, 11, 30)]),
        ("whats on next week", NEXT_WEEK),
        ("hey, anything on next weekend?", WEEKEND),
        ("what's due on friday", [date(2026, 12, 4)]),
        ("What is coming up this Friday?", [date(2026, 12, 4)]),
        ("any meetings next Friday?", [date(2026, 12, 4), date(2026, 12, 11)]),
        ("Was steht nächste Woche an?", NEXT_WEEK),
        ("was haben wir am freitag vor", [date(2026, 12, 4)]),
        ("Was ist übermorgen?", [date(2026, 12, 1)]),
        ("¿Qué tengo la semana que viene?", NEXT_WEEK),
        ("qué hay el viernes", [date(2026, 12, 4)]),
        ("qu'est-ce que j'ai mardi", [date(2026, 12, 1)]),
        ("Qu’est-ce qu’il y a ce week-end ?", [SUNDAY, *WEEKEND]),
        ("cosa ho domani", [date(2026, 11, 30)]),
        ("o que tenho amanhã", [date(2026, 11, 30)]),
        ("wat staat er vrijdag op de agenda", [date(2026, 12, 4)]),
        ("do we have anything on tomorrow", [date(2026, 11, 30)]),
        ("am I free on Friday", [date(2026, 12, 4)]),
        ("got anything on this evening", [SUNDAY]),
        ("got plans for tomorrow", [date(2026, 11, 30)]),
        ("show me tomorrow", [date(2026, 11, 30)]),
        ("list next week", NEXT_WEEK),
        ("remind me what I have tomorrow", [date(2026, 11, 30)]),
        ("c'est quoi demain", [date(2026, 11, 30)]),
        ("hay algo el viernes", [date(2026, 12, 4)]),
        ("¿Tengo citas mañana?", [date(2026, 11, 30)]),
    ],
)
def test_need_39_a_question_for_what_comes_names_its_days_and_nothing_else(question: str, days: list[date]) -> None:
    assert only_what_comes(question)
    assert list(days_ahead(question, SUNDAY)) == days


@pytest.mark.parametrize(
    "text",
    [
        "Any exams on Friday?",
        "Where do we play tomorrow?",
        "I have a meeting tomorrow",
        "Is it going to rain tomorrow?",
        "Was kostet die Karte am Freitag?",
        "What do I have in the freezer?",
        "do it tomorrow",
        "have a look at it tomorrow",
        "got a meeting tomorrow",
        "have to go there on Monday",
        "remind me tomorrow",
        "tell me something today",
        "erinner mich morgen",
        "ricordami domani",
        "When is it due? Tomorrow?",
        "What's the date today?",
        "Is today Friday?",
        "what have I been up to this week",
        "c'est pour demain",
        "tengo que hacer la reunion hoy",
        "heb een afspraak vrijdag",
    ],
)
def test_need_39_a_statement_or_a_question_with_a_subject_asks_for_more_than_a_time(text: str) -> None:
    assert not only_what_comes(text)
    assert with_names(text, SUNDAY) == text


@pytest.mark.parametrize(
    "text",
    [
        "What did we do on Friday?",
        "Was war am Freitag?",
        "Who came last Friday?",
        "the soup of the day",
        "every Friday?",
    ],
)
def test_need_39_what_was_or_is_each_week_is_not_ahead(text: str) -> None:
    assert not days_ahead(text, SUNDAY)


def test_need_39_next_weekend_may_be_this_one_within_the_week() -> None:
    this = [date(2026, 11, 28), SUNDAY]
    assert list(days_ahead("What's on next weekend?", WEDNESDAY)) == [*this, *WEEKEND]
    assert list(days_ahead("What's on this weekend?", WEDNESDAY)) == this
    assert list(days_ahead("What's on this week?", WEDNESDAY)) == [date(2026, 11, day) for day in range(25, 30)]


def test_need_39_the_days_are_searched_for_by_their_names() -> None:
    assert with_names("What do I have tomorrow?", SUNDAY).endswith("\nmonday 30 november")
    assert with_names("Was ist am Freitag?", SUNDAY).endswith("\nfreitag 4 dezember")


def test_need_26_at_the_end_of_the_calendar_no_day_is_ahead() -> None:
    assert not days_ahead("What do I have tomorrow?", date.max)
