"""remember, forget and memory_profile: a memory of each theme's own, with or without the host's files."""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_memory_pgvector.domain.chunks import estimate_tokens
from hermes_memory_pgvector.host import write_tools
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import DIMS, MakeProvider
from tests.support.agent_process import AgentProcess
from tests.support.hermes import PLUGIN_FOLDER
from tests.support.memory import called, landed, recalled, write_entries
from tests.support.stored import Database

from .conftest import Run

MORE = ["remember", "forget", "memory_profile"]
ALL = {"tools": MORE}
EVERY_TABLE = (
    "SELECT to_jsonb(m)::text FROM memory_entries AS m UNION ALL SELECT to_jsonb(c)::text FROM conversations AS c "
    "UNION ALL SELECT to_jsonb(t)::text FROM hermes_tombstones AS t "
    "UNION ALL SELECT to_jsonb(f)::text FROM hermes_mirror AS f"
)


def remember(provider: PgvectorMemoryProvider, content: str, **args: object) -> dict[str, Any]:
    """The answer of a `remember` that waits."""
    answer = called(provider, "remember", {"content": content, "sync": True} | args)
    assert answer.get("state") == "stored", answer
    return answer


def refusal(provider: PgvectorMemoryProvider, tool: str, **args: object) -> str:
    answer = called(provider, tool, args)
    assert set(answer) == {"error"}, answer
    return str(answer["error"])


def names(provider: PgvectorMemoryProvider) -> list[str]:
    return [schema["name"] for schema in provider.get_tool_schemas()]


# -- which tools there are


def test_need_25_only_what_is_switched_on_is_there(make_provider: MakeProvider) -> None:
    recall = ["recall_memory", "recall_conversation"]
    assert names(make_provider()) == recall
    assert names(make_provider({"tools": []})) == recall
    assert names(make_provider({"tools": "forget, Remember"})) == [*recall, "remember", "forget"]
    assert names(make_provider({"tools": [*recall, "memory-profile"]})) == [*recall, "memory_profile"]
    for tool in MORE:
        assert "there is no tool" in refusal(make_provider(), tool, content="Atlas", id=1)
    said = refusal(make_provider({"tools": "forget"}), "memory_recall", query="Atlas")
    assert said == "there is no tool 'memory_recall' here; the tools are recall_memory, recall_conversation, forget"


def test_a_change_with_an_argument_that_its_tool_does_not_have_is_refused(
    make_provider: MakeProvider,
) -> None:
    provider = make_provider({"tools": MORE}, gateway_session_key="sales")
    said = refusal(provider, "remember", content="Atlas is blue", scope="marketing", sync=True)
    assert "no argument `scope`" in said and all(
        f"`{name}`" in said for name in ("content", "target", "metadata", "sync")
    )
    assert "`content`" in refusal(provider, "forget", content="Atlas is blue")
    known = called(provider, "memory_profile", {"limit": 3})
    assert known["known"] == {"user": 0, "memory": 0} and "no argument `limit`" in known["note"]
    assert remember(provider, "Atlas is blue", scope=None)["theme"] == "sales"


def test_an_unknown_tool_is_told_with_what_exists(
    make_provider: MakeProvider, records: Callable[[int], list[str]]
) -> None:
    assert names(make_provider({"tools": ["remember", "telepathy"]}))[2:] == ["remember"]
    (said,) = [line for line in records(logging.WARNING) if "telepathy" in line]
    assert "plugins.pgvector.tools" in said and all(tool in said for tool in MORE)


def test_need_25_tools_and_prompt_are_the_same_before_and_after_initialize(
    make_provider: MakeProvider, home: Path, dsn: str
) -> None:
    (home / "config.yaml").write_text(f"plugins: {{pgvector: {{dsn: '{dsn}', dims: 384, tools: [remember]}}}}\n")
    provider = PgvectorMemoryProvider()
    before = json.dumps(provider.get_tool_schemas()), provider.system_prompt_block()
    provider.initialize("session-1", hermes_home=str(home), platform="cli")
    assert (json.dumps(provider.get_tool_schemas()), provider.system_prompt_block()) == before
    provider.shutdown()
    assert provider.system_prompt_block() == before[1]


