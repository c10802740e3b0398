"""Dates in what is recalled, what is recent, and limits in time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.aged import age
from tests.support.memory import called, landed, recalled, results
from tests.support.scripted_embedder import ScriptedEmbedder

ANSWER = "Understood, that is how it has been handled since the spring of last year."
TURNS = "recall_conversation"


def said(days: float) -> str:
    return f"The harbour crane report of {days} days before now was filed by Ingrid."


@pytest.fixture(params=["words", "meaning"])
def provider(
    request: pytest.FixtureRequest, make_provider: MakeProvider, embedder: ScriptedEmbedder
) -> PgvectorMemoryProvider:
    """A provider with and without an embedding endpoint."""
    return make_provider({"embed_url": embedder.url} if request.param == "meaning" else {})


@pytest.fixture
def history(provider: PgvectorMemoryProvider, dsn: str) -> PgvectorMemoryProvider:
    """Reports of four ages, as user turns and as memories."""
    for days in (0, 3, 40, 400):
        provider.sync_turn(said(days), None, session_id=f"session-of-{days}")
        provider.on_memory_write("add", "memory", said(days))
    landed(provider)
    for days in (3, 40, 400):
        age(dsn, said(days), days=days)
    return provider


def day(days_ago: float) -> str:
    return f"{datetime.now(UTC) - timedelta(days=days_ago):%Y-%m-%d}"


def test_need_17_every_line_of_a_block_carries_its_date(history: PgvectorMemoryProvider) -> None:
    block = history.prefetch("Who filed the harbour crane report?")
    dates = {re.search(rf"\[([\d-]+), [a-z ]+\] \"{re.escape(said(days))}", block) for days in (0, 3, 40, 400)}
    found = {match[1] for match in dates if match}
    assert found and found <= {day(0), day(3), day(40), day(400)}


@pytest.mark.parametrize("tool", ["recall_memory", TURNS])
def test_need_17_every_result_and_what_is_around_it_carries_its_date(
    tool: str, history: PgvectorMemoryProvider
) -> None:
    answer = called(history, tool, {"query": "harbour crane report"})
    assert answer["count"] == 4
    for result in answer["results"]:
        moment = datetime.fromisoformat(result["date"])
        days = int(re.findall(r"\d+", result["content"])[0])
        assert moment.tzinfo is not None
        assert abs(datetime.now(UTC) - timedelta(days=days) - moment) < timedelta(minutes=10)


@pytest.mark.parametrize("newest", ["a", "b"])
def test_need_17_the_same_words_are_one_result_with_the_newest_date(
    newest: str, provider: PgvectorMemoryProvider, dsn: str
) -> None:
    oldest = "b" if newest == "a" else "a"
    provider.sync_turn(said(7), None, session_id=oldest)
    landed(provider)
    age(dsn, said(7), days=200)
    provider.sync_turn(said(7), None, session_id=newest)
    landed(provider)
    (result,) = results(called(provider, TURNS, {"query": "harbour crane report"}))
    assert result["session_id"] == newest
    assert datetime.now(UTC) - datetime.fromisoformat(result["date"]) < timedelta(minutes=10)


def test_need_17_an_answer_in_stock_words_brings_no_other_exchange(provider: PgvectorMemoryProvider) -> None:
    asked = (
        "Please put oat milk from the farm shop on the shopping list.",
        "Anna wants to see the dentist about her wisdom tooth.",
        "We need a longer extension cord for the lawn mower.",
    )
    for number, message in enumerate(asked):
        provider.sync_turn(message, "Done, I have put that on the list for you.", session_id=f"session-{number}")
    landed(provider)
    found = results(called(provider, TURNS, {"query": "oat milk from the farm shop", "limit": 2}))
    assert found[0]["content"] == asked[0]
    assert not [each for each in found if each["role"] == "assistant"], "the newest of its words is of another exchange"


def test_need_17_an_old_exact_answer_comes_before_new_rows_of_little_use(
    provider: PgvectorMemoryProvider, dsn: str
) -> None:
    exact = "The gate code of the northern boathouse is heron."
    provider.on_memory_write("add", "memory", exact)
    landed(provider)
    age(dsn, exact, days=3000)
    for name in ("crane", "winch", "lift", "pump", "pier"):
        provider.on_memory_write("add", "memory", f"The {name} of the southern yard is greased.")
    landed(provider)
    question = "What is the gate code of the northern boathouse?"
    assert recalled(provider, question)[0] == exact
    assert exact in provider.prefetch(question).splitlines()[1]


def test_need_17_of_two_equally_good_answers_the_newer_comes_first(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider()
    newer, older = (f"The boathouse password was changed to {name}." for name in ("heron", "egret"))
    for text in (newer, older):
        provider.on_memory_write("add", "memory", text)
    landed(provider)
    age(dsn, older, days=300)
    assert recalled(provider, "boathouse password changed") == [newer, older]


def limits() -> list[tuple[dict[str, Any], set[int]]]:
    return [
        ({}, {0, 3, 40, 400}),
        ({"since": "7d"}, {0, 3}),
        ({"since": "2 weeks ago", "until": "24h"}, {3}),
        ({"until": "7d"}, {40, 400}),
        ({"since": "today"}, {0}),
        ({"since": "yesterday", "until": "today"}, {0}),
        ({"until": "yesterday"}, {3, 40, 400}),
        ({"since": day(3), "until": day(3)}, {3}),
        ({"since": day(41), "until": day(39)}, {40}),
        ({"since": f"{day(50)}T00:00+02:00", "until": f"{day(10)}T12:00"}, {40}),
        ({"since": "2020-01-01", "until": "2020-12-31"}, set()),
        ({"since": "2999-01-01"}, set()),
        ({"since": None, "until": ""}, {0, 3, 40, 400}),
    ]


@pytest.mark.parametrize("tool", ["recall_memory", TURNS])
def test_since_and_until_limit_what_is_found(tool: str, history: PgvectorMemoryProvider) -> None:
    for given, days in limits():
        for scope in ("current", "all", "theme:marketing"):
            found = recalled(history, "harbour crane report", tool=tool, scope=scope, **given)
            assert set(found) == {said(each) for each in days}, (given, scope)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"since": "last spring"}, "`since` is not a date"),
    ({"until": "2026-13-01"}, "`until` is not a date"),
    ({"since": 7}, "`since` must be text"),
    ({"until": ["2026-01-01"]}, "`until` must be text"),
    ({"since": True}, "`since` must be text"),
    ({"since": "2026-05-03", "until": "2026-05-02"}, "nothing can lie between"),
    ({"since": "1d", "until": "2d"}, "nothing can lie between"),
]


def test_a_time_that_means_nothing_is_refused_in_words(make_provider: MakeProvider) -> None:
    provider = make_provider()
    landed(provider)
    for tool in ("recall_memory", TURNS):
        for limits, words in REFUSED:
            answer = called(provider, tool, {"query": "harbour crane", **limits})
            assert set(answer) == {"error"} and words in answer["error"], limits


def test_the_first_moments_of_the_calendar_are_moments(make_provider: MakeProvider) -> None:
    provider = make_provider()
    landed(provider)
    for since in ("0001-01-01", "0001-01-01T00:00+14:00", "999999h"):
        assert called(provider, TURNS, {"query": "harbour crane", "since": since})["count"] == 0
