"""Ends of sessions and processes while a server does not answer: bounded, said, and nothing lost."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_memory_pgvector.capture.queues import OwnQueues
from hermes_memory_pgvector.capture.spool_directory import SpoolDirectory
from hermes_memory_pgvector.domain.operations import Message, StoreTurn
from tests.conftest import DIMS, MakeProvider
from tests.support.agent_process import AgentProcess
from tests.support.limits import LATE_S
from tests.support.memory import landed
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.slow_proxy import SlowProxy
from tests.support.stored import Database
from tests.support.tcp_proxy import TcpProxy
from tests.support.turns import ANSWER, memories, seconds, turn, user_turns
from tests.support.waiting import until

Records = Callable[[int], list[str]]

SHUTDOWN_S = 0.5

# Python's own start and end, on a busy machine.
PROCESS_MARGIN_S = 10.0


@pytest.mark.parametrize("fault", ["deaf", "stop"])
@pytest.mark.parametrize("at_start", [True, False], ids=["from-the-start", "later"])
def test_need_11_a_shutdown_with_a_dead_server_is_bounded_and_loses_nothing(
    fault: str,
    at_start: bool,
    make_provider: MakeProvider,
    proxy: TcpProxy,
    proxied: str,
    database: Database,
    records: Records,
) -> None:
    fail = getattr(proxy, fault)
    if at_start:
        fail()
    provider = make_provider({"dsn": proxied, "shutdown_timeout_s": SHUTDOWN_S})
    if not at_start:
        provider.sync_turn(turn(0), ANSWER)
        landed(provider)
        fail()
    for number in range(1, 11):
        provider.sync_turn(turn(number), ANSWER)

    assert seconds(provider.shutdown) < SHUTDOWN_S + LATE_S
    assert min(seconds(provider.shutdown) for _ in range(3)) < SHUTDOWN_S
    (left,) = [message for message in records(logging.WARNING) if "before shutdown" in message]
    assert "10 writes" in left
    assert "stay in the spool" in left

    proxy.start()
    successor = make_provider({"dsn": proxied, "shutdown_timeout_s": SHUTDOWN_S})
    expected = [turn(number) for number in range(int(at_start), 11)]
    until(lambda: len(user_turns(database)) >= len(expected), 30, "the writes of the outage")
    landed(successor)
    assert user_turns(database) == expected


def test_need_11_hooks_after_a_shutdown_do_nothing_and_raise_nothing(make_provider: MakeProvider) -> None:
    provider = make_provider()
    provider.shutdown()
    provider.sync_turn(turn(1), ANSWER)
    provider.on_memory_write("add", "memory", turn(1))
    assert provider.prefetch(turn(1)) == ""
    assert "error" in provider.handle_tool_call("recall_memory", {"query": "crane"})


def test_need_11_one_session_ends_and_the_others_go_on(make_provider: MakeProvider, database: Database) -> None:
    leaving, staying = make_provider(), make_provider(session_id="session-2")
    leaving.sync_turn(turn(1), ANSWER)
    leaving.shutdown()
    assert user_turns(database) == [turn(1)]
    staying.sync_turn(turn(2), ANSWER)
    landed(staying)
    assert user_turns(database) == [turn(1), turn(2)]


def test_trap_02_a_hanging_endpoint_costs_a_shutdown_its_budget_and_no_write(
    make_provider: MakeProvider, endpoint: ScriptedEmbedder, database: Database
) -> None:
    endpoint.mode = "hanging"
    config = {"embed_url": endpoint.url, "shutdown_timeout_s": SHUTDOWN_S}
    provider = make_provider(config)
    for number in range(40):
        provider.sync_turn(turn(number), ANSWER)
    assert endpoint.arrived.wait(60)
    assert seconds(provider.shutdown) < SHUTDOWN_S + LATE_S

    endpoint.mode = "ok"
    landed(make_provider(config))
    until(lambda: len(user_turns(database)) >= 40, 30, "the turns")
    assert user_turns(database) == [turn(number) for number in range(40)]
    missing = "SELECT count(*) FROM conversations WHERE embedding IS NULL"
    until(lambda: database.column(missing) == [0], 30, "the embeddings")


def test_need_11_the_end_of_a_process_brings_its_writes_home(dsn: str, home: Path, database: Database) -> None:
    with AgentProcess({"dsn": dsn, "dims": DIMS, "spool_keep_s": 0}, home, forked=False) as agent:
        for number in range(20):
            agent.call("sync_turn", turn(number), ANSWER)
        agent.call("on_memory_write", "add", "memory", turn(1))
        assert agent.exit() == 0
        assert "before shutdown" not in agent.log
    assert user_turns(database) == [turn(number) for number in range(20)]
    assert memories(database) == [turn(1)]
    assert not list((home / "pgvector" / "spool").glob("*.db*"))


def test_need_11_a_process_that_ends_before_it_is_connected_brings_its_writes_home(
    dsn: str, home: Path, database: Database
) -> None:
    with SlowProxy.before(dsn) as way:
        way.delay_s = 0.05
        with AgentProcess(
            {"dsn": way.conninfo(dsn), "dims": DIMS, "shutdown_timeout_s": 30}, home, forked=False
        ) as agent:
            agent.call("sync_turn", turn(1), ANSWER)
            assert agent.exit() == 0
            assert "before shutdown" not in agent.log
    assert user_turns(database) == [turn(1)]


@pytest.mark.parametrize("fault", ["deaf", "stop"])
def test_need_11_a_process_ends_in_time_with_a_dead_server_and_the_next_one_writes_what_it_left(
    fault: str, proxy: TcpProxy, proxied: str, home: Path, make_provider: MakeProvider, database: Database
) -> None:
    getattr(proxy, fault)()
    with AgentProcess({"dsn": proxied, "dims": DIMS, "shutdown_timeout_s": SHUTDOWN_S}, home, forked=False) as agent:
        for number in range(5):
            agent.call("sync_turn", turn(number), ANSWER)
        codes: list[int] = []
        assert seconds(lambda: codes.append(agent.exit())) < SHUTDOWN_S + PROCESS_MARGIN_S
        assert codes == [0]
        assert "5 writes did not reach Postgres before shutdown; they stay in the spool" in agent.log
    proxy.start()

    provider = make_provider({"dsn": proxied})
    until(lambda: len(user_turns(database)) >= 5, 30, "the writes of the process before")
    landed(provider)
    assert user_turns(database) == [turn(number) for number in range(5)]


def test_need_03_a_write_in_the_moment_of_the_end_is_kept(home: Path) -> None:
    """The host may still be in a hook when the process ends, and the empty file of the spool goes."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        kept = [_kept_at_the_end(home / str(number), number) for number in range(150)]
    finally:
        sys.setswitchinterval(before)
    assert kept == [1] * 150


def _kept_at_the_end(folder: Path, number: int) -> int:
    """Have a hook write while its spool goes; returns how many writes whoever comes next finds."""
    directory = SpoolDirectory(folder, max_bytes=1_000_000)
    own = OwnQueues(directory, 1_000_000)
    said = StoreTurn(theme="marketing", at=0.0, session_id="s", messages=(Message("user", turn(number)),))
    begun = threading.Event()
    hook = threading.Thread(target=lambda: (begun.wait(), own.append(said)))
    hook.start()
    begun.set()
    for _ in range(number % 40):  # for some chance of every moment
        pass
    for spool in own.spools():
        directory.discard(spool)
    hook.join()
    for spool in own.spools():
        spool.close()
    directory.forget_after_fork()  # as the end of the process lets go of its locks
    found = 0
    for spool in SpoolDirectory(folder, max_bytes=1_000_000).adopt():
        found += len(spool.take(10))
        spool.close()
    return found
