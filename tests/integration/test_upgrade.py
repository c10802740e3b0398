"""Coming from the other hermes-memory-pgvector: its database upgraded in place, and back until that is confirmed."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_memory_pgvector.admin.common.migrations import changed_migrations, migrate, migrations
from hermes_memory_pgvector.admin.migrate import upgrade_tables
from hermes_memory_pgvector.domain.errors import UpgradeNeeded
from hermes_memory_pgvector.runtime.process import close_all
from hermes_memory_pgvector.store.pool import connect
from hermes_memory_pgvector.store.schema import ensure_schema
from tests.conftest import MakeProvider
from tests.support.memory import called, landed, recalled, runtime_of
from tests.support.predecessor import AT, BOTH, DIMS, LATER, Predecessor, Release
from tests.support.scripted_embedder import ScriptedEmbedder, hash_vector
from tests.support.stored import Database
from tests.support.waiting import until

from .conftest import Run

Start = Callable[..., "subprocess.Popen[str]"]
FACT = "Atlas ships from the northern harbour"
# Everything of the schema `public` that a user of the other program could notice, its rows apart.
SHAPE = """
SELECT concat_ws(' ', table_name, column_name, udt_name, is_nullable, column_default)
  FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint
           WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT concat_ws(' ', relname, relkind, relowner::regrole, relacl) FROM pg_class
           WHERE relnamespace = 'public'::regnamespace
UNION ALL SELECT concat_ws(' ', sequencename, last_value) FROM pg_sequences WHERE schemaname = 'public'
UNION ALL SELECT tgname FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT proname FROM pg_proc WHERE proname ^@ 'hermes'
UNION ALL SELECT nspname FROM pg_namespace WHERE nspname ^@ 'hermes'
ORDER BY 1"""
ROWS = (
    "SELECT to_jsonb(m) FROM memory_entries AS m ORDER BY id",
    "SELECT to_jsonb(c) FROM conversations AS c ORDER BY id",
)


@pytest.fixture
def wide_embedder() -> Iterator[ScriptedEmbedder]:
    """An endpoint with vectors of the length that the other program knows."""
    with ScriptedEmbedder(dims=DIMS) as server:
        yield server


@pytest.fixture(params=BOTH)
def release(request: pytest.FixtureRequest) -> Release:
    """Each release of the other program whose tables differ."""
    found: Release = request.param
    return found


@pytest.fixture
def before(empty_admin_dsn: str, release: Release) -> Iterator[Predecessor]:
    """The other program's database."""
    made = Predecessor(empty_admin_dsn, release)
    yield made
    made.close()


def configure(home: Path, **values: object) -> None:
    """Write the settings of a home."""
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": values}}), encoding="utf-8")


def upgraded(cli: Run, dsn: str, *more: str) -> dict[str, Any]:
    """The report of an upgrade by the command."""
    done = cli("migrate", "--admin-dsn", dsn, "--runtime-role", "hermes", "--json", *more)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)["upgrade"]
    assert isinstance(report, dict)
    return report


def rows(dsn: str) -> list[list[Any]]:
    """Every row of both tables."""
    return [Database(dsn).column(statement) for statement in ROWS]


def check_of(cli: Run, name: str) -> list[dict[str, Any]]:
    """What doctor says under a name."""
    return [check for check in json.loads(cli("doctor", "--json").stdout)["checks"] if check["name"] == name]


