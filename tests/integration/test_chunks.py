"""Long texts: found by any of their parts, kept in step with their row, and embedded without holding anybody up."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from hermes_memory_pgvector.admin.edit.forget_rows import forget_session
from hermes_memory_pgvector.domain.types import EmbeddingSpace
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.store.vectors import Chunk
from tests.conftest import DIMS, MakeProvider
from tests.support.local_models import link_model
from tests.support.memory import called, landed, recalled, results, runtime_of
from tests.support.model_files import MODEL_NAME
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.waiting import until

FILLER = "The crane was inspected on Monday and its counterweight holds nine tonnes of concrete. "
CELLO = "Wolfgang lent Petra a cello in Leipzig. "
WITHOUT_VECTOR = (
    "SELECT (SELECT count(*) FROM memory_entries WHERE embedding IS NULL)"
    " + (SELECT count(*) FROM conversations WHERE embedding IS NULL)"
)
PARTS = "SELECT (SELECT count(*) FROM memory_chunks) + (SELECT count(*) FROM conversation_chunks)"


def long_text(sentence: str = CELLO, *, chars: int = 6000) -> str:
    """Much of one thing, with a sentence of another deep inside."""
    half = FILLER * (chars // 2 // len(FILLER))
    return half + sentence + half


@pytest.fixture
def settings(embedder: ScriptedEmbedder) -> dict[str, object]:
    """Of a provider whose vectors say which words a text has."""
    return {"embed_url": embedder.url, "embed_model": "words"}


def embedded(dsn: str, timeout_s: float = 60) -> None:
    until(lambda: Database(dsn).column(WITHOUT_VECTOR) == [0], timeout_s, "the vectors of all rows")


def test_need_04_a_sentence_deep_in_a_long_text_is_found_by_meaning(
    make_provider: MakeProvider, home: Path, dsn: str
) -> None:
    link_model(home)
    provider = make_provider({"embed_url": f"local:{MODEL_NAME}", "dims": DIMS})
    turn = long_text("Our veterinarian vaccinated the puppy against rabies. ", chars=41_000)
    memory = long_text("Grandmother bakes sourdough every weekend. ", chars=41_000)
    provider.sync_turn("Please read the whole report to me, from its first page.", turn)
    provider.sync_turn("How high is the lighthouse at the harbour?", "It has 41 metres and was painted last spring.")
    provider.on_memory_write("add", "memory", memory)
    provider.on_memory_write("add", "memory", "The printer on the second floor needs toner.")
    landed(provider)
    embedded(dsn, 120)

    asked = {"query": "which shots did my dog get?", "limit": 3, "explain": True}
    found = called(provider, "recall_conversation", asked)
    best = found["results"][0]
    assert found["mode"] == "hybrid"
    assert best["excerpt_of_chars"] == len(turn)
    assert "rabies" in best["content"] and len(best["content"]) < 10_000
    assert best["explain"]["words_rank"] is None
    best = called(provider, "recall_memory", {"query": "who makes bread?", "limit": 3})["results"][0]
    assert "sourdough" in best["content"]


def test_a_row_of_which_several_parts_match_is_returned_once(
    make_provider: MakeProvider, settings: dict[str, object], dsn: str
) -> None:
    provider = make_provider(settings)
    text = long_text(chars=3000) + long_text(chars=3000) + long_text(chars=3000)
    provider.sync_turn("Who lent what to whom, and where was that?", text)
    provider.on_memory_write("add", "memory", text)
    landed(provider)
    embedded(dsn)

    for tool in ("recall_conversation", "recall_memory"):
        results = called(provider, tool, {"query": "Wolfgang Petra cello Leipzig", "limit": 20})["results"]
        ids = [result["id"] for result in results]
        assert len(ids) == len(set(ids))
        assert any("cello" in result["content"] for result in results)


def test_filters_and_the_session_hold_for_parts(
    make_provider: MakeProvider, settings: dict[str, object], dsn: str
) -> None:
    provider = make_provider(settings)
    provider.sync_turn("What does the report say in its middle?", long_text(), session_id="session-1")
    other = make_provider(settings, session_id="session-2")
    other.sync_turn(long_text("Hugo sold Irma a trombone in Graz. "), "I have read the whole of it now.")
    landed(provider)
    embedded(dsn)

    def sessions(who: PgvectorMemoryProvider, query: str, **args: object) -> list[str]:
        found = results(called(who, "recall_conversation", {"query": query, "limit": 20} | args))
        return [each["session_id"] for each in found if "cello" in each["content"] or "trombone" in each["content"]]

    assert set(sessions(provider, "Petra cello", scope="session")) == {"session-1"}
    assert set(sessions(other, "Petra cello trombone", scope="session")) == {"session-2"}
    assert set(sessions(provider, "cello trombone", role="user")) == {"session-2"}
    assert set(sessions(provider, "cello trombone", role="assistant")) == {"session-1"}
    assert sessions(provider, "cello trombone", until="2020-01-01") == []
    elsewhere = make_provider(settings, gateway_session_key="finance")
    assert sessions(elsewhere, "cello trombone") == []


def test_need_16_what_is_deleted_leaves_no_parts(
    make_provider: MakeProvider, settings: dict[str, object], dsn: str
) -> None:
    provider = make_provider(settings)
    database = Database(dsn)
    provider.on_memory_write("add", "memory", long_text())
    provider.on_memory_write("add", "memory", long_text("Hugo sold Irma a trombone in Graz. "))
    provider.sync_turn("What does the report say in its middle?", long_text())
    landed(provider)
    embedded(dsn)
    assert database.column("SELECT count(DISTINCT row_id) FROM memory_chunks") == [2]

    provider.on_memory_write("remove", "memory", "", {"old_text": long_text()})
    provider.on_memory_write("replace", "memory", "The trombone is in Graz no more.", {
        "old_text": "Hugo sold Irma a trombone",
    })  # fmt: skip
    landed(provider)
    with runtime_of(provider).backend.connection(15) as conn:
        forget_session(conn, "marketing", "session-1", really=True)

    assert database.column(PARTS) == [0]
    embedded(dsn)
    assert not any("cello" in text for text in recalled(provider, "Petra cello"))


def test_a_text_changed_with_sql_is_embedded_again(
    make_provider: MakeProvider, settings: dict[str, object], dsn: str, admin_dsn: str, embedder: ScriptedEmbedder
) -> None:
    provider = make_provider(settings)
    provider.on_memory_write("add", "memory", long_text())
    provider.on_memory_write("add", "memory", "The printer on the second floor needs toner.")
    landed(provider)
    embedded(dsn)
    embedder.mode = "down"
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute("UPDATE memory_entries SET content = replace(content, 'cello', 'zither')")
        admin.execute("UPDATE memory_entries SET content = 'The plotter needs ink.' WHERE content LIKE '%toner%'")
        assert admin.execute(WITHOUT_VECTOR).fetchone() == (2,)
        assert admin.execute(PARTS).fetchone() == (0,)
        assert admin.execute("SELECT count(sig) + count(code) FROM memory_entries").fetchone() == (0,)

    embedder.mode = "ok"
    embedded(dsn)

    assert Database(dsn).column("SELECT count(*) > 2 FROM memory_chunks") == [True]
    assert "zither" in recalled(provider, "Petra zither Leipzig Wolfgang")[0]
    # A vector that an operator sets by hand gets its signature as well.
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute(
            "UPDATE memory_entries AS m SET embedding = o.embedding FROM memory_entries AS o"
            " WHERE m.content LIKE '%plotter%' AND o.content LIKE '%zither%'"
        )
        wrong = admin.execute(
            "SELECT count(*) FROM memory_entries"
            " WHERE (sig, code) <> (binary_quantize(embedding), hermes_code(embedding))"
        ).fetchone()
    assert wrong == (0,)


def test_a_theme_renamed_with_sql_takes_its_parts_along(
    make_provider: MakeProvider, settings: dict[str, object], dsn: str, admin_dsn: str
) -> None:
    provider = make_provider(settings)
    provider.sync_turn("What does the report say in its middle?", long_text())
    provider.on_memory_write("add", "memory", long_text())
    landed(provider)
    embedded(dsn)

    with psycopg.connect(admin_dsn) as admin:
        for table in ("conversations", "memory_entries"):
            admin.execute(f"UPDATE {table} SET agent_identity = 'finance'".encode())

    for table in ("conversation_chunks", "memory_chunks"):
        assert set(Database(dsn).column(f"SELECT agent_identity FROM {table}")) == {"finance"}
    assert not any("cello" in text for text in recalled(provider, "Petra cello Leipzig"))
    finance = make_provider(settings, gateway_session_key="finance")
    assert any("cello" in text for text in recalled(finance, "Petra cello Leipzig", tool="recall_conversation"))


def test_need_02_a_text_of_a_megabyte_holds_no_write_up(
    make_provider: MakeProvider, settings: dict[str, object], dsn: str, embedder: ScriptedEmbedder
) -> None:
    provider = make_provider(settings)
    embedder.latency_ms = 200
    database = Database(dsn)
    provider.sync_turn("Please read the whole log to me, from its first line.", long_text(chars=1_000_000))
    until(lambda: database.column(WITHOUT_VECTOR) != [0], 30, "the long turn, without its vector")
    until(lambda: embedder.requests > 3, 30, "the first parts of it")

    provider.on_memory_write("add", "memory", "The printer on the second floor needs toner.")
    landed(provider)

    stored = database.column("SELECT embedding IS NOT NULL FROM memory_entries")
    assert stored == [True]
    assert database.column(WITHOUT_VECTOR) == [1], "the long turn was waited for"
    embedder.latency_ms = 0
    embedded(dsn)
    parts = database.column("SELECT count(*) FROM conversation_chunks")[0]
    assert parts > 700
    assert database.column("SELECT count(DISTINCT part) FROM conversation_chunks") == [parts]


def test_parts_stay_when_two_processes_have_embedded_a_row(
    make_provider: MakeProvider, settings: dict[str, object], dsn: str
) -> None:
    provider = make_provider(settings | {"embed_on_write": False})
    provider.on_memory_write("add", "memory", long_text())
    landed(provider)
    backend = runtime_of(provider).backend
    assert backend.claim_space(EmbeddingSpace("words", DIMS))
    unit = [1.0] + [0.0] * (DIMS - 1)
    slow = backend.claim_pending(8, 0.0)
    fast = backend.claim_pending(8, 0.0)
    assert [row.id for row in slow] == [row.id for row in fast]
    parts = {row.text: [Chunk(0, unit), Chunk(1100, unit), Chunk(2200, unit)] for row in slow}

    backend.fill(fast, parts)
    backend.fill(slow, parts)

    assert Database(dsn).column("SELECT first_char FROM memory_chunks ORDER BY part") == [1100, 2200]
