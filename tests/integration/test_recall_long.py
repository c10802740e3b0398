"""Long turns, long memories and long questions."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.recall.render import AROUND_MAX_CHARS, LINE_MAX_CHARS, RESULT_MAX_CHARS
from tests.conftest import MakeProvider
from tests.support.hostile import plain_lines
from tests.support.limits import LATE_S
from tests.support.memory import called, landed
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.turns import seconds

FILLER = "Nothing of note happened in this part of the log, and the next entry says the same. "
SENTENCES = {
    "What is the vault code of the QUARTZ depot?": "The vault code of the QUARTZ depot is 7719-B.",
    "会议室每周维护吗？": "上海办公室的会议室每周五维护。",
}
TOOLS = {"recall_conversation": "conversations", "recall_memory": "memory_entries"}


def long_text(sentence: str, place: float = 0.6, chars: int = 41_000) -> str:
    """A text of about so many characters with the sentence somewhere in it."""
    count = chars // len(FILLER)
    before = round(count * place)
    return FILLER * before + sentence + " " + FILLER * (count - before)


@pytest.fixture
def provider(make_provider: MakeProvider) -> PgvectorMemoryProvider:
    """A provider that was told each sentence in a very long turn, and in a very long memory."""
    made = make_provider()
    for sentence in SENTENCES.values():
        made.sync_turn(long_text(sentence), "I have read all of it.", session_id="session-0")
        made.on_memory_write("add", "memory", long_text(sentence, 0.3))
    landed(made)
    return made


@pytest.mark.parametrize("question", SENTENCES)
@pytest.mark.parametrize("tool", TOOLS)
def test_trap_14_a_tool_answers_with_the_sentence_that_matched(
    tool: str, question: str, provider: PgvectorMemoryProvider
) -> None:
    best = called(provider, tool, {"query": question})["results"][0]
    assert SENTENCES[question] in best["content"]
    assert len(best["content"]) <= RESULT_MAX_CHARS
    assert best["excerpt_of_chars"] > 40_000


@pytest.mark.parametrize("question", SENTENCES)
def test_trap_14_a_block_shows_the_sentence_that_matched(question: str, provider: PgvectorMemoryProvider) -> None:
    lines = plain_lines(provider.prefetch(question))
    assert any(SENTENCES[question] in line for line in lines)
    assert max(map(len, lines)) < LINE_MAX_CHARS + 50


def test_need_19_a_long_turn_beside_a_hit_shows_what_matched_too(provider: PgvectorMemoryProvider) -> None:
    question = "What is the vault code of the QUARTZ depot?"
    answer = "The depot of the QUARTZ series, vault code and all, is closed in winter."
    provider.sync_turn(long_text(SENTENCES[question]), answer, session_id="session-7")
    landed(provider)
    (result,) = called(provider, "recall_conversation", {"query": question, "role": "assistant", "limit": 1})["results"]
    assert result["content"] == answer and "excerpt_of_chars" not in result
    beside = result["around"][0]["content"]
    assert SENTENCES[question] in beside and len(beside) <= AROUND_MAX_CHARS


@pytest.mark.parametrize("tool", TOOLS)
def test_need_19_a_long_question_costs_what_a_short_one_costs(tool: str, provider: PgvectorMemoryProvider) -> None:
    dice = random.Random(7)
    for number in range(10):
        provider.on_memory_write("add", "memory", long_text(f"Depot {number} is red.", 0.5))
        provider.sync_turn(long_text(f"Depot {number} is red."), None, session_id="session-0")
    landed(provider)
    words = " ".join("".join(dice.choices("abcdefghijklmnop", k=7)) for _ in range(12_500))
    question = "What is the vault code of the QUARTZ depot? " + words
    asked: dict[int, Callable[[], object]] = {
        size: lambda size=size: called(provider, tool, {"query": question[:size], "limit": 20})  # type: ignore[misc]
        for size in (1_000, 100_000)
    }
    short, long = (min(seconds(ask) for _ in range(5)) for ask in asked.values())
    assert long < 4 * short + 0.5


def test_need_19_a_long_message_gets_its_block_in_time(provider: PgvectorMemoryProvider) -> None:
    message = "What is the vault code of the QUARTZ depot? " + "zebra crossing " * 7_000
    assert seconds(lambda: provider.prefetch(message)) < 1.5 + LATE_S
    other = "The depot log follows: " + FILLER * 1_200
    assert seconds(lambda: provider.prefetch(other)) < 1.5 + LATE_S


def test_need_19_the_endpoint_gets_no_more_of_a_question_than_it_takes(
    make_provider: MakeProvider, embedder: ScriptedEmbedder
) -> None:
    provider = make_provider({"embed_url": embedder.url})
    landed(provider)
    for query in ("depot " * 20_000, "仓库" * 50_000):
        called(provider, "recall_memory", {"query": query})
    assert embedder.requests and max(map(len, embedder.texts)) < 2_100
