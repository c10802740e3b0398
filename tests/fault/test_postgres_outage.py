"""Hooks, recall and writes while Postgres is out of reach, and after it is back."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.runtime.process import close_all
from tests.conftest import MakeProvider
from tests.support.limits import LATE_S, NOT_WAITED_S
from tests.support.memory import runtime_of
from tests.support.stored import Database
from tests.support.tcp_proxy import TcpProxy
from tests.support.turns import ANSWER, ask, finds, memories, question, seconds, turn, user_turns
from tests.support.waiting import until

DEADLINES: dict[str, Any] = {"prefetch_deadline_s": 1.0, "recall_deadline_s": 1.5}

Records = Callable[[int], list[str]]


def hooks(provider: PgvectorMemoryProvider, number: int) -> dict[str, Callable[[], object]]:
    """Every hook of a turn but `prefetch`, which may wait for its deadline."""
    said, fact = turn(number), f"Fact {number}: {turn(number)}"
    return {
        "system_prompt_block": provider.system_prompt_block,
        "get_tool_schemas": provider.get_tool_schemas,
        "on_turn_start": lambda: provider.on_turn_start(number, said),
        "sync_turn": lambda: provider.sync_turn(said, ANSWER, session_id="session-1"),
        "queue_prefetch": lambda: provider.queue_prefetch(said, session_id="session-1"),
        "on_memory_write": lambda: provider.on_memory_write("add", "memory", fact),
        "on_delegation": lambda: provider.on_delegation(said, ANSWER, child_session_id="child-1"),
        "on_pre_compress": lambda: provider.on_pre_compress([]),
        "on_session_end": lambda: provider.on_session_end([]),
        "on_session_switch": lambda: provider.on_session_switch("session-1"),
    }


def assert_hooks_return_at_once(provider: PgvectorMemoryProvider, number: int) -> None:
    slow = {name: took for name, hook in hooks(provider, number).items() if (took := seconds(hook)) > NOT_WAITED_S}
    assert not slow


def assert_recall_gives_up_in_time(provider: PgvectorMemoryProvider) -> None:
    for _ in range(3):
        assert seconds(lambda: provider.prefetch(question(1))) < 1.0 + LATE_S
        assert seconds(lambda: ask(provider, "harbour crane")) < 1.5 + LATE_S
    assert provider.prefetch(question(1)) == ""
    assert ask(provider, "harbour crane")["error"]


def lead_through_outage(provider: PgvectorMemoryProvider, database: Database, begin: Any, end: Any) -> None:
    """One turn before, two during and one after an outage; all of them are kept and recalled again, unattended."""
    assert provider.runtime is not None
    provider.sync_turn(turn(1), ANSWER, session_id="earlier")
    assert provider.runtime.writer.flush(60)
    assert finds(provider, "number0001", turn(1))

    begin()
    for number in (2, 3):
        assert_hooks_return_at_once(provider, number)
        assert_recall_gives_up_in_time(provider)
    # What the background was at when it began has half a minute.
    until(lambda: not runtime_of(provider).backend.is_up(), 60, "the outage to be noticed")
    end()

    until(lambda: "number0001" in provider.prefetch(question(1)), 30, "recall")
    assert provider.runtime.writer.flush(60)
    provider.sync_turn(turn(4), ANSWER, session_id="earlier")
    until(lambda: "number0004" in provider.prefetch(question(4)), 30, "the next turn")
    assert user_turns(database) == [turn(number) for number in (1, 2, 3, 4)]
    assert memories(database) == [f"Fact {number}: {turn(number)}" for number in (2, 3)]


@pytest.mark.parametrize("fault", ["deaf", "stop"])
def test_need_01_an_outage_freezes_no_hook_and_ends_unattended(
    fault: str, make_provider: MakeProvider, proxy: TcpProxy, proxied: str, database: Database, records: Records
) -> None:
    provider = make_provider({"dsn": proxied, **DEADLINES})

    lead_through_outage(provider, database, getattr(proxy, fault), proxy.start)

    (down,) = [message for message in records(logging.WARNING) if "out of reach" in message]
    assert "kept on disk" in down
    assert len([message for message in records(logging.INFO) if "Postgres is back" in message]) == 1
    assert records(logging.WARNING) == [down]


def test_need_40_why_writes_wait_is_told_of_an_agent_that_ended_soon_after_the_outage_began(
    make_provider: MakeProvider, proxy: TcpProxy, proxied: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": {"dsn": proxied}}}))
    provider = make_provider({"dsn": proxied})
    provider.sync_turn(turn(1), ANSWER, session_id="earlier")
    assert runtime_of(provider).writer.flush(60)
    proxy.stop()
    provider.sync_turn(turn(2), ANSWER, session_id="earlier")
    until(lambda: not runtime_of(provider).backend.is_up(), 60, "the outage to be noticed")
    close_all()

    main(["status", "--json", "--hermes-home", str(home)])

    (process,) = (each for each in json.loads(capsys.readouterr().out)["processes"] if each["waiting"])
    assert not process["living"]
    assert process["report"]["last_error"]
    assert not process["report"]["last_error_over_at"]


@pytest.mark.parametrize("fault", ["deaf", "stop"])
def test_trap_02_memory_recovers_when_postgres_was_away_at_the_start(
    fault: str, make_provider: MakeProvider, proxy: TcpProxy, proxied: str, database: Database, records: Records
) -> None:
    getattr(proxy, fault)()
    provider = make_provider({"dsn": proxied, **DEADLINES})
    assert provider.is_available()
    assert_hooks_return_at_once(provider, 1)
    assert_recall_gives_up_in_time(provider)
    assert provider.is_available()
    proxy.start()

    until(lambda: "number0001" in provider.prefetch(question(1)), 30, "recall")
    until(lambda: memories(database) == [f"Fact 1: {turn(1)}"], 30, "the memory")
    assert user_turns(database) == [turn(1)]
    assert len(records(logging.WARNING)) <= 1


def test_need_01_initialize_waits_for_nobody(make_provider: MakeProvider, proxy: TcpProxy, proxied: str) -> None:
    make_provider({"dsn": proxied})
    proxy.deaf()
    for limit in range(6, 11):
        # Other settings: a runtime of its own, which has to be brought up.
        assert seconds(partial(make_provider, {"dsn": proxied, "prefetch_limit": limit})) < NOT_WAITED_S


def test_need_01_broken_connections_cost_one_recall_at_most(
    make_provider: MakeProvider, proxy: TcpProxy, proxied: str, database: Database
) -> None:
    provider = make_provider({"dsn": proxied})
    for number in range(3):
        provider.sync_turn(turn(number), ANSWER)
        until(partial(finds, provider, f"number{number:04d}", turn(number)), 30, "recall")
        proxy.cut()

    until(lambda: finds(provider, "number0000", turn(0)), 30, "recall")
    assert user_turns(database) == [turn(number) for number in range(3)]
