"""What a sub-agent was asked and found: a turn of its parent, an edge, and if so set a memory."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import MakeProvider
from tests.support.memory import called, landed, recalled, results
from tests.support.stored import Database

ASKED, FOUND = "Find out who owns service 7", "Service 7 is owned by Ada, since March"


def test_need_12_a_delegation_is_a_turn_of_the_parent_with_its_edge(make_provider: MakeProvider, dsn: str) -> None:
    parent = make_provider(session_id="parent-1")
    parent.on_session_switch("parent-2", parent_session_id="parent-1", reset=True)
    parent.on_delegation(ASKED, FOUND, child_session_id="child-1")
    parent.on_delegation(ASKED, FOUND, child_session_id="child-1")
    landed(parent)
    (hit,) = results(called(parent, "recall_conversation", {"query": "who owns service 7", "role": "tool"}))
    assert ASKED in hit["content"] and FOUND in hit["content"] and hit["session_id"] == "parent-2"
    (metadata,) = Database(dsn).column("SELECT metadata FROM conversations WHERE role = 'tool'")
    assert metadata["delegation"] == {"parent": "parent-2", "child": "child-1"}
    assert metadata["source"] == "delegation" and metadata["child_session_id"] == "child-1"
    assert metadata["session_id"] == "parent-2" and metadata["parent_session_id"] == "parent-1"
    edges = "SELECT session_id FROM conversations WHERE metadata #>> '{delegation,child}' = %s"
    assert Database(dsn).column(edges, "child-1") == ["parent-2"]


def test_need_12_two_delegations_with_the_same_words_are_two(make_provider: MakeProvider, dsn: str) -> None:
    parent = make_provider()
    for child in ("child-1", "child-2"):
        parent.on_delegation(ASKED, FOUND, child_session_id=child)
    landed(parent)
    assert Database(dsn).column("SELECT count(*) FROM conversations WHERE role = 'tool'") == [2]


@pytest.mark.parametrize(
    ("config", "memories", "turns"),
    [({}, 0, 1), ({"delegation_memory": True}, 1, 1), ({"delegation_memory": True, "sync_turns": False}, 1, 0),
     ({"sync_turns": False}, 0, 0)],
)  # fmt: skip
def test_need_12_findings_become_memories_only_when_set(
    make_provider: MakeProvider, dsn: str, config: dict[str, Any], memories: int, turns: int
) -> None:
    parent = make_provider(config)
    parent.on_delegation(ASKED, FOUND, child_session_id="child-1")
    parent.on_delegation(ASKED, FOUND, child_session_id="child-1")
    parent.on_delegation("Find nothing", "", child_session_id="child-2")
    landed(parent)
    assert len(recalled(parent, "who owns service 7")) == memories
    assert Database(dsn).column("SELECT count(*) FROM conversations WHERE content LIKE '%%Ada%%'") == [turns]
    if memories:
        (metadata,) = Database(dsn).column("SELECT metadata FROM memory_entries")
        assert metadata["source"] == "delegation" and metadata["delegation"]["child"] == "child-1"


def test_need_04_a_finding_is_the_memory_of_its_parents_theme(make_provider: MakeProvider, dsn: str) -> None:
    chat = {"platform": "telegram", "gateway_session_key": "agent:main:telegram:dm:4915112345678"}
    parent = make_provider({"delegation_memory": True}, agent_identity="coder", **chat)
    parent.on_delegation(ASKED, FOUND, child_session_id="child-1")
    landed(parent)
    assert Database(dsn).column("SELECT agent_identity FROM memory_entries") == ["coder"]
    (theme,) = Database(dsn).column("SELECT agent_identity FROM conversations")
    assert theme.startswith("@telegram/coder/")


@pytest.mark.parametrize("context", ["cron", "subagent"])
def test_need_05_a_run_that_does_not_write_records_no_delegation(
    make_provider: MakeProvider, dsn: str, context: str
) -> None:
    provider = make_provider({"delegation_memory": True}, agent_context=context)
    provider.on_delegation(ASKED, FOUND, child_session_id="child-1")
    landed(provider)
    assert Database(dsn).column("SELECT id FROM conversations UNION ALL SELECT id FROM memory_entries") == []
