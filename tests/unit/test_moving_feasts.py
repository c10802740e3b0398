"""Feasts that move from year to year, and times that only a number tells, as people name them in a question."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta

import pytest

from hermes_memory_pgvector.domain.named_times import asks_what_was_said, named_periods
from tests.unit.test_times_of_year import NOW, days

EASTER = (date(2026, 4, 3), date(2026, 4, 6))
WEEK_46 = (date(2026, 11, 9), date(2026, 11, 15))


@pytest.mark.parametrize(
    ("text", "latest"),
    [
        ("What did we do at Easter?", EASTER),
        ("What happened over the Easter holidays?", EASTER),
        ("Was haben wir an Ostern gemacht?", EASTER),
        ("Qu'avons-nous fait à Pâques ?", EASTER),
        ("¿Qué pasó en Semana Santa?", (date(2026, 3, 29), date(2026, 4, 5))),
        ("What did we eat on Good Friday?", (date(2026, 4, 3),) * 2),
        ("Was haben wir an Karneval gemacht?", (date(2026, 2, 12), date(2026, 2, 18))),
        ("Was haben wir an Pfingsten beschlossen?", (date(2026, 5, 24), date(2026, 5, 25))),
        ("Was haben wir am Muttertag gekocht?", (date(2026, 5, 10),) * 2),
        ("What did we close on Thanksgiving?", (date(2026, 11, 26),) * 2),
        ("How much did we sell on Black Friday?", (date(2026, 11, 27),) * 2),
        ("What did we talk about during Ramadan?", (date(2026, 2, 18), date(2026, 3, 19))),
        ("What did we do on Diwali?", (date(2026, 11, 8), date(2026, 11, 9))),
        ("Was war Pfingsten?", (date(2026, 5, 24), date(2026, 5, 25))),
        ("Was haben wir Ostern gemacht?", EASTER),
        ("中秋节谁来了？", (date(2026, 9, 25),) * 2),
        ("春节你们去哪了", (date(2026, 2, 16), date(2026, 2, 23))),
        ("端午节我们做了什么？", (date(2026, 6, 19),) * 2),
        ("中秋节我们聊了什么？", (date(2026, 9, 25),) * 2),
        ("春节我们去了哪里？", (date(2026, 2, 16), date(2026, 2, 23))),
        ("ゴールデンウィークはどこに行った？", (date(2026, 4, 29), date(2026, 5, 6))),
        ("お盆に何がありましたか？", (date(2026, 8, 13), date(2026, 8, 16))),
        ("추석에 무슨 얘기했어?", (date(2026, 9, 24), date(2026, 9, 26))),
        ("What did we do last Easter?", EASTER),
        ("What was the menu for Easter 2024?", (date(2024, 3, 29), date(2024, 4, 1))),
    ],
)
def test_need_39_a_feast_that_moves(text: str, latest: tuple[date, date]) -> None:
    assert days(text)[0] == latest


@pytest.mark.parametrize(
    ("feast", "known"),
    [
        ("easter", {2016: "03-25", 2019: "04-19", 2024: "03-29", 2025: "04-18"}),
        ("lunar new year", {2021: "02-11", 2024: "02-09", 2025: "01-28"}),
        ("mid-autumn festival", {2019: "09-13", 2020: "10-01", 2023: "09-29", 2025: "10-06"}),
        ("ramadan", {2020: "04-24", 2023: "03-23", 2024: "03-11", 2025: "03-01"}),
    ],
)
def test_need_39_the_days_are_those_of_the_almanac(feast: str, known: dict[int, str]) -> None:
    first = {year: days(f"{feast} {year}")[0][0] for year in known}
    assert first == {year: date.fromisoformat(f"{year}-{day}") for year, day in known.items()}


@pytest.mark.parametrize(
    ("text", "latest"),
    [
        ("Was war in KW 12?", (date(2026, 3, 16), date(2026, 3, 22))),
        ("Was haben wir in KW46 besprochen?", WEEK_46),
        ("Was war in der 46. Kalenderwoche?", WEEK_46),
        ("Worüber haben wir in der 46. Woche geredet?", WEEK_46),
        ("What did we discuss in calendar week 46?", WEEK_46),
        ("What did we do in week 46?", WEEK_46),
        ("What did we do in CW 46 2024?", (date(2024, 11, 11), date(2024, 11, 17))),
        ("¿Qué dijimos en la semana 46?", WEEK_46),
        ("On a parlé de quoi en semaine 46 ?", WEEK_46),
        ("Was haben wir in KW 50 gemacht?", (date(2025, 12, 8), date(2025, 12, 14))),
        ("What did I tell you the week of November 11?", WEEK_46),
        ("Was haben wir in der Woche vom 9. November gemacht?", WEEK_46),
        ("What did we agree on the 12th?", (date(2026, 11, 12),) * 2),
        ("What happened on the 29th?", (date(2026, 10, 29),) * 2),
        ("Was haben wir am 14. besprochen?", (date(2026, 11, 14),) * 2),
        ("¿Qué hicimos el 14?", (date(2026, 11, 14),) * 2),
        ("De quoi avons-nous parlé le 14 ?", (date(2026, 11, 14),) * 2),
        ("Was haben wir letzte Woche Dienstag gemacht?", (date(2026, 11, 17),) * 2),
        ("Was war Dienstag letzter Woche?", (date(2026, 11, 17),) * 2),
        ("What did I say Tuesday last week?", (date(2026, 11, 17),) * 2),
        ("¿Qué hicimos el martes de la semana pasada?", (date(2026, 11, 17),) * 2),
        ("先々週は何を話しましたか？", WEEK_46),
        ("¿Qué hicimos el finde pasado?", (date(2026, 11, 21), date(2026, 11, 22))),
    ],
)
def test_need_39_a_week_or_a_day_by_its_number(text: str, latest: tuple[date, date]) -> None:
    assert days(text)[0] == latest


@pytest.mark.parametrize(
    "text",
    [
        "Was war letzten Dienstag?",
        "Was war gestern?",
        "Was war letzte Woche so los?",
        "Was gab es diese Woche?",
        "Was war am 14.?",
        "Was war in KW 46?",
        "Was war an Ostern?",
        "What did we do in week 46?",
        "What happened during Ramadan?",
    ],
)
def test_need_39_only_such_a_time_is_named(text: str) -> None:
    assert asks_what_was_said(text)
    assert named_periods(text, NOW)


@pytest.mark.parametrize(
    "text",
    [
        "What is due on the 12th?",
        "What was on the 12th floor?",
        "What was taught in week 3 of the course?",
        "Which recipes did we note for week 12?",
        "Hat die Wallbox 11 kW?",
        "Wer war am 2. Spieltag dabei?",
        "Wann war am 14. der letzte Abgabetermin?",
        "Was kosten die Ostereier?",
        "Was machen wir Ostern?",
        "中秋节谁来？",
        "¿Cuánto cuesta el 14 por ciento?",
        "What did we decide in week 99?",
        "What did we decide on the 45th?",
        "Who wrote last week's Monday newsletter?",
    ],
)
def test_what_only_sounds_like_such_a_time(text: str) -> None:
    assert all(stop - start == timedelta(days=6) for start, stop in days(text) if "last week" in text)
    assert "last week" in text or days(text) == []


@pytest.mark.parametrize("text", ["Was war das?", "Was war mit der Heizung letzte Woche?", "Was war der Grund?"])
def test_another_subject_is_no_question_for_a_time(text: str) -> None:
    assert not asks_what_was_said(text)


def test_need_39_a_day_that_is_today_may_be_that_of_the_month_before() -> None:
    assert days("What did we say on the 28th?") == [(date(2026, 11, 28),) * 2, (date(2026, 10, 28),) * 2]


def test_need_39_a_day_that_few_months_have() -> None:
    now = datetime(2026, 3, 15, tzinfo=UTC)
    (found,) = named_periods("What did we say on the 31st?", now)
    assert found.start.date() == date(2026, 1, 31)


@pytest.mark.parametrize("part", ["on the 1", "kw 1", "am 1. ", "week of ", "last week ", "easter "])
def test_need_19_many_such_words_take_no_time(part: str) -> None:
    started = time.thread_time()
    for text in (f"what did we say {part}", f"what did we say {part.strip()}" + " " * 100_000 + "x"):
        named_periods((text * 3000)[:100_000], NOW)
    assert time.thread_time() - started < 5
