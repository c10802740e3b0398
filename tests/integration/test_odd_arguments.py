"""Tool calls as models make them on a bad day."""

from __future__ import annotations

import itertools
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


def test_trap_12_arguments_without_a_query_say_what_is_missing(provider: PgvectorMemoryProvider) -> None:
    nothing: list[Any] = [
        None, [], ["query"], "atlas", 7, {}, {"query": ""}, {"query": None}, {"query": "\0 \n"}, {"q": "atlas"}
    ]  # fmt: skip
    for tool, args in itertools.product(TOOLS, nothing):
        answer = called(provider, tool, args)
        assert set(answer) == {"error"} and "`query`" in answer["error"], (tool, args)


def test_trap_12_a_query_that_is_no_string_is_read_as_text(provider: PgvectorMemoryProvider) -> None:
    readable: list[Any] = [123, ["Atlas", "123"], {"type": "text", "text": "Atlas"}, b"Atlas", "Atlas\0\ud800"]
    for tool, query in itertools.product(TOOLS, readable):
        assert called(provider, tool, {"query": query})["count"] >= 1, (tool, query)


def test_trap_12_a_limit_that_means_nothing_is_refused_in_words(provider: PgvectorMemoryProvider) -> None:
    limits: list[Any] = [-1, 0, "abc", float("nan"), float("-inf"), [5], {"n": 5}, True, "-3", object()]
    for tool, limit in itertools.product(TOOLS, limits):
        answer = called(provider, tool, {"query": "Atlas", "limit": limit})
        assert answer == {"error": "`limit` must be a whole number from 1 to 50"}, (tool, limit)


def test_trap_12_a_limit_too_high_is_lowered_and_said(provider: PgvectorMemoryProvider) -> None:
    limits: list[Any] = [10**9, float("inf"), 10**400, "1e9", 51]
    for tool, limit in itertools.product(TOOLS, limits):
        answer = called(provider, tool, {"query": "Atlas number", "limit": limit})
        assert answer["count"] >= 1 and "lowered to 50" in answer["note"], (tool, limit)


def test_trap_12_a_limit_in_other_words_is_understood(provider: PgvectorMemoryProvider) -> None:
    limits: list[Any] = ["1", 1.0, 1.9, " 1 "]
    for limit in limits:
        answer = called(provider, "recall_conversation", {"query": "Atlas number", "limit": limit})
        assert answer["count"] == 1 and "note" not in answer, limit


def test_trap_12_a_scope_that_means_nothing_is_refused_in_words(provider: PgvectorMemoryProvider) -> None:
    scopes: list[Any] = [7, ["all"], {"theme": "sales"}, True, "   ", "theme:"]
    for tool, scope in itertools.product(TOOLS, scopes):
        answer = called(provider, tool, {"query": "Atlas", "scope": scope})
        assert set(answer) == {"error"} and "`scope`" in answer["error"], (tool, scope)
    assert called(provider, "recall_memory", {"query": "Atlas", "scope": "\0\ud800"})["count"] == 0


def test_trap_12_a_scope_without_end_is_refused_in_words(provider: PgvectorMemoryProvider) -> None:
    for tool, name in itertools.product(TOOLS, ("scope", "theme")):
        error = called(provider, tool, {"query": "Atlas", name: "Atlas " * 200_000})["error"]
        assert f"`{name}` is longer than 10,000 characters; it may be" in error
        assert called(provider, tool, {"query": "Atlas", name: "x" * 10_000})["count"] == 0


def test_trap_12_a_target_that_means_nothing_is_refused_in_words(provider: PgvectorMemoryProvider) -> None:
    targets: list[Any] = ["users", 7, ["memory"], {"a": 1}, True]
    for target in targets:
        assert "`target` must be" in called(provider, "recall_memory", {"query": "Atlas", "target": target})["error"]


def test_trap_12_an_argument_that_a_recall_tool_does_not_have_is_noted(provider: PgvectorMemoryProvider) -> None:
    for tool, args in itertools.product(TOOLS, [{"themes": "sales"}, {"top_k": 3, "q": "Atlas"}]):
        answer = called(provider, tool, {"query": "Atlas", **args})
        assert answer["count"] >= 1 and tool in answer["note"]
        assert all(f"`{name}`" in answer["note"] for name in (*args, "query", "scope", "since")), answer
    noted = called(provider, "recall_memory", {"query": "Atlas", "role": "user", "limit": 90})["note"]
    assert "has no argument `role`" in noted and "lowered to 50" in noted
    assert "note" not in called(provider, "recall_memory", {"query": "Atlas", "themes": None})


def test_trap_12_a_time_of_a_zone_that_postgres_lacks_is_understood(provider: PgvectorMemoryProvider) -> None:
    for tool in TOOLS:
        assert called(provider, tool, {"query": "Atlas", "since": "2020-05-03T10:00+23:00"})["count"] >= 1
        assert called(provider, tool, {"query": "Atlas", "since": "0001-01-01T00:00+23:00"})["count"] >= 1
        assert called(provider, tool, {"query": "Atlas", "until": "9999-12-31T23:59-23:00"})["count"] >= 1


def test_trap_12_thousands_of_unknown_arguments_make_no_endless_answer(provider: PgvectorMemoryProvider) -> None:
    strange = {f"argument_{number}": number for number in range(10_000)}
    for tool in TOOLS:
        answer = called(provider, tool, {"query": "Atlas"} | strange)
        assert answer["count"] >= 1 and "`argument_1`" in answer["note"] and "9,980 more" in answer["note"]
        assert len(answer["note"]) < 2000


def test_trap_12_a_tool_of_somebody_else_is_named(provider: PgvectorMemoryProvider) -> None:
    assert "recall_memory" in called(provider, "remember", {"query": "Atlas"})["error"]
    assert len(called(provider, "x" * 1_000_000, {"query": "Atlas"})["error"]) < 1000
    assert "error" in json.loads(provider.handle_tool_call(None, None))  # type: ignore[arg-type]


def test_trap_12_an_endless_query_costs_what_a_short_one_costs(provider: PgvectorMemoryProvider) -> None:
    for query in ("Atlas " * 200_000, "Atlas " + " ".join(f"w{n}" for n in range(200_000)), "ａ" * 100_000 + " Atlas"):
        answer = called(provider, "recall_memory", {"query": query})
        assert "error" not in answer
