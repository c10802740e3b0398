"""What a block is worth: answers before questions, an exchange once, nothing that the session still has."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.aged import age
from tests.support.hostile import plain_lines
from tests.support.memory import called, landed
from tests.support.scripted_embedder import ScriptedEmbedder

ASK = "Where do violet invoices go to?"
ANSWER = "Violet invoices go to the cellar archive in Bremen."
POLICY = "Support policy: a customer who asks gets the refund within fourteen days of the purchase."


@pytest.fixture(params=["words", "meaning"])
def config(request: pytest.FixtureRequest, embedder: ScriptedEmbedder) -> dict[str, Any]:
    """Settings with and without an embedding endpoint."""
    return {"embed_url": embedder.url} if request.param == "meaning" else {}


def ticket(number: int) -> str:
    return f"Ticket #{4000 + number}: a customer asks for the refund of a purchase. May the customer get it?"


@pytest.mark.parametrize("stored_as", ["memory", "answer"])
def test_need_37_the_policy_stands_in_the_block_over_fifty_tickets(
    stored_as: str, config: dict[str, Any], make_provider: MakeProvider
) -> None:
    provider = make_provider(config)
    if stored_as == "memory":
        provider.on_memory_write("add", "memory", POLICY)
    else:
        provider.sync_turn(
            "What do we tell a customer who asks for the refund of a purchase?", POLICY, session_id="day-0"
        )
    landed(provider)
    for number in range(51):
        provider.on_session_switch(f"ticket-{number}", parent_session_id="", reset=True)
        if number in (1, 4, 25, 50):
            landed(provider)
            block = provider.prefetch(ticket(number))
            assert POLICY in block, (number, block)
            assert sum("Ticket" in line for line in plain_lines(block)) <= 4, block
        provider.sync_turn(ticket(number), f"I have put ticket {4000 + number} on the list of today.")


def test_need_37_an_exchange_stands_once_with_its_answer_in_its_words(
    config: dict[str, Any], make_provider: MakeProvider
) -> None:
    provider = make_provider(config)
    for number in range(3):
        provider.sync_turn(ASK, ANSWER, session_id=f"earlier-{number}")
    landed(provider)
    (line,) = plain_lines(provider.prefetch("Where do the violet invoices go?"))
    assert line.endswith(f'user said] "{ASK}" [assistant] "{ANSWER}"')


@pytest.mark.parametrize(
    ("message", "answer", "asked"),
    [
        ("I need it today where do we send violet invoices", "To the cellar in Bremen.", "violet invoices"),
        ("Write the first sentence of the violet tale", "Nobody had seen Ada since noon.", "the violet tale"),
    ],
)
def test_need_37_what_is_asked_or_ordered_without_a_question_mark_stands_with_its_answer(
    message: str, answer: str, asked: str, config: dict[str, Any], make_provider: MakeProvider
) -> None:
    provider = make_provider(config)
    talk(provider, "day-1", (message, answer))
    talk(provider, "day-2", ("The harbour crane is greased on Mondays.", "Noted."))
    (line,) = plain_lines(provider.prefetch(asked))
    assert line.endswith(f'user said] "{message}" [assistant] "{answer}"')
    (found, *_) = called(provider, "recall_conversation", {"query": asked})["results"]
    assert found["content"] == answer


def test_need_37_the_same_alert_without_a_question_mark_leaves_room_for_what_it_was(
    config: dict[str, Any], make_provider: MakeProvider
) -> None:
    provider = make_provider(config)
    for number in range(6):
        alert = f"ALERT harbour disk used by {90 + number}%. what do I do"
        talk(provider, f"day-{number}", (alert, "Look at what grew."))
    cause = "The harbour disk is used by the log of the old crane."
    talk(provider, "day-9", (cause, "Noted."))
    assert cause in provider.prefetch("ALERT harbour disk used by 97%. what do I do")


def talk(provider: PgvectorMemoryProvider, session: str, *turns: tuple[str, str]) -> None:
    for asked, answered in turns:
        provider.sync_turn(asked, answered, session_id=session)
    landed(provider)


def test_need_37_what_the_session_still_has_is_left_out_until_compression(
    config: dict[str, Any], make_provider: MakeProvider
) -> None:
    provider = make_provider(config)
    talk(provider, "session-1", (ASK, ANSWER))
    assert provider.prefetch(ASK) == ""
    assert make_provider(config, session_id="session-1").prefetch(ASK) == "", "another request of the same session"
    assert ANSWER in make_provider(config, session_id="session-2").prefetch(ASK)

    provider.on_session_switch("session-1b", parent_session_id="session-1", reason="branch")
    assert provider.prefetch(ASK) == "", "the branch begins with a copy"
    provider.on_session_switch("session-1", parent_session_id="session-1", reason="compression")
    assert ANSWER in provider.prefetch(ASK)


def test_need_37_a_client_that_begins_anew_with_the_same_words_is_told_what_it_said_before(
    config: dict[str, Any], make_provider: MakeProvider
) -> None:
    first = make_provider(config)
    first.on_turn_start(1, "hello")
    talk(first, "session-1", (ASK, ANSWER))
    assert first.prefetch(ASK) == ""
    anew = make_provider(config)
    anew.on_turn_start(1, "hello")
    assert ANSWER in anew.prefetch(ASK), "its transcript is empty"
    talk(anew, "session-1", ("The harbour crane is greased on Mondays.", "Noted, I keep that in mind from now on."))
    later = make_provider(config)
    later.on_turn_start(2, "hello")
    assert later.prefetch("When is the harbour crane greased?") == ""


def test_need_37_after_a_cut_only_the_turns_that_are_left_are_left_out(
    config: dict[str, Any], make_provider: MakeProvider
) -> None:
    provider = make_provider(config)
    crane = ("When is the harbour crane greased?", "The harbour crane is greased on Mondays.")
    talk(provider, "session-1", (ASK, ANSWER), crane)
    cut = make_provider(config)
    cut.on_turn_start(2, "a client that sends the last exchange only")
    assert ANSWER in cut.prefetch(ASK)
    assert cut.prefetch(crane[0]) == ""
    whole = make_provider(config)
    whole.on_turn_start(3, "one that sends everything")
    assert whole.prefetch(ASK) == ""


def test_need_37_a_long_session_does_not_hide_what_another_said(
    config: dict[str, Any], make_provider: MakeProvider
) -> None:
    provider = make_provider(config)
    talk(provider, "earlier", (ASK, ANSWER))
    own = ((f"Violet invoices go where? This is my call {n}.", f"Violet invoices go, call {n}.") for n in range(30))
    talk(provider, "session-1", *own)
    (line,) = plain_lines(provider.prefetch(ASK))
    assert ANSWER in line


def test_need_37_different_questions_keep_their_answers_before_what_ranks_far_behind(
    make_provider: MakeProvider,
) -> None:
    """Only what is asked again and again is looked behind: that takes a second, much longer search."""
    provider = make_provider()
    names = ["".join(syllable) for syllable in product("bdfgk", "aeiou", "lmn", "t")]
    for number, (one, two, three) in enumerate(zip(*[iter(names)] * 3, strict=True)):
        asked = f"Violet invoices, harbour, cellar {one} {two} {three}?"
        talk(
            provider,
            f"earlier-{number}",
            (asked, f"That is what Ingrid looks after, on floor {number} by the lift."),
            (f"Violet invoices, harbour: {one} and {two}.", "I have noted that, thank you very much."),
        )
    later = make_provider(session_id="session-9")
    lines = plain_lines(later.prefetch("Violet invoices, harbour, cellar?"))
    assert len(lines) == 5 and all("Ingrid looks after" in line for line in lines)
    assert later.runtime is not None and later.runtime.searcher.counts["searches"] == 1


def test_need_37_two_questions_with_the_same_answer_are_both_told(make_provider: MakeProvider) -> None:
    answer = "Ingrid does that, together with her colleague from the port office."
    asked = ("Who greases the harbour crane of the northern quay?", "Who paints the old ferry boat in the shipyard?")
    earlier = make_provider()
    for number, question in enumerate(asked):
        earlier.sync_turn(question, answer, session_id=f"session-{number}")
    landed(earlier)
    provider = make_provider(session_id="session-9")
    for question in asked:
        (line,) = plain_lines(provider.prefetch(f"Please tell me: {question}"))
        assert question in line and answer in line


def test_need_37_a_memory_with_another_value_replaces_the_older_one(
    config: dict[str, Any], make_provider: MakeProvider
) -> None:
    provider = make_provider(config)
    for text in ("The stand-up of the team is at 9:30 sharp.", "The stand-up of the team is at 10:15 sharp."):
        provider.on_memory_write("add", "memory", text)
        landed(provider)
    (line,) = plain_lines(provider.prefetch("When is the stand-up of the team?"))
    assert '10:15 sharp." (replaces "9:30" of 20' in line


def test_need_17_of_two_memories_of_the_same_the_newer_stands_first_among_many_turns(
    config: dict[str, Any], make_provider: MakeProvider, dsn: str
) -> None:
    """The one less near is the last of its store, which does not make it farther than forty turns."""
    provider = make_provider(config)
    older, newer = (f"Limits: up to {limit} crowns the team lead approves, above that two." for limit in (5000, 7500))
    for limit in (older, newer):
        provider.on_memory_write("add", "memory", limit)
    for number in range(40):
        provider.sync_turn(
            f"The harbour log of day {number} tells of fog and of a {number} hour wait.", "Kept as told."
        )
    landed(provider)
    age(dsn, older, days=30)
    asked = "Up to what may a team lead approve?"
    lines = plain_lines(make_provider(config, session_id="session-2").prefetch(asked))
    assert [newer in lines[0], older in lines[1]] == [True, True]


def test_need_17_what_says_that_something_changed_stands_before_what_was_so(
    config: dict[str, Any], make_provider: MakeProvider, dsn: str
) -> None:
    provider = make_provider(config)
    older, newer = "Ada's piano lesson is on Wednesdays at 4 pm.", "Piano has moved. Ada now goes on Fridays at 3."
    for session, said in enumerate((older, newer)):
        talk(provider, f"day-{session}", (said, "I have written that down for all of us."))
    age(dsn, older, days=14)
    asked = make_provider(config, session_id="session-2").prefetch("When is Ada's piano lesson?")
    assert asked.index(newer) < asked.index(older)
    then = make_provider(config, session_id="session-3").prefetch("When was Ada's piano lesson?")
    assert then.index(older) < then.index(newer)


def test_need_17_what_held_at_the_time_asked_for_stands_before_what_holds_now(
    config: dict[str, Any], make_provider: MakeProvider, dsn: str
) -> None:
    provider = make_provider(config)
    older, newer = (
        "The fee for a visit of the crane is 40 crowns.",
        "Corrected: the fee for a visit of the crane is 45 crowns.",
    )
    for session, fee in enumerate((older, newer)):
        talk(provider, f"day-{session}", (fee, "I have written that down for all of us."))
    age(dsn, older, days=14)
    asked = make_provider(config, session_id="session-2").prefetch("What is the fee for a visit of the crane?")
    assert asked.index(newer) < asked.index(older)
    then = make_provider(config, session_id="session-3").prefetch(
        "What was the fee for a visit of the crane two weeks ago?"
    )
    assert then.index(older) < then.index(newer)


def test_need_17_what_somebody_corrects_in_the_next_message_is_told_with_it(
    config: dict[str, Any], make_provider: MakeProvider
) -> None:
    provider = make_provider(config)
    said, corrected = "The raffle of the harbour club made 684 crowns.", "No, I meant 648, typo."
    talk(provider, "day-1", (said, "684 crowns, noted."), (corrected, "Corrected."))
    talk(provider, "day-2", ("The harbour crane is greased on Mondays.", "Noted."))
    asked = make_provider(config, session_id="session-2").prefetch("What did the raffle of the harbour club make?")
    first, second = plain_lines(asked)
    assert said in first and corrected in second


def test_need_37_what_the_trouble_was_is_told_with_the_trouble(
    config: dict[str, Any], make_provider: MakeProvider
) -> None:
    provider = make_provider(config)
    trouble, cause = "The harbour crane stalls when it is warm.", "It was the plug, pin 2 had rusted."
    talk(provider, "day-1", (trouble, "Look at the sensor first."), (cause, "Well done."))
    talk(provider, "day-2", ("Violet invoices go to the cellar.", "Noted."))
    first, second = plain_lines(make_provider(config, session_id="session-2").prefetch("Why does the crane stall?"))
    assert trouble in first and cause in second
    assert not make_provider(config, session_id="session-3").prefetch("Where does the ferry dock?")


@pytest.mark.parametrize(
    ("told", "ended", "question"),
    [
        (
            "Our CI runs on Jenkins.",
            "We don't use Jenkins any more, builds are on GitHub Actions.",
            "Which CI do we have?",
        ),
        ("Meine Zahnaerztin ist Frau Brandt.", "Frau Brandt praktiziert nicht mehr.", "Wer ist meine Zahnaerztin?"),
        ("The dentist is Marta Ruiz.", "Marta Ruiz no longer practises; I go to Vogel.", "Who is the dentist?"),
    ],
)
@pytest.mark.parametrize("as_turns", [True, False])
def test_need_43_what_ends_a_statement_stands_beside_it(
    told: str,
    ended: str,
    question: str,
    as_turns: bool,
    make_provider: MakeProvider,
    embedder: ScriptedEmbedder,
    dsn: str,
) -> None:
    provider = make_provider({"embed_url": embedder.url})
    other = "Ada no longer plays the piano on Sundays."
    for number, text in enumerate((told, ended, other)):
        if as_turns:
            provider.sync_turn(text, "Noted.", session_id=f"day-{number}")
        else:
            provider.on_memory_write("add", "memory", text)
        landed(provider)
    block = provider.prefetch(question)
    assert -1 < block.find(ended) < block.find(told)
    assert other not in block


def test_need_43_what_was_said_before_ends_nothing(make_provider: MakeProvider, embedder: ScriptedEmbedder) -> None:
    provider = make_provider({"embed_url": embedder.url})
    for number, text in enumerate(("We do not use Jenkins any more.", "Our CI runs on Jenkins.")):
        provider.sync_turn(text, "Noted.", session_id=f"day-{number}")
        landed(provider)
    assert [line for line in plain_lines(provider.prefetch("Which CI do we have?")) if "any more" in line] == []


def test_need_43_what_was_said_again_is_not_ended(make_provider: MakeProvider, embedder: ScriptedEmbedder) -> None:
    provider = make_provider({"embed_url": embedder.url})
    said = ("Our CI runs on Jenkins.", "We don't use Jenkins any more.", "Our CI runs on Jenkins again.")
    for number, text in enumerate(said):
        provider.sync_turn(text, "Noted.", session_id=f"day-{number}")
        landed(provider)
    lines = plain_lines(provider.prefetch("Which CI do we have?"))
    assert "again" in lines[0], lines
    assert [line for line in lines if "any more" in line] == []


def test_need_43_what_held_at_the_time_that_is_asked_about_stands_before_its_end(
    make_provider: MakeProvider, embedder: ScriptedEmbedder, dsn: str
) -> None:
    provider = make_provider({"embed_url": embedder.url})
    told, ended = "Our CI runs on Jenkins.", "We don't use Jenkins any more."
    for number, text in enumerate((told, ended)):
        provider.sync_turn(text, "Noted.", session_id=f"day-{number}")
        landed(provider)
    age(dsn, told, days=10)
    block = provider.prefetch("Which CI did we have ten days ago?")
    assert -1 < block.find(told) < block.find(ended), block
