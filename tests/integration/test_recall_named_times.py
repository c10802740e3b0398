"""A question that names a time is answered with what was said then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.aged import age
from tests.support.memory import called, landed, recalled
from tests.support.scripted_embedder import ScriptedEmbedder

AGES = (10, 75, 140, 205)
TODAY = datetime.now(UTC)


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
    day = TODAY - timedelta(days=days)
    for written in (f"on {day:%Y-%m-%d}", f"on {day:%B} {day.day}, {day.year}", f"{days} days ago"):
        found = recalled(history, f"Who inspected the harbour crane {written}?", tool=tool)
        assert found[0] == report(days), written
        assert set(found) == {report(each) for each in AGES}


def test_need_17_the_named_month_comes_first(history: PgvectorMemoryProvider) -> None:
    month = TODAY - timedelta(days=140)
    question = f"What do we know of the harbour crane in {month:%B %Y}?"
    assert recalled(history, question, tool="recall_conversation")[0] == report(140)


def test_need_17_a_named_time_is_no_filter(history: PgvectorMemoryProvider) -> None:
    found = recalled(history, "Who inspected the harbour crane on 1 May 1999?", tool="recall_conversation")
    assert set(found) == {report(each) for each in AGES}


def test_need_17_of_what_was_said_twice_the_named_day_is_told(history: PgvectorMemoryProvider, dsn: str) -> None:
    history.sync_turn(report(140), None, session_id="session-of-today")
    landed(history)
    day = TODAY - timedelta(days=140)
    answer = called(history, "recall_conversation", {"query": f"Who inspected the harbour crane on {day:%Y-%m-%d}?"})
    assert [each["date"][:10] for each in answer["results"] if each["content"] == report(140)] == [f"{day:%Y-%m-%d}"]


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
