"""What an operator decides of themes: which there are, what a chat's are, and who reads whose."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.memory import called, landed, recalled, results, runtime_of, write_entries
from tests.support.stored import Database

CHAT = "agent:main:telegram:dm:4915112345678"
TOOLS = ("recall_memory", "recall_conversation")


def tell(provider: PgvectorMemoryProvider, who: str) -> None:
    """Store one memory and one turn that name who told them."""
    provider.on_memory_write("add", "memory", f"Atlas, noted by {who}")
    provider.sync_turn(f"Do you know the Atlas, asks {who} politely?", f"Yes, {who}, I do know the Atlas well.")
    landed(provider)


def chat(make_provider: MakeProvider, config: dict[str, object] | None = None, **kwargs: str) -> PgvectorMemoryProvider:
    return make_provider(config, **({"platform": "telegram", "gateway_session_key": CHAT} | kwargs))


def refusal(provider: PgvectorMemoryProvider, tool: str, **args: object) -> str:
    answer = called(provider, tool, {"query": "atlas"} | args)
    assert "results" not in answer
    return str(answer["error"])


# -- reading across themes


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("how", [{"scope": "sales"}, {"scope": "theme:sales"}, {"theme": "Sales"}, {"scope": "all"}])
@pytest.mark.parametrize("setting", ["none", [], ["support", "sale"]])
def test_need_04_what_is_not_configured_is_refused_with_the_setting(
    make_provider: MakeProvider, tool: str, how: dict[str, str], setting: object
) -> None:
    tell(make_provider(gateway_session_key="sales"), "sales")
    provider = make_provider({"cross_theme": setting})
    assert "`cross_theme`" in refusal(provider, tool, **how)
    assert recalled(provider, "atlas", tool=tool) == []
    assert recalled(provider, "atlas", tool=tool, scope="marketing") == []


@pytest.mark.parametrize("tool", TOOLS)
def test_need_04_a_list_allows_what_it_names(make_provider: MakeProvider, tool: str) -> None:
    for theme in ("sales", "intraday-sre"):
        tell(make_provider(gateway_session_key=theme), theme)
    provider = make_provider({"cross_theme": ["Sales", "intraday-*"]})
    for theme in ("sales", "intraday-sre"):
        found = results(called(provider, tool, {"query": "atlas", "theme": theme}))
        assert found and {hit["theme"] for hit in found} == {theme}
    assert "Sales, intraday-*" in refusal(provider, tool, scope="all")
    assert "Sales, intraday-*" in refusal(provider, tool, theme="support")


def test_need_04_by_default_agents_read_every_theme_and_chats_their_own(make_provider: MakeProvider) -> None:
    tell(make_provider(gateway_session_key="sales"), "sales")
    agent, stranger = make_provider(), chat(make_provider)
    for tool in TOOLS:
        assert recalled(agent, "atlas", tool=tool, scope="all")
        assert recalled(agent, "atlas", tool=tool, theme="sales")
        for how in ({"scope": "all"}, {"theme": "sales"}):
            assert "`cross_theme`" in refusal(stranger, tool, **how)
            assert recalled(chat(make_provider, {"cross_theme": "all"}), "atlas", tool=tool, **how)


def test_need_04_a_default_scope_that_is_not_allowed_searches_the_own_theme_and_says_so(
    make_provider: MakeProvider,
) -> None:
    tell(make_provider(gateway_session_key="sales"), "sales")
    provider = make_provider({"scope_default": "all", "cross_theme": "none"})
    tell(provider, "marketing")
    answer = called(provider, "recall_memory", {"query": "atlas"})
    assert [hit["content"] for hit in answer["results"]] == ["Atlas, noted by marketing"]
    assert "`cross_theme`" in answer["note"] and answer["scope"] == "marketing"


def test_scope_and_theme_exclude_each_other(make_provider: MakeProvider) -> None:
    provider = make_provider()
    assert "not both" in refusal(provider, "recall_memory", scope="all", theme="sales")
    assert recalled(provider, "atlas", scope="current", theme="sales") == []
    assert "`theme` must be text" in refusal(provider, "recall_memory", theme=["sales"])


def test_an_alias_is_understood_in_headers_and_tools(make_provider: MakeProvider) -> None:
    config = {"theme_aliases": {"mktg": "marketing"}}
    tell(make_provider(config, gateway_session_key="MKTG"), "marketing")
    assert recalled(make_provider(config, gateway_session_key="marketing"), "atlas")
    assert recalled(make_provider(config, gateway_session_key="sales"), "atlas", theme="mktg")


@pytest.mark.parametrize("named", ["support", "sup*", "default"])
def test_a_theme_without_recall_writes_and_is_told_nothing(make_provider: MakeProvider, named: str) -> None:
    kwargs = {"gateway_session_key": "" if named == "default" else "support", "agent_identity": "default"}
    tell(make_provider(**kwargs), "support")
    provider = make_provider({"recall_off": [named]}, **kwargs)
    assert provider.prefetch("What do you know of the Atlas?") == ""
    for tool in TOOLS:
        assert "`recall_off`" in refusal(provider, tool)
        assert "`recall_off`" in refusal(provider, tool, scope="all")
    provider.on_memory_write("add", "memory", "Atlas is written all the same")
    landed(provider)
    theme = "default" if named == "default" else "support"
    assert recalled(make_provider(gateway_session_key=theme), "Atlas is written all the same")
    assert runtime_of(provider).stats()["recalls_off"] == 5


def test_recall_is_off_in_the_chats_of_a_profile_that_is_named(make_provider: MakeProvider) -> None:
    tell(chat(make_provider, agent_identity="support"), "somebody")
    assert chat(make_provider, agent_identity="support").prefetch("What do you know of the Atlas?")
    for named in ("support", "@telegram/*"):
        assert chat(make_provider, {"recall_off": [named]}, agent_identity="support").prefetch("the Atlas?") == ""


# -- chats


@pytest.mark.parametrize("passes", ["one", "several"])
def test_need_04_a_chat_has_its_own_turns_and_its_profiles_memories(
    make_provider: MakeProvider, dsn: str, home: Path, passes: str
) -> None:
    write_entries(home, "Atlas, by hand")
    config = {"prefetch_passes": passes, "prefetch_limit": 10}
    one = chat(make_provider, config, agent_identity="coder")
    other = chat(make_provider, config, agent_identity="coder", gateway_session_key=CHAT + "9", session_id="session-2")
    shell = make_provider(platform="cli", gateway_session_key="", agent_identity="coder", session_id="session-3")
    for provider, who in ((one, "one"), (other, "another"), (shell, "the shell")):
        tell(provider, who)
    memories = {"Atlas, by hand", *(f"Atlas, noted by {who}" for who in ("one", "another", "the shell"))}
    assert Database(dsn).column("SELECT DISTINCT agent_identity FROM memory_entries") == ["coder"]
    assert len(Database(dsn).column("SELECT DISTINCT agent_identity FROM conversations")) == 3
    for provider, who in ((one, "one"), (other, "another"), (shell, "the shell")):
        assert set(recalled(provider, "atlas")) == memories
        said = recalled(provider, "atlas", tool="recall_conversation")
        assert said and all(who in text for text in said), said
    block = chat(make_provider, config, agent_identity="coder", session_id="new").prefetch("Atlas: who knows it?")
    assert "Atlas, by hand" in block and "Atlas, noted by the shell" in block and "asks one politely" in block
    assert "asks another" not in block and "asks the shell" not in block
    assert "`cross_theme`" in refusal(one, "recall_conversation", theme="coder")


@pytest.mark.parametrize(("setting", "shared"), [("chat", False), ("profile", True)])
def test_what_of_a_chat_is_its_own_is_one_setting(make_provider: MakeProvider, setting: str, shared: bool) -> None:
    config = {"messaging_theme": setting}
    tell(chat(make_provider, config), "one")
    other = chat(make_provider, config, gateway_session_key=CHAT + "9")
    shell = make_provider(config, platform="cli", gateway_session_key="", agent_identity="default")
    for tool in TOOLS:
        assert recalled(chat(make_provider, config), "atlas", tool=tool)
        for elsewhere in (other, shell):
            assert bool(recalled(elsewhere, "atlas", tool=tool)) is shared


def test_what_a_chat_noted_can_be_removed_from_the_shell(make_provider: MakeProvider) -> None:
    chat_provider = chat(make_provider)
    tell(chat_provider, "one")
    shell = make_provider(platform="cli", gateway_session_key="", agent_identity="default")
    shell.on_memory_write("remove", "memory", "", {"old_text": "noted by one"})
    landed(shell)
    assert recalled(chat_provider, "atlas") == []


# -- which themes there may be


def test_an_unknown_theme_falls_to_the_default_with_one_warning(
    make_provider: MakeProvider, records: Callable[[int], list[str]]
) -> None:
    config = {"allowed_themes": ["sales", "default"], "default_theme": "lobby"}
    for _ in range(3):
        stranger = make_provider(config, gateway_session_key="Strangers")
    tell(stranger, "a stranger")
    assert recalled(make_provider(config, gateway_session_key="unheard-of"), "atlas") == ["Atlas, noted by a stranger"]
    assert recalled(make_provider(config, gateway_session_key="SALES"), "atlas") == []
    told = [line for line in records(logging.WARNING) if "allowed_themes" in line]
    assert [line.count("'strangers'") for line in told] == [1, 0]
    assert all("'lobby'" in line for line in told)
    assert runtime_of(stranger).stats()["themes_unknown"] == 4


def test_a_client_that_makes_up_themes_does_not_fill_the_log(
    make_provider: MakeProvider, records: Callable[[int], list[str]]
) -> None:
    for number in range(60):
        provider = make_provider({"allowed_themes": ["sales"]}, gateway_session_key=f"made-up-{number}")
    assert len([line for line in records(logging.WARNING) if "allowed_themes" in line]) == 21
    assert runtime_of(provider).stats()["themes_unknown"] == 60