@pytest.mark.parametrize("tools", [[], ["remember"], ["forget", "memory_profile"], MORE])
def test_need_25_the_prompt_names_the_tools_that_are_on_and_no_other(
    make_provider: MakeProvider, tools: list[str]
) -> None:
    provider = make_provider({"tools": tools})
    block = provider.system_prompt_block()
    assert provider.system_prompt_block() == block
    words = set(block.replace(",", " ").replace(".", " ").split())
    assert {tool for tool in MORE if tool in words} == set(tools)
    for tool in tools:
        assert f"When the tool {tool} is available" in block
    assert estimate_tokens(block) < 300


# -- remember


def test_need_04_what_is_remembered_belongs_to_the_theme(make_provider: MakeProvider, dsn: str) -> None:
    marketing, sales = make_provider(ALL), make_provider(ALL, gateway_session_key="sales")
    told = remember(marketing, "Atlas starts on 3 May", metadata={"ticket": "A-1", "nan": float("nan")})
    assert told["theme"] == "marketing" and told["target"] == "memory" and isinstance(told["id"], int)
    remember(sales, "Atlas costs 900", target="user")
    assert recalled(marketing, "atlas") == ["Atlas starts on 3 May"]
    assert recalled(sales, "atlas") == ["Atlas costs 900"]
    (metadata,) = Database(dsn).column("SELECT metadata FROM memory_entries WHERE id = %s", told["id"])
    assert metadata["source"] == "remember" and metadata["ticket"] == "A-1" and metadata["session_id"] == "session-1"


def test_remembering_again_confirms_and_keeps_what_is_new(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(ALL)
    first = remember(provider, "Atlas is blue", metadata={"ticket": "A-1"})
    again = remember(provider, "  Atlas is blue\n", metadata={"sure": True, "session_id": "forged", "source": "forged"})
    assert first["id"] == again["id"]
    (metadata,) = Database(dsn).column("SELECT metadata FROM memory_entries")
    assert metadata["ticket"] == "A-1" and metadata["sure"] is True
    assert metadata["session_id"] == "session-1" and metadata["source"] == "remember"
    assert Database(dsn).column("SELECT updated_at > created_at FROM memory_entries") == [True]


def test_need_04_no_metadata_of_a_call_says_who_wrote_a_memory(
    make_provider: MakeProvider, dsn: str, home: Path, cli: Run
) -> None:
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))
    assert cli("add", "Invoices need two signatures.", "--theme", "marketing").returncode == 0
    provider = make_provider(ALL)
    names = ("user", "chat", "thread", "client", "child_session_id", "delegation", "verb", "os_user", "host")
    before, *_ = Database(dsn).column("SELECT metadata FROM memory_entries")
    for said in ("Invoices need no signature.", "Invoices need two signatures."):
        remember(provider, said, metadata=dict.fromkeys(names, "the director") | {"ticket": "A-1"})
    after, made = Database(dsn).column("SELECT metadata FROM memory_entries ORDER BY id")
    assert after == before | {"ticket": "A-1"}
    assert set(made) - {"ticket"} == {"source", "session_id", "platform"}
    assert not any("director" in json.dumps(who) for who in Database(dsn).column("SELECT who FROM memory_history"))


def test_need_03_without_sync_it_is_accepted_at_once_and_follows(make_provider: MakeProvider) -> None:
    provider = make_provider(ALL)
    assert called(provider, "remember", {"content": "Atlas is blue"}) == {
        "state": "accepted", "theme": "marketing", "target": "memory", "content": "Atlas is blue",
    }  # fmt: skip
    landed(provider)
    assert recalled(provider, "atlas") == ["Atlas is blue"]


