"""The host moves to another session without a new provider: the next turn lands there, with its parent."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.memory import landed, recalled
from tests.support.stored import Database
from tests.support.turns import ANSWER, turn

Row = tuple[str, str | None]


def rows(dsn: str) -> dict[str, Row]:
    """Session and parent of every user turn, by its words."""
    statement = (
        "SELECT jsonb_build_array(content, session_id, metadata ->> 'session_id', metadata ->> 'parent_session_id')"
        " FROM conversations WHERE role = 'user'"
    )
    found = {}
    for content, session, in_metadata, parent in Database(dsn).column(statement):
        assert session == in_metadata
        found[content] = (session, parent)
    return found


def say(provider: PgvectorMemoryProvider, number: int, **arguments: Any) -> None:
    provider.on_turn_start(number, turn(number))
    provider.sync_turn(turn(number), ANSWER, **arguments)


# What hermes-agent 0.19.0 passes for each of its commands.
SWITCHES: dict[str, tuple[str, dict[str, Any], Row]] = {
    "new": (
        "session-2",
        {"parent_session_id": "session-1", "reset": True, "reason": "new_session"},
        ("session-2", "session-1"),
    ),
    "resume": (
        "session-0",
        {"parent_session_id": "session-1", "reset": False, "reason": "resume"},
        ("session-0", "session-1"),
    ),
    "branch": (
        "session-1b",
        {"parent_session_id": "session-1", "reset": False, "reason": "branch"},
        ("session-1b", "session-1"),
    ),
    "compression": (
        "session-1",
        {"parent_session_id": "session-1", "reset": False, "reason": "compression"},
        ("session-1", None),
    ),
    "compression-with-a-new-id": (
        "session-1c",
        {"parent_session_id": "session-1", "reset": False, "reason": "compression"},
        ("session-1c", "session-1"),
    ),
    "without-a-parent": ("session-2", {}, ("session-2", "session-1")),
}


@pytest.mark.parametrize("explicit", [True, False], ids=["id-in-the-turn", "id-from-the-switch"])
@pytest.mark.parametrize("command", SWITCHES)
def test_need_07_the_next_turn_lands_in_the_right_session(
    command: str, explicit: bool, make_provider: MakeProvider, dsn: str
) -> None:
    new, arguments, expected = SWITCHES[command]
    provider = make_provider(session_id="session-1")
    say(provider, 1)
    provider.on_session_end([{"role": "user", "content": turn(1)}])
    provider.on_session_switch(new, **arguments)
    say(provider, 2, **({"session_id": new} if explicit else {}))
    provider.on_memory_write("add", "memory", turn(3))
    provider.on_delegation(turn(4), ANSWER, child_session_id="child-1")
    landed(provider)

    assert rows(dsn) == {turn(1): ("session-1", None), turn(2): expected}
    database = Database(dsn)
    assert database.column("SELECT metadata ->> 'session_id' FROM memory_entries") == [expected[0]]
    assert database.column("SELECT session_id FROM conversations WHERE role = 'tool'") == [expected[0]]
    assert turn(2) in recalled(provider, "number0002", tool="recall_conversation", scope="session")


def test_need_07_a_chain_of_sessions_keeps_each_link(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(session_id="session-1")
    for number in range(1, 5):
        say(provider, number)
        provider.on_session_switch(f"session-{number + 1}", parent_session_id=f"session-{number}", reason="compression")
        provider.on_session_switch(f"session-{number + 1}", parent_session_id="", reason="compression")
    landed(provider)

    assert rows(dsn) == {
        turn(number): (f"session-{number}", f"session-{number - 1}" if number > 1 else None) for number in range(1, 5)
    }


def test_need_07_a_late_turn_stays_in_the_session_it_was_spoken_in(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(session_id="session-1")
    provider.on_session_switch("session-2", parent_session_id="session-1", reset=True)
    say(provider, 1, session_id="session-1")
    say(provider, 2)
    landed(provider)

    assert rows(dsn) == {turn(1): ("session-1", None), turn(2): ("session-2", "session-1")}


def test_need_07_the_scope_session_means_the_new_one(make_provider: MakeProvider) -> None:
    provider = make_provider(session_id="session-1")
    say(provider, 1)
    provider.on_session_switch("session-2", parent_session_id="session-1", reset=True)
    landed(provider)

    assert recalled(provider, "number0001", tool="recall_conversation", scope="session") == []
    assert turn(1) in recalled(provider, "number0001", tool="recall_conversation")


def test_need_07_a_parent_given_at_the_start_is_kept(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(session_id="session-2", parent_session_id="session-1")
    say(provider, 1)
    landed(provider)
    assert rows(dsn) == {turn(1): ("session-2", "session-1")}


@pytest.mark.parametrize("nothing", ["", None, "  "])
def test_need_07_a_switch_to_nothing_changes_nothing(nothing: Any, make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(session_id="session-1")
    provider.on_session_switch(nothing, parent_session_id="session-0", reset=True)
    say(provider, 1)
    landed(provider)
    assert rows(dsn) == {turn(1): ("session-1", None)}
