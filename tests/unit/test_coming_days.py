"""Which days a statement announces."""

from __future__ import annotations

from datetime import date

import pytest

from hermes_memory_pgvector.domain.coming_days import announced_days

WEDNESDAY = date(2026, 11, 25)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("Tomorrow I get the new glasses", [26]),
        ("The day after tomorrow we visit grandma", [27]),
        ("Morgen früh um 8 beim Zahnarzt", [26]),
        ("Übermorgen kommt der Klempner", [27]),
        ("mañana a las 9 en el banco", [26]),
        ("Pasado mañana viene Pilar", [27]),
        ("Demain je vais à Lyon", [26]),
        ("Après-demain aussi", [27]),
        ("Guten Morgen, am Morgen", []),
        ("Montag Morgen", [30]),
        ("The skip comes monday 8am", [30]),
        ("Schlüsselübergabe am Montag um 17 Uhr", [30]),
        ("appel avec Weidner vendredi à 18h", [27]),
        ("El viernes no abro", [27]),
        ("We moved it to Friday", [27]),
        ("Freeze on monday the 30th", [30]),
        ("Dinner on the 28th", [28]),
        ("Friday 4 December at 9", []),
        ("Swimming on Fridays, choir every Friday, closed last Friday", []),
        ("Am Freitag haben wir getanzt, jeden Freitag", []),
        ("Am nächsten Morgen war es kalt, den ganzen Morgen, bis zum Morgen", []),
        ("por la mañana", []),
        ("On Friday we danced", []),
        ("On Friday we sent the crates", []),
        ("Friday was fun, and Thursday's lesson went well", []),
        ("The visit on Friday was confirmed", [27]),
    ],
)
def test_need_39_a_day_that_comes_soon(text: str, days: list[int]) -> None:
    assert list(announced_days(text, WEDNESDAY)) == [date(2026, 11, day) for day in days]


@pytest.mark.parametrize(
    "text",
    ["next Friday at 9", "nächsten Freitag um 9", "el próximo viernes", "el viernes que viene", "vendredi prochain"],
)
def test_need_39_the_next_weekday_is_that_of_this_week_or_of_the_one_after(text: str) -> None:
    assert list(announced_days(text, WEDNESDAY)) == [date(2026, 11, 27), date(2026, 12, 4)]


def test_need_39_a_week_from_a_weekday_is_that_of_the_week_after() -> None:
    assert list(announced_days("Open evening thursday week", WEDNESDAY)) == [date(2026, 12, 3)]


def test_need_26_at_the_end_of_the_calendar_no_day_comes() -> None:
    assert not list(announced_days("Tomorrow, or next Friday", date.max))
