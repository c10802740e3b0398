"""Seasons, holidays, quarters, parts of a month or week, and nights, as people name them in a question."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from hermes_memory_pgvector.domain.named_times import (
    MAX_PERIODS,
    asks_what_was_said,
    named_periods,
    without_counted_times,
    without_times,
)

NOW = datetime(2026, 11, 28, 20, tzinfo=UTC)  # a Saturday
DAY = timedelta(days=1)
SPRING = (date(2026, 3, 1), date(2026, 5, 31))
SUMMER = (date(2026, 6, 1), date(2026, 8, 31))
CHRISTMAS = (date(2025, 12, 24), date(2025, 12, 26))
THIRD_QUARTER = (date(2026, 7, 1), date(2026, 9, 30))
LATE_OCTOBER = (date(2026, 10, 21), date(2026, 10, 31))
START_OF_THE_WEEK = (date(2026, 11, 23), date(2026, 11, 25))
TWO_MONDAYS_AGO = (date(2026, 11, 16),) * 2
TUESDAY = (date(2026, 11, 24),) * 2


def days(text: str) -> list[tuple[date, date]]:
    """The first and last day of each named time."""
    return [(period.start.date(), (period.end - DAY).date()) for period in named_periods(text, NOW)]


@pytest.mark.parametrize(
    ("text", "latest"),
    [
        ("What did we plant in spring?", SPRING),
        ("Was haben wir im Frühling gepflanzt?", SPRING),
        ("春天我们种了什么？", SPRING),
        ("春に何を話しましたか？", SPRING),
        ("봄에 무슨 얘기했어?", SPRING),
        ("What did we talk about last summer?", SUMMER),
        ("What did we do in the summer holidays?", SUMMER),
        ("What did we talk about this summer?", SUMMER),
        ("What did we say in the summer of 2026?", SUMMER),
        ("Was haben wir letzten Sommer gemacht?", SUMMER),
        ("De quoi avons-nous parlé l'été dernier ?", SUMMER),
        ("¿De qué hablamos en verano?", SUMMER),
        ("¿Qué hicimos el verano pasado?", SUMMER),
        ("Di cosa abbiamo parlato d'estate?", SUMMER),
        ("O que fizemos no verão passado?", SUMMER),
        ("Wat hebben we afgelopen zomer besproken?", SUMMER),
        ("О чём мы говорили прошлым летом?", SUMMER),
        ("What did we do last winter?", (date(2025, 12, 1), date(2026, 2, 28))),
        ("What happened over Christmas?", CHRISTMAS),
        ("What did Rosa bring last Christmas?", CHRISTMAS),
        ("Was haben wir zu Weihnachten besprochen?", CHRISTMAS),
        ("Qu'avons-nous fait à Noël ?", CHRISTMAS),
        ("¿Qué hicimos en Navidad?", CHRISTMAS),
        ("圣诞节我们聊了什么？", CHRISTMAS),
        ("クリスマスに何をしましたか？", CHRISTMAS),
        ("What did we eat on New Year's Eve?", (date(2025, 12, 31),) * 2),
        ("What did we do on Valentine's Day?", (date(2026, 2, 14),) * 2),
        ("What did we decide last quarter?", THIRD_QUARTER),
        ("Which incidents did we have in Q3?", THIRD_QUARTER),
        ("What did we decide in the third quarter of this year?", THIRD_QUARTER),
        ("Was haben wir im dritten Quartal gemacht?", THIRD_QUARTER),
        ("Was haben wir letztes Quartal gemacht?", THIRD_QUARTER),
        ("Qu'avons-nous décidé au troisième trimestre ?", THIRD_QUARTER),
        ("第三季度我们做了什么？", THIRD_QUARTER),
        ("上个季度我们聊了什么？", THIRD_QUARTER),
        ("What did I tell you at the end of October?", LATE_OCTOBER),
        ("What was decided in late October?", LATE_OCTOBER),
        ("Was war Ende Oktober mit Huber?", LATE_OCTOBER),
        ("De quoi avons-nous parlé fin octobre ?", LATE_OCTOBER),
        ("¿Qué decidimos a finales de octubre?", LATE_OCTOBER),
        ("Di cosa abbiamo parlato alla fine di ottobre?", LATE_OCTOBER),
        ("What did we talk about at the end of last month?", LATE_OCTOBER),
        ("十月底我们决定了什么？", LATE_OCTOBER),
        ("10月末に何を話しましたか？", LATE_OCTOBER),
        ("What did we change in the second half of October?", (date(2026, 10, 16), date(2026, 10, 31))),
        ("What did we decide since the beginning of October?", (date(2026, 10, 1), date(2026, 11, 28))),
        ("What did we decide from early May to late June?", (date(2026, 5, 1), date(2026, 6, 30))),
        ("What did we talk about at the start of the week?", START_OF_THE_WEEK),
        ("Was haben wir Anfang der Woche besprochen?", START_OF_THE_WEEK),
        ("Was haben wir Ende letzter Woche gemacht?", (date(2026, 11, 20), date(2026, 11, 22))),
        ("What did I tell you two Mondays ago?", TWO_MONDAYS_AGO),
        ("Was haben wir vor zwei Montagen besprochen?", TWO_MONDAYS_AGO),
        ("De quoi avons-nous parlé il y a deux lundis ?", TWO_MONDAYS_AGO),
        ("What did we do two weekends ago?", (date(2026, 11, 14), date(2026, 11, 15))),
        ("Was haben wir vor zwei Wochenenden besprochen?", (date(2026, 11, 14), date(2026, 11, 15))),
        ("What was decided last Tues?", TUESDAY),
        ("What did we decide on Tue?", TUESDAY),
        ("Was habe ich letzten Di gesagt?", TUESDAY),
    ],
)
def test_need_39_a_part_of_the_year_the_month_or_the_week(text: str, latest: tuple[date, date]) -> None:
    assert days(text)[0] == latest
    assert all(start > latest[1] or stop < latest[0] for start, stop in days(text)[1:])


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("What changed since the summer?", SUMMER[0]),
        ("How has my weight changed since this summer?", SUMMER[0]),
        ("What have we done since Q3?", THIRD_QUARTER[0]),
        ("What did I spend since Christmas?", CHRISTMAS[0]),
        ("Was hat sich seit dem Sommer geändert?", SUMMER[0]),
        ("Was haben wir seit Weihnachten gemacht?", CHRISTMAS[0]),
        ("Qu'avons-nous fait depuis l'été ?", SUMMER[0]),
        ("Qu'avons-nous fait depuis Noël ?", CHRISTMAS[0]),
        ("¿Qué hicimos desde el verano?", SUMMER[0]),
        ("Di cosa abbiamo parlato dall'estate?", SUMMER[0]),
        ("Wat hebben we sinds de zomer besproken?", SUMMER[0]),
    ],
)
def test_need_39_since_a_part_of_the_year_is_until_today(text: str, first: date) -> None:
    assert days(text) == [(first, NOW.date())]


@pytest.mark.parametrize(
    ("text", "latest"),
    [
        ("What did we plant in early spring?", (date(2026, 3, 1), date(2026, 3, 31))),
        ("What did we decide in late summer?", (date(2026, 8, 1), date(2026, 8, 31))),
        ("Was haben wir Anfang des Sommers gemacht?", (date(2026, 6, 1), date(2026, 7, 1))),
    ],
)
def test_need_39_the_early_and_the_late_part_of_a_season(text: str, latest: tuple[date, date]) -> None:
    assert days(text)[0] == latest


@pytest.mark.parametrize(
    "text",
    [
        "What happened over Christmas?",
        "What have we done since Christmas?",
        "What did we talk about on New Year's Eve?",
        "What did we do in the summer holidays?",
        "What did we talk about at the start of the week?",
        "What did I tell you at the end of October?",
        "What did I tell you last Mon?",
        "What did we do two Mondays ago?",
        "Was haben wir letzten Sommer gemacht?",
        "Was haben wir Ende letzter Woche gemacht?",
        "第三季度我们做了什么？",
        "What did we discuss in early spring?",
        "What did we discuss at the start of summer?",
        "Was war Ende des Sommers?",
        "¿Qué dije a principios del verano?",
        "Cosa ho detto dall'estate?",
        "Cosa ho detto dalla primavera?",
    ],
)
def test_need_39_only_such_a_time_is_named(text: str) -> None:
    assert asks_what_was_said(text)
    assert named_periods(text, NOW)


@pytest.mark.parametrize(
    "text",
    [
        "Where do we go skiing in winter?",
        "Since summer is hot, what shall we plant?",
        "Since Easter is near, what shall we bake?",
        "Where do we go in late summer?",
        "What shall we plant in spring?",
        "How did we configure security in Spring Boot?",
        "Which cookies did we bake for the Christmas market?",
        "Which stall did we have at Christmas markets?",
        "What did we decide for Christmas?",
        "What did you say about the fall?",
        "What did we say about summer school?",
        "What have I to do by the end of the week?",
        "What was the score in the third quarter of the game?",
        "What did he say in the last three quarters of an hour?",
        "What was the plan for Q3?",
        "Where did we last sat in the garden?",
        "Did we buy the last sat nav?",
        "What did we say about the end of the story?",
        "Was machen wir im Sommer?",
        "Was schenken wir Oma zu Weihnachten?",
        "We could plan something for this summer, was that it?",
        "写一首关于秋天的短诗。",
        "他参加了春季跳绳比赛，得到了第二名。",
        "之前有一个夏天我得到了礼物",
        "青春に何を話しましたか？",
        "彼女の夏服はどこで買いましたか？",
    ],
)
def test_what_only_sounds_like_a_part_of_the_year(text: str) -> None:
    assert days(text) == []


@pytest.mark.parametrize(
    ("question", "searched"),
    [
        ("What incidents happened at the end of October?", "What incidents happened at the October?"),
        ("Which incidents did we have in Q3?", "Which incidents did we have ?"),
        ("What did we cook last summer?", "What did we cook ?"),
        ("What broke at the start of the week?", "What broke at the ?"),
        ("What is the goal in Q3?", "What is the goal in Q3?"),
        ("What did we cook at Christmas?", "What did we cook at Christmas?"),
        ("Who lives until the end of the story?", "Who lives until the end of the story?"),
    ],
)
def test_need_39_words_that_nobody_says_then_are_not_searched_for(question: str, searched: str) -> None:
    assert " ".join(without_counted_times(question).split()) == searched


@pytest.mark.parametrize(
    ("question", "without"),
    [
        ("What did we say about the car in the spring?", "What did we say about the car?"),
        ("What did we eat on New Year's Eve?", "What did we eat?"),
        ("What did we say about the car since the summer?", "What did we say about the car?"),
        ("What did we say about the car in early spring?", "What did we say about the car?"),
        ("What did Marco say on Monday about the list?", "What did Marco say about the list?"),
        ("In October, what did Anna order?", "what did Anna order?"),
        ("What did the vet say at the beginning of last month about Minka?", "What did the vet say about Minka?"),
        ("Qu'a dit Paul en mai ?", "Qu'a dit Paul ?"),
        ("What did Priya do in Spring Boot?", "What did Priya do in Spring Boot?"),
        ("Two weeks ago", "Two weeks ago"),
    ],
)
def test_need_39_a_question_without_its_time(question: str, without: str) -> None:
    assert without_times(question, NOW) == without


def test_a_verb_before_a_time_tells_no_part_of_it() -> None:
    assert days("What did Evan start last month?") == [(date(2026, 10, 1), date(2026, 10, 31))]
    assert days("Was it fine last month?") == [(date(2026, 10, 1), date(2026, 10, 31))]


@pytest.mark.parametrize("text", ["What did I say about Meta?", "What did we say about the sun yesterday?"])
def test_a_word_for_a_part_or_a_weekday_may_be_a_subject(text: str) -> None:
    assert not asks_what_was_said(text)


@pytest.mark.parametrize("question", ["What did I say last night?", "昨晚我说了什么？", "¿Qué dije anoche?"])
def test_need_39_last_night_is_the_evening_until_dawn(question: str) -> None:
    evening, hours_past_midnight = datetime(2026, 11, 27, 21, tzinfo=UTC), datetime(2026, 11, 28, 1, tzinfo=UTC)

    def names(moment: datetime, *, at: datetime) -> bool:
        return any(period.start <= moment < period.end for period in named_periods(question, at))

    assert names(evening, at=NOW)
    assert names(hours_past_midnight, at=NOW)
    assert not names(datetime(2026, 11, 27, 9, tzinfo=UTC), at=NOW)
    assert not names(evening - DAY, at=NOW)
    # Asked in the night it may be this one or the one before.
    assert names(evening, at=hours_past_midnight + timedelta(hours=1))
    assert names(evening - DAY, at=hours_past_midnight + timedelta(hours=1))


def test_need_39_a_night_is_that_of_the_users_zone() -> None:
    (period,) = named_periods("What did I say last night?", NOW, ZoneInfo("America/New_York"))
    assert (period.start, period.end) == (
        datetime(2026, 11, 27, 17, tzinfo=UTC),
        datetime(2026, 11, 28, 11, tzinfo=UTC),
    )


def test_need_39_shortly_after_midnight_today_is_the_day_one_was_awake() -> None:
    (period,) = named_periods("What did we talk about today?", datetime(2026, 11, 28, 1, tzinfo=UTC))
    assert period.start.date() == date(2026, 11, 27)
    (period,) = named_periods("What did we talk about today?", NOW)
    assert period.start.date() == NOW.date()


@pytest.mark.parametrize("part", ["the end of ", "in the ", "last ", "q3 ", "first week of the ", "vor zwei ", "春に"])
def test_need_19_many_such_words_take_no_time(part: str) -> None:
    started = time.thread_time()
    text = "did last May in spring " + part * (100_000 // len(part))
    assert len(named_periods(text, NOW)) <= MAX_PERIODS
    assert time.thread_time() - started < 10