def test_need_36_rows_keep_number_theme_times_metadata_and_vector(
    before: Predecessor, empty_admin_dsn: str, cli: Run, home: Path, wide_embedder: ScriptedEmbedder,
    make_provider: MakeProvider,
) -> None:  # fmt: skip
    vector = hash_vector(FACT, DIMS)
    gone = before.memory("marketing", "an older one")
    before.execute(f"DELETE FROM memory_entries WHERE id = {gone}")
    fact = before.memory("marketing", FACT, vector, session_id="s-9", tool_name="memory")
    plain = before.memory("marketing", "without a vector", target="user")
    turn = before.turn("marketing", "Where does Atlas ship from?", hash_vector("Where does Atlas ship from?", DIMS))
    answer = before.turn("marketing", "From the northern harbour, since May", role="assistant", tool="x")
    last = before.turn("marketing", "to be deleted")
    before.execute(f"DELETE FROM conversations WHERE id = {last}")
    settings = {"dsn": make_conninfo(empty_admin_dsn, user="hermes"), "embed_url": wide_embedder.url}
    configure(home, **settings)

    report = upgraded(cli, empty_admin_dsn)

    assert (report["memories"], report["turns"], report["vectors"]) == (2, 2, 2)
    assert (report["vectors_lost"], report["model"], report["merged"]) == ("", "nomic-embed-text", 0)
    with psycopg.connect(empty_admin_dsn) as conn:
        memories = conn.execute(
            "SELECT id, agent_identity, target, content, created_at = %s, updated_at = %s, metadata, embedding::text "
            "FROM memory_entries ORDER BY id", (AT, LATER),
        ).fetchall()  # fmt: skip
        turns = conn.execute(
            "SELECT id, session_id, agent_identity, role, ts = %s, metadata, sig IS NOT NULL "
            "FROM conversations ORDER BY id",
            (AT,),
        ).fetchall()
        old = conn.execute("SELECT embedding::text FROM hermes_before_upgrade.memory_entries ORDER BY id").fetchall()
        spaces = conn.execute("SELECT model FROM hermes_embedding").fetchall()
    known = {"session_id": "s-9", "tool_name": "memory"}
    assert memories[0] == (fact, "marketing", "memory", FACT, True, True, known, old[0][0])
    assert memories[1] == (plain, "marketing", "user", "without a vector", True, True, {}, None)
    assert turns == [
        (turn, "s-1", "marketing", "user", True, {}, True),
        (answer, "s-1", "marketing", "assistant", True, {"tool": "x"}, False),
    ]
    assert spaces == [("nomic-embed-text",)]
    assert check_of(cli, "index") == [], "the HNSW indexes are there and whole"

    provider = make_provider({"dims": DIMS} | settings)
    (hit, *_) = called(provider, "recall_memory", {"query": "which harbour", "limit": 1})["results"]
    assert hit["content"] == FACT and hit["similarity"] > 0
    provider.on_memory_write("add", "memory", "A new memory")
    provider.sync_turn(
        "Is there anything new about the harbour of Atlas?", "Nothing at all is new since the last time."
    )
    landed(provider)
    database = Database(empty_admin_dsn)
    assert database.column("SELECT id FROM memory_entries WHERE content = 'A new memory'") == [plain + 1]
    assert min(database.column("SELECT id FROM conversations WHERE session_id = 'session-1'")) == last + 1


def test_need_36_trap_13_every_theme_is_found_under_the_name_we_look_it_up_by(
    before: Predecessor, empty_admin_dsn: str, cli: Run, make_provider: MakeProvider
) -> None:
    first = before.memory("Marketing", FACT, updated=AT, seen="first")
    before.memory("marketing ", FACT, seen="last")
    before.memory("MARKETING", "In upper case")
    before.turn("Marketing", "The harbour was closed for a whole week")
    key = "agent:main:telegram:dm:15550100123"
    before.turn("whatsapp-dm", "Said in a chat about the harbour", raw_identity=key)
    before.turn(key, "Said in the same chat, by the first release")
    before.turn("hermes", "Typed on the command line about the harbour")

    planned = cli("migrate", "--admin-dsn", empty_admin_dsn, "--dry-run", "--json")
    report = upgraded(cli, empty_admin_dsn)

    assert json.loads(planned.stdout)["upgrade"]["themes"]["Marketing"] == "marketing"
    assert report["merged"] == 1
    dsn = make_conninfo(empty_admin_dsn, user="hermes")
    provider = make_provider({"dsn": dsn, "dims": DIMS})
    assert sorted(recalled(provider, "harbour in upper case")) == sorted([FACT, "In upper case"])
    assert len(recalled(provider, "harbour closed", tool="recall_conversation")) == 1
    database = Database(empty_admin_dsn)
    kept = database.column("SELECT jsonb_build_array(id, created_at, updated_at, metadata) FROM memory_entries")
    merged = next(row for row in kept if row[0] == first)
    assert merged[1:3] == [AT.replace(" ", "T") + ":00", LATER.replace(" ", "T") + ":00"]
    assert merged[3] == {"seen": "last"}
    chat = make_provider(
        {"dsn": dsn, "dims": DIMS}, platform="telegram", gateway_session_key=key, agent_identity="default"
    )
    assert len(recalled(chat, "said chat", tool="recall_conversation", scope="current")) == 2
    local = make_provider(
        {"dsn": dsn, "dims": DIMS}, platform="cli", gateway_session_key="", agent_identity="default",
        agent_workspace="hermes",
    )  # fmt: skip
    assert len(recalled(local, "typed harbour", tool="recall_conversation", scope="current")) == 1


