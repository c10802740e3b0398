"""`/undo`: what was taken back was not said."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest
import yaml
from hermes_state import SessionDB

from hermes_memory_pgvector.admin.common.spool_views import retry
from hermes_memory_pgvector.capture.spool_directory import SpoolDirectory, spool_folder
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.host.hook_operations import undo_of
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.host.undone import rewound
from hermes_memory_pgvector.runtime.process import close_all
from tests.conftest import DIMS, MakeProvider
from tests.support.agent_process import AgentProcess
from tests.support.memory import landed, recalled, runtime_of
from tests.support.stored import Database
from tests.support.tcp_proxy import TcpProxy
from tests.support.turns import ANSWER, question, turn
from tests.support.waiting import until

SESSION = "session-1"
AT_THE_DESK = {"platform": "cli", "gateway_session_key": None}


def undo(provider: PgvectorMemoryProvider) -> None:
    """As the command line and the terminal interface tell it."""
    provider.on_session_switch(SESSION, parent_session_id="", reset=False, rewound=True)


def said(provider: PgvectorMemoryProvider) -> list[str]:
    return [each for each in recalled(provider, "harbour crane", tool="recall_conversation") if each != ANSWER]


def stored(dsn: str) -> list[str]:
    return Database(dsn).column("SELECT content FROM conversations WHERE role = 'user' ORDER BY id")


class Host:
    """The host's own session database, written as an agent does: the user's words first, then a turn is handed over."""

    def __init__(self, home: Path, session_key: str | None = None) -> None:
        self.database = SessionDB(home / "state.db")
        self.database.create_session(SESSION, "cli", session_key=session_key)

    def say(self, provider: PgvectorMemoryProvider, number: int, *, sent_at: float | None = None) -> None:
        self.write(number, sent_at=sent_at)
        provider.sync_turn(turn(number), ANSWER, session_id=SESSION)

    def write(self, number: int, *, sent_at: float | None = None) -> None:
        self.database.append_message(SESSION, "user", turn(number), timestamp=sent_at)
        self.database.append_message(SESSION, "assistant", ANSWER)

    def compress(self, *numbers: int, of_turn: int | None = None) -> None:
        """As its command line does: the messages of these turns, the last ones, stay beside a summary.

        `of_turn`: in this turn, whose first message has not been written yet.
        """
        left = [{"role": "user", "content": "[CONTEXT COMPACTION] what was said before"}]
        for number in numbers:
            left += [{"role": "user", "content": turn(number)}, {"role": "assistant", "content": ANSWER}]
        if of_turn is not None:
            left.append({"role": "user", "content": turn(of_turn)})
        self.database.archive_and_compact(SESSION, left)

    def rotate(self, provider: PgvectorMemoryProvider, old: str, new: str, *numbers: int) -> None:
        """As where the setting `compression.in_place` is off: what is left of these turns begins a new session."""
        left = [{"role": "user", "content": "[CONTEXT COMPACTION] what was said before"}]
        for number in numbers:
            left += [{"role": "user", "content": turn(number)}, {"role": "assistant", "content": ANSWER}]
        self.database.end_session(old, "compression")
        self.database.create_session(new, "cli", parent_session_id=old)
        self.database.replace_messages(new, left)
        provider.on_session_switch(new, parent_session_id=old, reason="compression")

    def undo(self, turns: int = 1, session: str = SESSION) -> None:
        recent = self.database.list_recent_user_messages(session, limit=10)
        self.database.rewind_to_message(session, recent[turns - 1]["id"])


@pytest.fixture
def host(home: Path) -> Host:
    return Host(home)


def test_need_38_the_last_turn_is_taken_back_and_may_be_said_again(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(session_id=SESSION)
    for number in (1, 2):
        provider.sync_turn(turn(number), ANSWER)
    landed(provider)
    undo(provider)
    assert said(provider) == [turn(1)], "at once, whatever Postgres knows by then"
    landed(provider)
    assert stored(dsn) == [turn(1)]
    assert turn(2) not in provider.prefetch(question(2))

    provider.sync_turn(turn(2), ANSWER)
    provider.sync_turn(turn(2), ANSWER)  # as a host that reconnects reports it
    landed(provider)
    assert stored(dsn) == [turn(1), turn(2)]
    assert sorted(said(provider)) == [turn(1), turn(2)]


def test_need_38_a_correction_that_was_taken_back_is_not_told_with_what_it_corrected(
    make_provider: MakeProvider,
) -> None:
    provider = make_provider()
    for text, reply in (
        ("The raffle of the harbour club made 684 crowns.", "684, noted."),
        ("No, I meant 648.", "Ok."),
    ):
        provider.sync_turn(text, reply, session_id=SESSION)
    landed(provider)
    elsewhere = make_provider(session_id="session-2")
    asked = "What did the raffle of the harbour club make?"
    assert "648" in elsewhere.prefetch(asked)
    assert not provider.prefetch(asked, session_id=SESSION), "the session has both"
    undo(provider)
    block = make_provider(session_id="session-3").prefetch(asked)
    assert "684" in block and "648" not in block, "also before Postgres knows"
    landed(provider)
    block = make_provider(session_id="session-4").prefetch(asked)
    assert "684" in block and "648" not in block


def set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda real=time.time: real() - 3600)


@pytest.mark.parametrize("told_by_database", [False, True])
def test_need_38_a_turn_is_taken_back_after_the_clock_was_set_back(
    host: Host, make_provider: MakeProvider, dsn: str, monkeypatch: pytest.MonkeyPatch, told_by_database: bool
) -> None:
    provider = make_provider(session_id=SESSION)
    for number in (1, 2):
        host.say(provider, number)
    landed(provider)
    set_back(monkeypatch)
    if told_by_database:
        host.undo()
    undo(provider)
    landed(provider)
    assert stored(dsn) == [turn(1)]


def test_need_38_a_turn_after_the_clock_was_set_back_takes_none_from_before_along(
    host: Host, make_provider: MakeProvider, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = make_provider(session_id=SESSION)
    host.say(provider, 1)
    set_back(monkeypatch)
    host.say(provider, 2)
    host.undo()
    undo(provider)
    landed(provider)
    assert stored(dsn) == [turn(1)]


@pytest.mark.parametrize("off_s", [-86_400, 86_400], ids=["behind", "ahead"])
def test_need_38_only_a_turn_of_while_the_clock_was_wrong_is_taken_back_once_it_is_right(
    host: Host, make_provider: MakeProvider, dsn: str, monkeypatch: pytest.MonkeyPatch, off_s: float
) -> None:
    """As of a machine that begins with a clock of yesterday, until it has asked for the time."""
    provider = make_provider(session_id=SESSION)
    host.say(provider, 1)
    with monkeypatch.context() as wrong:
        wrong.setattr(time, "time", lambda real=time.time: real() + off_s)
        host.say(provider, 2)
    landed(provider)
    close_all()
    provider = make_provider(session_id=SESSION)
    host.undo()
    undo(provider)
    landed(provider)
    assert stored(dsn) == [turn(1)]


def test_need_38_a_turn_that_left_nothing_in_memory_takes_none_with_it(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(session_id=SESSION)
    provider.sync_turn(turn(1), ANSWER)
    provider.sync_turn("ok", "Fine.")
    undo(provider)
    landed(provider)
    assert stored(dsn) == [turn(1)]


def test_need_38_what_waits_on_disk_is_taken_back_in_order(
    make_provider: MakeProvider, dsn: str, home: Path, direct_dsn: str
) -> None:
    with TcpProxy.before(direct_dsn) as proxy:
        proxy.stop()
        provider = make_provider({"dsn": proxy.conninfo(direct_dsn)}, session_id=SESSION)
        for number in (1, 2):
            provider.sync_turn(turn(number), ANSWER)
        undo(provider)
        provider.sync_turn(turn(2), ANSWER)
        undo(provider)
        provider.sync_turn(turn(3), ANSWER)
        runtime_of(provider).close(0.1)  # the process ends; all of it is on disk
        directory = SpoolDirectory(spool_folder(home), max_bytes=1_000_000)
        (left,) = directory.adopt()
        assert [op.kind for op in left.take(10)] == ["turn", "turn", "undo", "turn", "undo", "turn"]
        directory.discard(left)
    another = make_provider(session_id="session-2")
    until(lambda: stored(dsn) == [turn(1), turn(3)], 30, "what was not taken back")
    landed(another)


def test_need_38_a_turn_that_was_set_aside_stays_away(
    make_provider: MakeProvider, dsn: str, admin_dsn: str, home: Path
) -> None:
    provider = make_provider(session_id=SESSION)
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute(
            "ALTER TABLE conversations ADD CONSTRAINT refuse CHECK (content NOT LIKE '%number0001%') NOT VALID"
        )
        provider.sync_turn(turn(1), ANSWER)
        writer = runtime_of(provider).writer
        until(lambda: writer.rejected_count() == 1, what="the refusal")
        undo(provider)
        landed(provider)
        connection.execute("ALTER TABLE conversations DROP CONSTRAINT refuse")
    (spool,) = writer._own.spools()
    (refused,) = spool.rejected()
    retry(spool, [refused.operation])
    landed(provider)
    until(lambda: not writer.rejected_count() and not spool.depth, what="the second attempt")
    assert stored(dsn) == []


def test_need_38_a_turn_that_was_set_aside_stays_away_where_both_wait(
    make_provider: MakeProvider, dsn: str, direct_dsn: str, admin_dsn: str
) -> None:
    with TcpProxy.before(direct_dsn) as proxy, psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute(
            "ALTER TABLE conversations ADD CONSTRAINT refuse CHECK (content NOT LIKE '%number0001%') NOT VALID"
        )
        provider = make_provider({"dsn": proxy.conninfo(direct_dsn)}, session_id=SESSION)
        provider.sync_turn(turn(1), ANSWER)
        writer = runtime_of(provider).writer
        until(lambda: writer.rejected_count() == 1, what="the refusal")
        proxy.stop()
        connection.execute("ALTER TABLE conversations DROP CONSTRAINT refuse")
        undo(provider)
        (spool,) = writer._own.spools()
        retry(spool, [item.operation for item in spool.rejected()])
        spool.recount()  # as the drain thread does once it has nothing else to write
        assert [op.kind for op in spool.take(10)] == ["undo", "turn"]
        proxy.start()
        until(lambda: not spool.take(10), what="both to be written")
    assert stored(dsn) == []


@pytest.mark.parametrize("turns", [1, 2])
def test_need_38_the_hosts_database_says_how_far_it_goes(
    turns: int, host: Host, make_provider: MakeProvider, dsn: str
) -> None:
    provider = make_provider(session_id=SESSION)
    for number in (1, 2, 3):
        host.say(provider, number)
    landed(provider)
    host.undo(turns)
    undo(provider)
    landed(provider)
    assert stored(dsn) == [turn(number) for number in (1, 2, 3)[:-turns]]
    host.say(provider, 3)
    landed(provider)
    assert stored(dsn)[-1] == turn(3)
    host.undo()
    undo(provider)
    landed(provider)
    assert stored(dsn) == [turn(number) for number in (1, 2, 3)[:-turns]]


@pytest.mark.parametrize("compressions", [1, 2])
@pytest.mark.parametrize("turns", [1, 2])
def test_need_38_what_was_said_before_a_compression_can_be_taken_back(
    turns: int, compressions: int, host: Host, make_provider: MakeProvider, dsn: str
) -> None:
    provider = make_provider(session_id=SESSION)
    for number in (1, 2, 3, 4):
        host.say(provider, number)
    landed(provider)
    for _ in range(compressions):
        host.compress(2, 3, 4)
    host.undo(turns)
    undo(provider)
    assert sorted(said(provider)) == [turn(number) for number in (1, 2, 3, 4)[:-turns]]
    landed(provider)
    assert stored(dsn) == [turn(number) for number in (1, 2, 3, 4)[:-turns]]
    host.say(provider, 4)
    landed(provider)
    assert stored(dsn)[-1] == turn(4)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("sessions", [1, 2])
@pytest.mark.parametrize("turns", [1, 2])
def test_need_38_what_was_said_before_a_compression_that_began_a_new_session_can_be_taken_back(
    turns: int, sessions: int, restarted: bool, host: Host, make_provider: MakeProvider, dsn: str
) -> None:
    names = [SESSION, *(f"session-{number + 2}" for number in range(sessions))]
    provider = make_provider(session_id=SESSION)
    for number in (1, 2, 3, 4):
        host.say(provider, number)
    landed(provider)
    for old, new in pairwise(names):
        host.rotate(provider, old, new, 2, 3, 4)
    host.undo(turns, names[-1])
    if restarted:
        provider = make_provider(session_id=names[-1])
    else:
        provider.on_session_switch(names[-1], rewound=True)
    assert sorted(said(provider)) == [turn(number) for number in (1, 2, 3, 4)[:-turns]]
    landed(provider)
    assert stored(dsn) == [turn(number) for number in (1, 2, 3, 4)[:-turns]]
    provider.sync_turn(turn(4), ANSWER, session_id=names[-1])
    landed(provider)
    assert stored(dsn)[-1] == turn(4)


def test_need_38_the_turn_in_which_a_compression_came_takes_none_like_it_along(
    host: Host, make_provider: MakeProvider, dsn: str
) -> None:
    provider = make_provider(session_id=SESSION)
    for number in (1, 2, 3):
        host.say(provider, number)
    host.compress(2, 3)
    host.compress(2, 3, of_turn=3)
    again = f"{ANSWER} And it is so again, as it was before."
    host.database.append_message(SESSION, "assistant", again)
    provider.sync_turn(turn(3), again)
    landed(provider)
    assert stored(dsn) == [turn(1), turn(2), turn(3), turn(3)]
    host.undo()
    undo(provider)
    landed(provider)
    assert stored(dsn) == [turn(1), turn(2), turn(3)]


def test_need_38_in_a_chat_the_next_agent_learns_of_it(host: Host, make_provider: MakeProvider, dsn: str) -> None:
    before = make_provider(session_id=SESSION)
    host.say(before, 1)
    # A message that waited for the turn before it bears the time at which it was sent.
    host.say(before, 2, sent_at=time.time() - 60)
    landed(before)
    host.undo()  # the gateway tells no provider
    for _ in range(2):
        provider = make_provider(session_id=SESSION)
        assert turn(2) not in provider.prefetch(question(2))
        assert said(provider) == [turn(1)]
    landed(provider)
    assert stored(dsn) == [turn(1)]

    host.say(provider, 2)
    landed(provider)
    restarted = PgvectorMemoryProvider({"dsn": dsn, "dims": DIMS, "prefetch_limit": 4})  # as in another process
    restarted.initialize(SESSION, hermes_home=str(runtime_of(provider).home), platform="cli")
    landed(restarted)
    assert stored(dsn) == [turn(1), turn(2)], "what was said again stands"


@pytest.mark.parametrize(("platform", "chat"), [("telegram", "agent:main:telegram:dm:7"), ("cli", None)])
def test_need_38_it_is_followed_also_if_the_next_message_begins_a_new_session(
    platform: str, chat: str | None, home: Path, make_provider: MakeProvider, dsn: str
) -> None:
    """As with `/undo` and then `/new` in a chat, or in a resumed session on the command line that was left after it."""
    kwargs = {"platform": platform, "gateway_session_key": chat}
    host = Host(home, session_key=chat)
    before = make_provider(session_id=SESSION, **kwargs)
    for number in (1, 2):
        host.say(before, number)
    landed(before)
    before.shutdown()
    close_all()
    host.undo()  # nobody is told
    host.database.create_session("session-2", platform, session_key=chat)
    provider = make_provider(session_id="session-2", **kwargs)
    assert turn(2) not in provider.prefetch(question(2))
    assert said(provider) == [turn(1)], "at once, whatever Postgres knows by then"
    landed(provider)
    assert stored(dsn) == [turn(1)]

    again = make_provider(session_id=SESSION, **kwargs)
    host.say(again, 2)
    landed(again)
    landed(make_provider(session_id="session-3", **kwargs))
    close_all()
    landed(make_provider(session_id="session-4", **kwargs))
    assert stored(dsn) == [turn(1), turn(2)], "what was said again stands"


def test_need_38_who_learns_of_it_elsewhere_does_not_stand_for_who_has_the_turn_to_write(
    host: Host, home: Path, make_provider: MakeProvider, dsn: str, direct_dsn: str
) -> None:
    with TcpProxy.before(direct_dsn) as proxy:
        proxy.stop()
        provider = make_provider({"dsn": proxy.conninfo(direct_dsn)}, session_id=SESSION, **AT_THE_DESK)
        for number in (1, 2):
            host.say(provider, number)
        host.undo()
        undo(provider)
        with AgentProcess({"dsn": dsn, "dims": DIMS}, home, session_id="session-2", **AT_THE_DESK) as elsewhere:
            assert elsewhere.exit() == 0  # once it has written what it learnt
        proxy.start()
        landed(provider)
    assert stored(dsn) == [turn(1)]


def test_need_38_nobody_who_may_not_write_takes_anything_back(
    host: Host, make_provider: MakeProvider, dsn: str, records: Callable[[int], list[str]]
) -> None:
    provider = make_provider(session_id=SESSION)
    host.say(provider, 1)
    landed(provider)
    host.undo()
    looking = make_provider(session_id=SESSION, agent_context="subagent")
    undo(looking)
    landed(looking)
    assert stored(dsn) == [turn(1)]


def test_need_38_what_was_brought_of_an_undone_turns_place_stays(
    host: Host, home: Path, make_provider: MakeProvider, dsn: str
) -> None:
    """What stands in the host's history was said after something was taken back there, before we were installed."""
    for number in (1, 2):
        host.write(number)
    host.undo()
    host.write(3)
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))
    assert main(["bring", "sessions", "--theme", "marketing", "--yes", "--hermes-home", str(home)]) == 0
    assert stored(dsn) == [turn(1), turn(3)]
    provider = make_provider(session_id=SESSION)
    assert sorted(said(provider)) == [turn(1), turn(3)]
    landed(provider)
    assert stored(dsn) == [turn(1), turn(3)]
    host.undo()
    provider = make_provider(session_id=SESSION)
    assert said(provider) == [turn(1)]
    landed(provider)
    assert stored(dsn) == [turn(1)]


