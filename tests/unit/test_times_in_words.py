"""Times as people say them, and what only sounds like one."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta

import pytest

from hermes_memory_pgvector.domain.named_times import (
    MAX_PERIODS,
    asks_what_was_said,
    named_periods,
    session_asked,
    without_counted_times,
)

NOW = datetime(2026, 11, 26, 15, tzinfo=UTC)  # a Thursday
DAY = timedelta(days=1)
MONDAY_TO_WEDNESDAY = (date(2026, 11, 23), date(2026, 11, 25))
MONDAY = (date(2026, 11, 23),) * 2


def days(text: str) -> list[tuple[date, date]]:
    """The first and last day of each named time."""
    return [(period.start.date(), (period.end - DAY).date()) for period in named_periods(text, NOW)]


@pytest.mark.parametrize(
    "text",
    [
        "What did we decide between Monday and Wednesday?",
        "What did we do from Monday to Wednesday?",
        "Who inspected the crane from Monday until Wednesday?",
        "Was haben wir zwischen Montag und Mittwoch beschlossen?",
        "Wer hat den Kran von Montag bis Mittwoch geprüft?",
        "Qu'avons-nous décidé entre lundi et mercredi ?",
        "Qu'ai-je dit de lundi à mercredi ?",
        "¿Qué decidimos entre el lunes y el miércoles?",
        "¿Qué dije de lunes a miércoles?",
        "从周一到周三我们聊了什么？",
        "星期一至星期三，我们说了什么？",
    ],
)
def test_need_39_from_one_weekday_to_another(text: str) -> None:
    assert days(text) == [MONDAY_TO_WEDNESDAY]


def test_need_39_weekdays_that_are_over_or_end_today() -> None:
    assert days("What did we do from Tuesday to Thursday?") == [(date(2026, 11, 24), date(2026, 11, 26))]
    assert days("What did we do from Friday to Monday?") == [(date(2026, 11, 20), date(2026, 11, 23))]
    assert days("What did we do from Thursday to Saturday?") == [(date(2026, 11, 19), date(2026, 11, 21))]


@pytest.mark.parametrize(
    "text",
    [
        "What did we talk about Monday?",
        "What did I tell you Monday morning?",
        "What happened Monday?",
        "Who called on Monday?",
        "What did we talk about on the Monday?",
        "Which crane broke on Monday?",
        "Was haben wir Montag besprochen?",
        "Was haben wir am Montagabend besprochen?",
        "Wer hat am Montag den Kran geprüft?",
        "Qu'ai-je dit lundi ?",
        "On a parlé de quoi lundi ?",
        "Lundi, de quoi avons-nous parlé ?",
        "¿De qué hablamos el lunes?",
        "El lunes, ¿de qué hablamos?",
        "周一我们聊了什么？",
        "礼拜一晚上我说了什么？",
    ],
)
def test_need_39_a_weekday_that_is_over(text: str) -> None:
    assert days(text) == [MONDAY]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("What did we do on Monday this week?", date(2026, 11, 23), date(2026, 11, 23)),
        ("What did I tell you last week on Tuesday?", date(2026, 11, 17), date(2026, 11, 17)),
        ("Was haben wir letzte Woche am Montag besprochen?", date(2026, 11, 16), date(2026, 11, 16)),
        ("上周一到周三我们聊了什么？", date(2026, 11, 16), date(2026, 11, 18)),
        ("What did we decide in January this year?", date(2026, 1, 1), date(2026, 1, 31)),
        ("Was haben wir dieses Jahr im Mai beschlossen?", date(2026, 5, 1), date(2026, 5, 31)),
        ("今年五月我们聊了什么？", date(2026, 5, 1), date(2026, 5, 31)),
    ],
)
def test_need_39_a_time_within_a_week_or_year_that_is_named_as_well(text: str, first: date, last: date) -> None:
    assert days(text) == [(first, last)]


def test_a_day_of_a_month_without_a_year_may_be_of_any_year() -> None:
    assert len(days("After the start in early July, what was done on July 6th?")) == 16
    assert len(days("What was the lowest since March, on August 3?")) == 9
    assert len(days("from June 1 to June 7 in Kyoto, and what on June 2?")) == 16


@pytest.mark.parametrize("text", ["on Monday and Tuesday", "am Montag und Dienstag", "Monday or Tuesday"])
def test_need_39_weekdays_that_are_listed_are_each_one(text: str) -> None:
    question = "Was haben wir {} besprochen?" if text.startswith("am") else "What did we discuss {}?"
    assert days(question.format(text)) == [MONDAY, (date(2026, 11, 24),) * 2]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("What did I tell you this year?", date(2026, 1, 1)),
        ("What did we talk about this week?", date(2026, 11, 23)),
        ("Was haben wir dieses Jahr entschieden?", date(2026, 1, 1)),
        ("De quoi avons-nous parlé cette année ?", date(2026, 1, 1)),
        ("Qu'ai-je dit ce mois-ci ?", date(2026, 11, 1)),
        ("¿Qué dije este año sobre la grúa?", date(2026, 1, 1)),
        ("¿De qué hablamos este mes?", date(2026, 11, 1)),
        ("今年我们决定了什么？", date(2026, 1, 1)),
        ("I did manage it this week. Now I want to keep going.", date(2026, 11, 23)),
        ("这个月我们聊了什么？", date(2026, 11, 1)),
        ("本周我们聊了什么？", date(2026, 11, 23)),
        ("What have we done so far today?", date(2026, 11, 26)),
        ("Was haben wir heute bisher gemacht?", date(2026, 11, 26)),
        ("De quoi avons-nous parlé aujourd\u2019hui ?", date(2026, 11, 26)),
        ("今早我们聊了什么？", date(2026, 11, 26)),
    ],
)
def test_need_39_the_present_year_month_week_or_day(text: str, first: date) -> None:
    assert days(text) == [(first, date(2026, 11, 26))]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("3d ago", date(2026, 11, 23), date(2026, 11, 23)),
        ("2 wks ago", date(2026, 11, 9), date(2026, 11, 15)),
        ("in the last 7d", date(2026, 11, 19), date(2026, 11, 26)),
        ("a fortnight ago", date(2026, 11, 9), date(2026, 11, 15)),
        ("in the last fortnight", date(2026, 11, 12), date(2026, 11, 26)),
        ("two and a half weeks ago", date(2026, 11, 6), date(2026, 11, 12)),
        ("a month and a half ago", date(2026, 9, 27), date(2026, 10, 27)),
        ("3 months back", date(2026, 8, 13), date(2026, 9, 12)),
        ("twelve days ago", date(2026, 11, 14), date(2026, 11, 14)),
        ("the other day", date(2026, 11, 16), date(2026, 11, 25)),
        ("in recent days", date(2026, 11, 20), date(2026, 11, 26)),
        ("the week before last", date(2026, 11, 9), date(2026, 11, 15)),
        ("the Monday before last", date(2026, 11, 16), date(2026, 11, 16)),
        ("this past weekend", date(2026, 11, 21), date(2026, 11, 22)),
        ("letzte Nacht", date(2026, 11, 25), date(2026, 11, 25)),
        ("vor vierzehn Tagen", date(2026, 11, 12), date(2026, 11, 12)),
        ("in den letzten Tagen", date(2026, 11, 20), date(2026, 11, 26)),
        ("in den letzten paar Wochen", date(2026, 10, 15), date(2026, 11, 26)),
        ("vorletzte Woche", date(2026, 11, 9), date(2026, 11, 15)),
        ("neulich", date(2026, 11, 16), date(2026, 11, 25)),
        ("la nuit dernière", date(2026, 11, 25), date(2026, 11, 25)),
        ("il y a quinze jours", date(2026, 11, 11), date(2026, 11, 12)),
        ("ces derniers jours", date(2026, 11, 20), date(2026, 11, 26)),
        ("l\u2019autre jour", date(2026, 11, 16), date(2026, 11, 25)),
        ("anteanoche", date(2026, 11, 24), date(2026, 11, 24)),
        ("hace quince días", date(2026, 11, 11), date(2026, 11, 12)),
        ("en los últimos días", date(2026, 11, 20), date(2026, 11, 26)),
        ("la semana antepasada", date(2026, 11, 9), date(2026, 11, 15)),
        ("上周末", date(2026, 11, 21), date(2026, 11, 22)),
        ("大前天", date(2026, 11, 23), date(2026, 11, 23)),
        ("前几天", date(2026, 11, 20), date(2026, 11, 24)),
        ("最近三天", date(2026, 11, 23), date(2026, 11, 26)),
        ("过去一周", date(2026, 11, 19), date(2026, 11, 26)),
        ("上上周", date(2026, 11, 9), date(2026, 11, 15)),
        ("上上个月", date(2026, 9, 1), date(2026, 9, 30)),
        ("前年", date(2024, 1, 1), date(2024, 12, 31)),
        ("半年前", date(2026, 2, 26), date(2026, 8, 27)),
        ("一个半月前", date(2026, 9, 27), date(2026, 10, 27)),
    ],
)
def test_need_39_counted_back_from_today(text: str, first: date, last: date) -> None:
    assert days(text) == [(first, last)]
    assert without_counted_times(text).strip() in {"", "the", "in the", "in den", "la"}


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("Was hab ich heut gesagt?", date(2026, 11, 26), date(2026, 11, 26)),
        ("Was hab ich heut früh beim Arzt gesagt?", date(2026, 11, 26), date(2026, 11, 26)),
        ("Was hab ich vor ner Woche gesagt?", date(2026, 11, 16), date(2026, 11, 22)),
        ("Was hab ich vor ’nem Monat gesagt?", date(2026, 10, 12), date(2026, 11, 11)),
        ("Was hab ich vor n paar Tagen gesagt?", date(2026, 11, 20), date(2026, 11, 24)),
        ("Qu'est-ce qu'on a dit y a deux semaines ?", date(2026, 11, 9), date(2026, 11, 15)),
        ("¿Qué dije hace un par de semanas?", date(2026, 11, 9), date(2026, 11, 15)),
        ("Cosa ho detto un paio di giorni fa?", date(2026, 11, 24), date(2026, 11, 24)),
        ("Qué dije el finde", date(2026, 11, 21), date(2026, 11, 22)),
        ("Was schrieb ich am 14.10.26?", date(2026, 10, 14), date(2026, 10, 14)),
        ("Qu'ai-je écrit le 14/10/26 ?", date(2026, 10, 14), date(2026, 10, 14)),
        ("What did I pay on the 14th of last month?", date(2026, 10, 14), date(2026, 10, 14)),
        ("What did I pay last month on the 14th?", date(2026, 10, 14), date(2026, 10, 14)),
        ("Was habe ich am 14. des letzten Monats bezahlt?", date(2026, 10, 14), date(2026, 10, 14)),
        ("Was habe ich letzten Monat am 14. bezahlt?", date(2026, 10, 14), date(2026, 10, 14)),
        ("¿Qué pagué el 14 del mes pasado?", date(2026, 10, 14), date(2026, 10, 14)),
        ("上个月十四号我付了什么？", date(2026, 10, 14), date(2026, 10, 14)),
        ("先月の14日に何を払った？", date(2026, 10, 14), date(2026, 10, 14)),
        ("지난달 14일에 뭐 샀지?", date(2026, 10, 14), date(2026, 10, 14)),
        ("지난주 화요일에 뭐 샀지?", date(2026, 11, 17), date(2026, 11, 17)),
        ("지난 주말에 뭐 했어?", date(2026, 11, 21), date(2026, 11, 22)),
        ("去年の夏はどこへ行った？", date(2025, 6, 1), date(2025, 8, 31)),
        ("去年の冬は何をした？", date(2025, 12, 1), date(2026, 2, 28)),
        ("今年の秋、何を買った？", date(2026, 9, 1), date(2026, 11, 30)),
        ("What did I say in November this year?", date(2026, 11, 1), date(2026, 11, 30)),
        ("Was hab ich seit 14.10. gesagt?", date(2026, 10, 14), NOW.date()),
        ("Was hab ich seit 14.10.26 gesagt?", date(2026, 10, 14), NOW.date()),
        ("Cosa ho detto dal 14/10/26?", date(2026, 10, 14), NOW.date()),
        ("Was hab ich vom 3.10.26 bis zum 5.10.26 gesagt?", date(2026, 10, 3), date(2026, 10, 5)),
        ("What did I spend since the 14th of last month?", date(2026, 10, 14), NOW.date()),
    ],
)
def test_need_39_times_as_they_are_said_in_a_chat(text: str, first: date, last: date) -> None:
    assert days(text) == [(first, last)]


def test_a_version_and_a_day_that_the_last_month_lacks_are_no_times() -> None:
    assert days("Was geht seit 3.10.26.4 nicht mehr?") == days("Was geht ab 3.10.12 nicht mehr?") == []
    assert days("What did I pay on the 31st of last month?") == [(date(2026, 10, 31),) * 2]
    assert days("Was habe ich letzten Monat am 32. bezahlt?") == []


@pytest.mark.parametrize(
    "text",
    [
        "Was ging mit dem 3.11.10 kaputt?",
        "Was hab ich seit 3.10.12 gesagt?",
        "Quand est sorti le 3.11.10 ?",
        "日本の夏は暑いと言いましたか",
        "毎年の夏は何をした？",
    ],
)
def test_versions_and_what_is_so_each_year_are_no_times(text: str) -> None:
    assert days(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "What did we fix last month on the 3rd floor?",
        "Was haben wir letzten Monat am 3. Stock gebaut?",
        "上个月3号线坏了吗",
        "上个月3日游去了哪里",
        "지난달 3일간 뭐 했어",
        "지난달 3일 동안 뭐 했어?",
    ],
)
def test_a_number_of_something_else_is_no_day_of_last_month(text: str) -> None:
    assert days(text) == [(date(2026, 10, 1), date(2026, 10, 31))]


@pytest.mark.parametrize(
    "text",
    [
        "an hour and a half ago",
        "one and a half hours ago",
        "1.5 hours ago",
        "1.5h ago",
        "vor anderthalb Stunden",
        "il y a une heure et demie",
        "hace una hora y media",
        "一个半小时前",
        "1.5小时前",
    ],
)
def test_need_39_an_hour_and_a_half_ago(text: str) -> None:
    (period,) = named_periods(f"{text}?", NOW)
    assert (NOW - period.start, NOW - period.end) == (timedelta(hours=2), timedelta(hours=1))


@pytest.mark.parametrize("text", ["vor einer halben Stunde", "il y a une demi-heure", "hace media hora"])
def test_need_39_half_an_hour_ago(text: str) -> None:
    (period,) = named_periods(f"{text}?", NOW)
    assert (NOW - period.start, NOW - period.end) == (timedelta(minutes=45), timedelta(minutes=15))


@pytest.mark.parametrize(
    "text",
    [
        "What did we decide for the Black Friday campaign?",
        "What did we order on Cyber Monday?",
        "Who is needed on Monday?",
        "Which speed is allowed on Monday?",
        "Did I say Monday?",
        "What did we say about Monday?",
        "Did we eat at Ruby Tuesday?",
        "When did we say Taco Tuesday starts?",
        "What did the meeting between Monday's team and Wednesday's decide?",
        "Who leads the meeting between Monday and Wednesday's team?",
        "When did you say the shop is open from Monday to Friday?",
        "What is due this year?",
        "What did we plan for this week?",
        "What did we say about this week?",
        "What did I say I have to do on Monday?",
        "What did you tell me we will do this week?",
        "What did I say is due on Monday?",
        "What did we agree to do on Monday?",
        "What did you say we do Monday?",
        "Where did we buy the last 3D printer?",
        "Come back two days back to back",
        "Did we get the 3 days back pay?",
        "the last night of the Proms",
        "every other day",
        "Who leads the other day shift?",
        "Who worked on the Monday newsletter?",
        "Who wrote on Monday's newsletter?",
        "What used to be on Monday?",
        "the last week of school",
        "prices in recent years",
        "Was machen wir Montag?",
        "Was haben wir für Montag geplant?",
        "Was haben wir für dieses Jahr geplant?",
        "Was habe ich gesagt, was ich am Montag machen muss?",
        "Wann war ich Montag dran?",
        "Was ist von Montag bis Freitag geöffnet?",
        "Was kostete die letzte Nacht im Hotel?",
        "die letzten Tage der Menschheit",
        "Que fait-on lundi ?",
        "Qu'a-t-on prévu pour lundi ?",
        "Qu'avons-nous lundi ?",
        "de lundi à vendredi, le magasin est ouvert",
        "ces derniers jours de vacances",
        "¿Qué hacemos el lunes?",
        "¿Qué dijimos para el lunes?",
        "¿Qué dijiste que hacemos el lunes?",
        "¿Qué hicimos cada lunes?",
        "los últimos días de Pompeya",
        "每周三我们开了什么会？",
        "周一到周五几点上班？",
        "周三的会议是几点？",
        "我说了周三开会吗？",
        "今年的预算是多少？",
        "我妈妈今年多大年纪了？",
        "他今年打算什么时候过生日？",
        "这周的活动真丰富。我说了什么？",
        "a trip of 4 hours back and forth",
        "这个月有什么安排？",
        "最近的超市在哪里？",
        "目前年轻人",
    ],
)
def test_what_only_sounds_like_a_time(text: str) -> None:
    assert days(text) == []


@pytest.mark.parametrize("text", ["What did I say I have to do on Monday?", "What did you tell me we will do today?"])
def test_a_plan_is_a_subject(text: str) -> None:
    assert not asks_what_was_said(text)


@pytest.mark.parametrize(
    "text",
    [
        "What did we talk about between Monday and Wednesday?",
        "What did we discuss 3d ago?",
        "What did I say a fortnight ago?",
        "Was habe ich gestern Abend gesagt?",
        "Worüber haben wir in den letzten Tagen gesprochen?",
        "De quoi avons-nous parlé entre lundi et mercredi ?",
        "¿De qué hablamos entre el lunes y el miércoles?",
        "¿Qué dije ayer por la tarde?",
        "周三我们聊了什么？",
        "这个月我们聊了什么？",
    ],
)
def test_need_39_a_question_for_what_was_said_then(text: str) -> None:
    assert asks_what_was_said(text)
    assert named_periods(text, NOW)


@pytest.mark.parametrize(
    "text",
    [
        "What did we talk about recently?",
        "Worüber haben wir zuletzt gesprochen?",
        "De quoi avons-nous parlé récemment ?",
        "¿De qué hemos hablado últimamente?",
        "最近我们聊了什么？",
    ],
)
def test_need_39_what_was_said_lately_is_the_last_session(text: str) -> None:
    assert session_asked(text) == "last"
    assert not session_asked("What has Marco recently said of the crane?")


@pytest.mark.parametrize(
    "part",
    [
        "what did we ",
        "hat ge",
        "which ",
        "between Monday and ",
        "and a half ",
        "one and a half hours and a half ",
        "in den letzten ",
        "told you ",
        "gesagt, dass ",
        "dije lunes ",
        "周一到",
        "一个半",
        "上上",
        "1.",
    ],
)
def test_need_19_many_such_words_take_no_time(part: str) -> None:
    started = time.thread_time()
    for text in (f"did last Monday ago {part}", f"did last Monday ago {part.strip()}" + " " * 50_000 + "x"):
        assert len(named_periods(text + part * (50_000 // len(part)), NOW)) <= MAX_PERIODS
        without_counted_times(text)
    assert time.thread_time() - started < 5