def test_need_36_rows_that_break_the_rules_come_along_where_they_can(
    before: Predecessor, empty_admin_dsn: str, cli: Run
) -> None:
    before.execute(
        "ALTER TABLE memory_entries DROP CONSTRAINT memory_entries_target_check, ALTER agent_identity DROP NOT NULL, "
        "ALTER created_at DROP NOT NULL, ALTER updated_at DROP NOT NULL, ALTER metadata DROP NOT NULL, "
        "ALTER content DROP NOT NULL"
    )
    before.execute(
        "ALTER TABLE conversations DROP CONSTRAINT conversations_role_check, ALTER session_id DROP NOT NULL, "
        "ALTER ts DROP NOT NULL, ALTER metadata DROP NOT NULL"
    )
    before.execute("DROP INDEX IF EXISTS memory_entries_unique_md5")
    before.execute("ALTER TABLE memory_entries DROP CONSTRAINT IF EXISTS memory_entries_unique")
    before.execute(
        "INSERT INTO memory_entries (agent_identity, target, content, created_at, updated_at, metadata) VALUES "
        "(NULL, 'USER', 'nobody said whose', NULL, NULL, NULL), "
        "('a', 'notes', 'odd target', '-infinity', '2026-01-01', '[1]'), "
        "('a', 'memory', NULL, now(), now(), '{}'), ('a', 'memory', E' \\n\\t', now(), now(), 'null')"
    )
    before.memory("a", "long " * 20000)
    before.memory("a", "z", [0.0] * DIMS)
    before.execute(
        "INSERT INTO conversations (session_id, agent_identity, role, content, ts, metadata) VALUES "
        "(NULL, 'a', 'human', 'a person', NULL, NULL), "
        "(repeat('s', 300), 'a', 'Robot', 'a machine', 'infinity', '\"text\"')"
    )

    report = upgraded(cli, empty_admin_dsn)

    assert (report["memories"], report["turns"], report["left_out"]) == (6, 2, 2)
    with psycopg.connect(empty_admin_dsn) as conn:
        kept = conn.execute(
            "SELECT agent_identity, target, left(content, 5), isfinite(created_at), metadata, embedding IS NULL "
            "FROM memory_entries ORDER BY id"
        ).fetchall()
        turns = conn.execute(
            "SELECT session_id, role, isfinite(ts), metadata FROM conversations ORDER BY id"
        ).fetchall()
    assert kept == [
        ("default", "user", "nobod", True, {}, True),
        ("a", "memory", "odd t", True, {"metadata": [1]}, True),
        ("a", "memory", "long ", True, {}, True),
        ("a", "memory", "z", True, {}, True),
    ]
    assert turns[0] == ("", "user", True, {"role": "human"})
    assert len(turns[1][0]) == 256 and turns[1][1:] == ("tool", True, {"metadata": "text", "role": "robot"})


@pytest.mark.parametrize(
    ("settings", "why"),
    [({"dims": 384}, "768 dimensions"), ({"embed_url": "local:bge-base"}, "an endpoint's model")],
)
def test_need_36_vectors_that_cannot_be_of_our_model_are_made_anew_and_texts_stay(
    empty_admin_dsn: str, cli: Run, home: Path, settings: dict[str, Any], why: str
) -> None:
    before = Predecessor(empty_admin_dsn, "1.0.0")
    before.memory("marketing", FACT, hash_vector(FACT, DIMS))
    before.close()
    configure(home, dsn=make_conninfo(empty_admin_dsn, user="hermes"), **settings)

    report = upgraded(cli, empty_admin_dsn)

    assert why in report["vectors_lost"]
    assert Database(empty_admin_dsn).column("SELECT embedding IS NULL AND sig IS NULL FROM memory_entries") == [True]


