"""What processes leave to those after them, when they die one after the other and the disk takes nothing."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tests.conftest import DIMS, MakeProvider
from tests.support.agent_process import AgentProcess
from tests.support.memory import landed
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.tcp_proxy import TcpProxy
from tests.support.turns import ANSWER, turn, user_turns
from tests.support.waiting import until


def spool_of(home: Path) -> list[Path]:
    return sorted((home / "pgvector" / "spool").glob("*"))


def fill_disk(agent: AgentProcess, full: bool) -> None:
    """No file of that process takes another byte, or all do again."""
    unlimited = resource.RLIM_INFINITY
    resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, (0 if full else unlimited, unlimited))


def test_need_03_three_lives_arrive_in_their_order_though_the_second_had_begun_to_bring_the_first_home(
    proxy: TcpProxy,
    proxied: str,
    endpoint: ScriptedEmbedder,
    home: Path,
    make_provider: MakeProvider,
    database: Database,
) -> None:
    config = {"dsn": proxied, "dims": DIMS, "embed_url": endpoint.url}
    proxy.stop()
    with AgentProcess(config, home) as first:
        for number in range(200):
            first.call("sync_turn", turn(number), ANSWER)
    with AgentProcess(config, home) as second:
        for number in range(200, 230):
            second.call("sync_turn", turn(number), ANSWER)
        endpoint.latency_ms = 400
        proxy.start()
        # It crosses off some of the first life, whose file is then the one that was written last.
        until(lambda: user_turns(database), 30, "the first of the turns")
        assert len(user_turns(database)) < 200
    endpoint.latency_ms = 0

    landed(make_provider({"dsn": proxied}))
    until(lambda: len(user_turns(database)) >= 230, 30, "the turns of both")
    assert user_turns(database) == [turn(number) for number in range(230)]


def test_need_03_what_cannot_be_taken_over_while_the_disk_is_full_follows_when_there_is_room(
    proxy: TcpProxy, proxied: str, home: Path, database: Database
) -> None:
    proxy.stop()
    with AgentProcess({"dsn": proxied, "dims": DIMS}, home) as dead:
        dead.call("sync_turn", turn(1), ANSWER)
    with AgentProcess({"dsn": proxied, "dims": DIMS}, home) as agent:
        agent.call("sync_turn", turn(2), ANSWER)
        fill_disk(agent, True)
        proxy.start()
        until(lambda: user_turns(database) == [turn(2)], 40, "its own turn")
        fill_disk(agent, False)
        until(lambda: len(user_turns(database)) == 2, 40, "the turn of the dead process")
        assert "cannot be read" not in agent.log
        assert agent.exit() == 0
    assert spool_of(home) == []


def test_need_22_the_files_of_the_spool_are_their_owner_s_alone(dsn: str, home: Path) -> None:
    with AgentProcess({"dsn": dsn, "dims": DIMS}, home) as agent:
        agent.call("sync_turn", turn(1), ANSWER)
        found = spool_of(home)
        assert len(found) >= 3
        assert {path.stat().st_mode & 0o777 for path in found} == {0o600}
        assert (home / "pgvector" / "spool").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("when", ["from the start", "later"])
def test_need_03_a_disk_that_was_full_leaves_no_files_behind(
    when: str, dsn: str, home: Path, database: Database
) -> None:
    blocked = home / "pgvector" / "spool"
    with AgentProcess({"dsn": dsn, "dims": DIMS}, home, full_disk=when == "from the start") as agent:
        agent.call("sync_turn", turn(1), ANSWER)
        until(lambda: user_turns(database) == [turn(1)], 20, "the first turn")
        fill_disk(agent, True)
        agent.call("sync_turn", turn(2), ANSWER)
        until(lambda: len(user_turns(database)) == 2, 20, "the turn on a full disk")
        assert len(list(blocked.glob("*.db"))) == (when == "later")
        fill_disk(agent, False)
        agent.call("sync_turn", turn(3), ANSWER)
        until(lambda: len(user_turns(database)) == 3, 20, "the turn after it")
        assert agent.exit() == 0
    assert spool_of(home) == []
