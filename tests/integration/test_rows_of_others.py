"""Rows that SQL of others has stored, of shapes that no agent writes: they are in nobody else's way."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.server.cluster import EmbeddedServer
from tests.conftest import DIMS, MakeProvider
from tests.support.dashboard import BASE, DashboardApi
from tests.support.memory import called, knowing, landed, recalled, write_entries
from tests.support.row_security import session, tenant_of
from tests.support.scripted_embedder import ScriptedEmbedder

from .conftest import Run

NO_OBJECTS = ("[1]", '"x"', "null", "5")
SALES = "The walrus port of sales is 5432, since the third of May."


@pytest.fixture
def tenant(postgres: EmbeddedServer, admin_dsn: str, make_provider: MakeProvider) -> Iterator[psycopg.Connection[Any]]:
    """A session of marketing's role, beside a memory and turns of sales."""
    knowing(make_provider(gateway_session_key="sales"), SALES, said=("Where is the walrus port of sales?", SALES))
    tenant_of(postgres, admin_dsn, "marketing")
    with session(admin_dsn, "tenant_marketing") as conn:
        yield conn


@pytest.fixture
def odd_objects(tenant: psycopg.Connection[Any]) -> None:
    """Rows of marketing's with other JSON than an object, wherever one is expected."""
    for number, value in enumerate(NO_OBJECTS, 900):
        for statement in (
            "INSERT INTO memory_entries (agent_identity, target, content, metadata)"
            " VALUES ('marketing', 'memory', 'A walrus of ' || %(json)s, %(json)s::text::jsonb)",
            "INSERT INTO conversations (agent_identity, session_id, role, content, metadata)"
            " VALUES ('marketing', 'odd', 'user', 'A walrus of ' || %(json)s, %(json)s::text::jsonb)",
            "INSERT INTO hermes_proposals"
            " (agent_identity, target, content, kind, confidence, sources, said_at, metadata) VALUES"
            " ('marketing', 'memory', 'A walrus of ' || %(json)s, 'fact', 0.5, '{1}', now(), %(json)s::text::jsonb)",
            # As the trigger writes it when a session sets `hermes_pgvector.who` to such a value.
            "INSERT INTO memory_history"
            " (agent_identity, memory_id, target, action, who, chars, digest, old_content, old_row)"
            " VALUES ('marketing', %(number)s, 'memory', 'removed', %(json)s::text::jsonb, 1, '\\x00', %(json)s, '{}')",
        ):
            tenant.execute(statement.encode(), {"json": value, "number": number})


@pytest.fixture
def configured(home: Path, dsn: str) -> None:
    """The home's config.yaml names the test's database."""
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))


