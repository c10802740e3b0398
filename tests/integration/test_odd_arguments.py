"""Tool calls as models make them on a bad day."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.memory import called, landed

TOOLS = ("recall_memory", "recall_conversation")


@pytest.fixture
def provider(make_provider: MakeProvider) -> PgvectorMemoryProvider:
    """A provider with something to find for each tool."""
    made = make_provider()
    made.on_memory_write("add", "memory", "Atlas is number 123, and blue")
    made.sync_turn("Which number does the Atlas project have, again?", "Atlas has the number 123.")
    landed(made)
    return made


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    "args", [None, [], ["query"], "atlas", 7, {}, {"query": ""}, {"query": None}, {"query": "\0 \n"}, {"q": "atlas"}]
)
def test_trap_12_arguments_without_a_query_say_what_is_missing(
    provider: PgvectorMemoryProvider, tool: str, args: Any
) -> None:
    answer = called(provider, tool, args)
    assert set(answer) == {"error"}
    assert "`query`" in answer["error"]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("query", [123, ["Atlas", "123"], {"type": "text", "text": "Atlas"}, b"Atlas", "Atlas\0\ud800"])
def test_trap_12_a_query_that_is_no_string_is_read_as_text(
    provider: PgvectorMemoryProvider, tool: str, query: Any
) -> None:
    assert called(provider, tool, {"query": query})["count"] >= 1


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("limit", [-1, 0, "abc", float("nan"), float("-inf"), [5], {"n": 5}, True, "-3", object()])
def test_trap_12_a_limit_that_means_nothing_is_refused_in_words(
    provider: PgvectorMemoryProvider, tool: str, limit: Any
) -> None:
    assert "`limit` must be a whole number from 1 to 50" in called(provider, tool, {"query": "x", "limit": limit})["error"]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("limit", [10**9, float("inf"), 10**400, "1e9", 51])
def test_trap_12_a_limit_too_high_is_lowered_and_said(provider: PgvectorMemoryProvider, tool: str, limit: Any) -> None:
    answer = called(provider, tool, {"query": "Atlas number", "limit": limit})
    assert answer["count"] >= 1
    assert "lowered to 50" in answer["note"]


@pytest.mark.parametrize("limit", ["2", 2.0, 2.9, " 2 "])
def test_trap_12_a_limit_in_other_words_is_understood(provider: PgvectorMemoryProvider, limit: Any) -> None:
    assert called(provider, "recall_conversation", {"query": "Atlas number", "limit": limit})["count"] == 2


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("scope", [7, ["all"], {"theme": "sales"}, True, "   ", "theme:", "\0"])
def test_trap_12_a_scope_that_means_nothing_is_refused_in_words(
    provider: PgvectorMemoryProvider, tool: str, scope: Any
) -> None:
    answer = called(provider, tool, {"query": "Atlas", "scope": scope})
    assert "`scope`" in answer.get("error", "") or answer["count"] == 0


@pytest.mark.parametrize("target", ["users", 7, ["memory"], {"a": 1}, True])
def test_trap_12_a_target_that_means_nothing_is_refused_in_words(provider: PgvectorMemoryProvider, target: Any) -> None:
    assert "`target` must be" in called(provider, "recall_memory", {"query": "Atlas", "target": target})["error"]


def test_trap_12_a_tool_of_somebody_else_is_named(provider: PgvectorMemoryProvider) -> None:
    assert "recall_memory" in called(provider, "remember", {"query": "Atlas"})["error"]
    assert "error" in json.loads(provider.handle_tool_call(None, None))  # type: ignore[arg-type]


def test_trap_12_an_endless_query_costs_what_a_short_one_costs(provider: PgvectorMemoryProvider) -> None:
    for query in ("Atlas " * 200_000, "Atlas " + " ".join(f"w{n}" for n in range(200_000)), "ａ" * 100_000 + " Atlas"):
        answer = called(provider, "recall_memory", {"query": query})
        assert "error" not in answer
