"""Memories, turns and sessions as an operator looks at them and puts them right."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from hermes_memory_pgvector.capture.spool import Spool
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.domain.operations import Operation
from tests.conftest import DIMS, MakeProvider
from tests.support.left_spool import leave_spool, operation
from tests.support.local_models import link_reranker
from tests.support.memory import called, landed, recalled, results, write_entries
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database

from .conftest import command_environment

Say = Callable[..., str]
Ask = Callable[..., Any]


def configure(home: Path, dsn: str, **settings: object) -> None:
    section = {"dsn": dsn, "dims": DIMS} | settings
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": section}}))


@pytest.fixture
def say(home: Path, dsn: str, capsys: pytest.CaptureFixture[str]) -> Say:
    """Runs `hermes-pgvector ARGUMENTS` in this process; returns what it printed, or what went wrong."""
    configure(home, dsn)

    def run(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        ended = main([*arguments, "--hermes-home", str(home)])
        said = capsys.readouterr()
        assert ended == code, said.out + said.err
        return said.err if code else said.out

    return run


@pytest.fixture
def ask(say: Say) -> Ask:
    """As `say`, with --json; returns the value."""
    return lambda *arguments: json.loads(say(*arguments, "--json"))


def talk(make_provider: MakeProvider, session_id: str, *said: str, **kwargs: Any) -> None:
    provider = make_provider(session_id=session_id, **kwargs)
    for text in said:
        provider.sync_turn(f"Please tell me what you know of this: {text}?", f"As you said some time ago: {text}.")
    landed(provider)


# -- what all commands have in common


def test_every_command_that_only_shows_says_so_by_one_name(
    say: Say, ask: Ask, home: Path, dsn: str, admin_dsn: str, embedder: ScriptedEmbedder, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    configure(home, dsn, embed_url=embedder.url, embed_model="another")
    monkeypatch.setenv("HOME", str(tmp_path))
    say("add", "The crane is yellow", "--theme", "sre")
    say("add", "The harbour is deep", "--theme", "port")
    say("mcp", "token", "add", "laptop", "--theme", "sre")
    file = tmp_path / "rows.jsonl"
    say("export", str(file))
    admin = ("--admin-dsn", admin_dsn)
    for line in (
        ("edit", "m1", "The crane is green"), ("forget", "m1"), ("themes", "rename", "sre", "ops"),
        ("themes", "merge", "sre", "port"), ("themes", "delete", "sre"), ("prune", "--all-themes", "--keep-rows", "1"),
        ("purge", "--all-themes"), ("compact", "--all-themes"), ("relieve",), ("restore", "--dry-run"),
        ("import", str(file), "--dry-run"), ("spool", "retry", "--all"), ("spool", "drop", "--all"), ("spool", "send"),
        ("index", "drop", *admin), ("index", "build", "--dry-run", *admin), ("migrate", "--dry-run", *admin),
        ("reembed", *admin), ("mcp", "token", "remove", "laptop", "--dry-run"),
        ("mcp", "install", "--client", "cursor", "--dry-run"), ("uninstall",),
    ):  # fmt: skip
        assert ask(*line)["done"] is False, line
    for line in (
        ("import", str(file)), ("spool", "drop", "--all", "--yes"), ("index", "build", *admin), ("migrate", *admin),
        ("mcp", "token", "remove", "laptop"), ("mcp", "install", "--client", "cursor"),
    ):  # fmt: skip
        assert ask(*line)["done"] is True, line


# -- search, list, show, sessions


def test_a_row_has_the_same_names_and_values_in_every_command(
    make_provider: MakeProvider, say: Say, ask: Ask, home: Path, dsn: str, embedder: ScriptedEmbedder
) -> None:
    configure(home, dsn, embed_url=embedder.url)
    talk(make_provider, "s-1", "the harbour crane")
    added = ask(
        "add", "The harbour crane lifts 40 tons", "--theme", "marketing", "--kind", "value", "--subject", "crane"
    )
    (turn, *_) = ask("list", "--theme", "marketing", "--store", "turns")
    (memory,) = ask("list", "--theme", "marketing")
    names = {"ref": memory["ref"], "id": memory["id"], "theme": "marketing", "target": "memory", "at": memory["at"]}
    said = names | {
        "content": "The harbour crane lifts 40 tons",
        "kind": "value",
        "subject": "crane",
        "state": "active",
    }
    told = {"ref": turn["ref"], "id": turn["id"], "role": "assistant", "at": turn["at"], "content": turn["content"]}

    found = ask("search", "harbour crane", "--theme", "marketing", "--no-rerank")["results"]
    beside = [each for row in found for each in row.get("around", ())]
    moment = {row["ref"]: row["at"] for row in found}
    assert moment[memory["ref"]] == memory["at"][:19] + memory["at"][-6:], "in whole seconds, as agents see it"
    assert all("at" in row and "date" not in row for row in [*found, *beside]) and beside
    for row in (ask("show", memory["ref"]), *ask("facts", "list", "--theme", "marketing"), memory):
        assert said.items() <= row.items(), row
    for row in (ask("show", turn["ref"]), ask("sessions", "show", "s-1")["turns"][-1], turn):
        assert told.items() <= row.items(), row
    would_go = ask("forget", memory["ref"], turn["ref"])["rows"]
    assert (names | {"store": "memories"}).items() <= would_go[0].items()
    assert (told | {"store": "turns"}).items() <= would_go[1].items()
    assert (memory["pending"], added["rows"][0]["pending"], turn["pending"]) == (False, False, True)

    say("edit", memory["ref"], "--state", "archived", "--yes")
    (gone,) = ask("purge", "--theme", "marketing")["rows"]
    shared = ("ref", "id", "theme", "target", "content", "kind", "subject")
    assert [gone[name] for name in shared] == [said[name] for name in shared]
    assert gone["state"] == ask("show", memory["ref"])["state"] == "archived"
    for event in (*ask("history", "--theme", "marketing"), *ask("history", memory["ref"])):
        assert [event[name] for name in shared[:4]] == [said[name] for name in shared[:4]] and event["event_id"]


def test_need_24_search_finds_what_the_tools_find_and_says_how(
    make_provider: MakeProvider, say: Say, ask: Ask, home: Path, dsn: str, embedder: ScriptedEmbedder
) -> None:
    configure(home, dsn, embed_url=embedder.url)
    provider = make_provider({"embed_url": embedder.url})
    for text in ("Atlas costs 900 euros", "Bolt is red", "The Atlas budget is 40,000"):
        provider.on_memory_write("add", "memory", text)
    provider.on_memory_write("add", "user", "Ada pays for Atlas")
    talk(make_provider, "s-1", "the price of Atlas", "the colour of Bolt")
    landed(provider)
    question = "What does the Atlas cost?"
    for tool, store, more in (
        ("recall_memory", "memories", {}),
        ("recall_memory", "memories", {"target": "user"}),
        ("recall_memory", "memories", {"limit": 2, "offset": 1}),
        ("recall_conversation", "turns", {"role": "assistant"}),
    ):
        told = called(provider, tool, {"query": question, "explain": True} | more)
        options = [part for name, value in more.items() for part in (f"--{name}", str(value))]
        found = ask("search", question, "--theme", "marketing", "--store", store, "--explain", *options)
        assert found["mode"] == told["mode"] == "hybrid" and told["results"]
        theirs = json.loads(json.dumps(results(told)).replace('"date":', '"at":'))  # agents have it by another name
        ours = [{key: value for key, value in hit.items() if key not in ("ref", "store")} for hit in found["results"]]
        assert ours == theirs
    text = say("search", question, "--theme", "marketing", "--explain", "--around")
    assert "by meaning: rank 1" in text and "by words: rank" in text and "similarity" in text
    assert {hit["store"] for hit in ask("search", question, "--scope", "all")["results"]} == {"memories", "turns"}
    assert ask("search", question, "--session", "s-1")["scope"] == "session"
    assert ask("search", question, "--until", "yesterday", "--theme", "marketing")["results"] == []


@pytest.mark.parametrize("reranked", [False, True])
def test_need_24_search_fills_no_page_with_what_is_nothing_like_the_question(
    make_provider: MakeProvider, say: Say, ask: Ask, home: Path, dsn: str, embedder: ScriptedEmbedder, reranked: bool
) -> None:
    configure(home, dsn, embed_url=embedder.url)
    if reranked:
        link_reranker(home)
    provider = make_provider({"embed_url": embedder.url})
    for text in ("Atlas costs 900 euros", "Bolt is red", "Cargo sails on Monday"):
        provider.on_memory_write("add", "memory", text)
    landed(provider)
    told = ask("search", "Atlas costs", "--theme", "marketing", "--store", "memories")
    assert told["reranked"] == reranked
    found = told["results"]
    unlike = [hit for hit in found if hit["similarity"] < 0.005]
    assert len(found) == 3 and unlike, "the tools give these"
    shown = say("search", "Atlas costs", "--theme", "marketing", "--store", "memories")
    assert "900 euros" in shown
    assert not any(hit["content"] in shown for hit in unlike) and "0.00" not in shown


def test_need_24_search_says_why_it_went_by_words(
    make_provider: MakeProvider, home: Path, dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(home, dsn)
    provider = make_provider()
    provider.on_memory_write("add", "memory", "Atlas is blue")
    landed(provider)
    assert main(["search", "atlas", "--hermes-home", str(home)]) == 0
    assert "no embedding model is set" in capsys.readouterr().err


def test_need_24_a_memory_that_no_command_or_tool_keeps_is_shown_as_one_of_a_file(
    make_provider: MakeProvider, home: Path, dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(home, dsn)
    provider = make_provider()
    provider.on_memory_write("add", "memory", "Atlas is blue")
    landed(provider)
    assert main(["show", "m1", "--hermes-home", str(home)]) == 0
    assert re.search(r"^ *owners +none: it goes with its entry", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("search", " "), 2, "empty"),
        (("search", "x", "--theme", "nobody"), 1, "themes list"),
        (("search", "x", "--scope", "session"), 2, "--session ID"),
        (("search", "x", "--scope", "all", "--theme", "marketing"), 2, "not both"),
        (("search", "x", "--since", "soon"), 2, "2026-05-03"),
        (("search", "x", "--offset", "600"), 1, "narrower"),
        (("list", "--limit", "0"), 2, "--limit"),
        (("list", "--store", "turns", "--target", "user"), 2, "--role"),
        (("show", "x1"), 2, "m123"),
        (("show", "m999"), 1, "hermes-pgvector list"),
        (("show", "t999"), 1, "--store turns"),
        (("history", "t1"), 1, "turns are written once"),
        (("sessions", "show", "nobody"), 1, "sessions list"),
        (("forget",), 2, "say what to forget"),
        (("forget", "m1", "m999"), 1, "nothing was removed"),
        (("edit", "t1", "x"), 1, "forget t1"),
        (("edit", "m999", "x"), 1, "hermes-pgvector list"),
        (("add", " "), 2, "empty"),
        (("add", "x", "--metadata", "[1]"), 2, "object"),
    ],
    ids=lambda value: " ".join(value)[:24] if isinstance(value, tuple) else None,
)
def test_need_24_what_cannot_be_meant_is_refused_with_the_reason(
    rows_in: None, refuse: Callable[..., str], arguments: tuple[str, ...], code: int, why: str
) -> None:
    assert why in refuse(*arguments, code=code)


@pytest.fixture(scope="module")
def rows_in(tmp_path_factory: pytest.TempPathFactory, postgres: Any, migrated_template: str) -> Any:
    """One database for what changes nothing in it."""
    admin = postgres.ensure().admin
    with psycopg.connect(admin, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE seeing_refused TEMPLATE {migrated_template}".encode())
    where = psycopg.conninfo.make_conninfo(admin, dbname="seeing_refused")
    with psycopg.connect(where, autocommit=True) as conn:
        conn.execute("INSERT INTO memory_entries (agent_identity, target, content) VALUES ('marketing', 'memory', 'x')")
        conn.execute(
            "INSERT INTO conversations (session_id, role, agent_identity, content) "
            "VALUES ('s', 'user', 'marketing', 'x')"
        )
    home = tmp_path_factory.mktemp("home")
    configure(home, psycopg.conninfo.make_conninfo(where, user="hermes"))
    yield home
    with psycopg.connect(admin, autocommit=True) as conn:
        conn.execute("DROP DATABASE seeing_refused WITH (FORCE)")


@pytest.fixture
def refuse(rows_in: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command that must fail on that database; returns what it said."""

    def run(*arguments: str, code: int) -> str:
        assert main([*arguments, "--hermes-home", str(rows_in)]) == code
        return capsys.readouterr().err

    return run


