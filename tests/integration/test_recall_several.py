"""A message that asks several things finds the answer to each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MakeProvider
from tests.support.hostile import plain_lines
from tests.support.local_models import link_model
from tests.support.memory import called, landed
from tests.support.model_files import MODEL_NAME

FORUM = (
    "The spring forum for harbour logistics takes place in Bremen",
    "The spring forum for harbour logistics has three hundred guests",
    "The spring forum for harbour logistics lasts two days",
    "The spring forum for harbour logistics needs a badge",
)
ROOF = "Ingrid repairs the roof"
BOTH = "Who repairs the roof? And where does the spring forum for harbour logistics take place?"


def test_need_37_each_question_of_a_message_gets_its_line_before_the_turn(make_provider: MakeProvider) -> None:
    """The longer question has most of the words, and rows that hold them would take every line."""
    provider = make_provider({"prefetch_limit": 2})
    for text in (ROOF, *FORUM):
        provider.on_memory_write("add", "memory", text)
    landed(provider)

    lines = plain_lines(provider.prefetch(BOTH))

    assert [ROOF in lines[0], FORUM[0] in lines[1], len(lines)] == [True, True, 2]


def test_need_37_a_tool_answers_both_questions_first_and_pages_on(make_provider: MakeProvider) -> None:
    provider = make_provider()
    for text in (ROOF, *FORUM):
        provider.on_memory_write("add", "memory", text)
    landed(provider)

    first = called(provider, "recall_memory", {"query": BOTH, "limit": 2})["results"]
    second = called(provider, "recall_memory", {"query": BOTH, "limit": 10, "offset": 2})["results"]

    assert [each["content"] for each in first] == [ROOF, FORUM[0]]
    assert {each["content"] for each in second} == set(FORUM[1:])


@pytest.mark.parametrize("rerank", ["off", "auto"])
def test_need_37_both_are_found_in_other_words(rerank: str, home: Path, make_provider: MakeProvider) -> None:
    """The vector of both questions is near to neither answer."""
    link_model(home)
    provider = make_provider(
        {"embed_url": f"local:{MODEL_NAME}", "recall_deadline_s": 30.0, "prefetch_deadline_s": 8.0, "rerank": rerank}
    )
    answers = (
        "Our kitten sleeps on the radiator all afternoon.",
        "Restart the database after changing shared_buffers.",
    )
    for text in (*answers, "The quarterly revenue grew by twelve percent in Europe.", *FORUM):
        provider.on_memory_write("add", "memory", text)
    landed(provider)

    lines = plain_lines(
        provider.prefetch("Where does a cat like to rest? What makes Postgres use more memory at once?")
    )

    assert sorted(answer for answer in answers for line in lines if answer in line) == sorted(answers)


def test_need_37_small_talk_before_a_question_brings_nothing(home: Path, make_provider: MakeProvider) -> None:
    link_model(home)
    provider = make_provider({"embed_url": f"local:{MODEL_NAME}", "prefetch_deadline_s": 8.0})
    for text in (ROOF, *FORUM):
        provider.on_memory_write("add", "memory", text)
    landed(provider)

    (line,) = plain_lines(provider.prefetch("Hi, how are you? Can you help me? Who repairs the roof?"))

    assert ROOF in line
