"""A question that names a time is answered with what was said then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.aged import age, in_order
from tests.support.memory import called, landed, recalled
from tests.support.scripted_embedder import ScriptedEmbedder

AGES = (10, 75, 140, 205)


def day(days_ago: int) -> datetime:
    return datetime.now(UTC) - timedelta(days=days_ago)


def report(days: int) -> str:
    return f"The harbour crane was inspected by inspector number {days} with the usual result."


@pytest.fixture(params=["words", "meaning"])
def history(
    request: pytest.FixtureRequest, make_provider: MakeProvider, embedder: ScriptedEmbedder, dsn: str
) -> PgvectorMemoryProvider:
    """Inspections of several ages, as turns and as memories, with and without an embedding endpoint."""
    provider = make_provider({"embed_url": embedder.url} if request.param == "meaning" else {})
    for days in AGES:
        provider.sync_turn(report(days), None, session_id=f"session-of-{days}")
        provider.on_memory_write("add", "memory", report(days))
    landed(provider)
    for days in AGES:
        age(dsn, report(days), days=days)
    return provider


@pytest.mark.parametrize("tool", ["recall_conversation", "recall_memory"])
@pytest.mark.parametrize("days", AGES)
def test_need_17_the_named_day_comes_first(history: PgvectorMemoryProvider, tool: str, days: int) -> None:
    then = day(days)
    for written in (f"on {then:%Y-%m-%d}", f"on {then:%B} {then.day}, {then.year}", f"{days} days ago"):
        found = recalled(history, f"Who inspected the harbour crane {written}?", tool=tool)
        assert found[0] == report(days), written
        assert set(found) == {report(each) for each in AGES}


def test_need_17_the_day_of_a_pasted_log_is_not_asked_for(history: PgvectorMemoryProvider) -> None:
    written = day(140)
    for stamp in (f"{written:%Y-%m-%dT%H:%M:%S}Z", f"{written:%b %d %H:%M:%S} pier"):
        message = f"{stamp} cranectl[411]: inspection overdue\nWho inspected the harbour crane?"
        assert recalled(history, message, tool="recall_conversation")[0] != report(140)


def test_need_17_the_named_month_comes_first(history: PgvectorMemoryProvider) -> None:
    question = f"What do we know of the harbour crane in {day(140):%B %Y}?"
    assert recalled(history, question, tool="recall_conversation")[0] == report(140)


def test_need_39_what_was_said_before_a_month_about_it_stands_before_its_talk(
    make_provider: MakeProvider, dsn: str
) -> None:
    provider = make_provider({})
    asked = day(75)
    planned = f"In {asked:%B} we may use the harbour crane for 250 hours."
    why = ("squeaked", "rested", "swung", "leaked", "stopped", "turned", "rusted")
    talk = [f"We waited two hours for the harbour crane, as it {did}." for did in why]
    for number, said in enumerate((planned, *talk)):
        provider.sync_turn(said, None, session_id=f"session-{number}")
    landed(provider)
    age(dsn, planned, days=140)
    for said in talk:
        age(dsn, said, days=75)
    question = f"How many hours may we use the harbour crane in {asked:%B}?"
    assert recalled(provider, question, tool="recall_conversation")[0] == planned


def test_need_17_a_named_time_is_no_filter(history: PgvectorMemoryProvider) -> None:
    found = recalled(history, "Who inspected the harbour crane on 1 May 1999?", tool="recall_conversation")
    assert set(found) == {report(each) for each in AGES}


def test_need_17_of_what_was_said_twice_the_named_day_is_told(history: PgvectorMemoryProvider, dsn: str) -> None:
    history.sync_turn(report(140), None, session_id="session-of-today")
    landed(history)
    then = f"{day(140):%Y-%m-%d}"
    answer = called(history, "recall_conversation", {"query": f"Who inspected the harbour crane on {then}?"})
    assert [each["date"][:10] for each in answer["results"] if each["content"] == report(140)] == [then]


@pytest.mark.parametrize(
    ("language", "question"),
    [
        ("english", "what did I tell you two weeks ago about the crane"),
        ("german", "was habe ich letzte Woche über harbour gesagt"),
        ("spanish", "¿qué dije hace dos semanas de la crane?"),
    ],
)
def test_need_17_the_words_of_a_time_hide_no_line(make_provider: MakeProvider, language: str, question: str) -> None:
    provider = make_provider({"text_language": language})
    provider.sync_turn(report(10), None, session_id="session-of-10")
    landed(provider)
    provider.on_session_switch("another", parent_session_id="", reset=True)
    assert report(10) in provider.prefetch(question)
    assert not provider.prefetch("who won the race two weeks ago")


def test_need_39_of_a_long_time_what_is_like_the_question_comes_first(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider()
    chat = [
        f"The {name} on the southern pier was painted green again."
        for name in ("crane", "winch", "lift", "pump", "rail", "lamp")
    ]
    work = "All hands work on the old tugboat of the southern harbour."
    for place, text in enumerate([*chat, work]):
        provider.sync_turn(text, None, session_id=f"session-{place}")
    landed(provider)
    last_june = datetime(day(0).year - 1, 6, 1, tzinfo=UTC)
    for place, text in enumerate([*chat, work]):
        age(dsn, text, days=(day(0) - last_june).days - place)
    found = recalled(provider, "What did we work on last year?", tool="recall_conversation", limit=5)
    assert found[0] == work


def test_need_39_a_decision_of_a_day_need_not_begin_its_session(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider()
    talk = [
        f"The {name} on the southern pier was painted green again."
        for name in ("crane", "winch", "lift", "pump", "rail", "lamp")
    ]
    talk += ["We decide to sell the old tugboat of the southern harbour."]
    for text in talk:
        provider.sync_turn(text, None, session_id="session")
    landed(provider)
    for place, text in enumerate(talk):
        age(dsn, text, days=in_order(20, place))
    then = f"{day(20):%Y-%m-%d}"
    provider.on_session_switch("another", parent_session_id="", reset=True)
    assert talk[-1] in provider.prefetch(f"What did we decide on {then}?")
    assert recalled(provider, f"What did we decide on {then}?", tool="recall_conversation", limit=5)[0] == talk[-1]


def test_need_39_a_question_for_a_day_shows_nothing_of_another_one(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider()
    then, besides = report(20), "What did we talk about? We did talk about what we talk about."
    for text in (then, besides):
        provider.sync_turn(text, None, session_id=f"session of {text[:9]}")
    landed(provider)
    age(dsn, then, days=20)
    age(dsn, besides, days=60)
    provider.on_session_switch("another", parent_session_id="", reset=True)
    block = provider.prefetch(f"What did we talk about on {day(20):%Y-%m-%d}?")
    assert then in block
    assert besides not in block


def test_need_39_a_question_for_a_day_without_any_talk_shows_nothing(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider()
    besides = "What did we talk about? We did talk about what we talk about."
    provider.sync_turn(besides, None, session_id="besides")
    landed(provider)
    age(dsn, besides, days=60)
    provider.on_session_switch("another", parent_session_id="", reset=True)
    assert provider.prefetch(f"What did we talk about on {day(20):%Y-%m-%d}?") == ""


def test_need_39_last_weekday_is_first_that_of_this_week(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider()
    for days in (1, 8):
        provider.sync_turn(report(days), None, session_id=f"session-of-{days}")
    landed(provider)
    for days in (1, 8):
        age(dsn, report(days), days=days)
    name = f"{day(1):%A}"
    found = recalled(provider, f"What did we talk about last {name}?", tool="recall_conversation")
    assert found[0] == report(1)


def test_need_39_within_the_limits_of_a_call_sessions_follow_each_other(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider()
    for days in AGES:
        provider.sync_turn(report(days), None, session_id=f"session-of-{days}")
        provider.on_memory_write("add", "memory", report(days))
    landed(provider)
    for days in AGES:
        age(dsn, report(days), days=days)
    found = recalled(provider, "everything", tool="recall_conversation", since="300d")
    assert found == [report(days) for days in sorted(AGES, reverse=True)]
    found = recalled(provider, f"What did I tell you in {day(140):%B %Y}?")
    assert found[0] == report(140)
    assert recalled(provider, "everything", since="300d") == [report(days) for days in sorted(AGES)]


@pytest.mark.parametrize("question", ["What did I say on {} and on {}?", "What did I find on {} and on {}?"])
@pytest.mark.parametrize("ages", [(20, 40), (240, 300)])
def test_need_37_a_message_that_names_two_days_gets_what_was_told_on_both(
    make_provider: MakeProvider, dsn: str, question: str, ages: tuple[int, int]
) -> None:
    provider = make_provider()
    texts = ["An old brass compass lay in the attic of the harbour.", "A letter from Lisbon was in the blue chest."]
    others = [f"The {name} on the southern pier was painted green again." for name in ("crane", "winch", "lift")]
    for place, text in enumerate([*texts, *others]):
        provider.sync_turn(text, None, session_id=f"session-{place}")
    landed(provider)
    for text, days in zip(texts, ages, strict=True):
        age(dsn, text, days=days)
    provider.on_session_switch("another", parent_session_id="", reset=True)
    named = [f"{day(days).day} {day(days):%B %Y}" for days in ages]
    shown = provider.prefetch(question.format(*named))
    assert all(text in shown for text in texts) and not any(text in shown for text in others)