def test_a_user_s_home_whose_name_is_no_utf8_stops_no_command(
    say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / os.fsdecode(b"jos\xe9")))
    say("add", "Atlas is blue")
    assert "Atlas is blue" in say("list")


def test_need_17_times_are_shown_by_the_clock_of_whoever_looks(
    make_provider: MakeProvider, say: Say, dsn: str, admin_dsn: str
) -> None:
    talk(make_provider, "s-1", "the price of Atlas")
    at = datetime(2026, 5, 3, 23, 30, tzinfo=UTC)
    with psycopg.connect(admin_dsn, autocommit=True) as conn:
        conn.execute("UPDATE conversations SET ts = %s", (at,))
        name = sql.Identifier(conn.info.dbname)
        conn.execute(sql.SQL("ALTER DATABASE {} SET timezone = 'Asia/Tokyo'").format(name))
    shown = at.astimezone().strftime("%Y-%m-%d %H:%M")
    assert shown in say("list", "--store", "turns") and shown in say("sessions", "list")
    assert shown[:10] in say("forget", "--session", "s-1")
    assert shown[:10] in say("prune", "--all-themes", "--role", "user")


def test_need_16_list_shows_the_newest_first_and_filters(
    make_provider: MakeProvider, say: Say, ask: Ask, dsn: str
) -> None:
    provider = make_provider(session_id="s-1")
    for number in range(5):
        provider.on_memory_write("add", "memory", f"Atlas has part {number}\n" + "and more " * 400)
    provider.on_memory_write("add", "user", "Ada likes Atlas")
    landed(provider)
    talk(make_provider, "s-2", "the price")
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE memory_entries SET updated_at = '2020-01-01' WHERE content LIKE '%part 3%'")
    rows = ask("list", "--theme", "marketing")
    assert rows[0]["ref"] == "m6" and rows[-1]["content"].startswith("Atlas has part 3")
    assert rows[-1]["chars"] == len(rows[-1]["content"]) > 3000, "JSON has the whole text"
    assert len(ask("list", "--theme", "marketing", "--limit", "2", "--offset", "1")) == 2
    assert [row["target"] for row in ask("list", "--theme", "marketing", "--target", "user")] == ["user"]
    assert len(ask("list", "--theme", "marketing", "--since", "2021", "--session", "s-1")) == 5
    assert len(ask("list", "--theme", "marketing", "--until", "2020")) == 1
    assert len(ask("list", "--theme", "marketing", "--pending")) == 6
    turns = ask("list", "--theme", "marketing", "--store", "turns", "--role", "assistant")
    assert [row["role"] for row in turns] == ["assistant"] and turns[0]["session_id"] == "s-2"
    lines = say("list", "--theme", "marketing").splitlines()
    assert len(lines) == 7 and max(map(len, lines)) < 2200, "one row, one line"


