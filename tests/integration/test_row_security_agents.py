"""Agents whose database role has some themes only; the commands and the SQL with which an operator says which."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import hermes_memory_pgvector
from hermes_memory_pgvector.admin.common import row_security
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.store.pool import connect
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import called, landed, recalled, rejected_writes, results, runtime_of
from tests.support.row_security import let_tenants_in, session
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.waiting import until

from .conftest import Run

FILE = Path(hermes_memory_pgvector.__file__).parent / "migrations" / "optional" / "row_security.sql"
_VERBS = (
    (0, "search Atlas --scope all"), (1, "search Atlas --theme sales"), (0, "list"), (1, "list --theme sales"),
    (0, "list --store turns"), (1, "show m2"), (1, "show t3"), (1, "add note --theme sales"),
    (0, "add note --theme marketing"), (1, "edit m2 changed --yes"), (1, "forget m2 --yes"), (1, "history m2"),
    (0, "history"), (1, "history --theme sales"), (0, "sessions list"), (1, "sessions show sales-1"),
    (0, "themes list"), (1, "themes show sales"), (1, "themes delete sales --yes"),
    (1, "themes rename marketing ads --yes"),
    (1, "themes merge marketing sales --yes"), (0, "compact --all-themes --older-than 1d --yes"), (0, "export FILE"),
    (0, "prune --all-themes --keep-rows 1 --yes"), (0, "forget m1 --yes"), (0, "status"), (0, "stats"), (0, "metrics"),
)  # fmt: skip
QUESTION = "Who owns the Atlas budget?"


@pytest.fixture
def tenant_dsn(postgres: EmbeddedServer, admin_dsn: str) -> str:
    """How marketing's agents log in."""
    let_tenants_in(postgres)
    with connect(admin_dsn) as conn:
        row_security.enable(conn)
        row_security.grant(conn, "hermes", ["*"])
        row_security.grant(conn, "tenant_marketing", ["marketing"])
    return make_conninfo(admin_dsn, user="tenant_marketing")


def _fill(make_provider: MakeProvider, config: dict[str, object], *themes: str) -> None:
    fleet = [make_provider(config, gateway_session_key=theme, session_id=f"{theme}-1") for theme in themes]
    for theme, provider in zip(themes, fleet, strict=True):
        provider.on_memory_write("add", "memory", f"The Atlas budget is owned by {theme}")
        provider.sync_turn(f"Who owns the Atlas budget in {theme}, remind me?", f"It is owned by {theme}, as I said.")
    for provider in fleet:
        landed(provider)


@pytest.mark.parametrize("embedded", [False, True], ids=["by words", "by meaning"])
def test_need_04_a_tenant_recalls_its_own_themes_whatever_it_asks_for(
    make_provider: MakeProvider, tenant_dsn: str, embedder: ScriptedEmbedder, embedded: bool
) -> None:
    config: dict[str, object] = {"embed_url": embedder.url} if embedded else {}
    _fill(make_provider, config, "marketing", "sales")
    provider = make_provider({**config, "dsn": tenant_dsn, "cross_theme": "all"})
    for tool, each in (("recall_memory", 1), ("recall_conversation", 1)):
        assert len(recalled(provider, QUESTION, tool=tool)) == each
        everything = called(provider, tool, {"query": QUESTION, "scope": "all", "limit": 50})
        assert [hit["theme"] for hit in results(everything)] == ["marketing"] * each
        assert recalled(provider, '"owned by"', tool=tool, scope="all"), "a phrase"
        assert recalled(provider, QUESTION, tool=tool, scope="sales") == []
    block = provider.prefetch(QUESTION)
    assert "owned by marketing" in block and "sales" not in block
    assert runtime_of(provider).backend.counts()["memories"] == 1


