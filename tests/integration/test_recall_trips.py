"""How often a question goes to Postgres and back, which is what a distant server costs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.runtime.process import close_all
from tests.conftest import MakeProvider
from tests.support.memory import called, landed
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.slow_proxy import SlowProxy
from tests.support.stored import Database
from tests.support.ten_days import ticket
from tests.support.waiting import until

WORDS = 2  # round trips: the words of the question, then the rows that hold them
AFTER_THE_VECTOR = 2  # the rows near it, then what is shown of the best
BY_WORDS_ALONE = 2  # while the endpoint thinks: the turns beside the best by words, then what is shown of them
OF_A_NEW_PROCESS = 40  # those of its first question, and of the writer that starts meanwhile
FAR_S = 0.0025  # each way
SUBJECTS = ("crane", "ferry", "lighthouse", "buoy", "dredger", "tugboat", "breakwater", "customs")
PENDING = "SELECT count(*) FROM conversations WHERE embedding IS NULL"
ASKED = "Who greases the harbour crane?"


@pytest.fixture
def way(direct_dsn: str) -> Iterator[SlowProxy]:
    """The way to Postgres."""
    with SlowProxy.before(direct_dsn) as proxy:
        proxy.delay_s = FAR_S
        yield proxy


@pytest.fixture
def provider(
    make_provider: MakeProvider, embedder: ScriptedEmbedder, way: SlowProxy, direct_dsn: str
) -> PgvectorMemoryProvider:
    """A provider far from Postgres, with sessions of several turns, more than are shown, and as many memories."""
    made = make_provider({"dsn": way.conninfo(direct_dsn), "embed_url": embedder.url, "prefetch_deadline_s": 8.0})
    for number in range(48):
        subject = SUBJECTS[number % len(SUBJECTS)]
        asked = f"Who looks after the harbour {subject} in week {number}?"
        made.sync_turn(asked, f"Ingrid greases the {subject}, {number} times.", session_id=f"session-{number // 6}")
        made.on_memory_write("add", "memory", f"The harbour {subject} has the number {number} in the list of Ingrid.")
    landed(made)
    until(lambda: Database(direct_dsn).column(PENDING) == [0], what="the embeddings of all rows")
    assert called(made, "recall_memory", {"query": "the harbour"})["mode"] == "hybrid"  # connections know the types
    return made


def taken(way: SlowProxy, ask: Callable[[], object]) -> int:
    """The round trips of a question: of several alike the least, for what is written meanwhile takes some as well."""
    counted = []
    for _ in range(4):
        before = way.trips
        ask()
        counted.append(way.trips - before)
    return min(counted)


def test_prefetch_takes_two_round_trips_after_the_vector(
    provider: PgvectorMemoryProvider, embedder: ScriptedEmbedder, way: SlowProxy
) -> None:
    numbers = itertools.count()

    def ask(text: str) -> None:
        provider.on_session_switch(f"asks-{next(numbers)}", reset=True)
        assert "Ingrid greases the crane" in provider.prefetch(text)

    assert taken(way, lambda: ask(ASKED)) == WORDS + AFTER_THE_VECTOR  # from the second time on the vector is known
    embedder.latency_ms = 500
    awaited = taken(way, lambda: ask(f"{ASKED}{'?' * next(numbers)}"))
    assert awaited == WORDS + BY_WORDS_ALONE + AFTER_THE_VECTOR


def test_a_session_that_goes_on_takes_no_further_round_trip(
    provider: PgvectorMemoryProvider, way: SlowProxy, direct_dsn: str
) -> None:
    provider.on_session_switch("regatta", reset=True)
    for subject in SUBJECTS:
        said = f"The crew of the {subject} rows in the regatta."
        provider.sync_turn(said, f"I have put the {subject} on the list of the regatta.", session_id="regatta")
    landed(provider)
    until(lambda: Database(direct_dsn).column(PENDING) == [0], what="the embeddings of the session")

    def ask() -> None:
        assert "regatta" not in provider.prefetch("Which crew rows in the regatta?", session_id="regatta")

    assert taken(way, ask) == WORDS + AFTER_THE_VECTOR


@pytest.mark.parametrize("tool", ["recall_memory", "recall_conversation"])
def test_a_tool_takes_two_round_trips_after_the_vector(
    tool: str, provider: PgvectorMemoryProvider, way: SlowProxy
) -> None:
    def ask() -> None:
        answer = called(provider, tool, {"query": ASKED, "limit": 10})
        assert answer["mode"] == "hybrid" and len(answer["results"]) == 10

    assert taken(way, ask) == WORDS + AFTER_THE_VECTOR


def test_without_a_vector_the_words_alone_take_as_many(
    provider: PgvectorMemoryProvider, embedder: ScriptedEmbedder, way: SlowProxy
) -> None:
    embedder.mode = "down"

    def ask() -> None:
        answer = called(provider, "recall_conversation", {"query": ASKED, "limit": 10})
        assert answer["mode"] == "lexical" and len(answer["results"]) == 10

    assert taken(way, ask) == WORDS + BY_WORDS_ALONE


def test_the_first_question_of_a_process_takes_few_round_trips(
    provider: PgvectorMemoryProvider, make_provider: MakeProvider, way: SlowProxy, direct_dsn: str
) -> None:
    def ask() -> None:
        close_all()
        made = make_provider({"dsn": way.conninfo(direct_dsn), "prefetch_deadline_s": 8.0}, session_id="asks")
        assert "Ingrid greases the crane" in made.prefetch(ASKED)

    assert taken(way, ask) <= OF_A_NEW_PROCESS


def test_need_01_no_time_for_another_pass_leaves_what_the_first_one_found(
    make_provider: MakeProvider, way: SlowProxy, direct_dsn: str
) -> None:
    """Where most of what was found repeats a question, more is looked for, which here takes longer than there is."""
    provider = make_provider({"dsn": way.conninfo(direct_dsn), "prefetch_deadline_s": 6.0})
    for number in range(24):
        provider.sync_turn(*ticket(number), session_id="earlier")
    landed(provider)
    asked = "Is a refund possible for the order of a customer?"
    both = taken(way, lambda: _asked_anew(provider, asked))
    way.delay_s = 3.6 / both  # 7.2 s for both passes, of which the first takes half
    assert "on the list of the refunds" in _asked_anew(provider, asked)


def _asked_anew(provider: PgvectorMemoryProvider, text: str) -> str:
    provider.on_session_switch(f"asks-{uuid4()}", reset=True)
    return provider.prefetch(text)