def test_need_36_an_undo_puts_everything_back_as_it_was(
    before: Predecessor, empty_admin_dsn: str, cli: Run, make_provider: MakeProvider
) -> None:
    before.memory("Marketing", FACT, hash_vector(FACT, DIMS))
    before.turn("Marketing", "The harbour was closed for a whole week", hash_vector("harbour", DIMS))
    before.execute("ALTER TABLE memory_entries OWNER TO hermes")
    before.execute("GRANT SELECT ON conversations TO hermes")
    database = Database(empty_admin_dsn)
    shape, kept = database.column(SHAPE), rows(empty_admin_dsn)
    upgraded(cli, empty_admin_dsn)

    back = cli("migrate", "--admin-dsn", empty_admin_dsn, "--undo-upgrade", "--json")

    assert back.returncode == 0, back.stderr
    assert json.loads(back.stdout) == {"done": True, "written_since": {"memories": 0, "turns": 0, "changes": 0}}
    assert (database.column(SHAPE), rows(empty_admin_dsn)) == (shape, kept)

    upgraded(cli, empty_admin_dsn)
    provider = make_provider({"dsn": make_conninfo(empty_admin_dsn, user="hermes"), "dims": DIMS})
    provider.on_memory_write("add", "memory", "Written since")
    provider.on_memory_write("replace", "memory", "Atlas ships from the south", {"old_text": "northern"})
    landed(provider)
    close_all()
    refused = cli("migrate", "--admin-dsn", empty_admin_dsn, "--undo-upgrade")
    assert refused.returncode == 1 and "1 memory" in refused.stdout and "--yes" in refused.stdout
    assert "hermes_upgrade" in database.column("SELECT tablename::text FROM pg_tables")
    looked = cli("migrate", "--admin-dsn", empty_admin_dsn, "--undo-upgrade", "--yes", "--dry-run")
    assert looked.returncode == 0 and "hermes_upgrade" in database.column("SELECT tablename::text FROM pg_tables")
    done = cli("migrate", "--admin-dsn", empty_admin_dsn, "--undo-upgrade", "--yes")
    assert done.returncode == 0, done.stderr
    assert (database.column(SHAPE), rows(empty_admin_dsn)) == (shape, kept)
    again = cli("migrate", "--admin-dsn", empty_admin_dsn, "--undo-upgrade", "--yes")
    assert again.returncode == 1 and "no upgrade" in again.stderr


def test_need_36_an_undo_that_waited_for_a_write_does_not_drop_it(
    before: Predecessor, empty_admin_dsn: str, cli: Run, start_cli: Callable[..., subprocess.Popen[str]]
) -> None:
    """It was counted before that write was there, so the operator has not agreed to lose it."""
    before.memory("Marketing", FACT)
    upgraded(cli, empty_admin_dsn)
    database = Database(empty_admin_dsn)
    waiting = "SELECT count(*) FROM pg_locks JOIN pg_class ON oid = relation WHERE NOT granted AND relkind = 'r'"
    with psycopg.connect(empty_admin_dsn) as agent:
        agent.execute("INSERT INTO memory_entries (target, content) VALUES ('memory', 'Written meanwhile')")
        undoing = start_cli("migrate", "--admin-dsn", empty_admin_dsn, "--undo-upgrade")
        until(lambda: database.column(waiting) == [1], what="the undo at the tables")
    out, err = undoing.communicate(timeout=150)
    assert undoing.returncode == 1 and "run this again" in err, out + err
    assert database.column("SELECT content FROM memory_entries WHERE content ^@ 'Written'") == ["Written meanwhile"]
    refused = cli("migrate", "--admin-dsn", empty_admin_dsn, "--undo-upgrade")
    assert refused.returncode == 1 and "1 memory" in refused.stdout and "--yes" in refused.stdout


