"""A process is stopped in the middle of a transaction, as by a laptop that sleeps: the others' writes go on."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import DIMS, MakeProvider
from tests.support.agent_process import AgentProcess
from tests.support.limits import NOT_WAITED_S
from tests.support.memory import landed, runtime_of
from tests.support.stored import Database, lock_both_tables
from tests.support.traffic import Log
from tests.support.turns import ANSWER, memories, seconds, turn
from tests.support.waiting import until

OLD, NEW = "The old crane is painted blue.", "The new crane is painted red."


def add(agent: AgentProcess) -> None:
    agent.call("on_memory_write", "add", "memory", NEW)


def replace(agent: AgentProcess) -> None:
    """What has to look at the old entry in the middle of its statements."""
    agent.call("on_memory_write", "replace", "memory", NEW, {"old_text": OLD})


def both(agent: AgentProcess) -> None:
    agent.call("on_memory_write", "add", "memory", NEW)
    agent.call("sync_turn", turn(1), ANSWER)


@pytest.mark.parametrize(
    ("mode", "write", "left"),
    [("EXCLUSIVE", add, {OLD, NEW}), ("ACCESS EXCLUSIVE", replace, {NEW}), ("EXCLUSIVE", both, {OLD, NEW})],
)
def test_need_03_a_process_stopped_in_a_transaction_holds_up_nobody_for_long(
    mode: Any,
    write: Callable[[AgentProcess], None],
    left: set[str],
    direct_dsn: str,
    admin_dsn: str,
    home: Path,
    make_provider: MakeProvider,
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = Log(caplog)
    database = Database(direct_dsn)
    config = {"dsn": direct_dsn, "dims": DIMS}
    (home.parent / "other").mkdir()
    awake = make_provider({"dsn": direct_dsn}, hermes_home=str(home.parent / "other"))
    with AgentProcess(config, home) as asleep:
        asleep.call("on_memory_write", "add", "memory", OLD)
        until(lambda: memories(database) == [OLD], 30, "the old entry")
        with psycopg.connect(admin_dsn) as connection:
            lock_both_tables(connection, mode)
            write(asleep)
            until(lambda: waits_for_a_lock(admin_dsn), 30, "a transaction that waits")
            os.kill(asleep.pid, signal.SIGSTOP)
        try:
            assert goes_on(awake)
        finally:
            os.kill(asleep.pid, signal.SIGCONT)
        until(lambda: set(memories(database)) >= left, 60, "what the stopped process was writing")
        asleep.call("shutdown")

    assert set(memories(database)) == left | {"Entry of the one that is awake."}
    assert len(memories(database)) == len(left) + 1
    assert database.column("SELECT count(*) FROM conversations WHERE role = 'user'") == [1 if write is both else 0]
    assert log.warnings() == []


def goes_on(awake: PgvectorMemoryProvider) -> bool:
    entry = "Entry of the one that is awake."
    assert seconds(lambda: awake.on_memory_write("add", "memory", entry)) < NOT_WAITED_S
    landed(awake)
    return runtime_of(awake).writer.rejected_count() == 0


def waits_for_a_lock(admin_dsn: str) -> bool:
    return bool(
        Database(admin_dsn).column(
            "SELECT pid FROM pg_stat_activity WHERE usename = 'hermes' AND wait_event_type = 'Lock' "
            "AND datname = current_database()"
        )
    )
