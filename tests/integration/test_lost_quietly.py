"""Writes that others lost with the hook returning normally: all of these arrive."""

from __future__ import annotations

import datetime
import itertools
import string
from typing import Any

import pytest

from tests.conftest import DIMS, MakeProvider
from tests.support.memory import landed, recalled
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.waiting import until

COUNT = 60
ANSWER = "That is a long enough answer to be worth storing, about the Atlas project."


def distinct_words(chars: int) -> str:
    letters = itertools.product(string.ascii_lowercase, repeat=9)
    return " ".join("".join(reversed(word)) for word in itertools.islice(letters, chars // 10))


def test_trap_03_rows_written_at_a_shutdown_without_a_vector_get_one_and_are_found_by_any_word(
    make_provider: MakeProvider, dsn: str, embedder: ScriptedEmbedder
) -> None:
    embedder.mode = "down"
    provider = make_provider({"embed_url": embedder.url})
    for number in range(COUNT):
        provider.sync_turn(f"Which colour has module number {number} of the Atlas project?", f"{ANSWER} Part {number}.")
    provider.shutdown()
    database = Database(dsn)

    provider = make_provider({"embed_url": embedder.url})
    landed(provider)
    assert database.column("SELECT count(embedding) FROM conversations") == [0]
    for number in range(0, COUNT, 10):
        # Most of these words stand in no row at all.
        question = f"please tell me quickly whether somebody ever mentioned the colour of module number {number}"
        found = recalled(provider, question, tool="recall_conversation")
        assert any(text.endswith(f" Part {number}.") for text in found[:2]), "the answer to what was found"

    embedder.mode = "ok"
    everything = [2 * COUNT]
    until(
        lambda: database.column("SELECT count(embedding) FROM conversations") == everything,
        60,
        "a vector for every row",
    )


@pytest.mark.parametrize(
    "content",
    [
        "NUL \0 in the middle of the Atlas text",
        "half a character \ud83d of the Atlas text",
        "Atlas " + distinct_words(1_000_000),
        "Atlas " + "x" * 1_000_000,
        "Atlas " + "东京都" * 200_000,
    ],
    ids=["nul", "surrogate", "a megabyte of distinct words", "one endless word", "a megabyte of kanji"],
)
def test_trap_10_odd_content_arrives(make_provider: MakeProvider, dsn: str, content: str) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", content)
    provider.sync_turn(content, ANSWER)
    landed(provider)
    database = Database(dsn)
    assert database.column("SELECT count(*) FROM memory_entries") == [1]
    assert database.column("SELECT count(*) FROM conversations") == [2]
    assert recalled(provider, "atlas")


def test_trap_10_odd_metadata_and_session_ids_arrive(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(session_id="s\0ess\ud800ion")
    odd: dict[Any, Any] = {
        "nul": "a\0b",
        "surrogate": "\ud800",
        "nan": float("nan"),
        "when": datetime.datetime(2026, 5, 3, tzinfo=datetime.UTC),
        ("a", 1): {1, 2},
    }
    provider.on_memory_write("add", "memory", "Atlas is blue", odd)
    provider.sync_turn("Which colour did we choose for the Atlas project?", ANSWER, session_id="s\0ess\ud800ion")
    landed(provider)
    assert recalled(provider, "atlas") == ["Atlas is blue"]
    assert Database(dsn).column("SELECT count(*) FROM conversations") == [2]


def test_trap_10_a_column_of_another_size_than_the_setting_keeps_the_text(
    make_provider: MakeProvider, dsn: str, embedder: ScriptedEmbedder
) -> None:
    provider = make_provider({"dims": DIMS * 2, "embed_url": embedder.url})
    provider.on_memory_write("add", "memory", "Atlas is blue")
    landed(provider)
    assert recalled(provider, "atlas") == ["Atlas is blue"]
    assert Database(dsn).column("SELECT count(embedding) FROM memory_entries") == [0]