def test_need_36_doctor_names_the_upgrade_until_it_is_confirmed(
    before: Predecessor, empty_admin_dsn: str, cli: Run, home: Path
) -> None:
    before.memory("marketing", FACT, hash_vector(FACT, DIMS))
    before.execute("CREATE VIEW mine AS SELECT content FROM memory_entries")
    configure(home, dsn=make_conninfo(empty_admin_dsn, user="hermes"))
    (met,) = check_of(cli, "schema")
    assert met["state"] == "fail" and "the other hermes-memory-pgvector" in met["said"]
    assert met["fix"].startswith("hermes-pgvector migrate --admin-dsn")
    fixed = json.loads(cli("doctor", "--fix", "--admin-dsn", empty_admin_dsn, "--json").stdout)
    assert "schema" not in [repair["name"] for repair in fixed["repairs"]], "an operator's to begin"

    upgraded(cli, empty_admin_dsn)
    (awaiting,) = check_of(cli, "upgrade")
    assert awaiting["state"] == "note" and "hermes_before_upgrade" in awaiting["said"]
    assert "--confirm-upgrade" in awaiting["fix"] and "--undo-upgrade" in awaiting["fix"]
    assert check_of(cli, "vectors")[0]["said"] == "of no model yet, 768 dimensions", "the one vector is there"

    refused = cli("migrate", "--admin-dsn", empty_admin_dsn, "--confirm-upgrade")
    assert refused.returncode == 1 and "view mine depends on" in refused.stderr
    before.execute("DROP VIEW mine")
    looked = cli("migrate", "--admin-dsn", empty_admin_dsn, "--confirm-upgrade", "--dry-run")
    assert looked.returncode == 0 and len(check_of(cli, "upgrade")) == 1
    done = cli("migrate", "--admin-dsn", empty_admin_dsn, "--confirm-upgrade", "--json")
    assert done.returncode == 0 and json.loads(done.stdout) == {"done": True}
    assert check_of(cli, "upgrade") == []
    database = Database(empty_admin_dsn)
    assert database.column("SELECT nspname::text FROM pg_namespace WHERE nspname ^@ 'hermes'") == []
    assert database.column("SELECT content FROM memory_entries") == [FACT]
    late = cli("migrate", "--admin-dsn", empty_admin_dsn, "--undo-upgrade")
    assert late.returncode == 1 and "none awaits confirmation" in late.stderr


def test_need_36_agents_that_meet_it_keep_their_writes_and_say_so(
    before: Predecessor, empty_admin_dsn: str, cli: Run, make_provider: MakeProvider
) -> None:
    before.memory("marketing", FACT)
    provider = make_provider({"dsn": make_conninfo(empty_admin_dsn, user="hermes"), "dims": DIMS})
    provider.on_memory_write("add", "memory", "Written before the upgrade")
    said = called(provider, "recall_memory", {"query": "harbour"})["error"]
    assert "the other hermes-memory-pgvector" in said or "another program" in said
    assert "hermes-pgvector migrate" in said
    assert Database(empty_admin_dsn).column("SELECT count(*) FROM memory_entries") == [1]

    upgraded(cli, empty_admin_dsn)

    assert runtime_of(provider).writer.flush(60), "what was written meanwhile follows by itself"
    assert sorted(recalled(provider, "harbour upgrade written")) == sorted([FACT, "Written before the upgrade"])