@pytest.mark.parametrize("rotated", [False, True])
def test_need_38_what_was_taken_back_after_a_compression_is_not_brought(
    rotated: bool, host: Host, home: Path, make_provider: MakeProvider, dsn: str
) -> None:
    provider = make_provider(session_id=SESSION)
    for number in (1, 2, 3):
        host.say(provider, number)
    if rotated:
        host.rotate(provider, SESSION, "session-2", 2, 3)
    else:
        host.compress(2, 3)
    name = "session-2" if rotated else SESSION
    host.undo(session=name)
    provider.on_session_switch(name, rewound=True)
    landed(provider)
    assert stored(dsn) == [turn(1), turn(2)]
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))
    assert main(["bring", "sessions", "--theme", "marketing", "--yes", "--hermes-home", str(home)]) == 0
    assert stored(dsn) == [turn(1), turn(2)]


def test_an_undo_that_is_applied_late_leaves_what_was_said_after_it(
    home: Path, make_provider: MakeProvider, dsn: str
) -> None:
    """As from the spool file of another process, or put back by an operator."""
    host = Host(home)
    provider = make_provider(session_id=SESSION)
    host.say(provider, 1)
    host.say(provider, 2)
    landed(provider)
    host.undo()
    now = time.time()
    late = undo_of(("marketing", SESSION), rewound(home, SESSION, now).spans, [], now, uuid.uuid4())
    host.say(provider, 3)
    landed(provider)
    runtime_of(provider).writer.submit(late)
    landed(provider)
    assert stored(dsn) == [turn(1), turn(3)]
