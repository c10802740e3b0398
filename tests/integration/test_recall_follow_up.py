"""A message that names nothing itself is searched for with the one that it is about."""

from __future__ import annotations

import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.memory import landed
from tests.support.scripted_embedder import ScriptedEmbedder

SERVICES = ("atlas", "beacon", "cobalt", "dynamo", "ember", "falcon", "garnet", "harbor")
FIRST = "How large is the budget of garnet?"
FOLLOW_UP = "And on which port does it listen?"
ANSWER = "garnet listens on port 7006"


@pytest.fixture
def provider(make_provider: MakeProvider, embedder: ScriptedEmbedder) -> PgvectorMemoryProvider:
    """A provider whose theme knows two things of each service."""
    made = make_provider({"embed_url": embedder.url, "prefetch_limit": 3})
    for number, service in enumerate(SERVICES):
        made.on_memory_write("add", "memory", f"{service} listens on port {7000 + number}")
        made.on_memory_write("add", "memory", f"{service} has a budget of {20 + number},000 euros")
    landed(made)
    return made


def asked_for(embedder: ScriptedEmbedder, text: str) -> bool:
    return any(text in str(body) for body in embedder.bodies)


def test_need_39_a_follow_up_gets_what_it_is_about(
    provider: PgvectorMemoryProvider, embedder: ScriptedEmbedder
) -> None:
    assert "budget of 26,000" in provider.prefetch(FIRST)
    block = provider.prefetch(FOLLOW_UP)
    assert ANSWER in block.splitlines()[1]
    assert asked_for(embedder, f"{FIRST} {FOLLOW_UP.removeprefix('And ')}")


def test_need_39_that_is_what_was_named_before(provider: PgvectorMemoryProvider) -> None:
    provider.prefetch(FIRST)
    assert ANSWER in provider.prefetch("And which port is that?").splitlines()[1]


def test_need_39_and_another_thing_may_be_a_new_subject(provider: PgvectorMemoryProvider) -> None:
    provider.on_memory_write("add", "memory", "The tour ends in Porto on Sunday")
    landed(provider)
    assert "Porto" not in provider.prefetch("On which of all the ports of this machine does garnet listen by itself?")
    assert "Porto" in provider.prefetch("And the tour?")


def test_need_39_it_is_about_the_last_thing_that_was_named(
    provider: PgvectorMemoryProvider, embedder: ScriptedEmbedder
) -> None:
    for message in (FIRST, "Good.", "And its owner?", "Whatever, thanks!"):
        provider.prefetch(message)
    assert ANSWER in provider.prefetch(FOLLOW_UP).splitlines()[1]
    provider.prefetch("What is the budget of onyx?")
    provider.prefetch("And where does it run?")
    assert asked_for(embedder, "What is the budget of onyx? where does it run?")


def test_need_39_another_session_is_about_something_else(
    provider: PgvectorMemoryProvider, embedder: ScriptedEmbedder
) -> None:
    provider.prefetch(FIRST)
    provider.on_session_switch("another", parent_session_id="", reset=True)
    provider.prefetch(FOLLOW_UP)
    assert not asked_for(embedder, f"{FIRST} {FOLLOW_UP.removeprefix('And ')}")


def test_need_39_what_was_taken_back_is_not_what_it_is_about(
    provider: PgvectorMemoryProvider, embedder: ScriptedEmbedder
) -> None:
    provider.on_session_switch("chat", parent_session_id="", reset=True)
    provider.prefetch(FIRST)
    provider.on_session_switch("chat", parent_session_id="", reset=False, rewound=True)
    provider.prefetch(FOLLOW_UP)
    assert not asked_for(embedder, f"{FIRST} {FOLLOW_UP.removeprefix('And ')}")


def test_need_39_a_message_that_another_one_replaces_is_not_what_it_is_about(
    make_provider: MakeProvider, embedder: ScriptedEmbedder
) -> None:
    """The API server makes a provider for each request, and a client may send another message in place of one."""
    said: list[str] = []

    def says(message: str, *, turns: int) -> None:
        provider = make_provider({"embed_url": embedder.url})
        provider.on_turn_start(turns + 1, message)
        provider.prefetch(message)
        said.append(str(embedder.bodies))

    says("How large is the budget of atlas?", turns=0)
    says("What does the house of onyx cost?", turns=1)
    says(FOLLOW_UP, turns=1)
    says("What about the port of garnet?", turns=2)
    says("What about the port of garnet?", turns=2)
    asked = FOLLOW_UP.removeprefix("And ")
    assert f"How large is the budget of atlas? {asked}" in said[-1]
    assert f"What does the house of onyx cost? {asked}" not in said[-1]
    assert "What about the port of garnet? What about the port of garnet?" not in said[-1]


def test_need_39_it_may_be_what_the_reply_names(provider: PgvectorMemoryProvider, embedder: ScriptedEmbedder) -> None:
    who, then = "Who is my teacher?", "What did I give her?"
    provider.prefetch(who)
    provider.sync_turn(who, "Sure! Your teacher is Dr. In\u00eas Melo. Shall I tell you more of Porto?")
    provider.prefetch("Thanks!")
    provider.sync_turn("Thanks!", "You are welcome.")
    provider.prefetch(then)
    assert asked_for(embedder, f"{who} Dr In\u00eas Melo {then}")


