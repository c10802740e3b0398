"""Memories that say what they are about: what is said anew of a subject is current, and the old is history."""

from __future__ import annotations

from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.memory import called, landed, runtime_of, write_entries
from tests.support.stored import Database

STRUCTURED = {"tools": ["remember", "forget", "memory_profile"], "structure": True}


def remember(provider: PgvectorMemoryProvider, content: str, **args: object) -> dict[str, Any]:
    answer = called(provider, "remember", {"content": content, "sync": True} | args)
    assert answer.get("state") == "stored", answer
    return answer


def fetched(dsn: str, statement: LiteralString, *parameters: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(statement, parameters).fetchall()


def rows(dsn: str) -> dict[str, tuple[Any, ...]]:
    found = fetched(dsn, "SELECT content, kind, subject, scope, state, replaces FROM memory_entries ORDER BY id")
    return {row[0]: tuple(row[1:]) for row in found}


def actions(dsn: str, memory: int) -> list[str]:
    return [
        row[0] for row in fetched(dsn, "SELECT action FROM memory_history WHERE memory_id = %s ORDER BY id", memory)
    ]


def found(provider: PgvectorMemoryProvider, query: str) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = called(provider, "recall_memory", {"query": query, "limit": 10})["results"]
    return results


def test_need_43_what_is_said_anew_of_a_subject_replaces_what_was_said(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(STRUCTURED, gateway_session_key="atlas")
    old = remember(provider, "The database listens on port 5432", kind="value", subject="srv.db")["id"]
    new = remember(provider, "The database listens on port 6432", kind="value", subject="SRV.db")["id"]
    assert rows(dsn) == {
        "The database listens on port 5432": ("value", "srv.db", None, "superseded", None),
        "The database listens on port 6432": ("value", "SRV.db", None, "active", old),
    }
    (result,) = found(provider, "database port")
    assert result["id"] == new and result["kind"] == "value" and result["subject"] == "SRV.db"
    assert result["replaced"]["content"] == "The database listens on port 5432"
    assert result["replaced"]["until"] >= result["replaced"]["said_at"]
    assert actions(dsn, old) == ["added", "superseded"]
    block = provider.prefetch("On which port does the database listen?")
    assert "6432" in block and 'replaces "The database listens on port 5432"' in block
    assert block.index("6432") < block.index("5432")


def test_another_kind_scope_or_theme_is_another_fact(make_provider: MakeProvider, dsn: str) -> None:
    atlas = make_provider(STRUCTURED, gateway_session_key="atlas")
    other = make_provider(STRUCTURED, gateway_session_key="sales")
    remember(atlas, "Tokens last 7 days", kind="decision", subject="auth")
    remember(atlas, "Tokens are never logged", kind="constraint", subject="auth")
    remember(atlas, "In the pilot tokens last an hour", kind="decision", subject="auth", scope="pilot")
    remember(other, "Tokens last a year", kind="decision", subject="auth")
    assert {state for _, _, _, state, _ in rows(dsn).values()} == {"active"}


def test_what_is_said_once_more_is_current_again(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(STRUCTURED)
    first = remember(provider, "D[auth]: sessions")["id"]
    remember(provider, "D[auth]: tokens of 7 days")
    assert remember(provider, "D[auth]: sessions")["id"] == first
    states = {content: row[3] for content, row in rows(dsn).items()}
    assert states == {"D[auth]: sessions": "active", "D[auth]: tokens of 7 days": "superseded"}
    (result,) = found(provider, "auth sessions tokens")
    assert result["content"] == "D[auth]: sessions"
    assert result["replaced"]["content"] == "D[auth]: tokens of 7 days"
    assert result["replaced"]["until"] >= result["replaced"]["said_at"]
    assert actions(dsn, first) == ["added", "superseded", "reopened"]


@pytest.mark.parametrize("text", ["Tokens last 7 days", "D[auth]: tokens last 7 days"])
def test_need_43_a_decision_that_is_said_again_without_a_kind_stays_one(
    make_provider: MakeProvider, dsn: str, text: str
) -> None:
    provider = make_provider(STRUCTURED)
    remember(provider, text, kind="decision", subject="auth")
    remember(provider, text, subject="auth")
    assert rows(dsn)[text][0] == "decision"
    remember(provider, "Tokens last an hour", kind="decision", subject="auth")
    assert [result["content"] for result in found(provider, "tokens last")] == ["Tokens last an hour"]
    remember(provider, "Tokens last an hour", kind="constraint")
    assert rows(dsn)["Tokens last an hour"][0] == "constraint", "a kind that is given is taken"


def test_an_obsoleting_line_that_is_said_again_replaces_nothing_else(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(STRUCTURED)
    for text in ("D[auth]: tokens", "C[auth]: no plain text", "~[auth]: only TLS", "~[auth]: only TLS"):
        remember(provider, text)
    assert {text: (row[0], row[3]) for text, row in rows(dsn).items()} == {
        "D[auth]: tokens": ("decision", "active"),
        "C[auth]: no plain text": ("constraint", "superseded"),
        "~[auth]: only TLS": ("constraint", "active"),
    }


def test_a_write_that_arrives_late_does_not_replace_what_was_said_after_it(
    make_provider: MakeProvider, dsn: str
) -> None:
    provider = make_provider(STRUCTURED)
    remember(provider, "V[srv]: ten.example")
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "INSERT INTO memory_entries "
            "(agent_identity, target, content, kind, subject, state, created_at, updated_at) "
            "SELECT agent_identity, target, 'V[srv]: nine.example', kind, subject, state, now() - interval '1 day', "
            "now() - interval '1 day' FROM memory_entries"
        )
    assert {content: row[3] for content, row in rows(dsn).items()} == {
        "V[srv]: ten.example": "active",
        "V[srv]: nine.example": "superseded",
    }


def test_need_40_a_fact_that_is_not_current_is_told(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(STRUCTURED)
    assert "note" not in remember(provider, "port 3000", kind="value", subject="srv")
    with psycopg.connect(dsn) as connection:  # as from a machine whose clock is ahead of this one's
        connection.execute("UPDATE memory_entries SET updated_at = now() + interval '2 minutes'")
    told = remember(provider, "port 3005", kind="value", subject="srv")
    assert "not current" in told["note"] and "clock" in told["note"]
    assert rows(dsn)["port 3005"][3] == "superseded"


def test_plain_text_is_replaced_by_its_number(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(STRUCTURED)
    old = remember(provider, "The office is in Lyon")["id"]
    remember(provider, "The office moved to Nantes", replaces=old)
    assert rows(dsn) == {
        "The office is in Lyon": (None, None, None, "superseded", None),
        "The office moved to Nantes": (None, None, None, None, old),
    }
    (result,) = found(provider, "office")
    assert result["replaced"]["content"] == "The office is in Lyon"
    missing = called(provider, "remember", {"content": "The office is by the sea", "replaces": 999_999})
    assert "999999" in missing["error"]
    profile = called(provider, "memory_profile", {})
    assert [line["content"] for line in profile["memory"]] == ["The office moved to Nantes"]
    assert profile["known"]["memory"] == 1


@pytest.mark.parametrize(
    ("line", "kind", "subject"),
    [
        ("C[db.id]: UUID always", "constraint", "db.id"),
        ("D[auth]: tokens of 7 days", "decision", "auth"),
        ("V[srv.prod]: api.example:3005", "value", "srv.prod"),
        ("?[cache]: which one?", "question", "cache"),
    ],
)
def test_a_line_of_notation_is_read(make_provider: MakeProvider, dsn: str, line: str, kind: str, subject: str) -> None:
    provider = make_provider(STRUCTURED)
    remember(provider, line)
    assert rows(dsn) == {line: (kind, subject, None, "active", None)}


@pytest.mark.parametrize("line", ["D[auth] tokens", "C[]: nothing", "V[a][b]: c", "?[x]:", "D[a]: one\nD[b]: two"])
def test_a_malformed_line_of_notation_is_plain_text(make_provider: MakeProvider, dsn: str, line: str) -> None:
    answer = remember(make_provider({"tools": ["remember"]}), line)
    assert "plain text" in answer["note"]
    assert rows(dsn) == {line: (None, None, None, None, None)}


def test_a_scope_and_a_question_are_closed(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(STRUCTURED)
    remember(provider, "Deploys go through the queue", kind="decision", subject="deploys", scope="auth")
    remember(provider, "?[auth.tokens]: how long do they last?")
    remember(provider, "C[auth]: never log a token")
    remember(provider, "D[authors]: they sign")
    remember(provider, "✓[auth]: deployed")
    assert {content: row[3] for content, row in rows(dsn).items()} == {
        "Deploys go through the queue": "closed",
        "?[auth.tokens]: how long do they last?": "closed",
        "C[auth]: never log a token": "active",
        "D[authors]: they sign": "active",
        "✓[auth]: deployed": "closed",
    }
    # What is closed is known as before.
    assert "Deploys go through the queue" in [result["content"] for result in found(provider, "deploys queue")]


def test_need_43_who_forgets_what_is_current_is_told_what_was_before(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider({"tools": ["remember", "forget"], "structure": True})
    first, second, third = (
        called(provider, "remember", {"content": f"V[anna.flat]: Kirkegata {number}", "sync": True})["id"]
        for number in (5, 7, 9)
    )
    assert f"call forget with `ids` [{first}, {second}]" in called(provider, "forget", {"id": third})["note"]
    assert "hidden" not in called(provider, "forget", {"ids": [first, second]})["note"]
    assert Database(dsn).column("SELECT content FROM memory_entries") == []


def test_an_obsolete_fact_is_replaced_whatever_kind_it_was(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(STRUCTURED)
    remember(provider, "D[auth]: sessions")
    remember(provider, "~[auth]: tokens instead of sessions")
    assert [row[:4] for row in rows(dsn).values()] == [
        ("decision", "auth", None, "superseded"),
        ("decision", "auth", None, "active"),
    ]


def test_what_has_expired_is_not_recalled(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(STRUCTURED)
    said = remember(provider, "The demo password rule is off", expires_at="2020-01-01")
    assert "`expires_at` is past" in said["note"]
    remember(provider, "The demo runs on Friday", expires_at="7d")
    assert [result["content"] for result in found(provider, "demo")] == ["The demo runs on Friday"]
    (left,) = fetched(dsn, "SELECT expires_at > now() + interval '6 days' FROM memory_entries WHERE id = 2")
    assert left == (True,)


def test_many_that_were_replaced_do_not_take_the_places_of_what_is_current(
    make_provider: MakeProvider, dsn: str
) -> None:
    provider = make_provider(STRUCTURED)
    remember(provider, "The staging server is kept in Oslo")
    for number in range(150):
        called(provider, "remember", {"content": f"V[staging]: the staging server is number {number}"})
    landed(provider)
    results = found(provider, "Where is the staging server kept?")
    assert {result["content"] for result in results} == {
        "The staging server is kept in Oslo",
        "V[staging]: the staging server is number 149",
    }
    (hidden,) = fetched(dsn, "SELECT count(*) FROM memory_entries WHERE state = 'superseded' AND sig IS NULL")
    assert hidden == (149,)


def test_notation_in_a_memory_file_is_read_and_an_old_file_changes_nothing(
    make_provider: MakeProvider, home: Path, dsn: str
) -> None:
    write_entries(home, "D[auth]: sessions", "Atlas is blue", age_s=3600)
    provider = make_provider(STRUCTURED, gateway_session_key="default")  # the theme of what a file holds
    landed(provider)
    remember(provider, "D[auth]: tokens")
    write_entries(home, "D[auth]: sessions", "Atlas is blue", "V[srv]: ten.example", age_s=1800)
    landed(make_provider(STRUCTURED, session_id="next"))
    assert {content: row[3] for content, row in rows(dsn).items()} == {
        "D[auth]: sessions": "superseded",
        "Atlas is blue": None,
        "D[auth]: tokens": "active",
        "V[srv]: ten.example": "active",
    }


@pytest.mark.parametrize("age_s", [0, 60], ids=["edited back", "an old copy put back"])
def test_a_line_that_comes_back_into_a_file_is_what_holds_again(
    make_provider: MakeProvider, home: Path, age_s: float
) -> None:
    for line_age_s, line in ((60, "D[auth]: tokens"), (30, "D[auth]: sessions"), (age_s, "D[auth]: tokens")):
        write_entries(home, "Atlas is blue", line, age_s=line_age_s)
        provider = make_provider(STRUCTURED, gateway_session_key="default")
        landed(provider)
        assert [hit["content"] for hit in found(provider, "auth tokens sessions")] == [line]


@pytest.mark.parametrize("kept", [(), ("D[auth]: sessions",)], ids=["alone", "above what was said later"])
def test_a_line_that_was_replaced_before_it_was_taken_out_holds_again_when_it_is_back(
    make_provider: MakeProvider, home: Path, kept: tuple[str, ...]
) -> None:
    first, later = "D[auth]: tokens", "D[auth]: sessions"
    for age_s, lines in ((60, (first,)), (50, (first, later)), (40, kept), (0, (first, *kept))):
        write_entries(home, "Atlas is blue", *lines, age_s=age_s)
        provider = make_provider(STRUCTURED, gateway_session_key="default")
        landed(provider)
    assert [hit["content"] for hit in found(provider, "auth tokens sessions")] == [kept[0] if kept else first]


@pytest.mark.parametrize("told", [True, False], ids=["by the agent", "by hand"])
def test_a_line_holds_again_when_the_lower_one_that_replaced_it_is_taken_out(
    make_provider: MakeProvider, home: Path, told: bool
) -> None:
    upper, lower = "D[auth]: tokens", "D[auth]: sessions"
    for age_s, lines in ((60, (upper,)), (30, (upper, lower)), (0, (upper,))):
        write_entries(home, "Atlas is blue", *lines, age_s=age_s)
        by_agent = told and age_s == 0
        provider = make_provider(STRUCTURED | {"bulk_sync_on_init": not by_agent}, gateway_session_key="default")
        if by_agent:
            provider.on_memory_write("remove", "memory", "", {"old_text": "sessions"})
        landed(provider)
    assert [hit["content"] for hit in found(provider, "auth tokens sessions")] == [upper]


def test_a_line_does_not_hold_again_when_something_else_took_its_place(
    make_provider: MakeProvider, home: Path, dsn: str
) -> None:
    upper, said, lower = "D[auth]: tokens", "D[auth]: cookies", "D[auth]: sessions"
    write_entries(home, "Atlas is blue", upper, age_s=60)
    provider = make_provider(STRUCTURED, gateway_session_key="default")
    landed(provider)
    remember(provider, said)
    for lines in ((upper, lower), (upper,)):
        write_entries(home, "Atlas is blue", *lines, age_s=-1)
        provider = make_provider(STRUCTURED, gateway_session_key="default")
        landed(provider)
        assert [hit["content"] for hit in found(provider, "auth tokens sessions")] == list(lines[1:])
    assert [row[3] for row in rows(dsn).values()] == [None, "superseded", "superseded"]


@pytest.mark.parametrize("between", [0, 2], ids=["taken out and put back", "a lower line taken out"])
def test_a_line_that_a_memory_of_another_subject_took_the_place_of_does_not_hold_again(
    make_provider: MakeProvider, home: Path, dsn: str, between: int
) -> None:
    line, lower = "D[auth]: tokens", "D[auth]: sessions"
    write_entries(home, "Atlas is blue", line, age_s=60)
    provider = make_provider(STRUCTURED, gateway_session_key="default")
    landed(provider)
    [(old,)] = fetched(dsn, "SELECT id FROM memory_entries WHERE content = %s", line)
    remember(provider, "Users log in by passkeys", kind="decision", subject="login", replaces=old)
    for lines in ((line, lower)[:between], (line,)):
        write_entries(home, "Atlas is blue", *lines, age_s=-1)
        landed(make_provider(STRUCTURED, gateway_session_key="default"))
    assert rows(dsn)[line][3] == "superseded"


def test_without_the_setting_the_arguments_are_not_taken(make_provider: MakeProvider) -> None:
    provider = make_provider({"tools": ["remember"]})
    answer = called(provider, "remember", {"content": "Tokens", "kind": "decision", "subject": "auth"})
    assert "no argument `kind`, `subject`" in answer["error"]
    (schema,) = [each for each in provider.get_tool_schemas() if each["name"] == "remember"]
    assert "kind" not in schema["parameters"]["properties"]


@pytest.mark.parametrize(
    "given",
    [{"kind": "rumour"}, {"subject": "x" * 201}, {"confidence": 2}, {"sources": "all"}, {"expires_at": "soon"},
     {"replaces": -1}],
)  # fmt: skip
def test_a_wrong_argument_says_what_to_do(make_provider: MakeProvider, given: dict[str, object]) -> None:
    answer = called(make_provider(STRUCTURED), "remember", {"content": "Tokens last"} | given)
    assert f"`{next(iter(given))}`" in answer["error"] or "date" in answer["error"]


FAR_OFF = [
    "0001-01-01",
    "0060-01-01",
    "9998-12-31",
    "8400-01-01T00:00Z",
    "9999-12-31T23:59-23:59",
    3e11,
    -1e11,
    10**400,
]


@pytest.mark.parametrize("given", FAR_OFF)
def test_an_end_that_could_not_be_stored_is_refused_at_once(make_provider: MakeProvider, given: object) -> None:
    provider = make_provider(STRUCTURED)
    answer = called(provider, "remember", {"content": "Tokens last", "expires_at": given})
    assert "`expires_at`" in answer.get("error", "")
    landed(provider)
    assert runtime_of(provider).writer.rejected_count() == 0
