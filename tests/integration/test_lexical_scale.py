"""Recall by words in a theme too large to be scored whole: what is rare decides, what is common still answers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.memory import called, recalled

ROWS = 20_000
START = datetime(2024, 1, 1, tzinfo=UTC)
OLD_PAIR = 5_000  # the one row with both "granite" and "walnut", each of which stands in every tenth
TOOL_ROW = 41  # the only row of a delegated task
RARE_ROW = 1_234


def _text(row: int) -> str:
    words = [f"note{row}", "harbour" if row % 2 else "meadow", "budget" if row % 4 < 2 else "garden"]
    if row % 10 == 3 or row == OLD_PAIR:
        words.append("granite")
    if row % 10 == 7 or row == OLD_PAIR:
        words.append("walnut")
    if row == RARE_ROW:
        words.append("zeppelin")
    return " ".join(words)


@pytest.fixture
def provider(make_provider: MakeProvider, admin_dsn: str) -> Iterator[PgvectorMemoryProvider]:
    """A provider, without an embedder, of a theme of 20,000 turns a minute apart; another theme holds the rare word."""
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        statement = "COPY conversations (session_id, agent_identity, role, content, ts) FROM STDIN"
        with admin.cursor().copy(statement) as copy:
            for row in range(ROWS):
                role = "tool" if row == TOOL_ROW else "assistant" if row % 2 else "user"
                copy.write_row((f"s{row // 100}", "marketing", role, _text(row), START + timedelta(minutes=row)))
            for row in range(20):
                copy.write_row(("other", "sales", "user", f"zeppelin harbour {row}", START))
        admin.execute("VACUUM ANALYZE conversations")
    yield make_provider({"recall_deadline_s": 30})


def test_need_20_words_in_a_large_theme(provider: PgvectorMemoryProvider) -> None:
    def found(query: str, **args: object) -> list[str]:
        return recalled(provider, query, tool="recall_conversation", **args)

    for query in ("zeppelin", "zeppelin harbour budget", "harbour meadow garden zeppelin"):
        assert found(query)[0] == _text(RARE_ROW), "the rare word decides"
    assert found("note777 harbour budget")[0] == _text(777)

    answer = called(provider, "recall_conversation", {"query": "harbour budget", "limit": 50, "explain": True})[
        "results"
    ]
    assert len(answer) == 50
    # By words alone: a turn that holds one of them may still come first for the turns beside it.
    ranked = {hit["explain"]["words_rank"]: hit["content"] for hit in answer}
    best = [text for rank, text in ranked.items() if rank is not None and rank <= 10]
    assert len(best) >= 5 and all("harbour" in text and "budget" in text for text in best), "both common words beat one"
    assert ranked[1] == _text(ROWS - 11), "the newest of equals, and of the shortest"

    assert found("granite walnut")[0] == _text(OLD_PAIR), "rarely together: found however old"

    assert found("nosuchword") == []
    assert found("zeppelin", scope="theme:sales") and not set(found("zeppelin")) & set(
        found("zeppelin", scope="theme:sales")
    )
    assert len(found("zeppelin", scope="all")) >= 21


def test_need_20_filters_hold_in_a_large_theme(provider: PgvectorMemoryProvider) -> None:
    def found(query: str, **args: object) -> list[str]:
        return recalled(provider, query, tool="recall_conversation", **args)

    for query in ("harbour", "harbour garden", "harbour zeppelin", "zeppelin harbour garden"):
        assert found(query, role="tool") == [_text(TOOL_ROW)], "the only row of a role, behind thousands with the word"
    results = called(provider, "recall_conversation", {"query": "harbour zeppelin", "role": "user", "limit": 50})[
        "results"
    ]
    assert {hit["role"] for hit in results} == {"user"}
    assert results[0]["content"] == _text(RARE_ROW)

    day = {"since": "2024-01-03", "until": "2024-01-03"}  # rows 2,880 to 4,319
    inside = {_text(row) for row in range(2_880, 4_320)}
    for query in ("harbour", "harbour budget", "granite walnut", "note3000 harbour"):
        answer = found(query, **day)
        assert answer and set(answer) <= inside, query
    assert found("note3000 harbour", **day)[0] == _text(3_000)
    assert found("zeppelin", **day) == []


def test_need_20_a_session_of_a_large_theme(make_provider: MakeProvider, provider: PgvectorMemoryProvider) -> None:
    early = make_provider({"recall_deadline_s": 30}, session_id="s7")
    inside = {_text(row) for row in range(700, 800)}
    for query in ("harbour", "harbour budget", "note777 harbour", "zeppelin harbour"):
        answer = recalled(early, query, tool="recall_conversation", scope="session")
        assert len(answer) > 10 and set(answer) <= inside, query
    assert recalled(early, "note777 harbour", tool="recall_conversation", scope="session")[0] == _text(777)
