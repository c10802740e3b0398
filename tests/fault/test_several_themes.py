"""Themes whose writes go to Postgres at once, in transactions of their own: none pays for another's trouble."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.domain.operations import Operation
from tests.conftest import DIMS, MakeProvider
from tests.support.left_spool import leave_spool, operation
from tests.support.memory import landed, runtime_of
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.traffic import LANDED_TIMEOUT_S, assert_all_embedded
from tests.support.turns import turn
from tests.support.waiting import until

Records = Callable[[int], list[str]]
THEMES = ("marketing", "sales", "support", "trading")
TURNS = 12  # of each theme: all of them are one batch
_WRITING = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    " AND query ~ '(COPY|INSERT INTO) conversations'"
)


def said(theme: str, number: int, role: str = "user") -> Operation:
    messages = [{"role": role, "content": f"{theme}: {turn(number)}"}]
    return operation("turn", theme, {"session_id": "s", "messages": messages, "metadata": {}}, time.time())


def all_said() -> list[Operation]:
    """As many agents at once say it, a theme each."""
    return [said(theme, number) for number in range(TURNS) for theme in THEMES]


def entry_of(text: str) -> dict[str, Any]:
    return {"target": "memory", "content": text, "origin": "here", "metadata": {}}


def remembered(theme: str, text: str) -> Operation:
    return operation("add", theme, entry_of(text), time.time())


def turns_of(database: Database, theme: str) -> list[str]:
    return database.column("SELECT content FROM conversations WHERE agent_identity = %s ORDER BY id", theme)


def wanted_of(theme: str) -> list[str]:
    return [f"{theme}: {turn(number)}" for number in range(TURNS)]


def wait_for_all(database: Database) -> None:
    count = "SELECT count(*) FROM conversations"
    until(lambda: database.column(count)[0] >= TURNS * len(THEMES), LANDED_TIMEOUT_S, "the turns of all themes")


@pytest.fixture
def config(endpoint: ScriptedEmbedder) -> dict[str, Any]:
    return {"dims": DIMS, "embed_url": endpoint.url}


@pytest.mark.parametrize(("pool_max_size", "at_once"), [(4, 2), (1, 1)])
def test_need_03_connections_that_die_while_several_write_lose_nothing_and_keep_the_order(
    pool_max_size: int,
    at_once: int,
    config: dict[str, Any],
    make_provider: MakeProvider,
    admin_dsn: str,
    database: Database,
    home: Path,
) -> None:
    leave_spool(home, all_said())
    admin = Database(admin_dsn)

    with admin.writes_blocked():
        provider = make_provider(config | {"pool_max_size": pool_max_size})
        writing = until(lambda: len(pids := admin.column(_WRITING)) >= at_once and pids, what="transactions at once")
        for pid in writing:
            admin.column("SELECT pg_terminate_backend(%s::int)", pid)
    wait_for_all(database)
    landed(provider)

    assert len(writing) == at_once
    assert {theme: turns_of(database, theme) for theme in THEMES} == {theme: wanted_of(theme) for theme in THEMES}
    assert_all_embedded(database)


def test_need_03_one_of_two_connections_dies_and_each_write_is_there_once(
    config: dict[str, Any], make_provider: MakeProvider, admin_dsn: str, database: Database, home: Path
) -> None:
    leave_spool(home, all_said())
    admin = Database(admin_dsn)

    with admin.writes_blocked():
        provider = make_provider(config)
        first, _ = until(lambda: len(pids := admin.column(_WRITING)) >= 2 and pids, what="transactions at once")
        admin.column("SELECT pg_terminate_backend(%s::int)", first)
    wait_for_all(database)
    landed(provider)

    assert {theme: turns_of(database, theme) for theme in THEMES} == {theme: wanted_of(theme) for theme in THEMES}


def test_need_03_who_holds_up_the_memories_of_one_theme_holds_up_no_turns(
    config: dict[str, Any], make_provider: MakeProvider, admin_dsn: str, database: Database, home: Path
) -> None:
    leave_spool(home, [remembered("marketing", "The harbour crane is blue."), *all_said()])

    with psycopg.connect(admin_dsn) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(731057946, hashtext('marketing'))")
        provider = make_provider(config)
        wait_for_all(database)
        held_up = database.themes_of_memory("The harbour crane is blue.")
    landed(provider)

    assert held_up == []
    assert {theme: turns_of(database, theme) for theme in THEMES} == {theme: wanted_of(theme) for theme in THEMES}
    assert database.themes_of_memory("The harbour crane is blue.") == ["marketing"]


def test_need_03_what_one_theme_is_refused_costs_the_others_nothing(
    config: dict[str, Any], make_provider: MakeProvider, database: Database, home: Path, records: Records
) -> None:
    operations = all_said()
    operations.insert(20, said("sales", 99, role="nonsense"))
    leave_spool(home, operations)

    provider = make_provider(config)
    wait_for_all(database)
    landed(provider)

    assert {theme: turns_of(database, theme) for theme in THEMES} == {theme: wanted_of(theme) for theme in THEMES}
    assert runtime_of(provider).writer.rejected_count() == 1
    (told,) = records(logging.ERROR)
    assert "theme sales" in told


def test_need_15_memories_of_several_themes_keep_their_order(
    config: dict[str, Any], make_provider: MakeProvider, database: Database, home: Path
) -> None:
    """By a host's file one theme may replace what another has added just before."""
    entries = [f"The crane {number:02d} of the old harbour is painted blue." for number in range(10)]
    newer = [text.replace("blue", "green") for text in entries]
    added = [remembered("marketing", text) for text in entries]
    replaced = [
        operation("replace", "sales", entry_of(new) | {"old_text": old}, time.time())
        for old, new in zip(entries, newer, strict=True)
    ]
    pairs = [op for pair in zip(added, replaced, strict=True) for op in pair]
    leave_spool(home, [*pairs[:10], *all_said(), *pairs[10:]])

    provider = make_provider(config)
    wait_for_all(database)
    landed(provider)

    stored = database.column("SELECT content FROM memory_entries ORDER BY content")
    assert stored == sorted(newer)
