"""A write that was stored and is still in some spool: it comes once more, whatever happened to it since."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.domain.errors import StoreReplaced
from hermes_memory_pgvector.domain.operations import Operation
from hermes_memory_pgvector.store.replays import OPERATIONS_KEPT_DAYS
from tests.conftest import DIMS, MakeProvider
from tests.support.left_spool import leave_spool, operation
from tests.support.memory import landed, runtime_of
from tests.support.stored import Database
from tests.support.turns import memories, turn, user_turns
from tests.support.waiting import until

LONG_AGO = time.time() - (OPERATIONS_KEPT_DAYS + 10) * 86400


def said(number: int, at: float, theme: str = "marketing") -> Operation:
    messages = [{"role": "user", "content": turn(number)}, {"role": "assistant", "content": "Noted in the log."}]
    return operation("turn", theme, {"session_id": "s1", "messages": messages, "metadata": {}}, at)


def remembered(text: str, at: float) -> Operation:
    payload = {"target": "memory", "content": text, "metadata": {}, "given": {}, "owner": "remember"}
    return operation("remember", "marketing", payload, at)


@pytest.mark.parametrize("verb", ["rename", "merge"])
def test_need_03_a_write_of_a_theme_that_has_another_name_since_is_stored_once(
    verb: str, direct_dsn: str, admin_dsn: str, home: Path, make_provider: MakeProvider
) -> None:
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": direct_dsn, "dims": DIMS}}}))
    database = Database(direct_dsn)
    first = [said(number, time.time()) for number in range(20)]
    there = [said(100, time.time(), "sales")] if verb == "merge" else []
    leave_spool(home, [*first, *there])
    provider = make_provider({"dsn": direct_dsn})
    until(lambda: len(user_turns(database)) >= 20 + len(there), 30, "the turns")
    landed(provider)
    before = sorted(user_turns(database))
    assert (
        main(["themes", verb, "marketing", "sales", "--yes", "--hermes-home", str(home), "--admin-dsn", admin_dsn]) == 0
    )

    # Of a process that was killed before it could cross them off.
    leave_spool(home, [*first, said(20, time.time())])
    until(lambda: database.themes_of_turn(turn(20)), 30, "what was not stored before")
    landed(provider)
    assert sorted(user_turns(database)) == sorted([*before, turn(20)])
    assert runtime_of(provider).writer.counts["replayed"] == 20


def test_need_03_a_write_that_is_older_than_what_the_database_knows_of_operations_is_stored_once(
    direct_dsn: str, admin_dsn: str, home: Path, make_provider: MakeProvider
) -> None:
    database = Database(direct_dsn)
    kept, forgotten = "The harbour office closes at five.", "The spare key lies below the third stone."
    first = [*(said(number, LONG_AGO + number) for number in range(20)), remembered(kept, LONG_AGO)]
    gone = remembered(forgotten, LONG_AGO)
    leave_spool(home, [*first, gone])
    provider = make_provider({"dsn": direct_dsn, "tools": ["forget"]})
    until(lambda: len(user_turns(database)) >= 20, 30, "the turns")
    landed(provider)
    (number,) = database.column("SELECT id FROM memory_entries WHERE content = %s", forgotten)
    provider.handle_tool_call("forget", {"ids": [number]})
    landed(provider)
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute("DELETE FROM hermes_operations")  # as housekeeping does in time

    leave_spool(home, [*first, gone, said(20, LONG_AGO)])
    until(lambda: turn(20) in user_turns(database), 30, "what was set aside until now, and never stored")
    landed(provider)
    assert user_turns(database) == [turn(number) for number in range(21)]
    assert memories(database) == [kept]


def test_need_03_a_turn_that_is_sent_again_is_stored_once_though_the_ids_of_operations_are_gone(
    direct_dsn: str, admin_dsn: str, make_provider: MakeProvider
) -> None:
    provider = make_provider({"dsn": direct_dsn})
    provider.sync_turn(turn(1), "")
    landed(provider)
    backend = runtime_of(provider).backend
    sent = said(2, time.time())
    backend.apply([sent], {})
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute("DELETE FROM hermes_operations")
    backend.apply([replace(sent, again=True), replace(said(3, time.time()), again=True)], {})
    assert user_turns(Database(direct_dsn)) == [turn(1), turn(2), turn(3)]


def test_need_03_nothing_is_written_to_another_server_than_the_batch_was_made_for(
    direct_dsn: str, make_provider: MakeProvider
) -> None:
    """Another lane may have found it first: what that server lacks goes before anything newer."""
    provider = make_provider({"dsn": direct_dsn})
    provider.sync_turn(turn(1), "")
    landed(provider)
    backend = runtime_of(provider).backend
    with pytest.raises(StoreReplaced):
        backend.apply([said(2, time.time())], {}, server="as it was before the fail-over")
    assert user_turns(Database(direct_dsn)) == [turn(1)]
