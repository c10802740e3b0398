"""A role with the documented rights and none besides, in a database that gives nothing to everybody."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_memory_pgvector.admin.common import row_security
from hermes_memory_pgvector.admin.common.migrations import migrate
from hermes_memory_pgvector.admin.common.schema_checks import missing_rights
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.store.pool import connect
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import called, landed, recalled, write_entries
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.turns import ANSWER, turn

Capture = pytest.CaptureFixture[str]
Verb = Callable[..., Any]

_NOTHING_FOR_EVERYBODY = (
    "REVOKE ALL ON DATABASE {database} FROM PUBLIC; GRANT CONNECT ON DATABASE {database} TO hermes; "
    "REVOKE ALL ON SCHEMA public FROM PUBLIC; ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC; "
    "ALTER DEFAULT PRIVILEGES REVOKE USAGE ON TYPES FROM PUBLIC"
)
_SEQUENCES = "memory_entries_id_seq", "conversations_id_seq"


@pytest.fixture
def least(empty_admin_dsn: str, led_through: Callable[[str], str]) -> str:
    """The conninfo of a role that has only what `migrate --runtime-role` gives; not even temporary tables."""
    database = sql.Identifier(str(conninfo_to_dict(empty_admin_dsn)["dbname"]))
    with psycopg.connect(empty_admin_dsn, autocommit=True) as admin:
        admin.execute(sql.SQL(_NOTHING_FOR_EVERYBODY).format(database=database))
    migrate(empty_admin_dsn, dims=DIMS, runtime_role="hermes")
    return led_through(make_conninfo(empty_admin_dsn, user="hermes"))


@pytest.fixture
def settings(least: str, embedder: ScriptedEmbedder, home: Path) -> dict[str, Any]:
    chosen = {"dsn": least, "dims": DIMS, "embed_url": embedder.url, "tools": ["remember", "forget", "memory_profile"]}
    section = {"memory": {"provider": "pgvector"}, "plugins": {"pgvector": chosen, "enabled": ["pgvector"]}}
    (home / "config.yaml").write_text(yaml.safe_dump(section))
    return chosen


@pytest.fixture
def talked(settings: dict[str, Any], make_provider: MakeProvider, home: Path) -> None:
    """An agent has done everything that agents do."""
    write_entries(home, "From the file: the crane is yellow.")
    provider = make_provider(settings | {"retention": ["*=30"]})
    for number in range(3):
        provider.on_turn_start(number, turn(number))
        provider.prefetch(turn(number))
        provider.sync_turn(turn(number), ANSWER)
        provider.queue_prefetch(turn(number))
    provider.on_memory_write("add", "memory", "The harbour office has a blue door.")
    provider.on_memory_write("replace", "memory", "The harbour office has a red door.", {"old_text": "blue door"})
    provider.on_memory_write("add", "user", "Prefers short answers.")
    provider.on_memory_write("remove", "user", "", {"old_text": "short answers"})
    provider.on_delegation("Look up the tide of tomorrow", "High water is at noon", child_session_id="child")
    kept = called(provider, "remember", {"content": "The ferry leaves at nine.", "sync": True})
    assert kept["state"] == "stored", kept
    landed(provider)
    assert recalled(provider, "red door")[0] == "The harbour office has a red door."
    for question in ({}, {"scope": "all"}, {"explain": True}, {"since": "2020-01-01"}):
        assert called(provider, "recall_memory", {"query": "ferry", **question})["count"]
    assert turn(1) in recalled(provider, turn(1), tool="recall_conversation", around=1)
    assert "red door" in provider.prefetch("Which door has the harbour office?")
    assert "error" not in called(provider, "memory_profile", {})
    assert "error" not in called(provider, "forget", {"query": "ferry"})
    provider.on_session_switch("session-2", parent_session_id="session-1", reset=True)
    provider.on_pre_compress([{"role": "user", "content": turn(1)}])
    provider.on_session_end([])
    landed(provider)


@pytest.fixture
def verb(home: Path, capsys: Capture) -> Verb:
    """Runs `hermes-pgvector ARGUMENTS --json`, to its good end, and returns its answer."""

    def run(*arguments: str, code: int = 0) -> Any:
        capsys.readouterr()
        ended = main([*arguments, "--json", "--hermes-home", str(home)])
        said = capsys.readouterr()
        assert ended == code, said.out + said.err
        assert "permission denied" not in said.out + said.err
        try:
            return json.loads(said.out)
        except ValueError:
            return [json.loads(line) for line in said.out.splitlines()]

    return run


def test_need_30_agents_and_operators_do_their_daily_work(
    talked: None, least: str, home: Path, tmp_path: Path, verb: Verb, records: Callable[[int], list[str]]
) -> None:
    assert [message for message in records(logging.WARNING) if "denied" in message] == []
    main(["install", "--hermes-home", str(home)])
    checks = {check["name"]: check["state"] for check in verb("doctor")["checks"]}
    assert (checks["postgres"], checks["schema"], checks["rights"]) == ("ok", "ok", "ok")
    (wanted,) = Database(least).column("SELECT id FROM memory_entries WHERE content LIKE %s", "%red door%")
    for reading in (
        ("status",), ("stats",), ("metrics",), ("search", "door"), ("search", "door", "--explain", "--around"),
        ("list",), ("list", "--store", "turns"), ("show", f"m{wanted}"), ("history",), ("history", f"m{wanted}"),
        ("sessions", "list"), ("sessions", "show", "session-1"), ("themes", "list"), ("themes", "show", "marketing"),
        ("themes", "log"), ("spool", "list"), ("prune", "--all-themes", "--older-than", "1d"),
        ("compact", "--all-themes"), ("forget", f"m{wanted}"),
    ):  # fmt: skip
        verb(*reading)
    everything = tmp_path / "everything.jsonl"
    verb("export", str(everything))
    for writing in (
        ("add", "The quay is closed on Sundays", "--theme", "sre"),
        ("edit", f"m{wanted}", "The harbour office has a green door.", "--yes"),
        ("forget", f"m{wanted}", "--yes"),
        ("backfill",),
        ("themes", "rename", "sre", "operations", "--yes"),
        ("themes", "merge", "operations", "marketing", "--yes"),
        ("themes", "delete", "marketing", "--yes"),
        ("prune", "--all-themes", "--older-than", "1d", "--yes"),
        ("import", str(everything)),
    ):
        verb(*writing)
    assert turn(1) in Database(least).column("SELECT content FROM conversations")


@pytest.mark.parametrize(
    "admins",
    [
        ("migrate", "--runtime-role", "hermes"),
        ("reembed", "--yes"),
        ("tenants", "enable"),
    ],
    ids=" ".join,
)
def test_need_30_what_is_an_administrators_is_refused_in_words(
    settings: dict[str, Any], empty_admin_dsn: str, home: Path, capsys: Capture, admins: tuple[str, ...]
) -> None:
    no_admin = make_conninfo(empty_admin_dsn, user="hermes")
    before = Database(no_admin).column("SELECT (t.*)::text FROM hermes_embedding AS t")
    code = main([*admins, "--admin-dsn", no_admin, "--hermes-home", str(home)])
    said = capsys.readouterr()
    assert code == 1
    assert "the admin's DSN must name a superuser, or the owner" in said.err
    assert Database(no_admin).column("SELECT (t.*)::text FROM hermes_embedding AS t") == before


@pytest.fixture
def admin(empty_admin_dsn: str, least: str) -> Iterator[Any]:
    with connect(empty_admin_dsn) as connection:
        yield connection


def test_need_02_each_right_that_a_role_lacks_is_named(admin: Any) -> None:
    assert missing_rights(admin) == []
    granted = admin.execute(
        "SELECT table_name, privilege_type FROM information_schema.role_column_grants WHERE grantee = 'hermes' "
        "UNION SELECT table_name, privilege_type FROM information_schema.role_table_grants WHERE grantee = 'hermes'"
    ).fetchall()
    assert len(granted) > 30
    for table, right in [*granted, *((sequence, "USAGE") for sequence in _SEQUENCES)]:
        with admin.transaction(force_rollback=True):
            revoke = "REVOKE {} ON SEQUENCE {} FROM hermes" if right == "USAGE" else "REVOKE {} ON {} FROM hermes"
            admin.execute(sql.SQL(revoke).format(sql.SQL(right), sql.Identifier(table)))
            admin.execute("SET LOCAL ROLE hermes")
            assert f"{right} on {table}" in missing_rights(admin)


def test_need_02_functions_that_a_role_may_not_call_are_named_and_granted(
    least: str, empty_admin_dsn: str, make_provider: MakeProvider
) -> None:
    with connect(empty_admin_dsn) as admin:
        admin.execute("REVOKE EXECUTE ON ALL ROUTINES IN SCHEMA public FROM hermes")
        with connect(least) as agent:
            told = missing_rights(agent)
        assert "EXECUTE on hermes_lexemes(text,text)" in told and "EXECUTE on functions of vector" in told
        migrate(empty_admin_dsn, dims=DIMS)
        row_security.enable(admin)
    with connect(least) as agent:
        assert missing_rights(agent) == []
    provider = make_provider({"dsn": least})
    provider.on_memory_write("add", "memory", "The harbour office has a blue door.")
    landed(provider)
    assert recalled(provider, "blue door") == ["The harbour office has a blue door."]
