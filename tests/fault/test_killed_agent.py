"""Agents that are killed, or that fork, with writes under way: each accepted write arrives once, in its order."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.conftest import DIMS, MakeProvider
from tests.support.agent_process import AgentProcess
from tests.support.memory import landed
from tests.support.stored import Database
from tests.support.tcp_proxy import TcpProxy
from tests.support.turns import ANSWER, memories, turn, user_turns
from tests.support.waiting import until


def test_need_03_what_was_accepted_while_postgres_was_away_survives_a_kill(
    proxy: TcpProxy, proxied: str, home: Path, make_provider: MakeProvider, database: Database
) -> None:
    proxy.stop()
    with AgentProcess({"dsn": proxied, "dims": DIMS}, home) as agent:
        for number in range(150):
            agent.call("sync_turn", turn(number), ANSWER)
            if number % 3 == 0:
                agent.call("on_memory_write", "add", "memory", turn(number))
        agent.kill()
    proxy.start()

    provider = make_provider({"dsn": proxied, "spool_keep_s": 0})
    until(lambda: len(user_turns(database)) >= 150, 30, "the turns")
    landed(provider)
    assert user_turns(database) == [turn(number) for number in range(150)]
    assert memories(database) == [turn(number) for number in range(0, 150, 3)]


@pytest.mark.parametrize("seed", range(3))
def test_need_03_a_kill_in_the_middle_of_writing_neither_loses_nor_repeats(
    seed: int, dsn: str, home: Path, make_provider: MakeProvider, database: Database
) -> None:
    accepted = random.Random(seed).randint(20, 60)
    with AgentProcess({"dsn": dsn, "dims": DIMS}, home) as agent:
        for number in range(accepted):
            agent.call("sync_turn", turn(number), ANSWER)
        until(lambda: user_turns(database), 20, "the first row")
        for number in range(accepted, accepted + 10):
            agent.call("sync_turn", turn(number), ANSWER)
        agent.kill()

    landed(make_provider())
    until(lambda: len(user_turns(database)) >= accepted + 10, 30, "the turns")
    assert user_turns(database) == [turn(number) for number in range(accepted + 10)]


def test_need_03_agents_killed_one_after_the_other_leave_nothing_behind(
    proxy: TcpProxy, proxied: str, home: Path, make_provider: MakeProvider, database: Database
) -> None:
    proxy.stop()
    for process in range(3):
        with AgentProcess({"dsn": proxied, "dims": DIMS}, home) as agent:
            for number in range(5):
                agent.call("sync_turn", turn(process * 5 + number), ANSWER)
            agent.kill()
    proxy.start()

    provider = make_provider({"dsn": proxied, "spool_keep_s": 0})
    until(lambda: len(user_turns(database)) >= 15, 30, "the turns")
    landed(provider)
    assert sorted(user_turns(database)) == [turn(number) for number in range(15)]
    provider.shutdown()
    spool = home / "pgvector" / "spool"
    until(lambda: not list(spool.glob("*.db*")), 20, "the end of the spool files")


@pytest.mark.parametrize("leave", ["exit", "_exit"])
def test_need_03_a_forked_child_and_its_parent_write_each_their_own_once(
    leave: str, dsn: str, home: Path, database: Database
) -> None:
    with AgentProcess({"dsn": dsn, "dims": DIMS}, home, forked=False) as agent:
        agent.call("sync_turn", turn(1), ANSWER)
        until(lambda: user_turns(database) == [turn(1)], 20, "the parent's first turn")
        assert agent.fork(("sync_turn", [turn(2), ANSWER]), leave=leave) == 0
        agent.call("sync_turn", turn(3), ANSWER)
        agent.call("on_session_switch", "session-2")  # a session still has its own turns
        assert turn(1) in agent.call("prefetch", turn(1))
        until(lambda: len(user_turns(database)) >= 3, 40, "the turns of both")
        assert agent.exit() == 0
    assert sorted(user_turns(database)) == [turn(number) for number in (1, 2, 3)]


def test_need_03_a_forked_child_recalls(dsn: str, home: Path, database: Database) -> None:
    with AgentProcess({"dsn": dsn, "dims": DIMS}, home, forked=False) as agent:
        agent.call("sync_turn", turn(1), ANSWER)
        until(lambda: user_turns(database) == [turn(1)], 20, "the parent's turn")
        agent.call("on_session_switch", "session-2")  # a session still has its own turns
        assert agent.fork(("must_recall", [turn(1)]), leave="exit") == 0


def test_need_03_a_child_that_shuts_down_at_once_leaves_its_parent_as_it_was(
    dsn: str, home: Path, database: Database
) -> None:
    with AgentProcess({"dsn": dsn, "dims": DIMS}, home, forked=False) as agent:
        agent.call("sync_turn", turn(1), ANSWER)
        until(lambda: user_turns(database) == [turn(1)], 20, "the parent's turn")
        assert agent.fork(("shutdown", []), leave="exit") == 0
        agent.call("on_session_switch", "session-2")  # a session still has its own turns
        assert turn(1) in agent.call("prefetch", turn(1))
        agent.call("sync_turn", turn(2), ANSWER)
        until(lambda: user_turns(database) == [turn(1), turn(2)], 20, "the parent's next turn")
        assert "WARNING hermes_memory_pgvector" not in agent.log


def test_need_03_a_child_that_lives_on_keeps_nothing_of_a_killed_parent(
    proxy: TcpProxy, proxied: str, home: Path, make_provider: MakeProvider, database: Database
) -> None:
    proxy.stop()
    with AgentProcess({"dsn": proxied, "dims": DIMS}, home) as agent:
        agent.call("sync_turn", turn(1), ANSWER)
        with agent.surviving_child():
            proxy.start()
            make_provider({"dsn": proxied})
            until(lambda: user_turns(database) == [turn(1)], 30, "the parent's turn")