@pytest.mark.parametrize("kept_turns", [7000])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_need_36_an_end_in_the_middle_leaves_what_the_same_command_finishes(
    number: signal.Signals,
    before: Predecessor,
    empty_admin_dsn: str,
    cli: Run,
    start_cli: Start,
    home: Path,
    kept_turns: int,
) -> None:
    before.memory("marketing", FACT)
    before.many_turns(kept_turns)
    configure(home, dsn=make_conninfo(empty_admin_dsn, user="hermes"))
    database = Database(empty_admin_dsn)

    def some_are_there() -> bool:
        if database.column("SELECT to_regclass('hermes_upgrade') IS NULL") == [True]:
            return False
        return database.column("SELECT opened_at IS NOT NULL AND turns_left <= last_turn_id FROM hermes_upgrade") == [
            True
        ]

    with start_cli("migrate", "--admin-dsn", empty_admin_dsn, "--runtime-role", "hermes") as process:
        until(some_are_there, 60, "the first turns")
        process.send_signal(number)
        told = process.communicate(timeout=150)[1]
    assert number == signal.SIGKILL or "interrupted: the upgrade is begun and not undone" in told
    assert 0 < database.column("SELECT count(*) FROM conversations")[0] < kept_turns
    (check,) = check_of(cli, "upgrade")
    assert check["state"] == "fail" and "hermes-pgvector migrate" in check["fix"]
    early = cli("migrate", "--admin-dsn", empty_admin_dsn, "--confirm-upgrade")
    assert early.returncode == 1 and "first go on with it" in early.stderr

    report = upgraded(cli, empty_admin_dsn)

    assert report["begun"] and report["done"]
    same = "SELECT count(*) FROM conversations JOIN hermes_before_upgrade.conversations AS o USING (id, content, ts)"
    assert database.column(same) == [kept_turns] == database.column("SELECT count(*) FROM conversations")
    assert cli("migrate", "--admin-dsn", empty_admin_dsn, "--confirm-upgrade").returncode == 0


def test_need_36_after_a_kill_before_the_memories_agents_wait_and_an_undo_needs_nothing(
    before: Predecessor, empty_admin_dsn: str, cli: Run
) -> None:
    before.memory("Marketing", FACT)
    database = Database(empty_admin_dsn)
    shape, kept = database.column(SHAPE), rows(empty_admin_dsn)
    with connect(empty_admin_dsn) as conn:
        upgrade_tables.begin(conn, dims=DIMS, keeps_vectors=False)
    with connect(make_conninfo(empty_admin_dsn, user="hermes")) as conn:
        with pytest.raises(UpgradeNeeded, match="being upgraded"):
            ensure_schema(conn, dims=DIMS)
        migrate(empty_admin_dsn, dims=DIMS, runtime_role="hermes")
        with pytest.raises(UpgradeNeeded, match="being upgraded"):
            ensure_schema(conn, dims=DIMS)

    back = cli("migrate", "--admin-dsn", empty_admin_dsn, "--undo-upgrade")

    assert back.returncode == 0, back.stderr
    assert (database.column(SHAPE), rows(empty_admin_dsn)) == (shape, kept)


def test_need_36_a_dry_run_says_everything_and_changes_nothing(
    before: Predecessor, empty_admin_dsn: str, cli: Run
) -> None:
    before.memory("Marketing", FACT, hash_vector(FACT, DIMS))
    before.execute("GRANT INSERT ON memory_entries TO hermes")
    database = Database(empty_admin_dsn)
    shape, kept = database.column(SHAPE), rows(empty_admin_dsn)

    done = cli("migrate", "--admin-dsn", empty_admin_dsn, "--dry-run")

    assert done.returncode == 0, done.stderr
    for words in ("memories: 1", "hermes_before_upgrade", "vectors are kept: 1", "'Marketing' becomes 'marketing'",
                  "rights: hermes", "Nothing was changed"):  # fmt: skip
        assert words in done.stdout
    assert (database.column(SHAPE), rows(empty_admin_dsn)) == (shape, kept)


def test_need_36_who_could_write_before_can_write_after(
    before: Predecessor, empty_admin_dsn: str, cli: Run, make_provider: MakeProvider
) -> None:
    before.memory("marketing", FACT)
    for role in ("hermes", "tenant_marketing"):
        before.execute(
            f"DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') THEN CREATE ROLE {role} LOGIN; "
            "END IF; END $$"
        )
        before.execute(f"GRANT SELECT, INSERT ON memory_entries, conversations TO {role}")

    done = cli("migrate", "--admin-dsn", empty_admin_dsn, "--json")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["upgrade"]["roles"] == ["hermes", "tenant_marketing"]
    rights = "SELECT has_table_privilege(%s, 'conversation_chunks', 'INSERT')"
    assert [Database(empty_admin_dsn).column(rights, role) for role in ("hermes", "tenant_marketing")] == [[True]] * 2


