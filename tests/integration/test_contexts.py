"""Runs that are nobody's conversation recall and do not write."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.memory import landed, recalled, runtime_of, write_entries
from tests.support.stored import Database
from tests.support.turns import ANSWER, question, turn

SILENT = [
    {"agent_context": "cron"},
    {"agent_context": "subagent"},
    {"agent_context": "flush"},
    {"platform": "cron"},
    {"platform": "cron", "agent_context": "primary"},
    {"platform": "subagent"},
    {"platform": "flush"},
    {"platform": "background"},
    {"agent_context": "Sub-Agent"},
    {"platform": " Cron "},
]


def use_every_writing_hook(provider: PgvectorMemoryProvider) -> None:
    messages = [{"role": "user", "content": turn(9)}, {"role": "assistant", "content": ANSWER}]
    provider.on_turn_start(1, turn(9))
    provider.sync_turn(turn(9), ANSWER, session_id="session-9", messages=messages)
    provider.queue_prefetch(turn(9), session_id="session-9")
    provider.on_memory_write("add", "memory", turn(9))
    provider.on_memory_write("replace", "memory", turn(9), {"old_text": "number0001"})
    provider.on_memory_write("remove", "memory", "", {"old_text": "number0001"})
    provider.on_delegation(turn(9), ANSWER, child_session_id="child-9")
    provider.on_pre_compress(messages)
    provider.on_session_end(messages)
    provider.on_session_switch("session-10", parent_session_id="session-9", reset=True)
    provider.sync_turn(turn(9), ANSWER)
    provider.on_session_end(messages)


@pytest.fixture
def everything(dsn: str) -> Callable[[], list[Any]]:
    """All rows of all our tables, as text."""
    tables = ("memory_entries", "conversations", "hermes_operations", "hermes_tombstones", "hermes_mirror")
    union = " UNION ALL ".join(f"SELECT '{name}' || t::text FROM {name} AS t" for name in tables)
    return lambda: sorted(Database(dsn).column(union))


@pytest.mark.parametrize("how", SILENT, ids=json.dumps)
def test_need_05_a_run_that_is_no_conversation_writes_nothing_and_recalls(
    how: dict[str, str], make_provider: MakeProvider, home: Path, everything: Callable[[], list[Any]]
) -> None:
    # Without a session key the profile is the theme, whatever the platform.
    whose = {"gateway_session_key": "", "agent_identity": "coder"}
    primary = make_provider(**whose)
    primary.on_memory_write("add", "memory", turn(1))
    primary.sync_turn(turn(2), ANSWER)
    landed(primary)
    before = everything()
    write_entries(home, turn(1), turn(8))

    silent = make_provider(**whose, **how)
    assert runtime_of(silent) is runtime_of(primary)
    use_every_writing_hook(silent)
    landed(silent)

    assert everything() == before
    assert recalled(silent, "number0001") == [turn(1)]
    assert turn(2) in recalled(silent, "number0002", tool="recall_conversation")
    assert turn(1) in silent.prefetch(question(1))
    context = how.get("platform", how.get("agent_context", "")).strip().lower().replace("-", "")
    # The start with its files, two turns, three memory writes and a delegation.
    assert runtime_of(silent).stats()[f"skipped_context_{context}"] == 7


def test_need_05_the_files_are_read_by_the_next_conversation(make_provider: MakeProvider, home: Path) -> None:
    write_entries(home, turn(1))
    silent = make_provider(agent_context="cron")
    landed(silent)
    assert recalled(silent, "number0001") == []

    landed(make_provider())
    assert recalled(silent, "number0001", scope="default") == [turn(1)]


def test_need_05_which_contexts_write_is_a_setting(make_provider: MakeProvider, dsn: str) -> None:
    config = {"write_contexts": ["Primary", "cron"]}
    make_provider(config, agent_context="subagent").sync_turn(turn(1), ANSWER)
    make_provider(config, platform="cron").sync_turn(turn(2), ANSWER)
    provider = make_provider(config)
    provider.sync_turn(turn(3), ANSWER)
    landed(provider)
    stored = Database(dsn).column("SELECT content FROM conversations WHERE role = 'user' ORDER BY id")
    assert stored == [turn(2), turn(3)]


def test_need_05_a_gateway_may_be_made_to_recall_only(
    make_provider: MakeProvider, everything: Callable[[], list[Any]]
) -> None:
    provider = make_provider({"write_contexts": []})
    use_every_writing_hook(provider)
    landed(provider)
    assert everything() == []


@pytest.mark.parametrize("platform", ["cli", "telegram", "api_server", ""])
def test_need_05_conversations_on_every_platform_write(platform: str, make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(platform=platform)
    provider.sync_turn(turn(1), ANSWER)
    landed(provider)
    assert Database(dsn).column("SELECT content FROM conversations WHERE role = 'user'") == [turn(1)]