def test_need_17_a_day_of_since_and_until_is_one_of_the_zone_in_which_times_are_shown(
    say: Say, ask: Ask, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    say("add", "The tide is high", "--theme", "marketing")
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE memory_entries SET updated_at = '2026-05-04 02:00Z'")
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "America/New_York")
        time.tzset()
        assert "2026-05-03 22:00" in say("list", "--theme", "marketing")
        assert "2026-05-03 22:00" in say("themes", "show", "marketing")
        assert "2026-05-03" in say("themes", "list")
        of_the_day = ask("list", "--theme", "marketing", "--since", "2026-05-03", "--until", "2026-05-03")
        after_it = ask("list", "--theme", "marketing", "--since", "2026-05-04")
    time.tzset()
    assert [row["content"] for row in of_the_day] == ["The tide is high"]
    assert after_it == []


def test_need_17_a_day_of_what_deletes_or_exports_is_one_of_the_zone_in_which_times_are_shown(
    say: Say, ask: Ask, dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`--older-than today` in an evening west of Greenwich would delete what was said today."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(
            "INSERT INTO conversations (agent_identity, session_id, role, content, ts)"
            " SELECT 'marketing', 's-1', 'user', 'The tide of ' || at, at::timestamptz"
            " FROM unnest(ARRAY['2026-05-04 02:00Z', '2026-05-04 12:00Z']) AS at"
        )
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "America/New_York")
        time.tzset()
        of_theme, day = ("--theme", "marketing"), "2026-05-04"
        assert ask("export", str(tmp_path / "after.jsonl"), *of_theme, "--since", day)["turns"] == 1
        assert ask("export", str(tmp_path / "until.jsonl"), *of_theme, "--until", "2026-05-03")["turns"] == 1
        assert ask("compact", *of_theme, "--older-than", day, "--keep-vectors")["before"] == "2026-05-04T04:00:00+00:00"
        assert ask("prune", *of_theme, "--older-than", day)["counts"] == {"turns": 1}
    time.tzset()


