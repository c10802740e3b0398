"""Roles, targets, pages, scopes and the turns around a hit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.memory import called, landed, recalled, results
from tests.support.scripted_embedder import ScriptedEmbedder

TURNS = "recall_conversation"
TOOLS = ("recall_memory", TURNS)
NAMES = ["anchor", "buoy", "capstan", "davit", "ensign", "fender", "galley", "hawser", "jib", "keel", "lantern", "mast"]


@pytest.fixture(params=["words", "meaning"])
def config(request: pytest.FixtureRequest, embedder: ScriptedEmbedder) -> dict[str, Any]:
    """Settings with and without an embedding endpoint."""
    return {"embed_url": embedder.url} if request.param == "meaning" else {}


def question(name: str) -> str:
    return f"Who painted the harbour {name} in the autumn, do we know?"


def reply(name: str) -> str:
    return f"Ingrid painted the harbour {name}, in the autumn, in red."


@pytest.fixture
def provider(config: dict[str, Any], make_provider: MakeProvider) -> Iterator[PgvectorMemoryProvider]:
    """A provider in a session of two turns, with earlier ones, another theme, and memories of each target."""
    other = make_provider(config, gateway_session_key="sales", session_id="session-9")
    other.sync_turn(question("mast"), reply("mast"))
    other.on_memory_write("add", "memory", "The harbour of the sales theme is red.")
    landed(other)
    made = make_provider(config)
    for name in NAMES[:6]:
        made.sync_turn(question(name), reply(name), session_id="session-0")
    made.on_delegation("Who painted the harbour keel?", "Nobody painted the harbour keel.")
    made.on_memory_write("add", "memory", "The harbour is red.")
    made.on_memory_write("add", "user", "The user is harbour master.")
    made.sync_turn(question("hawser"), reply("hawser"))
    made.sync_turn(question("galley"), reply("galley"))
    landed(made)
    yield made


# -- role and target ---------------------------------------------------------------------------------------------------


def roles(provider: PgvectorMemoryProvider, **args: object) -> set[str]:
    answer = called(provider, TURNS, {"query": "who painted the harbour", "limit": 50, **args})
    return {result["role"] for result in answer["results"]}


def test_a_role_limits_what_is_found(provider: PgvectorMemoryProvider) -> None:
    for scope in ("current", "all", "session", "marketing"):
        for role in ("user", "assistant", "tool"):
            assert roles(provider, scope=scope, role=role) == {role}
        for nothing in (None, ""):
            # Of an exchange the answer is shown, with the question around it.
            assert roles(provider, scope=scope, role=nothing) == {"assistant", "tool"}


def test_a_target_limits_what_is_found(provider: PgvectorMemoryProvider) -> None:
    assert recalled(provider, "harbour", target="memory") == ["The harbour is red."]
    assert recalled(provider, "harbour", target="user") == ["The user is harbour master."]
    assert set(recalled(provider, "harbour", target="memory", scope="all")) == {
        "The harbour is red.",
        "The harbour of the sales theme is red.",
    }
    assert recalled(provider, "harbour", target="user", scope="sales") == []


def test_a_role_that_means_nothing_is_refused_in_words(make_provider: MakeProvider) -> None:
    provider = make_provider()
    landed(provider)
    values: list[Any] = ["users", "USER ", "system", 7, ["user"], {"role": "user"}, True]
    for role in values:
        answer = called(provider, TURNS, {"query": "harbour", "role": role})
        assert answer == {"error": "`role` must be one of user, assistant, tool, or left out"}, role


# -- scopes ------------------------------------------------------------------------------------------------------------


def test_each_scope_is_searched_and_named(provider: PgvectorMemoryProvider) -> None:
    expected = {
        "current": ("marketing", {"session-0", "session-1"}),
        "session": ("session", {"session-1"}),
        "all": ("all", {"session-0", "session-1", "session-9"}),
        "sales": ("sales", {"session-9"}),
        "theme:Sales": ("sales", {"session-9"}),
        "nonesuch": ("nonesuch", set()),
    }
    for scope, (name, sessions) in expected.items():
        answer = called(provider, TURNS, {"query": "painted harbour autumn", "scope": scope, "limit": 50})
        assert answer["scope"] == name
        assert {result["session_id"] for result in results(answer)} == sessions, scope


def test_the_session_of_a_memory_is_the_one_it_was_written_in(provider: PgvectorMemoryProvider) -> None:
    assert set(recalled(provider, "harbour", scope="session")) == {"The harbour is red.", "The user is harbour master."}
    provider.on_session_switch("session-2", parent_session_id="session-1", reset=True)
    assert recalled(provider, "harbour", scope="session") == []


def test_filters_go_together(provider: PgvectorMemoryProvider) -> None:
    args: dict[str, Any] = {"scope": "session", "role": "assistant", "since": "1h"}
    assert set(recalled(provider, "painted harbour", tool=TURNS, **args)) == {reply("hawser"), reply("galley")}
    assert recalled(provider, "painted harbour", tool=TURNS, scope="session", role="tool", until="yesterday") == []


def test_an_empty_answer_says_which_arguments_may_be_why(provider: PgvectorMemoryProvider) -> None:
    def note(tool: str, **args: object) -> str:
        answer = called(provider, tool, {"query": "painted harbour"} | args)
        assert answer["results"] == []
        return str(answer.get("note"))

    assert "with `role` and `until`: call again without" in note(TURNS, role="tool", until="yesterday")
    nothing = note("recall_memory", target="user", until="yesterday")
    assert "with `target` and `until`: call again without" in nothing and TURNS in nothing
    assert note(TURNS, offset=400) == note("recall_memory", offset=400) == "no more results from `offset` 400 on"


def test_arguments_of_the_other_tool_are_overlooked(provider: PgvectorMemoryProvider) -> None:
    for tool, argument in (("recall_memory", "role"), (TURNS, "target")):
        answer = called(provider, tool, {"query": "harbour painted", argument: "user"})
        assert answer["count"] > 1 and f"has no argument `{argument}`" in answer["note"]


# -- pages -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", TOOLS)
def test_pages_put_together_are_the_whole(tool: str, provider: PgvectorMemoryProvider) -> None:
    for name in NAMES:
        provider.on_memory_write("add", "memory", f"The harbour {name} was painted red in the autumn.")
    landed(provider)
    query = "harbour painted autumn"
    whole = recalled(provider, query, tool=tool, limit=12)
    assert len(whole) == (12 if tool == "recall_memory" else 9), "an exchange is one result"
    pages = [recalled(provider, query, tool=tool, limit=3, offset=offset) for offset in range(0, 12, 3)]
    assert [each for page in pages for each in page] == whole
    assert recalled(provider, query, tool=tool, offset=500) == []
    assert recalled(provider, query, tool=tool, limit=12, offset="") == whole
    assert recalled(provider, query, tool=tool, limit=11, offset=" 1 ") == whole[1:]


def test_an_offset_that_means_nothing_is_refused_in_words(make_provider: MakeProvider) -> None:
    provider = make_provider()
    landed(provider)
    values: list[Any] = [-1, 501, "many", float("nan"), float("inf"), [5], {}, True, 10**400]
    for tool in TOOLS:
        for offset in values:
            answer = called(provider, tool, {"query": "harbour", "offset": offset})
            assert set(answer) == {"error"}, offset
            assert answer["error"].startswith("`offset` must be a whole number from 0 to 500; "), offset


# -- around ------------------------------------------------------------------------------------------------------------


def around(provider: PgvectorMemoryProvider, query: str, **args: object) -> tuple[str, list[str]]:
    """The best result, and the texts around it in their order."""
    best = called(provider, TURNS, {"query": query, **args})["results"][0]
    return best["content"], [turn["content"] for turn in best.get("around", [])]


def test_a_hit_comes_with_the_turns_right_before_and_after_it(provider: PgvectorMemoryProvider) -> None:
    asked = {"query": reply("capstan"), "role": "assistant"}
    best = called(provider, TURNS, asked)["results"][0]
    assert best["content"] == reply("capstan")
    assert [(turn["role"], turn["content"]) for turn in best["around"]] == [
        ("user", question("capstan")),
        ("user", question("davit")),
    ]
    assert all(turn["date"] <= best["date"] or turn["content"] == question("davit") for turn in best["around"])


def test_around_ends_with_the_session_and_never_leaves_it(provider: PgvectorMemoryProvider) -> None:
    assert around(provider, question("anchor"), role="user") == (question("anchor"), [reply("anchor")])
    assert around(provider, reply("fender"), role="assistant") == (reply("fender"), [question("fender")])
    assert around(provider, reply("mast"), scope="all", role="assistant") == (reply("mast"), [question("mast")])


def test_memories_have_nothing_around_them(provider: PgvectorMemoryProvider) -> None:
    assert all("around" not in result for result in called(provider, "recall_memory", {"query": "harbour"})["results"])