def test_need_01_sync_waits_no_longer_than_the_deadline_and_says_so(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(ALL | {"recall_deadline_s": 3.0})
    remember(provider, "Atlas is blue")
    with Database(dsn).writes_blocked():
        began = time.monotonic()
        told = called(provider, "remember", {"content": "Atlas is round", "sync": True})
        assert time.monotonic() - began < 20
    assert told["state"] == "accepted" and "id" not in told
    assert told["waits"] == "on disk: it was not in the database within 3 s"
    landed(provider)
    assert sorted(recalled(provider, "atlas")) == ["Atlas is blue", "Atlas is round"]


def test_need_19_of_a_text_beyond_the_limit_both_ends_are_remembered(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(ALL | {"turn_max_mb": 1})
    remember(provider, f"Atlas is blue. {'The quay is long. ' * 70_000} The gate is green.")
    (kept,) = Database(dsn).column("SELECT content FROM memory_entries")
    assert kept.startswith("Atlas is blue.") and kept.endswith("The gate is green.") and len(kept) < 600_000
    assert "characters left out" in kept


def test_need_01_metadata_without_end_is_refused_in_words(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(ALL)
    said = refusal(provider, "remember", content="Atlas is blue", metadata={f"name {n}": "x" for n in range(100_000)})
    assert said == "`metadata` is longer than 20,000 characters as JSON; say what is long in `content`"
    assert Database(dsn).column("SELECT 1 FROM memory_entries") == []


def test_need_22_secrets_are_masked_as_everywhere(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(ALL)
    key = "ghp_" + "Ab1" * 12
    told = remember(provider, f"The token is {key}", metadata={"also": key})
    assert key not in json.dumps(told) and "masked" in told["note"]
    assert not any(key in row for row in Database(dsn).column(EVERY_TABLE))
    assert called(provider, "forget", {"id": told["id"]})["count"] == 1


@pytest.mark.parametrize("how", [{"agent_context": "cron"}, {"platform": "subagent"}])
def test_need_05_runs_that_do_not_write_are_refused_clearly(make_provider: MakeProvider, how: dict[str, str]) -> None:
    whose = {"gateway_session_key": "", "agent_identity": "coder"}
    writer, silent = make_provider(ALL, **whose), make_provider(ALL, **whose, **how)
    told = remember(writer, "Atlas is blue")
    for tool, args in (("remember", {"content": "Atlas is red"}), ("forget", {"id": told["id"]})):
        assert "`write_contexts`" in refusal(silent, tool, **args)
    landed(silent)
    assert recalled(silent, "atlas") == ["Atlas is blue"]
    (fact,) = called(silent, "memory_profile", {})["memory"]
    assert fact["content"] == "Atlas is blue"


def test_need_12_a_reading_of_the_files_leaves_what_was_remembered(make_provider: MakeProvider, home: Path) -> None:
    remember(make_provider(ALL, gateway_session_key="default"), "Atlas is blue")
    write_entries(home, "Bolt is red")
    landed(make_provider(ALL, gateway_session_key="default"))
    write_entries(home, "Bolt is red", "Cord is green")
    reader = make_provider(ALL, gateway_session_key="default")
    landed(reader)
    found = {entry["content"] for entry in called(reader, "memory_profile", {})["memory"]}
    assert {"Atlas is blue"} <= found


BAD = [
    ("remember", {}), ("remember", {"content": " \n"}), ("remember", {"content": "a", "target": "system"}),
    ("remember", {"content": "a", "metadata": "b"}), ("forget", {}), ("forget", {"id": "x"}), ("forget", {"id": 1.5}),
    ("forget", {"id": True}), ("forget", {"ids": [10**30]}), ("forget", {"ids": [None]}),
    ("forget", {"confirm": "f00"}),
    ("forget", {"confirm": 7}), ("forget", {"query": "a", "id": 1}), ("forget", {"query": "a", "limit": 0}),
    ("forget", {"ids": list(range(1, 102))}), ("memory_profile", {"max_tokens": "many"}),
    ("memory_profile", {"max_tokens": float("inf")}), ("memory_profile", {"target": 3}),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "args"), BAD)
def test_trap_12_arguments_that_cannot_be_are_refused(
    make_provider: MakeProvider, tool: str, args: dict[str, Any]
) -> None:
    provider = make_provider(ALL)
    remember(provider, "Atlas is blue")
    assert refusal(provider, tool, **args)
    assert recalled(provider, "atlas") == ["Atlas is blue"]


# -- forget


def test_need_16_by_id_it_is_gone_with_everything_made_of_it(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(ALL)
    kept, gone = remember(provider, "Atlas is blue"), remember(provider, "Atlas was painted by Zebulon")
    told = called(provider, "forget", {"id": gone["id"]})
    assert [entry["content"] for entry in told["forgotten"]] == ["Atlas was painted by Zebulon"]
    assert "messages in which it was said stay" in told["note"] and "MEMORY.md" not in told["note"]
    assert recalled(provider, "atlas") == ["Atlas is blue"] and recalled(provider, "zebulon") == []
    assert "ebulon" not in "".join(Database(dsn).column(EVERY_TABLE))
    assert Database(dsn).column("SELECT id FROM memory_entries") == [kept["id"]]
    assert "no memory with the id" in refusal(provider, "forget", id=gone["id"])


def test_need_04_nothing_of_another_theme_is_forgotten(make_provider: MakeProvider) -> None:
    marketing, sales = make_provider(ALL), make_provider(ALL, gateway_session_key="sales")
    own, other = remember(marketing, "Atlas is blue"), remember(sales, "Atlas is red")
    for ids in ([other["id"]], [own["id"], other["id"]]):
        said = refusal(marketing, "forget", ids=ids)
        assert f"the id {other['id']};" in said and "nothing was removed" in said
    assert recalled(marketing, "atlas") == ["Atlas is blue"] and recalled(sales, "atlas") == ["Atlas is red"]
    token = called(sales, "forget", {"query": "atlas"})["confirm"]
    assert "token" in refusal(marketing, "forget", confirm=token)
    assert called(sales, "forget", {"confirm": token})["count"] == 1
    assert recalled(marketing, "atlas") == ["Atlas is blue"]


def test_need_16_by_query_nothing_goes_before_it_was_confirmed(make_provider: MakeProvider) -> None:
    provider = make_provider(ALL)
    for text in ("Atlas is blue", "Atlas is round", "Bolt is red"):
        remember(provider, text)
    shown = called(provider, "forget", {"query": "atlas"})
    by_text = {entry["content"]: entry["id"] for entry in shown["would_forget"]}
    assert set(by_text) == {"Atlas is blue", "Atlas is round"} and shown["expires_in_s"] > 60
    assert len(recalled(provider, "atlas")) == 2
    told = called(provider, "forget", {"confirm": shown["confirm"], "ids": [by_text["Atlas is round"]]})
    assert [entry["content"] for entry in told["forgotten"]] == ["Atlas is round"]
    assert recalled(provider, "atlas") == ["Atlas is blue"]
    assert "call forget with `query` again" in refusal(provider, "forget", confirm=shown["confirm"])
    assert recalled(provider, "atlas bolt") != []


def test_need_16_a_confirmation_is_for_what_was_shown(make_provider: MakeProvider) -> None:
    provider = make_provider(ALL)
    provider.on_memory_write("add", "memory", "Atlas is blue")
    other = remember(provider, "Bolt is red")
    token = called(provider, "forget", {"query": "atlas"})["confirm"]
    assert f"{other['id']} was not among" in refusal(provider, "forget", confirm=token, ids=[other["id"]])
    shown = called(provider, "forget", {"query": "atlas"})
    token, (told,) = shown["confirm"], shown["would_forget"]
    provider.on_memory_write("replace", "memory", "Atlas is green", {"old_text": "Atlas is blue"})
    landed(provider)
    assert "changed" in refusal(provider, "forget", confirm=token)
    assert recalled(provider, "atlas") == ["Atlas is green"]
    assert called(provider, "forget", {"ids": [str(told["id"])]})["count"] == 1


def test_need_16_a_confirmation_does_not_last(make_provider: MakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_tools, "LASTS_S", 0.0)
    provider = make_provider(ALL)
    remember(provider, "Atlas is blue")
    token = called(provider, "forget", {"query": "atlas"})["confirm"]
    assert "not a valid token" in refusal(provider, "forget", confirm=token)
    assert recalled(provider, "atlas") == ["Atlas is blue"]
    assert called(provider, "forget", {"query": "nothing like that"})["would_forget"] == []


def test_need_16_what_was_just_accepted_can_be_forgotten(make_provider: MakeProvider) -> None:
    provider = make_provider(ALL)
    called(provider, "remember", {"content": "Atlas is blue"})
    token = called(provider, "forget", {"query": "atlas"})["confirm"]
    assert called(provider, "forget", {"confirm": token})["count"] == 1
    landed(provider)
    assert recalled(provider, "atlas") == []


def test_trap_05_a_stale_file_does_not_bring_it_back(make_provider: MakeProvider, tmp_path: Path, dsn: str) -> None:
    """Two hosts with the same entry: one forgets it, the other's file still has it, and is edited later on."""
    first, second = tmp_path / "first", tmp_path / "second"
    whose = {"gateway_session_key": "", "agent_identity": "coder"}
    for host in (first, second):
        write_entries(host, "Atlas is blue", "Bolt is red", age_s=3600)
        landed(make_provider(ALL, hermes_home=str(host), **whose))
    provider = make_provider(ALL, hermes_home=str(first), **whose)
    (hit,) = called(provider, "recall_memory", {"query": "atlas"})["results"]
    told = called(provider, "forget", {"id": hit["id"]})
    assert "MEMORY.md" in told["note"] and "memory tool" in told["note"]
    for host in (first, second):
        landed(make_provider(ALL, hermes_home=str(host), **whose))
        assert Database(dsn).themes_of_memory("Atlas is blue") == []
        write_entries(host, "Atlas is blue", "Bolt is red", f"Cord of {host.name}")
        landed(make_provider(ALL | {"prefetch_limit": 4}, hermes_home=str(host), **whose))
        assert Database(dsn).themes_of_memory(f"Cord of {host.name}") == ["coder"]
        assert Database(dsn).themes_of_memory("Atlas is blue") == []
    remember(provider, "Atlas is blue")
    assert recalled(provider, "atlas") == ["Atlas is blue"], "what is said anew is known again"


def test_need_16_an_entry_the_file_holds_and_nobody_has_read_yet_stays_away(
    make_provider: MakeProvider, home: Path, dsn: str
) -> None:
    whose = {"gateway_session_key": "", "agent_identity": "coder"}
    provider = make_provider(ALL, **whose)
    told = remember(provider, "Atlas is blue", target="user")
    write_entries(home, "Atlas is blue", file="USER.md")
    assert "USER.md" in called(provider, "forget", {"id": told["id"]})["note"]
    write_entries(home, "Atlas is blue", "Bolt is red", file="USER.md")
    landed(make_provider(ALL, **whose))
    assert Database(dsn).column("SELECT content FROM memory_entries") == ["Bolt is red"]


def test_need_02_without_a_database_it_is_said(make_provider: MakeProvider) -> None:
    provider = make_provider(ALL | {"dsn": "host=127.0.0.1 port=1 dbname=none user=nobody", "recall_deadline_s": 2.0})
    for tool, args in (("forget", {"id": 1}), ("forget", {"query": "atlas"}), ("memory_profile", {})):
        assert "Postgres" in refusal(provider, tool, **args) or "connect" in refusal(provider, tool, **args)
    told = called(provider, "remember", {"content": "Atlas is blue", "sync": True})
    assert (told["state"], told["waits"]) == ("accepted", "on disk: the database is out of reach")


def test_need_04_a_silent_theme_shows_nothing_and_still_learns(make_provider: MakeProvider) -> None:
    provider = make_provider(ALL | {"recall_off": ["marketing"]})
    told = remember(provider, "Atlas is blue")
    for tool, args in (("forget", {"id": told["id"]}), ("forget", {"query": "atlas"}), ("memory_profile", {})):
        assert "`recall_off`" in refusal(provider, tool, **args)
    assert recalled(make_provider(gateway_session_key="sales"), "atlas", theme="marketing") == ["Atlas is blue"]


# -- memory_profile


def test_memory_profile_tells_what_is_known_freshest_first(make_provider: MakeProvider) -> None:
    provider = make_provider(ALL)
    for text in ("Atlas is blue", "Bolt is red", "Cord is green"):
        remember(provider, text)
    remember(provider, "Atlas is blue")
    remember(provider, "The user is called Ada", target="user")
    remember(make_provider(ALL, gateway_session_key="sales"), "Sales are secret")
    profile = called(provider, "memory_profile", {})
    assert [entry["content"] for entry in profile["memory"]] == ["Atlas is blue", "Cord is green", "Bolt is red"]
    assert [entry["content"] for entry in profile["user"]] == ["The user is called Ada"]
    assert profile["theme"] == "marketing" and profile["known"] == {"user": 1, "memory": 3} and "note" not in profile
    assert set(called(provider, "memory_profile", {"target": "user"})) == {"theme", "user", "known"}
    assert called(make_provider(ALL, gateway_session_key="new"), "memory_profile", {})["known"] == {
        "user": 0, "memory": 0,
    }  # fmt: skip


def test_need_08_memory_profile_keeps_its_budget(make_provider: MakeProvider) -> None:
    provider = make_provider(ALL)
    provider.on_memory_write("add", "user", "The user is called Ada")
    for number in range(60):
        provider.on_memory_write("add", "memory", f"Harbour crane {number} was painted blue by the night shift")
    provider.on_memory_write("add", "memory", "A long report on cranes. " * 400)
    landed(provider)
    for budget in (100, 400, 800, 3000):
        answer = provider.handle_tool_call("memory_profile", {"max_tokens": budget})
        profile = json.loads(answer)
        assert estimate_tokens(answer) <= budget
        assert profile["known"] == {"user": 1, "memory": 61}
        shown = len(profile["user"]) + len(profile["memory"])
        assert f"{62 - shown} more are known" in profile.get("note", "0 more are known")
        if budget >= 400:
            assert [entry["content"] for entry in profile["user"]] == ["The user is called Ada"]
            assert profile["memory"][0].get("excerpt_of_chars") == 25 * 400 - 1


def test_need_01_an_upgrade_beneath_a_running_agent_takes_no_tool_from_it(
    dsn: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "environment" / "hermes_memory_pgvector"
    shutil.copytree(PLUGIN_FOLDER, package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    with AgentProcess({"dsn": dsn, **ALL}, home, forked=False) as agent:
        agent.call("prefetch", "What do we know of the harbour cranes?")
        shutil.rmtree(package)  # as pip does before it puts another version there
        for tool, arguments, answer in (
            ("remember", {"content": "Atlas is blue", "sync": True}, "stored"),
            ("memory_profile", {}, "Atlas is blue"),
            ("forget", {"query": "Atlas"}, "would_forget"),
        ):
            assert answer in agent.call("handle_tool_call", tool, arguments), agent.log