def test_need_17_when_a_fact_expires_is_told_in_the_zone_in_which_other_times_are_shown(
    say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(
        "facts",
        "add",
        "The desk is booked",
        "--subject",
        "desk",
        "--expires-at",
        "2126-05-04T02:00Z",
        "--theme",
        "marketing",
    )
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "America/New_York")
        time.tzset()
        shown = say("show", "m1")
        changed = say("edit", "m1", "--expires-at", "2126-06-04T02:00Z")
    time.tzset()
    assert "2126-05-03 22:00" in shown
    assert "2126-05-03 22:00 -> 2126-06-03 22:00" in changed


def test_need_16_show_tells_all_that_is_known_of_a_row(
    make_provider: MakeProvider, say: Say, ask: Ask, home: Path, embedder: ScriptedEmbedder
) -> None:
    write_entries(home, "Atlas is blue")
    config = {"embed_url": embedder.url, "chunk_tokens": 64, "bulk_sync_on_init": False}
    provider = make_provider(config, session_id="s-1")
    provider.on_memory_write("add", "memory", "Atlas is blue", {"ticket": "OPS-12"})
    provider.sync_turn(
        "What is known of the long story? " + "It is long. " * 100, "Nothing that I would know of, sorry."
    )
    landed(provider)
    row = ask("show", "memory", "1")
    assert row["theme"] == "marketing" and row["metadata"]["session_id"] == "s-1" and row["in_files"] == 1
    assert not row["pending"] and row["history"][0]["action"] == "added" and row["sha256"]
    turn = ask("show", "t1")
    assert turn["role"] == "user" and turn["session_id"] == "s-1" and turn["parts"] >= 1
    text = say("show", "1")
    assert "OPS-12" in text and "Atlas is blue" in text and "memory_tool" in text


def test_need_16_a_setting_that_does_not_fit_the_vectors_hides_no_row_from_an_operator(
    make_provider: MakeProvider, say: Say, home: Path, dsn: str, tmp_path: Path
) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", "Atlas is blue")
    talk(make_provider, "s-1", "Atlas is not red")
    landed(provider)
    configure(home, dsn, dims=DIMS * 2)
    for command in (["list"], ["sessions", "show", "s-1"], ["search", "Atlas"]):
        assert "Atlas" in say(*command, "--theme", "marketing"), command
    assert "Atlas is blue" in say("show", "m1") and "m1" in say("history", "--theme", "marketing")
    assert "marketing" in say("themes", "list")
    say("export", str(tmp_path / "all.jsonl"))
    assert "Atlas is blue" in (tmp_path / "all.jsonl").read_text()
    assert "the setting `dims` says" in say("import", str(tmp_path / "all.jsonl"), code=1), "vectors may come along"
    say("forget", "m1", "--yes")
    assert "Atlas is blue" not in say("list", "--theme", "marketing")


def test_need_16_sessions_are_a_timeline_with_their_links(make_provider: MakeProvider, say: Say, ask: Ask) -> None:
    talk(make_provider, "s-1", "the first", "the second")
    talk(make_provider, "s-2", "the third", parent_session_id="s-1")
    talk(make_provider, "s-1", "elsewhere", gateway_session_key="sales")
    rows = ask("sessions", "list", "--theme", "marketing")
    assert [(row["session_id"], row["turns"], row["parent_session_id"]) for row in rows] == [
        ("s-2", 2, "s-1"), ("s-1", 4, None),
    ]  # fmt: skip
    assert rows[1]["opening"].startswith("Please tell me what you know of this: the first")
    assert [row["title"] for row in rows] == [
        f"Tell me what you know of this: the {which}?" for which in ("third", "first")
    ]
    assert rows[1]["first_at"] <= rows[1]["last_at"] <= rows[0]["first_at"]
    assert [row["session_id"] for row in ask("sessions", "list", "--theme", "marketing", "--offset", "1")] == ["s-1"]
    assert ask("sessions", "list", "--theme", "marketing", "--until", "yesterday") == []
    shown = ask("sessions", "show", "s-1", "--theme", "marketing")
    assert [turn["role"] for turn in shown["turns"]] == ["user", "assistant"] * 2
    assert [shown[name] for name in ("title", "first_at", "last_at")] == [
        rows[1][name] for name in ("title", "first_at", "last_at")
    ]
    assert "elsewhere" not in json.dumps(shown) and "the second" in shown["turns"][-1]["content"]
    assert len(ask("sessions", "show", "s-1", "--theme", "marketing", "--limit", "1", "--offset", "3")["turns"]) == 1
    assert "marketing, sales" in say("sessions", "show", "s-1", code=1)
    assert "after the session s-1" in say("sessions", "show", "s-2")
    for command in (("list",), ("show", "s-2")):
        assert "Tell me what you know of this: the third?" in say("sessions", *command, "--theme", "marketing")


def test_need_16_a_session_that_is_named_is_found_in_whichever_theme_it_is(
    make_provider: MakeProvider, say: Say, ask: Ask
) -> None:
    make_provider(gateway_session_key="", session_id="s-0").on_memory_write("add", "memory", "of this home's own theme")
    provider = make_provider(session_id="s-1", gateway_session_key="sales")
    provider.on_memory_write("add", "memory", "Atlas costs 900")
    talk(make_provider, "s-1", "the price", gateway_session_key="sales")
    landed(provider)
    assert len(ask("list", "--store", "turns", "--session", "s-1")) == 2
    assert [row["content"] for row in ask("list", "--session", "s-1")] == ["Atlas costs 900"]
    assert [row["action"] for row in ask("history", "--session", "s-1")] == ["added"]
    assert ask("list", "--session", "s-1", "--theme", "default") == []
    talk(make_provider, "s-1", "the colour", gateway_session_key="ads")
    assert "--theme: ads, sales" in say("list", "--store", "turns", "--session", "s-1", code=1)