@pytest.mark.usefixtures("odd_objects", "configured")
def test_need_16_other_json_than_an_object_ends_no_command(cli: Run, tmp_path: Path) -> None:
    target = tmp_path / "all.jsonl"
    for words in (
        ("show", "m2", "--theme", "marketing"),
        ("show", "t3", "--theme", "marketing"),
        ("sessions", "show", "odd", "--theme", "marketing"),
        ("history", "--theme", "marketing"),
        ("facts", "review", "--theme", "marketing"),
        ("export", str(target)),
    ):
        done = cli(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    assert SALES in target.read_text() and "A walrus of" in target.read_text()


@pytest.mark.usefixtures("configured")
def test_need_16_a_log_entry_of_other_json_ends_no_command(cli: Run, dsn: str, tmp_path: Path) -> None:
    odd = ('{"themes": 5}', '{"theme": [1], "into": 2, "state": {}}', '{"themes": ["sales"], "numbers": "x"}')
    counts = ('{"turns": "many"}', '{"turns": [1], "memories": 2}')
    with psycopg.connect(dsn) as conn:
        for verb in ("prune", "rename", "merge"):
            for arguments, counted in itertools.product(NO_OBJECTS + odd, NO_OBJECTS + counts):
                conn.execute(
                    "INSERT INTO hermes_maintenance (os_user, host, verb, arguments, counts)"
                    " VALUES ('x', 'y', %s, %s::text::jsonb, %s::text::jsonb)",
                    (verb, arguments, counted),
                )
    for words in (("themes", "log"), ("themes", "log", "--json"), ("export", str(tmp_path / "all.jsonl"))):
        done = cli(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    for words in (("import", str(tmp_path / "all.jsonl")), ("status", "--verbose"), ("doctor", "--json")):
        done = cli(*words)
        assert "unexpected" not in done.stdout + done.stderr, (words, done.stdout, done.stderr)


@pytest.mark.usefixtures("odd_objects")
def test_need_42_other_json_than_an_object_ends_no_view(api: DashboardApi) -> None:
    assert len(api.get("/history")["rows"]) >= len(NO_OBJECTS)
    assert len(api.get("/removed")["rows"]) == len(NO_OBJECTS)
    assert api.get("/row", ref="m2", theme="marketing")["content"].startswith("A walrus of")
    assert api.http.get(BASE + "/session", params={"theme": "marketing", "session": "odd"}).status_code == 200


@pytest.mark.usefixtures("configured")
def test_need_31_a_removal_that_a_tenant_made_up_keeps_no_other_from_being_restored(
    tenant: psycopg.Connection[Any], cli: Run, make_provider: MakeProvider, home: Path
) -> None:
    otter, walrus = "The otter swims.", "A walrus swims."
    write_entries(home, otter, walrus)
    landed(make_provider(session_id="before"))
    write_entries(home, walrus)
    landed(make_provider(session_id="after"))
    for number, kept in enumerate(('{"updated_at": "yesterday"}', '{"sources": "x"}', '{"created_at": 5}', "{}"), 900):
        tenant.execute(
            b"INSERT INTO memory_history"
            b" (agent_identity, memory_id, target, action, who, chars, digest, old_content, old_row) VALUES"
            b" ('marketing', %s, 'memory', 'removed', '{}', 1, '\\x00', 'A walrus of ' || %s, %s::text::jsonb)",
            (number, kept, kept),
        )
    assert "Postgres refuses what is kept of it" in cli("restore", "m900").stderr
    done = cli("restore", "--since", "1d")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("cannot be restored") == 4 and otter in done.stdout
    assert recalled(make_provider(gateway_session_key="default"), "otter") == [otter]


def test_need_14_a_vector_without_a_direction_ends_no_recall(
    tenant: psycopg.Connection[Any], make_provider: MakeProvider, embedder: ScriptedEmbedder
) -> None:
    for number in range(12):
        for statement in (
            "INSERT INTO memory_entries (agent_identity, target, content, embedding) VALUES"
            " ('marketing', 'memory', %(text)s, array_fill(0::real, ARRAY[384])::vector)",
            "INSERT INTO conversations (agent_identity, session_id, role, content, embedding) VALUES"
            " ('marketing', 's', 'user', %(text)s, array_fill(0::real, ARRAY[384])::vector)",
        ):
            tenant.execute(statement.encode(), {"text": f"The walrus port of group {number} is closed."})
    # Of some there is a code without the vector, and a part.
    tenant.execute("UPDATE memory_entries SET embedding = NULL WHERE id % 2 = 0")
    tenant.execute("UPDATE memory_entries SET code = repeat('1', 1152)::bit(1152) WHERE embedding IS NULL")
    tenant.execute(
        "INSERT INTO memory_chunks (row_id, part, agent_identity, first_char, embedding, sig)"
        " SELECT id, 1, 'marketing', 0, array_fill(0::real, ARRAY[384])::vector, repeat('1', 384)::bit(384)"
        "  FROM memory_entries"
    )
    settings = {"cross_theme": "all", "embed_url": embedder.url, "embed_model": "scripted"}
    provider = make_provider(settings, gateway_session_key="sales")
    for tool in ("recall_memory", "recall_conversation"):
        for scope in ("all", "marketing"):
            answer = called(provider, tool, {"query": "walrus port", "scope": scope, "limit": 50, "explain": True})
            odd = [hit for hit in answer["results"] if "group" in hit["content"]]
            assert len(odd) == 12
            # An agent gives the memories without a vector theirs, sooner or later.
            zeros = [hit for hit in odd if tool == "recall_conversation" or hit["id"] % 2]
            assert all(hit["similarity"] is None and hit["explain"]["meaning_rank"] is None for hit in zeros)


@pytest.mark.usefixtures("configured")
def test_need_03_a_number_that_a_tenant_made_up_uses_up_no_sequence(
    tenant: psycopg.Connection[Any], cli: Run, admin_dsn: str, make_provider: MakeProvider
) -> None:
    for statement in (
        "INSERT INTO memory_entries (id, agent_identity, target, content)"
        " VALUES (9223372036854775807, 'marketing', 'memory', 'A walrus swims.')",
        "INSERT INTO conversations (id, agent_identity, session_id, role, content)"
        " VALUES (9223372036854775807, 'marketing', 's', 'user', 'A walrus swims.')",
    ):
        tenant.execute(statement.encode())
    assert "sequence" not in cli("doctor").stdout
    cli("doctor", "--fix", "--admin-dsn", admin_dsn)
    provider = make_provider(gateway_session_key="sales")
    provider.on_memory_write("add", "memory", "The otter port is 5433.")
    landed(provider)
    assert recalled(provider, "otter") == ["The otter port is 5433."]


@pytest.mark.usefixtures("configured")
def test_need_16_an_export_leaves_out_what_no_import_reads_and_says_of_which_row(
    tenant: psycopg.Connection[Any], cli: Run, tmp_path: Path
) -> None:
    tenant.execute(
        "INSERT INTO memory_entries"
        " (id, agent_identity, target, content, kind, state, subject, applies_when, expires_at) VALUES"
        " (77, 'marketing', 'memory', 'A walrus swims.', 'procedure', 'active', repeat('s', 300), 'otter', '20000-1-1')"
    )
    target = tmp_path / "all.jsonl"
    done = cli("export", str(target))
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "m77 in the theme 'marketing'" in done.stderr
    (row,) = (
        row for row in map(json.loads, target.read_text().splitlines()) if row.get("content") == "A walrus swims."
    )
    assert row["structure"] == {"kind": "procedure", "state": "active", "when": "otter"}
    assert SALES in target.read_text()
