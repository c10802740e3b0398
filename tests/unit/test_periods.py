"""Times named in a question."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_memory_pgvector.domain.counted_days import YEARS
from hermes_memory_pgvector.domain.named_times import (
    MAX_PERIODS,
    asks_what_was_said,
    named_periods,
    without_counted_times,
)

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def days(text: str) -> list[tuple[date, date]]:
    """The first and last day of each named time."""
    return [(period.start.date(), (period.end - DAY).date()) for period in named_periods(text, NOW)]


@pytest.mark.parametrize(
    "text",
    [
        "What did we decide on 13 October 2023?",
        "what did we decide on october 13, 2023",
        "On October 13th 2023 we met",
        "the 13th of October, 2023",
        "Oct. 13, 2023",
        "2023-10-13",
        "What failed at 2023-10-13T08:15:02Z?",
        "2023/10/13",
        "on 13.10.2023",
        "on 13/10/2023, or was it later?",
        "10/13/2023",
        "Was haben wir am 13. Oktober 2023 beschlossen?",
        "Qu'avons-nous décidé le 13 octobre 2023 ?",
        "¿Qué decidimos el 13 de octubre de 2023?",
        "Cosa abbiamo deciso il 13 ottobre 2023?",
        "O que decidimos em 13 de outubro de 2023?",
        "Wat hebben we op 13 oktober 2023 besloten?",
        "Что мы решили 13 октября 2023?",
        "2023年10月13日我们决定了什么？",
        "二〇二三年 2023年十月十三号",
        "2023년 10월 13일에 무엇을 정했지?",
    ],
)
def test_a_day(text: str) -> None:
    assert days(text) == [(date(2023, 10, 13), date(2023, 10, 13))]


@pytest.mark.parametrize(
    "text",
    [
        "2023-10-13T08:15:02Z ERROR pool exhausted",
        "Why?\n[2023-10-13 08:15:02,345] WARN retry",
        "web-1  | 2023-10-13T08:15:02Z GET /",
        '{"level": "info", "ts": "2023-10-13T08:15:02Z"}',
        "level=info ts=2023-10-13T08:15:02Z msg=tick",
        "What is this?\nOct 13 08:15:02 edge-3 haproxy[44]: down",
        "Date:   Fri Oct 13 08:15:02 2023 +0200",
        "date: Fri, 13 Oct 2023 08:15:02 GMT",
        " 42 | 2023-10-13 08:15:02+00 | paid",
        "-rw-r--r--  1 u u  220 Oct 13 08:15 .bashrc",
    ],
)
def test_no_day_is_asked_for_by_the_lines_of_a_program(text: str) -> None:
    assert days(text) == []


def test_a_day_beside_the_lines_of_a_program_is_asked_for() -> None:
    assert days("2023-10-12 08:15:02 ERROR\nDid we see this on 13 October 2023?") == [(date(2023, 10, 13),) * 2]


@pytest.mark.parametrize("text", ["in February 2024", "before Feb 2024", "February of 2024", "2024-02"])
def test_a_month(text: str) -> None:
    assert days(text) == [(date(2024, 2, 1), date(2024, 2, 29))]


@pytest.mark.parametrize(
    "text",
    [
        "What did we decide in February last year?",
        "Last year in February we met",
        "Was haben wir im Februar letzten Jahres beschlossen?",
        "en février de l'année dernière",
        "en febrero del año pasado",
        "в феврале прошлого года",
        "去年2月我们决定了什么？",
        "작년 2월에 무엇을 정했지?",
    ],
)
def test_a_month_of_last_year_is_that_of_no_other_one(text: str) -> None:
    assert days(text) == [(date(2025, 2, 1), date(2025, 2, 28))]


def test_without_a_year_it_is_any_of_the_last_ones_but_none_ahead() -> None:
    assert days("in May") == [(date(year, 5, 1), date(year, 5, 31)) for year in range(2026, 2026 - YEARS, -1)]
    assert days("on December 3") == [(date(year, 12, 3),) * 2 for year in range(2025, 2026 - YEARS, -1)]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("yesterday", date(2026, 11, 21), date(2026, 11, 21)),
        ("3 days ago", date(2026, 11, 19), date(2026, 11, 19)),
        ("two weeks ago", date(2026, 11, 5), date(2026, 11, 11)),
        ("a couple of weeks ago", date(2026, 11, 5), date(2026, 11, 11)),
        ("a few days ago", date(2026, 11, 16), date(2026, 11, 20)),
        ("half a year ago", date(2026, 2, 22), date(2026, 8, 23)),
        ("the day before yesterday", date(2026, 11, 20), date(2026, 11, 20)),
        ("last night", date(2026, 11, 21), date(2026, 11, 21)),
        ("this morning", date(2026, 11, 22), date(2026, 11, 22)),
        ("last week", date(2026, 11, 9), date(2026, 11, 15)),
        ("last month", date(2026, 10, 1), date(2026, 10, 31)),
        ("last year", date(2025, 1, 1), date(2025, 12, 31)),
        ("in the past week", date(2026, 11, 15), date(2026, 11, 22)),
        ("in the last week", date(2026, 11, 15), date(2026, 11, 22)),
        ("over the last month", date(2026, 10, 23), date(2026, 11, 22)),
        ("in the last day", date(2026, 11, 21), date(2026, 11, 22)),
        ("the last week", date(2026, 11, 9), date(2026, 11, 15)),
        ("in the last 10 days", date(2026, 11, 12), date(2026, 11, 22)),
        ("last weekend", date(2026, 11, 14), date(2026, 11, 15)),
        ("on Friday", date(2026, 11, 20), date(2026, 11, 20)),
    ],
)
def test_counted_back_from_now(text: str, first: date, last: date) -> None:
    assert days(f"What did I say {text}?") == [(first, last)]


def test_the_last_of_a_weekday_may_be_that_of_the_week_before() -> None:
    this_week, before = (date(2026, 11, 20),) * 2, (date(2026, 11, 13),) * 2
    assert days("last Friday")[0] == this_week
    assert days("last Friday")[1:] == [before]
    assert days("on Friday we said so") == days("What happened on Friday?") == [this_week]


def test_a_weekday_is_past_in_german_where_the_question_asks_what_was() -> None:
    friday, weekend = (date(2026, 11, 20),) * 2, (date(2026, 11, 14), date(2026, 11, 15))
    assert days("Was haben wir am Freitag besprochen?") == [friday]
    assert days("Wer war am Freitag da?") == [friday]
    assert days("was hatte ich am Wochenende erzählt") == [weekend]
    assert days("Was ist am Freitag los?") == days("Wer hat am Freitag Dienst?") == []


@pytest.mark.parametrize(
    "text",
    [
        "letzte Woche",
        "in der vergangenen Woche",
        "la semaine dernière",
        "la semana pasada",
        "la settimana scorsa",
        "a semana passada",
        "vorige week",
        "на прошлой неделе",
        "上周",
        "上个星期",
        "先週",
        "지난주에",
    ],
)
def test_need_39_the_last_week_in_any_of_many_languages(text: str) -> None:
    assert days(text) == [(date(2026, 11, 9), date(2026, 11, 15))]


@pytest.mark.parametrize(
    "text",
    [
        "vor zwei Wochen",
        "il y a deux semaines",
        "hace dos semanas",
        "due settimane fa",
        "há duas semanas",
        "duas semanas atrás",
        "twee weken geleden",
        "две недели назад",
        "两周前",
        "2週間前",
        "2주 전",
    ],
)
def test_need_39_two_weeks_ago_in_any_of_many_languages(text: str) -> None:
    assert days(text) == [(date(2026, 11, 5), date(2026, 11, 11))]


@pytest.mark.parametrize(
    "text",
    [
        "gestern",
        "hier soir",
        "ayer",
        "ieri",
        "ontem",
        "gisteren",
        "вчера",
        "昨天",
        "昨日",
        "어제",
        "YESTERDAY",
        "d'hier",
        "hier matin",
        "Pourquoi la grue était-elle fermée hier",
        "Hier, nous étions au port",
    ],
)
def test_need_39_yesterday_in_any_of_many_languages(text: str) -> None:
    assert days(f"{text}?") == [(date(2026, 11, 21), date(2026, 11, 21))]


@pytest.mark.parametrize(
    "text",
    ["im Mai", "en mai", "en mayo", "a maggio", "em maio", "in mei", "в мае", "in may", "5月", "五月天气", "5월"],
)
def test_need_39_a_month_in_any_of_many_languages(text: str) -> None:
    assert days(text) == [(date(year, 5, 1), date(year, 5, 31)) for year in range(2026, 2026 - YEARS, -1)]


@pytest.mark.parametrize(
    "text",
    [
        "on 4 may",
        "On May 4 I told you",
        "May 4th",
        "Was it 4 May?",
        "am 4. Mai",
        "le 4 mai on a dit",
        "el 4 de mayo",
    ],
)
def test_a_day_of_a_month_whose_name_is_another_word_too(text: str) -> None:
    assert days(text)[0] == (date(2026, 5, 4), date(2026, 5, 4))


def test_a_day_of_the_last_week_in_chinese_japanese_and_korean() -> None:
    for text in ("上周三", "上星期三", "先週の水曜日", "지난 수요일"):
        assert days(text) == [(date(2026, 11, 11), date(2026, 11, 11))], text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "May I march to the office in 2024?",
        "April and June sing",
        "you may do it, and this may be it",
        "Was ist hier los?",
        "Wie heb je hier gezien?",
        "Is there life on Mars, or a way to Mars?",
        "a trip to Rio de Janeiro",
        "Mio figlio ha due anni",
        "What is on Friday?",
        "Our last release 2026.1 and 1.2.23",
        *(
            "Which versions after 3.11 may break?",
            "Port 22 may be closed",
            "May 3 of us come?",
            "march 4 miles",
            "3 mars bars",
        ),
        *(
            "non hai mai 10 minuti",
            "Het adres van Jan",
            "letter from Jan",
            "compleanno di Marco",
            "cumpleaños de Julio",
        ),
        *(
            "What do Julio and Ana like?",
            "the doctor from Mayo Clinic",
            "by Avril Lavigne",
            "make a Mai Tai",
            "a Mars bar",
        ),
        *(
            "reign of Augustus",
            "la planète de mars",
            "em dez minutos",
            "Does it last an hour, or a month?",
            "past an accident",
        ),
        *(
            "der letzte an der Reihe",
            "último día de vacaciones",
            "目前天气",
            "三年前端经验",
            "晚上月亮",
            "首先周一",
            "五月天",
        ),
        *("过去年轻", "3日前後", "그제서야", "30년 전쟁", "재작년", "一昨年", "지지난주"),
        "31 February 2024",
        "2024-13 and v2026-05 and 12024-05-06",
        "999 years ago",
        "Ticket 2026 of the 13th node",
        "Marching bands in Augsburg",
        *(
            "from Monday to Friday the shop is open",
            "What is on this week?",
            "The shop closes in 2 hours",
            "The tide turns every 12 hours, open 24 hours a day",
            "the last hours of Pompeii",
            "última hora: vuelve a llover",
            "da segunda vez",
            "25分前後",
            "3小时前端课程",
        ),
    ],
)
def test_no_time(text: str) -> None:
    assert days(text) == []


MAY_TO_JUNE = [(date(year, 5, 1), date(year, 6, 30)) for year in range(2026, 2026 - YEARS, -1)]


@pytest.mark.parametrize(
    "text",
    [
        "from May to June",
        "May until June",
        "between May and June",
        "von Mai bis Juni",
        "zwischen Mai und Juni",
        "de mai à juin",
        "entre mayo y junio",
        "da maggio a giugno",
        "с мая по июнь",
        "5月から6月まで",
        "从5月到6月",
        "5월부터 6월까지",
    ],
)
def test_need_39_from_one_month_to_another(text: str) -> None:
    assert days(text) == MAY_TO_JUNE


@pytest.mark.parametrize(
    "text",
    [
        "from 3 to 5 May 2024",
        "between the 3rd and the 5th of May 2024",
        "3-5 May 2024",
        "3rd and 5th of May, 2024",
        "May 3-5, 2024",
        "May 3 to 5, 2024",
        "from May 3rd until May 5th, 2024",
        "2024-05-03 to 2024-05-05",
        "between 3 May and 5 May 2024",
        "vom 3. bis zum 5. Mai 2024",
        "vom 03.05.2024 bis 05.05.2024",
        "du 3 au 5 mai 2024",
        "del 3 al 5 de mayo de 2024",
        "dal 3 al 5 maggio 2024",
        "de 3 a 5 de maio de 2024",
        "van 3 tot en met 5 mei 2024",
        "с 3 по 5 мая 2024",
        "2024年5月3日から2024年5月5日",
        "2024年5月3日到2024年5月5日",
    ],
)
def test_need_39_from_one_day_to_another(text: str) -> None:
    assert days(text) == [(date(2024, 5, 3), date(2024, 5, 5))]


def test_months_that_are_listed_are_each_one() -> None:
    assert days("in May and June 2024")[-1] == (date(2024, 6, 1), date(2024, 6, 30))
    assert len(days("in May, June or July")) == 3 * YEARS
    assert len(days("in May, march on")) == YEARS
    assert days("from November to February")[0] == (date(2025, 11, 1), date(2026, 2, 28))
    assert days("from November 2022 to February") == [(date(2022, 11, 1), date(2023, 2, 28))]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("since Monday", date(2026, 11, 16)),
        ("since yesterday", date(2026, 11, 21)),
        ("since last week", date(2026, 11, 9)),
        ("since May", date(2026, 5, 1)),
        ("since 3 December", date(2025, 12, 3)),
        ("since 2026-02-03", date(2026, 2, 3)),
        ("from May until now", date(2026, 5, 1)),
        ("seit Montag", date(2026, 11, 16)),
        ("seit dem 3. Mai", date(2026, 5, 3)),
        ("seit letzter Woche", date(2026, 11, 9)),
        ("depuis lundi", date(2026, 11, 16)),
        ("depuis la semaine dernière", date(2026, 11, 9)),
        ("desde el lunes", date(2026, 11, 16)),
        ("desde ayer", date(2026, 11, 21)),
        ("desde segunda-feira", date(2026, 11, 16)),
        ("sinds gisteren", date(2026, 11, 21)),
        ("с прошлой недели", date(2026, 11, 9)),
        ("昨日から", date(2026, 11, 21)),
        ("自上周以来", date(2026, 11, 9)),
        ("어제부터", date(2026, 11, 21)),
        ("earlier this week", date(2026, 11, 16)),
        ("so far this month", date(2026, 11, 1)),
        ("this month so far", date(2026, 11, 1)),
        ("what did we do this week so far", date(2026, 11, 16)),
        ("and did we do that this month", date(2026, 11, 1)),
        ("was haben wir diese Woche entschieden", date(2026, 11, 16)),
    ],
)
def test_need_39_since_a_time(text: str, first: date) -> None:
    assert set(days(text)) == {(first, date(2026, 11, 22))}


@pytest.mark.parametrize(
    ("text", "far", "near"),
    [
        ("an hour ago", 1.5, 0.5),
        ("2h ago", 2.5, 1.5),
        ("half an hour ago", 0.75, 0.25),
        ("a few hours ago", 6, 2),
        ("40 minutes ago", 1, 1 / 3),
        ("in the last 24 hours", 24, 0),
        ("in the last 24h", 24, 0),
        ("over the past 90mins", 1.5, 0),
        ("in the last hour", 1, 0),
        ("during the past 30 minutes", 0.5, 0),
        ("vor einer Stunde", 1.5, 0.5),
        ("in den letzten zwei Stunden", 2, 0),
        ("il y a une heure", 1.5, 0.5),
        ("hace dos horas", 2.5, 1.5),
        ("due ore fa", 2.5, 1.5),
        ("há duas horas", 2.5, 1.5),
        ("twee uur geleden", 2.5, 1.5),
        ("час назад", 1.5, 0.5),
        ("两个小时前", 2.5, 1.5),
        ("半小时前", 0.75, 0.25),
        ("1時間前", 1.5, 0.5),
        ("40分前", 1, 1 / 3),
        ("2시간 전", 2.5, 1.5),
        ("过去24小时", 24, 0),
    ],
)
def test_need_39_hours_counted_back_from_now(text: str, far: float, near: float) -> None:
    (period,) = named_periods(f"{text}?", NOW)
    assert [round((NOW - end) / timedelta(hours=1), 4) for end in (period.start, period.end)] == [
        round(far, 4),
        round(near, 4),
    ]


PARTS = (
    *"0123456789-./, 年月日号前上个周三十几년월일전주달한", "999", "2024", "May", "in", "of", "last", "week", "days",
    "ago", "a few", "half a",
    "to", "and", "since", "between", "hour", "until now", "から", "小时", "June", "3-5",
    "vor", "il y a", "há", "fa", "назад", "janvier", "Montag", "지난", "요일", "先週",
    "\u0301", "\0",
)  # fmt: skip


@given(st.lists(st.sampled_from([*PARTS, *(f" {part}" for part in PARTS)]), max_size=9).map("".join))
def test_any_text_names_periods_in_order(text: str) -> None:
    for period in named_periods(text, NOW):
        assert period.start < period.end
        assert period.start <= NOW


@pytest.mark.parametrize(
    "text",
    [
        "2024-05-06 in May ",
        "did it on the ",
        "1 ",
        "may" + " " * 300_000,
        "two weeks ",
        "last ",
        "三",
        "上周",
        "half a ",
        "May and ",
        "3-5 May to ",
        "since May ",
        "2 hours ago ",
        "3小时前",
        "5月到",
    ],
)
def test_need_19_a_pasted_log_names_a_bounded_number(text: str) -> None:
    started = time.thread_time()
    assert len(named_periods(text * (300_000 // len(text) + 1), NOW)) <= MAX_PERIODS
    assert time.thread_time() - started < 10


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("What did I say two weeks ago about IT?", "What did I say about IT?"),
        ("Was hieß vor fünf Tagen die Straße?", "Was hieß die Straße?"),
        ("先週オーブンの修理にいくらかかった？", "オーブンの修理にいくらかかった？"),
        ("Qui a fermé la grue hier ?", "Qui a fermé la grue ?"),
        ("Who called in the last 24 hours?", "Who called in the ?"),
        ("两小时前谁来电话了？", "谁来电话了？"),
        ("Wer hat hier die Tür zugemacht?", "Wer hat hier die Tür zugemacht?"),
        ("What broke on 3 May?", "What broke on 3 May?"),
        ('Who said "see you last Friday"?', 'Who said "see you last Friday"?'),
    ],
)
def test_a_time_counted_back_from_today_can_be_left_out_of_a_question(text: str, rest: str) -> None:
    assert " ".join(without_counted_times(text).split()) == rest


@pytest.mark.parametrize(
    "text",
    [
        "What did we talk about yesterday?",
        "On May 2nd, we talked a lot. What topics did we discuss?",
        "Can you remind me what we discussed last Tuesday?",
        "What did we work on this week?",
        "what happened on 2026-05-03",
        "What did I tell you today?",
        "What happened in the last 24h?",
        "What did we do 2h ago?",
        "What happened on Monday?",
        "Was haben wir gestern besprochen?",
        "Worum ging es am 3. Mai?",
        "De quoi avons-nous parlé hier soir ?",
        "¿De qué hablamos ayer?",
        "¿Qué hicimos la semana pasada?",
        "Di cosa abbiamo parlato ieri?",
        "Sobre o que falamos ontem?",
        "Waar hebben we gisteren over gepraat?",
        "О чём мы говорили вчера?",
        "昨天我们聊了什么？",
        "今天我们聊了什么？",
        "昨日は何を話しましたか？",
        "어제 무슨 얘기를 했지?",
    ],
)
def test_a_question_for_what_was_said_at_a_time(text: str) -> None:
    assert asks_what_was_said(text)
    assert named_periods(text, NOW)


@pytest.mark.parametrize(
    "text",
    [
        "What did we decide about the budget yesterday?",
        "What did I eat yesterday?",
        "Who called on 3 May?",
        "What was the weather like on April 30th?",
        "Was hat Anna gestern gesagt?",
        "昨天的会议决定了什么？",
        "昨天天气怎么样？",
        "What are we doing today?",
        "Yesterday evening",
        "What did we talk about yesterday? " * 10,
        "",
    ],
)
def test_a_question_with_a_subject_or_without_what_was_said(text: str) -> None:
    assert not asks_what_was_said(text)


@pytest.mark.parametrize(
    "text", ["What is the plan for today?", "How are you today?", "今天我们聊什么？", "Was machen wir heute?"]
)
def test_a_plan_for_today_is_no_time_of_the_past(text: str) -> None:
    assert not named_periods(text, NOW)


def test_a_day_is_one_of_the_zone_that_is_given() -> None:
    night = datetime(2026, 5, 20, 1, 30, tzinfo=UTC)
    (day,) = named_periods("yesterday", night, ZoneInfo("America/New_York"))
    assert (day.start, day.end) == (datetime(2026, 5, 18, 4, tzinfo=UTC), datetime(2026, 5, 19, 4, tzinfo=UTC))
    (day,) = named_periods("on 8 March 2026", night, ZoneInfo("America/New_York"))  # an hour shorter
    assert (day.start, day.end) == (datetime(2026, 3, 8, 5, tzinfo=UTC), datetime(2026, 3, 9, 4, tzinfo=UTC))