def test_need_40_a_session_that_nobody_had_is_no_empty_one(make_provider: MakeProvider, say: Say, ask: Ask) -> None:
    provider = make_provider(session_id="s-1", gateway_session_key="sales")
    provider.on_memory_write("add", "memory", "Atlas costs 900")
    landed(provider)
    assert ask("list", "--store", "turns", "--session", "s-1", "--theme", "sales") == [], "it has a memory, and no turn"
    assert "nothing to delete" in say("prune", "--theme", "sales", "--session", "s-1", "--yes")
    for command in (
        ("list",), ("list", "--store", "turns"), ("list", "--theme", "sales"), ("history",),
        ("prune", "--all-themes"), ("prune", "--theme", "sales", "--yes"),
    ):  # fmt: skip
        told = say(*command, "--session", "s-l", code=1)
        assert "nothing is stored of a session 's-l'; see: hermes-pgvector sessions list" in told


def test_forgetting_earlier_texts_where_there_are_none_changes_nothing(say: Say, ask: Ask) -> None:
    say("add", "Atlas costs 900", "--theme", "sales")
    for ask_first in ((), ("--yes",)):
        assert "no earlier text is kept; nothing was changed" in say("forget", "m1", "--versions", *ask_first)
    assert "forget" not in [each["verb"] for each in ask("themes", "log")]


def test_need_04_without_a_theme_the_only_one_is_meant_and_never_a_guess(make_provider: MakeProvider, say: Say) -> None:
    provider = make_provider(gateway_session_key="sales")
    provider.on_memory_write("add", "memory", "Atlas costs 900")
    landed(provider)
    assert "Atlas costs 900" in say("list")
    provider = make_provider(gateway_session_key="support")
    provider.on_memory_write("add", "memory", "Bolt is red")
    landed(provider)
    assert "sales, support" in say("list", code=1)
    assert "stored m" in say("add", "Crane is green")
    assert "Crane is green" in say("list") and "Atlas" not in say("list"), "the home's own theme comes first"


# -- add, edit, forget


def test_need_16_a_memory_in_a_theme_that_held_nothing_is_stored_with_a_word_of_that(say: Say) -> None:
    assert "'marketnig' held nothing before" in say("add", "Atlas is blue", "--theme", "marketnig")
    assert "held nothing" not in say("add", "Bolt is red", "--theme", "marketnig")
    assert "held nothing" not in say("add", "Crane is green"), "the home's own theme, which nobody named"


