"""`/retry`, edited messages and branches: what takes the place of a turn, and what a transcript still has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hermes_state import SessionDB

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.runtime.process import close_all
from tests.conftest import MakeProvider
from tests.support.memory import landed
from tests.support.stored import Database
from tests.support.turns import turn

SESSION = "session-1"
AT_THE_DESK = {"platform": "cli", "gateway_session_key": None}
IN_A_CHAT = {"platform": "telegram", "chat_id": "42", "gateway_session_key": "agent:main:telegram:dm:42"}
FOR_A_CLIENT = {"platform": "api_server", "gateway_session_key": "marketing"}

Message = dict[str, Any]
Tell = Callable[..., list[Message]]


def answer(number: int) -> str:
    return f"Answer {number}: the crane was greased by the harbour's own people this morning."


@pytest.fixture
def tell(home: Path) -> Tell:
    """Says a turn after some messages, and returns the transcript that it ends with."""
    SessionDB(home / "state.db").create_session(SESSION, "cli")

    def told(provider: PgvectorMemoryProvider, before: list[Message], asked: int, answered: int) -> list[Message]:
        transcript = [
            *before,
            {"role": "user", "content": turn(asked), "api_content": f"{turn(asked)}\n\n<memory-context>"},
            {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]},
            {"role": "tool", "content": "read", "tool_call_id": "1"},
            {"role": "assistant", "content": answer(answered)},
        ]
        provider.sync_turn(turn(asked), answer(answered), session_id=SESSION, messages=transcript)
        return transcript

    return told


def stored(provider: PgvectorMemoryProvider, dsn: str) -> list[str]:
    landed(provider)
    return Database(dsn).column("SELECT content FROM conversations ORDER BY id")


@pytest.mark.parametrize("where", [AT_THE_DESK, IN_A_CHAT])
def test_need_38_a_turn_that_is_asked_again_takes_the_place_of_the_first_one(
    where: dict[str, Any], tell: Tell, make_provider: MakeProvider, dsn: str
) -> None:
    provider = make_provider(**where)
    tell(provider, [], 1, 1)
    before = tell(provider, [], 1, 2)
    tell(provider, before, 3, 3)
    tell(provider, before, 3, 4)
    assert stored(provider, dsn) == [turn(1), answer(2), turn(3), answer(4)]
    tell(provider, before, 3, 4)  # as a host that reconnects reports it
    tell(provider, tell(provider, before, 3, 3), 4, 4)
    assert stored(provider, dsn) == [turn(1), answer(2), turn(3), answer(3), turn(4), answer(4)]


@pytest.mark.parametrize("where", [AT_THE_DESK, IN_A_CHAT])
def test_need_38_with_an_earlier_turn_all_later_ones_are_taken_back(
    where: dict[str, Any], tell: Tell, make_provider: MakeProvider, dsn: str
) -> None:
    provider = make_provider(**where)
    first = tell(provider, [], 1, 1)
    tell(provider, tell(provider, first, 2, 2), 3, 3)
    tell(provider, first, 2, 4)
    assert stored(provider, dsn) == [turn(1), answer(1), turn(2), answer(4)]


def test_need_38_an_edited_message_takes_the_place_of_the_first_one(
    tell: Tell, make_provider: MakeProvider, dsn: str
) -> None:
    provider = make_provider(**AT_THE_DESK)
    first = tell(provider, [], 1, 1)
    tell(provider, tell(provider, first, 2, 2), 3, 3)
    tell(provider, first, 4, 4)
    assert stored(provider, dsn) == [turn(1), answer(1), turn(4), answer(4)]


def test_need_03_what_only_looks_like_it_stays(tell: Tell, home: Path, make_provider: MakeProvider, dsn: str) -> None:
    said = make_provider(**AT_THE_DESK)
    tell(said, tell(said, [], 1, 1), 1, 2)  # the same question once more
    tell(said, [{"role": "assistant", "content": "[CONTEXT COMPACTION] They spoke of a crane."}], 1, 3)
    tell(said, [], 5, 5)  # the transcript was cleared
    first = tell(
        said, [{"role": "user", "content": "Which crane?"}, {"role": "assistant", "content": "The old one."}], 6, 13
    )
    joined = [*first, {"role": "user", "content": f"a message that failed\n\n{turn(6)}"}]
    said.sync_turn(turn(6), answer(14), session_id=SESSION, messages=joined)
    tell(said, [], 1, 6)
    client = make_provider(**FOR_A_CLIENT)
    tell(client, [], 1, 7)  # of two conversations that begin alike
    tell(client, [], 1, 8)
    chat = make_provider(**IN_A_CHAT)
    first = tell(chat, [], 1, 9)
    tell(chat, first, 2, 10)  # which the host could not write down
    tell(chat, first, 3, 11)
    (home / "state.db").unlink()  # a program that uses the host without it
    tell(said, [], 1, 12)
    for provider in (said, client, chat):
        landed(provider)
    kept = [each for each in stored(said, dsn) if each.startswith("Answer")]
    assert sorted(kept) == sorted(map(answer, (1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)))


# -- what was put before a message -----------------------------------------------------------------------------------


FACTS = ("The harbour crane is greased by Ingrid Petersen.", "Invoices of Bergmann are paid by wire transfer.")
ASKED = ("Who greases the harbour crane?", "How are invoices of Bergmann paid?")


def speaks_of_both(make_provider: MakeProvider, **where: Any) -> None:
    """Another session, in which both facts were told."""
    provider = make_provider(session_id="session-0", **where)
    for fact in FACTS:
        provider.sync_turn(fact, "", session_id="session-0")
    landed(provider)


def shown(provider: PgvectorMemoryProvider, number: int, asked: int) -> bool:
    """Whether the fact is put before the question, in the turn that the host gives this number."""
    provider.on_turn_start(number, ASKED[asked])
    return FACTS[asked] in provider.prefetch(ASKED[asked])


def test_need_37_a_message_that_is_repeated_at_once_gets_the_same_memories(make_provider: MakeProvider) -> None:
    speaks_of_both(make_provider, **AT_THE_DESK)
    provider = make_provider(**AT_THE_DESK)
    assert shown(provider, 1, 0)
    assert shown(provider, 2, 0), "the transcript may not have the first one"
    assert shown(provider, 3, 1)
    assert not shown(provider, 4, 0), "it was repeated, and stands before the last message"
    assert not shown(provider, 5, 1)
    assert not shown(provider, 6, 0)
    provider.on_session_switch("session-1", parent_session_id="session-1", reason="compression")
    assert shown(provider, 7, 0)
    assert shown(provider, 8, 1)
    assert shown(provider, 9, 1)
    assert not shown(provider, 10, 0)


@pytest.mark.parametrize("where", [IN_A_CHAT, FOR_A_CLIENT])
def test_need_37_where_the_transcript_goes_back_what_was_put_behind_it_may_be_shown_again(
    where: dict[str, Any], make_provider: MakeProvider
) -> None:
    speaks_of_both(make_provider, **where)
    for number in (1, 2):
        assert shown(make_provider(**where), number, number - 1)
    assert not shown(make_provider(**where), 3, 0)
    assert shown(make_provider(**where), 2, 1)
    assert not shown(make_provider(**where), 3, 0)
    assert shown(make_provider(**where), 1, 0)


def test_need_37_a_first_message_that_is_repeated_gets_no_answer_that_was_taken_back(
    tell: Tell, make_provider: MakeProvider
) -> None:
    for _ in range(2):
        provider = make_provider(**IN_A_CHAT)
        provider.on_turn_start(1, turn(1))
        assert provider.prefetch(turn(1)) == ""
        tell(provider, [], 1, 1)
        landed(provider)


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
def test_need_37_a_branch_that_nobody_told_us_of_has_what_it_began_with(
    tell: Tell, home: Path, make_provider: MakeProvider, restarted: bool, marked: bool
) -> None:
    speaks_of_both(make_provider, **IN_A_CHAT)
    provider = make_provider(**IN_A_CHAT)
    assert shown(provider, 1, 0)
    before = tell(provider, [], 1, 1)
    landed(provider)
    database = SessionDB(home / "state.db")
    for new, old in (("copy", SESSION), ("copy of the copy", "copy")):
        database.end_session(old, "branched")  # the API server marks no copies
        mark = {"_branched_from": old} if marked else {}
        database.create_session(new, "telegram", model_config=mark, parent_session_id=old)
    tell(provider, before, 2, 2)  # which the copy lacks
    landed(provider)
    if restarted:
        close_all()
    branch = make_provider(session_id="copy of the copy", **IN_A_CHAT)
    branch.on_turn_start(2, turn(1))
    block = branch.prefetch(turn(1))
    assert answer(1) not in block and turn(1) not in block and turn(2) in block
    assert shown(branch, 3, 1)
    assert shown(branch, 4, 0) is restarted, "the copy holds what the first message was shown"


@pytest.mark.parametrize("session", ["api-0123456789abcdef", "79ec8010-250f-4a92-b74f-274138c3994d"])
def test_need_37_a_client_that_sends_the_conversation_itself_is_told_again(
    make_provider: MakeProvider, session: str
) -> None:
    speaks_of_both(make_provider, **FOR_A_CLIENT)
    for number in (1, 2, 3):
        assert shown(make_provider(session_id=session, **FOR_A_CLIENT), number, 0)


@pytest.mark.parametrize("kept", [False, True])
def test_need_37_the_transcript_says_whether_what_was_put_before_a_message_stays_in_it(
    make_provider: MakeProvider, kept: bool
) -> None:
    speaks_of_both(make_provider, **AT_THE_DESK)
    provider = make_provider(**AT_THE_DESK)
    transcript: list[Message] = []
    told = []
    for number in (1, 2, 3):
        provider.on_turn_start(number, f"{ASKED[0]} {number}")
        block = provider.prefetch(f"{ASKED[0]} {number}")
        told.append(FACTS[0] in block)
        message = {"role": "user", "content": f"{ASKED[0]} {number}"}
        before = list(transcript)
        transcript += [
            message | ({"api_content": block} if kept else {}),
            {"role": "assistant", "content": "She does."},
        ]
        provider.sync_turn(message["content"], "She does.", messages=[*before, message, transcript[-1]])
    assert told == [True, False, not kept]
