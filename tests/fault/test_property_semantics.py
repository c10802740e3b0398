"""What writes mean when they are repeated, when they wait in the spool, and when two processes write at once."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.conftest import DIMS, MakeProvider
from tests.support.agent_process import AgentProcess
from tests.support.memory import landed, runtime_of
from tests.support.stored import Database
from tests.support.tcp_proxy import TcpProxy
from tests.support.turns import ANSWER, memories, turn, user_turns
from tests.support.waiting import until

ENTRY = "The Atlas launch is on 3 May"


def test_need_15_an_entry_that_is_added_again_is_the_same_one_with_a_new_time(
    make_provider: MakeProvider, database: Database
) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", ENTRY)
    landed(provider)
    statement = "SELECT (id, created_at, updated_at)::text FROM memory_entries"
    (first,) = database.column(statement)
    times = "SELECT updated_at - created_at > '0' FROM memory_entries"
    assert database.column(times) == [False]
    provider.on_memory_write("add", "memory", f"  {ENTRY}\n")
    landed(provider)
    (second,) = database.column(statement)
    assert first.split(",")[:2] == second.split(",")[:2]
    assert database.column(times) == [True]


def test_need_15_replace_and_remove_find_an_entry_that_still_waits_to_be_written(
    make_provider: MakeProvider, proxy: TcpProxy, proxied: str, database: Database
) -> None:
    proxy.stop()
    provider = make_provider({"dsn": proxied})
    provider.on_memory_write("add", "memory", ENTRY)
    provider.on_memory_write("replace", "memory", "The Atlas launch is on 9 June", {"old_text": "3 May"})
    provider.on_memory_write("add", "memory", "Ada owns the launch")
    provider.on_memory_write("remove", "memory", "", {"old_text": "Ada"})
    provider.on_memory_write("add", "memory", "Ada owns the launch")
    provider.on_memory_write("add", "user", "Prefers tea")
    provider.on_memory_write("remove", "user", "", {"old_text": "Prefers tea"})
    proxy.start()
    landed(provider)
    assert memories(database) == ["The Atlas launch is on 9 June", "Ada owns the launch"]


def test_need_15_none_and_several_are_told_apart_and_nothing_is_dropped_by_guessing(
    make_provider: MakeProvider, database: Database
) -> None:
    provider = make_provider()
    runtime = runtime_of(provider)
    for text in ("Port 5432 on staging", "Port 5432 in production"):
        provider.on_memory_write("add", "memory", text)
    provider.on_memory_write("remove", "memory", "", {"old_text": "5432"})
    provider.on_memory_write("remove", "memory", "", {"old_text": "6543"})
    provider.on_memory_write("replace", "memory", "Port 7777", {"old_text": "5432"})
    provider.on_memory_write("replace", "memory", "Port 8888", {"old_text": "6543"})
    landed(provider)
    assert memories(database) == ["Port 5432 on staging", "Port 5432 in production", "Port 7777", "Port 8888"]
    names = ("remove_ambiguous", "remove_unmatched", "replace_ambiguous", "replace_unmatched")
    assert [runtime.stats()[name] for name in names] == [1, 1, 1, 1]


def test_trap_06_a_turn_is_stored_once_however_often_and_by_whomever_it_is_told(
    make_provider: MakeProvider, proxy: TcpProxy, proxied: str, database: Database, home: Path
) -> None:
    transcript = [{"role": "user", "content": turn(1)}, {"role": "assistant", "content": ANSWER}]
    proxy.stop()
    provider = make_provider({"dsn": proxied})
    for _ in range(3):  # while the first still waits
        provider.sync_turn(turn(1), ANSWER, session_id="session-1", messages=transcript)
        provider.on_session_end(transcript)
        provider.on_pre_compress(transcript)
        provider.on_session_switch("session-1", reason="compression")
    with AgentProcess({"dsn": proxied, "dims": DIMS}, home) as another:  # a reconnect to another process
        another.call("sync_turn", turn(1), ANSWER)
        another.call("sync_turn", turn(2), ANSWER)
    proxy.start()
    until(lambda: len(user_turns(database)) >= 2, 30, "the turns")
    landed(provider)
    provider.shutdown()
    successor = make_provider({"dsn": proxied})
    successor.sync_turn(turn(1), ANSWER)
    successor.sync_turn(turn(2), ANSWER)
    successor.sync_turn(turn(3), ANSWER)
    landed(successor)
    assert sorted(user_turns(database)) == [turn(1), turn(2), turn(3)]
    assert len(database.column("SELECT id FROM conversations WHERE role = 'assistant'")) == 3


def test_trap_05_two_processes_at_one_entry_end_where_some_order_would(
    dsn: str, make_provider: MakeProvider, database: Database, tmp_path: Path
) -> None:
    count = 60
    author = make_provider()
    for number in range(count):
        author.on_memory_write("add", "memory", f"Entry {number} as it was")
    landed(author)
    homes = [tmp_path / "replacing", tmp_path / "removing"]
    for home in homes:
        home.mkdir()
    with AgentProcess({"dsn": dsn, "dims": DIMS}, homes[0]) as replacing:
        with AgentProcess({"dsn": dsn, "dims": DIMS}, homes[1]) as removing:
            others = threading.Thread(target=remove_all, args=(removing, count))
            others.start()
            for number in range(count):
                old, new = f"Entry {number} as it was", f"Entry {number} as it is"
                replacing.call("on_memory_write", "replace", "memory", new, {"old_text": old})
            others.join()
            assert removing.exit() == 0
        assert replacing.exit() == 0

    # Removed first, the new text is added; replaced first, there is no old text to remove: the new one stands once.
    assert sorted(memories(database)) == sorted(f"Entry {number} as it is" for number in range(count))


def remove_all(agent: AgentProcess, count: int) -> None:
    for number in range(count):
        agent.call("on_memory_write", "remove", "memory", "", {"old_text": f"Entry {number} as it was"})