def test_need_04_a_tenants_write_for_another_theme_is_set_aside_and_goes_in_once_granted(
    make_provider: MakeProvider, tenant_dsn: str, admin_dsn: str, cli: Run, records: Callable[[int], list[str]]
) -> None:
    config = {"dsn": tenant_dsn}
    allowed, foreign = make_provider(config), make_provider(config, gateway_session_key="sales")
    with Database(tenant_dsn).writes_blocked():  # so that both writes are of one batch
        foreign.on_memory_write("add", "memory", "Atlas of sales")
        foreign.sync_turn("Which colour did sales choose for the Atlas?", "It is blue, as ever since last May.")
        allowed.on_memory_write("add", "memory", "Atlas of marketing")
        allowed.sync_turn("Which colour did marketing choose for the Atlas?", "It is red, as ever since last May.")
    landed(allowed)
    admin = Database(admin_dsn)
    assert set(
        admin.column("SELECT agent_identity FROM memory_entries UNION SELECT agent_identity FROM conversations")
    ) == {"marketing"}
    aside = rejected_writes(foreign)
    assert len(aside) == 2 and all(
        "row-level security" in item.error and "tenants grant" in item.error for item in aside
    )
    assert sum("row-level security" in said for said in records(logging.ERROR)) == 2
    listed = cli("spool", "list")
    assert "sales" in listed.stdout and "row-level security" in listed.stdout
    with connect(admin_dsn) as conn:
        row_security.grant(conn, "tenant_marketing", ["sales"])
    assert cli("spool", "retry", "--all", "--yes").returncode == 0
    until(lambda: admin.column("SELECT 1 FROM memory_entries WHERE agent_identity = 'sales'"), 30, "the memory")
    until(lambda: len(admin.column("SELECT 1 FROM conversations WHERE agent_identity = 'sales'")) == 2, 30, "the turn")


def test_need_04_a_tenant_that_lost_its_last_theme_waits_for_a_grant_which_is_named(
    make_provider: MakeProvider, tenant_dsn: str, admin_dsn: str, records: Callable[[int], list[str]]
) -> None:
    provider = make_provider({"dsn": tenant_dsn})
    provider.on_memory_write("add", "memory", "Atlas is red")
    landed(provider)
    with connect(admin_dsn) as conn:
        row_security.revoke(conn, "tenant_marketing", [])
        provider.on_memory_write("add", "memory", "Atlas is blue")
        until(lambda: records(logging.WARNING), 30, "what is wrong")
        assert "hermes-pgvector tenants grant ROLE THEME" in records(logging.WARNING)[0]
        row_security.grant(conn, "tenant_marketing", ["marketing"])
    landed(provider)
    assert runtime_of(provider).writer.rejected_count() == 0
    assert sorted(Database(admin_dsn).column("SELECT content FROM memory_entries")) == ["Atlas is blue", "Atlas is red"]


def test_need_04_a_tenant_embeds_its_own_waiting_rows_only(
    make_provider: MakeProvider, tenant_dsn: str, admin_dsn: str, embedder: ScriptedEmbedder
) -> None:
    _fill(make_provider, {}, "marketing", "sales")
    make_provider({"dsn": tenant_dsn, "embed_url": embedder.url})
    admin = Database(admin_dsn)
    waiting = "SELECT agent_identity FROM {} WHERE embedding IS NULL"
    until(lambda: set(admin.column(waiting.format("conversations"))) == {"sales"}, 30, "vectors of marketing")
    until(lambda: set(admin.column(waiting.format("memory_entries"))) == {"sales"}, 30, "vectors of marketing")


def test_need_04_a_role_that_was_confined_sends_nothing_of_other_themes_again(
    make_provider: MakeProvider, tenant_dsn: str
) -> None:
    """What was acknowledged lately is sent again to a server that lacks it; here it is only hidden."""
    before = make_provider(gateway_session_key="sales")
    before.on_memory_write("add", "memory", "The Atlas budget is owned by sales")
    landed(before)
    before.shutdown()
    tenant = make_provider({"dsn": tenant_dsn})
    tenant.on_memory_write("add", "memory", "The Atlas budget is owned by marketing")
    landed(tenant)
    assert runtime_of(tenant).writer.rejected_count() == 0


