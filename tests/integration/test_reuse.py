"""Content-addressed reuse: a text that the theme holds with its vector is not sent to the endpoint again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_memory_pgvector.capture.document_embedding import RecentVectors
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.runtime.process import close_all
from tests.support.model_files import MODEL_DIMS
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.waiting import until

Make = Callable[..., PgvectorMemoryProvider]

QUESTION = "Which of the two warehouses in Rotterdam still has room for forty pallets?"
ANSWER = "The one at the Waalhaven has room for sixty; the other one is full until the end of March."


@pytest.fixture
def endpoint() -> Iterator[ScriptedEmbedder]:
    with ScriptedEmbedder(dims=MODEL_DIMS) as running:
        yield running


@pytest.fixture
def database(dsn: str) -> Database:
    return Database(dsn)


@pytest.fixture
def make(make_provider: Make, endpoint: ScriptedEmbedder) -> Make:
    """Providers on the endpoint, each in what stands for a process of its own: the one before it is closed."""

    def made(**kwargs: Any) -> PgvectorMemoryProvider:
        close_all()
        # The prefix would make documents and questions look different to the test.
        return make_provider({"embed_url": endpoint.url, "embed_model": "all-minilm"}, **kwargs)

    return made


def say(provider: PgvectorMemoryProvider, question: str = QUESTION, answer: str = ANSWER) -> None:
    provider.sync_turn(question, answer)
    drained(provider)


def drained(provider: PgvectorMemoryProvider) -> None:
    assert provider.runtime is not None
    assert provider.runtime.writer.flush(60)


def vectors_of(database: Database, text: str) -> list[str | None]:
    return database.column("SELECT embedding::text FROM conversations WHERE content = %s", text) + database.column(
        "SELECT embedding::text FROM memory_entries WHERE content = %s", text
    )


def test_a_turn_said_again_is_embedded_once(make: Make, endpoint: ScriptedEmbedder, database: Database) -> None:
    say(make())
    say(make(session_id="session-2"))

    assert (endpoint.texts.count(QUESTION), endpoint.texts.count(ANSWER)) == (1, 1)
    first, second = vectors_of(database, QUESTION)
    assert first is not None and first == second


def test_within_one_process_what_is_on_its_way_counts_too(make: Make, endpoint: ScriptedEmbedder) -> None:
    provider = make()
    for _ in range(300):
        provider.sync_turn(QUESTION, ANSWER)
    drained(provider)

    assert (endpoint.texts.count(QUESTION), endpoint.texts.count(ANSWER)) == (1, 1)
    assert provider.runtime is not None
    assert provider.runtime.stats()["embed_reused"] >= 2


def test_a_memory_and_a_turn_of_the_same_words_share_the_vector(
    make: Make, endpoint: ScriptedEmbedder, database: Database
) -> None:
    say(make())
    provider = make()
    provider.on_memory_write("add", "memory", QUESTION, metadata={})
    drained(provider)
    say(make(), QUESTION, "Forty pallets fit into the one at the Waalhaven, as they did in February.")

    assert endpoint.texts.count(QUESTION) == 1
    vectors = vectors_of(database, QUESTION)
    assert len(vectors) == 3 and len(set(vectors)) == 1


def test_the_memory_files_are_embedded_once_and_not_with_each_session(
    make: Make, endpoint: ScriptedEmbedder, database: Database, home: Path
) -> None:
    folder = home / "memories"
    folder.mkdir()
    entries = [f"The office in city number {number} opens at nine." for number in range(12)]
    (folder / "MEMORY.md").write_text("\n§\n".join(entries), encoding="utf-8")
    for number in range(3):
        (folder / "MEMORY.md").write_text("\n§\n".join([*entries, f"Change {number}."]), encoding="utf-8")
        drained(make(session_id=f"session-{number}"))
        database.wait_for_memory(f"Change {number}.")

    assert [endpoint.texts.count(entry) for entry in entries] == [1] * 12


def test_another_theme_is_not_looked_at(make: Make, endpoint: ScriptedEmbedder, database: Database) -> None:
    say(make(gateway_session_key="marketing"))
    say(make(gateway_session_key="sales"))

    assert endpoint.texts.count(QUESTION) == 2
    assert None not in vectors_of(database, QUESTION)


def test_a_known_text_has_its_vector_at_once_while_the_endpoint_is_away(
    make: Make, endpoint: ScriptedEmbedder, database: Database
) -> None:
    say(make())
    endpoint.mode = "down"
    new = "The second warehouse is being painted in a friendly yellow this week."
    say(make(), QUESTION, new)

    assert None not in vectors_of(database, QUESTION)
    assert vectors_of(database, new) == [None]
    endpoint.mode = "ok"
    until(lambda: None not in vectors_of(database, new), 60, "the vector of what waited")
    assert endpoint.texts.count(QUESTION) == 1


def test_rows_that_wait_take_the_vector_of_their_text_from_others(
    make: Make, endpoint: ScriptedEmbedder, database: Database, admin_dsn: str
) -> None:
    say(make())
    close_all()
    Database(admin_dsn).column(
        "INSERT INTO conversations (session_id, agent_identity, role, content)"
        " SELECT 'imported', agent_identity, role, content FROM conversations RETURNING id"
    )
    make()
    until(lambda: len(vectors_of(database, QUESTION)) == 2 and None not in vectors_of(database, QUESTION), 60, "both")

    assert endpoint.texts.count(QUESTION) == 1


def test_a_text_that_differs_is_embedded(make: Make, endpoint: ScriptedEmbedder) -> None:
    say(make())
    say(make(), QUESTION + " ", ANSWER.upper())

    assert endpoint.texts.count(ANSWER.upper()) == 1


def test_vectors_of_another_model_are_not_taken(
    make: Make, endpoint: ScriptedEmbedder, database: Database, admin_dsn: str
) -> None:
    say(make())
    close_all()
    Database(admin_dsn).column("UPDATE hermes_embedding SET model = 'another' RETURNING 1")
    say(make(session_id="session-2"))

    assert vectors_of(database, QUESTION).count(None) == 1


def test_recent_vectors_are_bounded_and_the_oldest_goes_first() -> None:
    recent = RecentVectors(max_texts=2)
    recent.add("one", [1.0, 0.0])
    recent.add("two", [0.0, 1.0])
    assert recent.get("one") == [1.0, 0.0]
    recent.add("three", [0.6, 0.8])

    assert recent.get("two") is None
    assert recent.get("three") == pytest.approx([0.6, 0.8])