@pytest.mark.parametrize("reply", ["According to what you noted.", "Found it.", "Dr. Weber, says Priya of Hanover."])
def test_need_39_what_else_a_reply_says_hides_nothing(make_provider: MakeProvider, reply: str) -> None:
    provider = make_provider({"prefetch_limit": 1, "prefetch_deadline_s": 8})
    for known in ("The dentist is on holiday in May", "My dentist is Dr. Weber", "The red bike is in the cellar"):
        provider.on_memory_write("add", "memory", known)
    landed(provider)
    who = "Who is my dentist?"
    assert "in May" not in provider.prefetch(who)
    provider.sync_turn(who, reply)
    landed(provider)
    assert "in May" in provider.prefetch("Is he on holiday?")


def test_need_39_an_answer_that_names_nothing_does_not_end_it(
    provider: PgvectorMemoryProvider, embedder: ScriptedEmbedder
) -> None:
    for message, reply in (("Who is my dentist?", "Dr. Weber."), ("When is he on holiday?", "In two weeks.")):
        provider.prefetch(message)
        provider.sync_turn(message, reply)
    provider.prefetch("What did I send him?")
    assert asked_for(embedder, "Who is my dentist? Dr Weber What did I send him?")


def test_need_39_it_is_the_reply_to_the_message_that_it_follows(
    provider: PgvectorMemoryProvider, embedder: ScriptedEmbedder
) -> None:
    provider.prefetch("Who is my teacher?")
    provider.sync_turn("Who is my teacher?", "Your teacher is Inês.")
    provider.prefetch("Who is my dentist?")  # and is interrupted
    provider.prefetch("What did I give her?")
    assert asked_for(embedder, "Who is my dentist? What did I give her?")


@pytest.mark.parametrize(
    "thanks",
    [
        "[Triggering message id: 4711]\n\nGreat, thanks!",
        [{"type": "text", "text": "Great, thanks!"}, {"type": "image_url", "image_url": {"url": "data:,"}}],
    ],
)
def test_need_39_small_talk_with_a_note_of_the_host_does_not_end_it(
    provider: PgvectorMemoryProvider, embedder: ScriptedEmbedder, thanks: object
) -> None:
    who, then = "Who is my teacher?", "What did I give her?"
    provider.prefetch(who)
    provider.sync_turn(who, "Your teacher is Inês.")
    provider.prefetch("Great, thanks!")
    provider.sync_turn(thanks, "You are welcome.")
    provider.prefetch(then)
    assert asked_for(embedder, f"{who} Inês {then}")


def test_need_39_the_reply_to_a_message_with_an_image_counts(
    provider: PgvectorMemoryProvider, embedder: ScriptedEmbedder
) -> None:
    who, then = "Who is on this photo?", "What did I give her?"
    provider.prefetch(who)
    provider.sync_turn([{"type": "text", "text": who}, {"type": "image_url", "image_url": {"url": "data:,"}}], "Inês.")
    provider.prefetch(then)
    assert asked_for(embedder, f"{who} Inês {then}")


def test_need_39_compression_does_not_change_what_was_answered(
    provider: PgvectorMemoryProvider, embedder: ScriptedEmbedder
) -> None:
    who, then = "Who is my teacher?", "What did I give her?"
    provider.on_session_switch("chat", parent_session_id="", reset=True)
    provider.prefetch(who)
    provider.sync_turn(who, "Your teacher is Inês.", session_id="chat")
    provider.on_session_switch("chat", parent_session_id="", reset=False, reason="compression")
    provider.prefetch(then)
    assert asked_for(embedder, f"{who} Inês {then}")


def test_need_39_a_reply_without_a_name_adds_nothing(
    provider: PgvectorMemoryProvider, embedder: ScriptedEmbedder
) -> None:
    provider.prefetch(FIRST)
    provider.sync_turn(FIRST, "The budget of garnet is 26,000 euros.")
    assert ANSWER in provider.prefetch(FOLLOW_UP).splitlines()[1]
    assert asked_for(embedder, f"{FIRST} {FOLLOW_UP.removeprefix('And ')}")


def test_need_38_what_was_answered_to_a_message_that_is_taken_back_is_forgotten(
    provider: PgvectorMemoryProvider, embedder: ScriptedEmbedder
) -> None:
    provider.prefetch("Who is my teacher?")
    provider.sync_turn("Who is my teacher?", "Your teacher is In\u00eas.")
    provider.on_session_switch("session-1", rewound=True)
    provider.prefetch("Who is my dentist?")
    provider.prefetch("What did I give her?")
    assert asked_for(embedder, "Who is my dentist? What did I give her?")


def test_need_39_compression_does_not_change_what_it_is_about(provider: PgvectorMemoryProvider) -> None:
    provider.on_session_switch("chat", parent_session_id="", reset=True)
    provider.prefetch(FIRST)
    provider.on_session_switch("chat", parent_session_id="", reset=False, reason="compression")
    assert ANSWER in provider.prefetch(FOLLOW_UP).splitlines()[1]