def test_need_04_replacing_and_removing_work_for_a_tenant(make_provider: MakeProvider, tenant_dsn: str) -> None:
    _fill(make_provider, {}, "sales")
    provider = make_provider({"dsn": tenant_dsn})
    provider.on_memory_write("add", "memory", "The Atlas budget is owned by Ada")
    provider.on_memory_write("add", "memory", "Atlas is blue")
    provider.on_memory_write("replace", "memory", "The Atlas budget is owned by Bob", {"old_text": "owned by"})
    provider.on_memory_write("remove", "memory", "", {"old_text": "Atlas is"})
    landed(provider)
    assert recalled(provider, "atlas") == ["The Atlas budget is owned by Bob"]
    assert runtime_of(provider).writer.rejected_count() == 0


def test_need_04_every_verb_keeps_to_the_themes_of_its_role(
    tenant_dsn: str, admin_dsn: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": tenant_dsn, "dims": DIMS}}}))
    admin = Database(admin_dsn)
    with psycopg.connect(admin_dsn) as conn:
        for theme in ("marketing", "sales"):  # m1 and t1, t2 are marketing's
            conn.execute(
                "INSERT INTO memory_entries (agent_identity, target, content)"
                " SELECT theme, 'memory', 'Atlas of ' || theme FROM (SELECT %s::text AS theme) AS given",
                [theme],
            )
            conn.execute(
                "INSERT INTO conversations (session_id, agent_identity, role, content)"
                " SELECT theme || '-1', theme, 'user', 'Atlas, said by ' || theme"
                "   FROM (SELECT %s::text AS theme) AS given, generate_series(1, 2)",
                [theme],
            )
    of_sales = "SELECT md5(string_agg(t::text, '' ORDER BY id)) FROM {} AS t WHERE agent_identity = 'sales'"
    tables = ("memory_entries", "conversations", "memory_history")
    before = [admin.column(of_sales.format(table)) for table in tables]
    exported = home / "export.jsonl"
    for code, line in _VERBS:
        assert main([str(exported) if word == "FILE" else word for word in line.split()]) == code, line
        said = "".join(capsys.readouterr())
        assert "of sales" not in said and "by sales" not in said, line
    assert "of marketing" in exported.read_text() and "sales" not in exported.read_text()
    assert [admin.column(of_sales.format(table)) for table in tables] == before


def test_need_04_the_index_of_a_tenants_texts_comes_and_goes_with_row_level_security(
    tenant_dsn: str, admin_dsn: str, home: Path, cli: Run
) -> None:
    name = "conversations_theme_digest_idx"
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": tenant_dsn, "dims": DIMS}}}))
    there = f"SELECT to_regclass('{name}') IS NOT NULL"
    admin = Database(admin_dsn)
    assert admin.column(there) == [True] and name not in cli("doctor").stdout
    with connect(admin_dsn) as conn:
        conn.execute(f"DROP INDEX {name}".encode())
        assert f"did not get to its end: {name};" in cli("doctor").stdout
        row_security.renew(conn)  # as migrate does
        assert admin.column(there) == [True]
        row_security.disable(conn)
    assert admin.column(there) == [False]


def test_need_04_building_the_indexes_of_tenants_waits_for_no_writer_that_waits_for_it(admin_dsn: str) -> None:
    indexes = FILE.read_bytes().partition(b"\nCOMMIT;")[2]  # what follows the policies
    names = "conversations_theme_digest_idx, memory_history_removed_idx"
    with connect(admin_dsn) as conn:
        row_security.enable(conn)
        conn.execute(f"DROP INDEX {names}".encode())

    def build() -> None:
        with connect(admin_dsn) as conn:
            row_security.run_script(conn, indexes)

    admin, builder = Database(admin_dsn), threading.Thread(target=build)
    waits = "SELECT 1 FROM pg_locks WHERE relation = 'memory_history'::regclass AND NOT granted"
    with psycopg.connect(admin_dsn) as writer:
        writer.execute(
            "INSERT INTO memory_entries (agent_identity, target, content) VALUES ('sales', 'memory', 'Atlas')"
        )
        builder.start()
        until(lambda: admin.column(waits), what="the build to wait for the writer")
        writer.execute("SET LOCAL lock_timeout = '50ms'")
        writer.execute(
            "INSERT INTO conversations (agent_identity, session_id, role, content) VALUES ('sales', 's', 'user', 'Hi')"
        )
    builder.join()
    assert admin.column(f"SELECT to_regclass(name) IS NULL FROM unnest('{{{names}}}'::text[]) AS name") == [False] * 2


def test_need_04_turning_it_on_and_off_under_a_writing_agent_loses_nothing(
    make_provider: MakeProvider, admin_dsn: str, dsn: str
) -> None:
    provider = make_provider()
    for number, change in enumerate(
        [row_security.enable, row_security.disable, row_security.enable, row_security.renew]
    ):
        provider.sync_turn(f"What is the status of ticket {number}, please tell?", f"Ticket {number} waits for review.")
        with connect(admin_dsn) as conn:
            change(conn)
        provider.sync_turn(f"And what about the ticket after {number}, please?", f"The one after {number} is closed.")
        provider.on_memory_write("add", "memory", f"Atlas, part {number}")
    landed(provider)
    assert runtime_of(provider).writer.rejected_count() == 0
    assert Database(admin_dsn).column("SELECT count(*) FROM conversations") == [16]
    assert Database(dsn).column("SELECT count(*) FROM conversations") == [16]


def test_need_04_what_a_role_may_use_after_a_change_of_themes_is_told(
    tenant_dsn: str, admin_dsn: str, home: Path, cli: Run
) -> None:
    (home / "config.yaml").write_text(f"plugins: {{pgvector: {{dims: 384, dsn: '{admin_dsn}'}}}}")
    with connect(admin_dsn) as conn:
        conn.execute(
            "INSERT INTO conversations (agent_identity, session_id, role, content)"
            " VALUES ('marketing', 's', 'user', 'Hello'), ('sales', 's', 'user', 'Hello')"
        )
    renamed = cli("themes", "rename", "marketing", "ads").stdout
    assert (
        "tenant_marketing may use 'marketing' and not 'ads': hermes-pgvector tenants grant tenant_marketing ads"
        in renamed
    )
    assert (
        "hermes-pgvector tenants revoke tenant_marketing marketing --yes" in cli("themes", "delete", "marketing").stdout
    )
    assert "tenants" not in cli("themes", "delete", "sales").stdout


@pytest.mark.parametrize("change", ["rename marketing campaigns", "merge marketing ads", "delete ads"])
def test_need_40_a_tenant_is_told_before_it_tries_that_only_an_admin_changes_themes(
    tenant_dsn: str, admin_dsn: str, home: Path, cli: Run, change: str
) -> None:
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": tenant_dsn, "dims": DIMS}}}))
    with connect(admin_dsn) as conn:
        row_security.grant(conn, "tenant_marketing", ["ads", "campaigns"])
        conn.execute(
            "INSERT INTO conversations (agent_identity, session_id, role, content)"
            " VALUES ('marketing', 's', 'user', 'Hello'), ('ads', 's', 'user', 'Hello')"
        )
    for said in ([], ["--yes"]):
        refused = cli("themes", *change.split(), *said)
        assert refused.returncode == 1 and "connect as an admin: add --admin-dsn DSN" in refused.stderr, refused
        assert "grant" not in refused.stderr, "it has these themes"
    done = cli("themes", *change.split(), "--yes", "--admin-dsn", admin_dsn)
    assert done.returncode == 0, done.stderr


def test_need_04_the_commands_say_what_they_do(postgres: EmbeddedServer, admin_dsn: str, home: Path, cli: Run) -> None:
    let_tenants_in(postgres)
    (home / "config.yaml").write_text("plugins:\n  pgvector:\n    dims: 384\n    theme_aliases: {mktg: marketing}\n")

    def run(*arguments: str) -> tuple[int, str]:
        done = cli("tenants", *arguments, "--admin-dsn", admin_dsn)
        return done.returncode, done.stdout + done.stderr

    if not Database(admin_dsn).column("SELECT 1 FROM pg_class WHERE relname = 'conversations' AND relrowsecurity"):
        assert run("grant", "tenant_marketing", "marketing") == (
            1, "error: row-level security is off; first: hermes-pgvector tenants enable\n"
        )  # fmt: skip
    code, said = run("enable")
    assert code == 0 and "hermes: " in said
    code, said = run("grant", "tenant_missing", "marketing")
    assert code == 1 and "CREATE ROLE tenant_missing LOGIN" in said
    code, said = run("grant", "postgres", "marketing")
    assert code == 1 and "passes every policy" in said
    code, said = run("grant", "tenant_marketing", " MKTG ", "ads", "--json")
    granted = json.loads(said)
    assert code == 0 and granted["done"] and granted["roles"]["tenant_marketing"] == ["ads", "marketing"]
    assert run("revoke", "tenant_marketing", "ads")[1].endswith("would lose ads; add --yes to do it\n")
    assert json.loads(run("list", "--json")[1])["roles"]["tenant_marketing"] == ["ads", "marketing"]
    code, said = run("revoke", "tenant_marketing", "ads", "adz", "--yes")
    assert code == 1 and "does not have adz, and nothing was taken from it; it has: ads, marketing" in said
    with connect(admin_dsn) as conn:
        row_security.grant(conn, "tenant_marketing", ["mktg"])  # as with psql, or before it was an alias
    code, said = run("revoke", "tenant_marketing", "mktg", "--yes")
    assert code == 0 and said.endswith("tenant_marketing lost mktg\n")
    assert run("revoke", "tenant_marketing", "ads", "--yes")[0] == 0
    assert run("revoke", "tenant_marketing", "ads", "--yes")[0] == 1
    assert "tenant_marketing: marketing" in run("list")[1]
    assert "add --yes" in run("disable")[1]
    with session(admin_dsn, "tenant_marketing") as conn:
        conn.execute("SELECT FROM conversations")
    code, said = run("disable", "--yes")
    assert code == 0 and "tenant_marketing" in said
    with session(admin_dsn, "tenant_marketing") as conn, pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute("SELECT FROM conversations")
    for verb in (
        ("grant", "tenant_marketing", "ads"),
        ("revoke", "tenant_marketing"),
        ("revoke", "tenant_marketing", "--yes"),
    ):
        code, said = run(*verb)
        assert code == 1 and "row-level security is off; first: hermes-pgvector tenants enable" in said
    told = json.loads(run("list", "--json")[1])
    assert told["enabled"] is False, "for other roles, too, which may have come since"
    assert told["roles"]["tenant_marketing"] == ["marketing"]
    assert run("grant", "tenant_marketing")[0] == 2
    assert cli("tenants", "list").returncode == 2, "without an admin"


def test_need_04_the_file_and_the_functions_work_in_psql(
    postgres: EmbeddedServer, admin_dsn: str, program: Run
) -> None:
    let_tenants_in(postgres)
    psql = ("-X", "-v", "ON_ERROR_STOP=1", "-d", admin_dsn)
    for _ in range(2):
        done = program("psql", *psql, "-f", str(FILE))
        assert done.returncode == 0, done.stderr
    assert program("psql", *psql, "-c", "SELECT hermes_grant_themes('tenant_marketing', '{marketing}')").returncode == 0
    missing = program("psql", *psql, "-c", "SELECT hermes_grant_themes('tenant_missing', '{marketing}')")
    assert missing.returncode != 0 and "CREATE ROLE tenant_missing LOGIN" in missing.stderr
    with session(admin_dsn, "tenant_marketing") as conn:
        conn.execute("INSERT INTO memory_entries (agent_identity, target, content) VALUES ('marketing', 'memory', 'x')")