def test_need_16_what_is_added_is_found_by_agents_once_and_without_secrets(
    make_provider: MakeProvider, say: Say, ask: Ask, home: Path, dsn: str, embedder: ScriptedEmbedder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    configure(home, dsn, embed_url=embedder.url)
    metadata = ("--metadata", '{"ticket": "OPS-12", "source": "forged"}')
    first = ask("add", "Atlas costs 900", "--theme", "Marketing", *metadata)
    again = ask("add", " Atlas costs 900 ", "--theme", "marketing")
    assert (first["rows"][0]["state"], again["rows"][0]["state"]) == ("stored", "confirmed")
    assert first["rows"][0]["ref"] == again["rows"][0]["ref"] and not first["rows"][0]["pending"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("the key is sk-abcdefghijklmnopqrstuvwxyz123456\n"))
    masked = ask("add", "-", "--theme", "marketing", "--target", "user")
    assert "sk-abc" not in json.dumps(masked) and any("masked" in note for note in masked["notes"])
    provider = make_provider({"embed_url": embedder.url})
    assert recalled(provider, "what does atlas cost")[0] == "Atlas costs 900"
    shown = ask("show", first["rows"][0]["ref"])
    assert shown["metadata"]["ticket"] == "OPS-12" and shown["metadata"]["source"] == "operator"
    assert shown["history"][0]["who"]["verb"] == "add" and "pending" not in say("list", "--theme", "marketing")


def test_need_16_an_edit_keeps_number_and_age_and_gets_a_new_vector(
    make_provider: MakeProvider, say: Say, ask: Ask, home: Path, dsn: str, embedder: ScriptedEmbedder,
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    configure(home, dsn, embed_url=embedder.url)
    write_entries(home, "Atlas costs 900 euros")
    whose = {"gateway_session_key": "", "agent_identity": "marketing"}
    provider = make_provider({"embed_url": embedder.url}, **whose)
    provider.on_memory_write("add", "memory", "Bolt is red")
    landed(provider)
    (number,) = Database(dsn).column("SELECT id FROM memory_entries WHERE content LIKE 'Atlas%%'")
    before = ask("show", f"m{number}")
    planned = ask("edit", f"m{number}", "Crane costs 950 euros")
    assert not planned["done"] and ask("show", f"m{number}")["content"] == "Atlas costs 900 euros"
    assert any("MEMORY.md" in note for note in planned["notes"])
    assert not ask("edit", f"m{number}", "Crane costs 950 euros", "--yes")["rows"][0]["pending"]
    after = ask("show", f"m{number}")
    assert after["created_at"] == before["created_at"] and after["at"] > before["at"]
    assert after["metadata"]["source"] == "operator" and not after["pending"]
    hit = called(provider, "recall_memory", {"query": "Crane costs 950 euros"})["results"][0]
    assert hit["id"] == number and hit["similarity"] > 0.99
    write_entries(home, "Atlas costs 900 euros", "Bolt is red", "Cord is green")
    landed(make_provider({"embed_url": embedder.url}, **whose))
    assert "Atlas costs 900 euros" not in Database(dsn).column("SELECT content FROM memory_entries"), (
        "no file undoes it"
    )
    assert "says that already" in say("edit", f"m{number}", "Bolt is red", "--yes", code=1)
    assert "nothing was changed" in say("edit", f"m{number}", "Crane costs 950 euros", "--yes")
    script = tmp_path / "editor"
    script.write_text('#!/bin/sh\nsed -i s/950/999/ "$1"\n')
    script.chmod(0o700)
    monkeypatch.setitem(os.environ, "EDITOR", str(script))
    monkeypatch.delenv("VISUAL", raising=False)
    assert "done" in say("edit", f"m{number}", "--yes") and ask("show", f"m{number}")["content"].endswith("999 euros")
    monkeypatch.delenv("EDITOR")
    assert "$EDITOR" in say("edit", f"m{number}", code=2)


@pytest.mark.parametrize("old_text", ["proofreads", "Yusuf proofreads the newsletter"])
def test_need_16_what_was_edited_stays_when_an_agent_takes_the_old_text_out_of_its_file(
    old_text: str, make_provider: MakeProvider, say: Say, ask: Ask, home: Path
) -> None:
    """As when a person takes it out by hand, which the command that edits it suggests."""
    provider = make_provider()
    provider.on_memory_write("add", "memory", "Yusuf proofreads the newsletter")
    landed(provider)
    write_entries(home, "Yusuf proofreads the newsletter")
    say("edit", "m1", "Yusuf proofreads the newsletter on Fridays", "--yes")

    write_entries(home)
    provider.on_memory_write("remove", "memory", "", {"old_text": old_text})
    landed(provider)
    assert recalled(provider, "newsletter") == ["Yusuf proofreads the newsletter on Fridays"]

    landed(make_provider(session_id="next"))
    assert [row["content"] for row in ask("list", "--theme", "marketing")] == [
        "Yusuf proofreads the newsletter on Fridays"
    ]


def test_need_16_forget_shows_first_and_then_removes_exactly_that(
    make_provider: MakeProvider, say: Say, ask: Ask, dsn: str, home: Path
) -> None:
    write_entries(home, "Atlas costs 900")
    whose = {"gateway_session_key": "", "agent_identity": "marketing", "session_id": "s-1"}
    provider = make_provider(**whose)
    provider.on_memory_write("add", "memory", "Bolt is red")
    provider.on_memory_write("add", "memory", "Crane is green")
    landed(provider)
    talk(make_provider, "s-1", "the price", "the colour", **{key: whose[key] for key in whose if key != "session_id"})
    planned = ask("forget", "--query", "what is the price of atlas", "--limit", "1", "--theme", "marketing")
    assert not planned["done"] and [row["content"] for row in planned["rows"]] == ["Atlas costs 900"]
    assert any("MEMORY.md" in note for note in planned["notes"])
    assert len(ask("list", "--theme", "marketing")) == 3 and ask("themes", "log") == []
    assert "exactly these: hermes-pgvector forget " in say("forget", "--query", "atlas", "--theme", "marketing")
    ref = planned["rows"][0]["ref"]
    assert ask("forget", ref, "t1", "--yes")["counts"] == {"memories": 1, "turns": 1}
    landed(make_provider(**whose))
    assert sorted(row["content"] for row in ask("list", "--theme", "marketing")) == ["Bolt is red", "Crane is green"]
    assert "would forget 3 turns" in say("forget", "--session", "s-1")
    assert ask("forget", "--session", "s-1", "--yes")["counts"] == {"turns": 3}
    assert Database(dsn).column("SELECT count(*) FROM conversations") == [0]
    log = ask("themes", "log")
    assert [entry["counts"] for entry in log] == [{"turns": 3}, {"memories": 1, "turns": 1}]
    said = [{name: value for name, value in row.items() if name != "at"} for row in log]  # a time may hold it
    assert "900" not in json.dumps(said) and log[1]["arguments"]["themes"] == ["marketing"]
    assert "forget 'marketing'" in say("themes", "log")


def test_need_16_forget_names_the_turns_that_say_it_too(make_provider: MakeProvider, say: Say, ask: Ask) -> None:
    ask("add", "The salary of Anna Lindqvist is 91000", "--theme", "marketing")
    talk(make_provider, "s-1", "the salary of Anna Lindqvist is 91000", gateway_session_key="marketing")
    told = " ".join(ask("forget", "--query", "salary of Anna Lindqvist", "--theme", "marketing", "--yes")["notes"])
    command = "forget --query 'salary of Anna Lindqvist' --store turns --theme marketing"
    assert "as well and stay" in told and command in told
    while "would forget" in say(*shlex.split(command)):
        say(*shlex.split(command), "--yes")
    told = say(*shlex.split("search 'salary of Anna Lindqvist' --theme marketing"))
    assert "91000" not in told
    nothing = ask("forget", "--query", "salary of Anna Lindqvist", "--theme", "marketing")
    assert nothing["rows"] == [] and not any("as well" in note for note in nothing["notes"])


def test_need_16_forget_names_the_memories_that_a_session_leaves(
    make_provider: MakeProvider, say: Say, ask: Ask
) -> None:
    talk(make_provider, "--odd 'one'", "the tax of Anna Lindqvist", gateway_session_key="sre")
    assert ask("forget", "--session=--odd 'one'")["notes"] == []
    provider = make_provider({"tools": ["remember"]}, gateway_session_key="sre", session_id="--odd 'one'")
    called(provider, "remember", {"content": "Anna Lindqvist pays late", "sync": True})
    (planned,), (done,) = (ask("forget", "--session=--odd 'one'", *yes)["notes"] for yes in ((), ("--yes",)))
    said, _, command = done.partition(": hermes-pgvector ")
    assert planned == done and said == "1 memory that was written in it stays"
    assert [row["content"] for row in ask(*shlex.split(command))] == ["Anna Lindqvist pays late"]


def test_need_16_forget_names_what_recall_does_not_find(
    make_provider: MakeProvider, say: Say, ask: Ask, home: Path
) -> None:
    whose = {"gateway_session_key": "", "agent_identity": "sre"}
    write_entries(home, "Anna Lindqvist rides a horse", "Bolt is red")
    landed(make_provider(**whose))
    write_entries(home, "Bolt is red")
    landed(make_provider(**whose))
    (gone,) = (row["ref"] for row in ask("restore", "--dry-run")["rows"])
    texts = (
        "V[anna]: Anna Lindqvist, Lyon", "V[anna]: somewhere", "Anna Lindqvist is 40", "The tax of Anna Lindqvist",
        "Call Anna Lindqvist on Monday",
    )  # fmt: skip
    old, _, edited, archived, expired = (ask("add", text, "--theme", "sre")["rows"][0]["ref"] for text in texts)
    say("edit", edited, "She is 40", "--yes")
    say("edit", archived, "--state", "archived", "--yes")
    say("edit", expired, "--expires-at", "2020-01-01", "--yes")

    def told() -> list[str]:
        notes = ask("forget", "--query", "anna lindqvist", "--theme", "sre")["notes"]
        return [note.partition("hermes-pgvector ")[2] for note in notes if "these words also stand" in note]

    assert told() == [f"forget {old} {archived} {expired}", f"forget {edited} --versions", f"forget {gone}"]
    for command in told():
        say(*shlex.split(command), "--yes")
    assert told() == [] and "Lindqvist" not in say("history", "--theme", "sre")


def test_need_16_forget_drops_refused_copies_from_the_spool_and_names_waiting_ones(
    say: Say, ask: Ask, home: Path
) -> None:
    ref = ask("add", "Atlas costs 900", "--theme", "marketing")["rows"][0]["ref"]
    folder = home / "pgvector" / "spool"
    folder.mkdir(parents=True)
    spool = Spool(folder / "4711-dead.db", max_bytes=1_000_000)
    spool.append(operation("add", "marketing", {"target": "memory", "content": "Atlas costs 900"}, 1.0))
    for theme, text in (("marketing", "Atlas costs 900"), ("marketing", "Bolt is red"), ("sales", "Atlas costs 900")):
        entry = {"target": "memory", "content": text, "origin": "", "metadata": {}}
        spool.append(operation("add", theme, entry, 1.0))
    for op in (spool.take(1)[0], spool.take(4)[-1]):
        spool.reject(op, "refused")
    spool.close()
    planned = " ".join(ask("forget", ref)["notes"])
    assert "1 write of the same text that Postgres had rejected would be dropped" in planned
    assert "1 write of the same text waits in the spool" in planned
    notes = " ".join(ask("forget", ref, "--yes")["notes"])
    assert "1 write of the same text that Postgres had rejected was dropped" in notes
    assert "1 write of the same text waits in the spool" in notes
    left = Spool(folder / "4711-dead.db", max_bytes=1_000_000)
    assert [item.operation.theme for item in left.rejected()] == ["sales"], "what another theme says is not meant"
    assert left.depth == 2
    left.close()


def test_need_40_a_session_or_theme_that_only_waits_in_the_spool_is_not_called_unknown(say: Say, home: Path) -> None:
    said = {"session_id": "s-9", "messages": [{"role": "user", "content": "Atlas costs 900"}], "metadata": {}}
    leave_spool(home, [operation("turn", "marketing", said, 1.0)])
    for arguments in ((), ("--theme", "marketing"), ("--theme", "marketing", "--yes")):
        told = say("forget", "--session", "s-9", *arguments, code=1)
        assert "nothing of the session 's-9' is stored yet; 1 write of it is in the spool: forget it once" in told
    assert "no session 's-9' has turns in the theme 'sales'" in say(
        "forget", "--session", "s-9", "--theme", "sales", code=1
    )
    assert "no session 's-1' has turns" in say("forget", "--session", "s-1", code=1)
    told = say("themes", "delete", "marketing", "--yes", code=1)
    assert "nothing of the theme 'marketing' is stored yet; 1 write of it is in the spool: delete it once" in told
    assert "no theme 'sales' holds anything" in say("themes", "delete", "sales", code=1)


@pytest.mark.parametrize("verb", ["forget", "themes delete"])
def test_need_40_a_rejected_copy_in_a_spool_that_is_held_is_not_said_to_be_dropped(
    ask: Ask, home: Path, verb: str
) -> None:
    ref = ask("add", "Atlas costs 900", "--theme", "marketing")["rows"][0]["ref"]
    entry = {"target": "memory", "content": "Atlas costs 900", "origin": "", "metadata": {}}
    path = leave_spool(home, [operation("add", "marketing", entry, 1.0)])
    spool = Spool(path, max_bytes=1_000_000)
    spool.reject(spool.take(1)[0], "refused")
    spool.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as another_program:
        another_program.execute("BEGIN IMMEDIATE")
        (note,) = ask(*verb.split(), ref if verb == "forget" else "marketing", "--yes")["notes"]
        another_program.execute("ROLLBACK")
    assert str(path) in note and "may be left in it" in note and "dropped" not in note
    assert [item["text"] for item in ask("spool", "list")] == ["Atlas costs 900"]


@pytest.mark.parametrize("arguments", [("list",), ("retry", "--all"), ("drop", "3f2a9c01"), ("send", "--yes")])
def test_need_40_a_spool_file_that_cannot_be_read_is_named_and_not_said_to_hold_nothing(
    capsys: pytest.CaptureFixture[str], home: Path, dsn: str, arguments: tuple[str, ...]
) -> None:
    configure(home, dsn)
    path = leave_spool(home, [operation("turn", "marketing", {"session_id": "s-9", "messages": []}, 1.0)])
    path.write_bytes(b"not SQLite's" * 1000)
    assert main(["spool", *arguments, "--hermes-home", str(home)]) == 1
    said = capsys.readouterr()
    assert str(path) in said.err and "no write" not in said.out


@pytest.mark.parametrize(
    ("redirected", "encoding", "code", "said"),
    [
        ("add Bolt --theme marketing >&-", "utf-8", 0, ""),
        ("list --theme marketing >&-", "utf-8", 0, ""),
        ("export 2>&1 >&-", "utf-8", 2, "stdout is closed"),
        ("themes export marketing 2>&1 >&-", "utf-8", 2, "stdout is closed"),
        ("add - --theme marketing --json <&-", "utf-8", 2, "the text is empty"),
        ("list --theme marketing", "latin-1", 0, "Atlas costs 900 \\u20ac"),
        ("list --theme marketing", "ascii:surrogateescape", 0, "Atlas costs 900 \\u20ac"),  # as the locale C has it
        ("add - --theme marketing --json", "utf-8:strict", 2, "what stands on stdin is not text in utf-8"),
        ("add - --theme marketing --json", "utf-8:surrogateescape", 2, "what stands on stdin is not text in utf-8"),
        ("add $'caf\\xe9' --theme marketing --json", "utf-8", 2, "this is not text in utf-8"),
        ("edit m1 $'caf\\xe9' --yes --json", "utf-8", 2, "this is not text in utf-8"),
    ],
)
def test_a_closed_stream_or_another_encoding_is_no_failure_of_what_was_done(
    ask: Ask, home: Path, tmp_path: Path, redirected: str, encoding: str, code: int, said: str
) -> None:
    ask("add", "Atlas costs 900 \u20ac", "--theme", "marketing")
    program = shlex.join([sys.executable, "-P", "-m", "hermes_memory_pgvector.cli"])
    done = subprocess.run(
        ["bash", "-c", f"{program} {redirected}"],
        input=b"caf\xe9",
        capture_output=True,
        env=command_environment(home, PYTHONIOENCODING=encoding),
        cwd=tmp_path,
        timeout=150,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert said in done.stdout.decode("latin-1") and b"unexpected" not in done.stderr


def test_an_error_that_quotes_what_is_stored_moves_no_cursor(say: Say, dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "INSERT INTO conversations (id, agent_identity, session_id, role, content)"
            " VALUES (7, 'sales', 's', 'user', 'Hello'), (7, %s, 's', 'user', 'Hello')",
            ["mark\x1b]0;evil\x07eting"],
        )
    told = say("forget", "t7", code=1)
    assert "rows of several themes" in told and "\x1b" not in told and "\x07" not in told


def test_need_16_what_was_written_in_the_editor_of_a_dry_run_is_not_lost(
    say: Say, ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ref = ask("add", "Atlas costs 900", "--theme", "marketing")["rows"][0]["ref"]
    monkeypatch.setenv("EDITOR", "sed -i s/900/999/")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    told = say("edit", ref)
    (left,) = tmp_path.glob("hermes-pgvector-*.txt")
    assert f"edit {ref} - --yes < {left}" in told and "nothing was changed" in told
    with left.open(encoding="utf-8") as file:
        monkeypatch.setattr(sys, "stdin", file)
        say("edit", ref, "-", "--yes")
    assert ask("show", ref)["content"] == "Atlas costs 999"
    monkeypatch.setenv("EDITOR", "true")
    assert "it says that already" in say("edit", ref) and len(list(tmp_path.glob("hermes-pgvector-*.txt"))) == 1


@pytest.mark.parametrize(
    ("verb", "what", "left"),
    [
        (("forget", "--session", "s-1", "--theme", "sales"), "1 write of this session", ["s-2", "marketing"]),
        (("themes", "delete", "sales"), "2 writes of this theme", ["marketing"]),
    ],
    ids=["session", "theme"],
)
def test_need_16_what_postgres_rejected_of_a_session_or_theme_goes_with_it(
    ask: Ask, home: Path, dsn: str, verb: tuple[str, ...], what: str, left: list[str]
) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "INSERT INTO conversations (agent_identity, session_id, role, content)"
            " VALUES ('sales', 's-1', 'user', 'Atlas costs 900')"
        )

    def turn(theme: str, session: str) -> Operation:
        said = {
            "session_id": session,
            "messages": [{"role": "user", "content": f"Atlas costs 900 in {session}"}],
            "metadata": {},
        }
        return operation("turn", theme, said, 1.0)

    path = leave_spool(
        home, [turn("sales", "s-1"), turn("sales", "s-2"), turn("marketing", "s-1"), turn("sales", "s-1")]
    )
    spool = Spool(path, max_bytes=1_000_000)
    for op in spool.take(3):
        spool.reject(op, "refused")
    spool.close()
    planned, done = ask(*verb), ask(*verb, "--yes")
    assert f"{what} that Postgres had rejected would be dropped" in planned["notes"]
    assert any(note.startswith(f"{what} that Postgres had rejected w") for note in done["notes"])
    assert any("waits in the spool and brings it back" in note for note in done["notes"])
    spool = Spool(path, max_bytes=1_000_000)
    assert [
        item.operation.theme if item.operation.theme == "marketing" else item.operation.session_id  # type: ignore[attr-defined]
        for item in spool.rejected()
    ] == left
    assert spool.depth == 1
    spool.close()


def test_need_16_what_somebody_else_wrote_while_the_editor_was_open_stays_and_so_does_the_text(
    say: Say, ask: Ask, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ref = ask("add", "Atlas costs 900", "--theme", "marketing")["rows"][0]["ref"]
    script = tmp_path / "editor"
    command = shlex.join([sys.executable, "-P", "-m", "hermes_memory_pgvector.cli", "edit", ref, "Atlas costs 950"])
    script.write_text(f'#!/bin/sh\nsed -i s/900/999/ "$1"\n{command} --yes --hermes-home {home} >&2\n')
    script.chmod(0o700)
    monkeypatch.setitem(os.environ, "EDITOR", str(script))
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    told = say("edit", ref, "--yes", code=1)
    assert "changed by somebody else" in told
    assert ask("show", ref)["content"] == "Atlas costs 950"
    (left,) = tmp_path.glob("hermes-pgvector-*.txt")
    assert str(left) in told and left.read_text().strip() == "Atlas costs 999"