def test_need_36_the_plain_file_stops_with_the_command_to_run(
    before: Predecessor, empty_admin_dsn: str, program: Run
) -> None:
    before.memory("marketing", FACT)
    database = Database(empty_admin_dsn)
    shape = database.column(SHAPE)
    with as_file(files("hermes_memory_pgvector").joinpath("migrations", "001_schema.sql")) as path:
        done = program("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", empty_admin_dsn, "-f", str(path))
    assert done.returncode == 3
    (error,) = [line for line in done.stderr.splitlines() if "ERROR" in line]
    assert "hermes-pgvector migrate --admin-dsn" in error
    assert str(conninfo_to_dict(empty_admin_dsn)["dbname"]) in error
    assert database.column(SHAPE) == shape


def test_need_36_memories_alone_are_upgraded_as_well(empty_admin_dsn: str, cli: Run) -> None:
    before = Predecessor(empty_admin_dsn, "0.3.0")
    before.memory("marketing", FACT)
    before.execute("DROP TABLE conversations")
    report = upgraded(cli, empty_admin_dsn)
    assert (report["memories"], report["turns"]) == (1, 0)
    assert cli("migrate", "--admin-dsn", empty_admin_dsn, "--undo-upgrade").returncode == 0
    assert Database(empty_admin_dsn).column("SELECT content FROM memory_entries") == [FACT]
    before.close()


def test_need_36_tables_of_nobody_we_know_are_left_alone(
    empty_admin_dsn: str, home: Path, cli: Run, make_provider: MakeProvider
) -> None:
    """And whoever meets them says so, rather than send somebody to a migration that would refuse them."""
    with psycopg.connect(empty_admin_dsn, autocommit=True) as conn:
        conn.execute("CREATE EXTENSION vector")
        conn.execute("CREATE TABLE conversations (id bigint, who text)")
    done = cli("migrate", "--admin-dsn", empty_admin_dsn)
    assert done.returncode == 1 and "neither ours nor" in done.stderr
    configure(home, dsn=empty_admin_dsn)
    (schema,) = check_of(cli, "schema")
    told = json.dumps(schema)
    assert "neither ours nor" in told and "rename that table" in told and "migrate" not in told
    provider = make_provider({"dsn": empty_admin_dsn})
    provider.on_memory_write("add", "memory", FACT)
    said = called(provider, "recall_memory", {"query": "harbour"})["error"]
    assert "neither ours nor" in said and "migrate" not in said
    assert Database(empty_admin_dsn).column("SELECT count(*) FROM conversations") == [0]
    with psycopg.connect(empty_admin_dsn, autocommit=True) as conn:
        conn.execute("ALTER TABLE conversations RENAME TO talks")
    assert cli("migrate", "--admin-dsn", empty_admin_dsn).returncode == 0
    assert runtime_of(provider).writer.flush(60), "what was written meanwhile follows by itself"
    assert recalled(provider, "harbour") == [FACT]


def test_a_database_of_version_1_0_0_is_not_reported_as_changed(admin_dsn: str) -> None:
    released = "7e3bbda9d22393f4f42ab688a91b1d6cfc304efea413fa0d022712e9714d8656"
    assert migrations()[0].checksum != released
    with connect(admin_dsn) as conn:
        conn.execute("UPDATE hermes_migrations SET checksum = %s WHERE version = 1", (released,))
        assert changed_migrations(conn) == []
        conn.execute("UPDATE hermes_migrations SET checksum = repeat('0', 64) WHERE version = 1")
        assert changed_migrations(conn) == ["001_schema"]


def test_running_001_again_leaves_a_later_form_of_the_history_function(admin_dsn: str) -> None:
    with connect(admin_dsn) as conn:
        conn.execute(
            "CREATE OR REPLACE FUNCTION hermes_note_memory() RETURNS trigger LANGUAGE plpgsql "
            "AS $$ BEGIN RETURN NULL; END $$"
        )
        conn.execute(migrations()[0].sql.encode())
    source = "SELECT prosrc FROM pg_proc WHERE proname = 'hermes_note_memory'"
    assert Database(admin_dsn).column(source) == [" BEGIN RETURN NULL; END "]
