"""Each line of doctor's checklist, by breaking what it looks at."""

from __future__ import annotations

import json
import os
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_memory_pgvector.admin.common import row_security
from hermes_memory_pgvector.admin.common.migrations import migrate
from hermes_memory_pgvector.admin.doctor import server_health
from hermes_memory_pgvector.admin.doctor.check import Check, DoctorContext
from hermes_memory_pgvector.admin.doctor.check_database import check_database
from hermes_memory_pgvector.admin.doctor.check_disk import check_disk
from hermes_memory_pgvector.admin.doctor.check_installation import check_installation
from hermes_memory_pgvector.admin.doctor.checklist import as_json, render_text
from hermes_memory_pgvector.capture.spool_directory import SpoolDirectory, spool_folder
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.store.pool import connect
from tests.conftest import DIMS, MakeProvider
from tests.support.embedding_server import EmbeddingServer
from tests.support.left_spool import operation
from tests.support.memory import landed
from tests.support.row_security import tenant_of
from tests.support.scripted_embedder import Mode, ScriptedEmbedder, hash_vector
from tests.support.scripted_reranker import ScriptedReranker
from tests.support.stored import Database

Capture = pytest.CaptureFixture[str]
PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def configure(home: Path, *, provider: str | None = "pgvector", enabled: bool = True, **settings: Any) -> None:
    config: dict[str, Any] = {"plugins": {"pgvector": {"dims": DIMS} | settings}}
    if provider:
        config["memory"] = {"provider": provider}
    if enabled:
        config["plugins"]["enabled"] = ["pgvector"]
    (home / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")


def line(checks: list[Check], name: str) -> Check:
    """The line of that name that says most: what failed before what is only noted."""
    return min((check for check in checks if check.name == name), key=lambda check: "fail note ok".index(check.state))


def doctor(home: Path, capsys: Capture, *options: str) -> tuple[int, dict[str, Any]]:
    """Exit code and answer of `doctor --json`."""
    code = main(["doctor", "--json", "--hermes-home", str(home), *options])
    return code, json.loads(capsys.readouterr().out)


def states(answer: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["state"] for check in answer["checks"]}


# -- the installation --------------------------------------------------------------------------------------------------


@pytest.fixture
def installed(home: Path, dsn: str) -> Path:
    """A home with the plugin in place and active."""
    configure(home, dsn=dsn)
    assert main(["install", "--no-activate", "--hermes-home", str(home)]) == 0
    return home


def test_need_02_a_plugin_that_hermes_loads(installed: Path, tmp_path: Path) -> None:
    checks = list(check_installation(installed))
    assert [check for check in checks if check.state != "ok"] == []
    with distributions(tmp_path / "site"):
        assert line(list(check_installation(installed)), "packages").state == "ok"
    assert line(checks, "discovery").said == "hermes finds and loads the plugin"


def test_need_02_a_plugin_that_this_user_may_not_read_is_a_line_of_the_checklist(
    dsn: str, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No mode keeps root from reading.
    def refuse(path: Path, *args: Any, **kwargs: Any) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_text", refuse)
    found = line(list(check_installation(installed)), "plugin")
    assert found.state == "fail"
    assert "cannot be read by this user" in found.said
    assert "chown -R" in found.fix


def _remove(directory: Path) -> None:
    directory.rename(directory.with_name(".gone"))


def _unmark(directory: Path) -> None:
    (directory / "__init__.py").write_text("# " + "x" * 8192 + "\ndef register(ctx): ctx.register_memory_provider\n")


def _dangle(directory: Path) -> None:
    _remove(directory)
    directory.symlink_to(directory.with_name("nowhere"))


def _another(directory: Path) -> None:
    (directory / "plugin.yaml").write_text("name: pgvector\nauthor: somebody else\n")


def _stray(directory: Path) -> None:
    (directory / "helper.py").write_text("import nothing_of_that_name\n")


def _age(directory: Path) -> None:
    manifest = directory / "plugin.yaml"
    manifest.write_text(manifest.read_text().replace("version: ", "version: 0.0.1 # "))


def _break(directory: Path) -> None:
    (directory / "__init__.py").write_text("raise RuntimeError('register_memory_provider')\n")


@pytest.mark.parametrize(
    ("harm", "name", "state", "said", "repaired"),
    [
        (_remove, "plugin", "fail", "is missing", True),
        (_unmark, "plugin", "fail", "does not take", True),
        (_dangle, "plugin", "fail", "leads nowhere", False),
        (_another, "plugin", "fail", "holds another plugin", False),
        (_stray, "plugin", "note", "helper.py", False),
        (_age, "plugin", "note", "is of version", True),
        (_break, "discovery", "fail", "cannot load a provider", True),
    ],
)
def test_need_02_a_plugin_that_hermes_does_not_find(
    installed: Path, capsys: Capture, harm: Callable[[Path], None], name: str, state: str, said: str, repaired: bool
) -> None:
    harm(installed / "plugins" / "pgvector")
    found = line(list(check_installation(installed)), name)
    assert (found.state, said in found.said) == (state, True), found
    assert found.fix and bool(found.repair) == repaired
    if repaired:
        doctor(installed, capsys, "--fix")
        assert not [check for check in check_installation(installed) if check.state != "ok"]


@contextmanager
def distributions(place: Path, **versions: str) -> Iterator[None]:
    """Makes Python believe that these are installed, and our own package with what it asks for."""
    needed = tomllib.loads(PROJECT.read_text())["project"]["dependencies"]
    for name, version in (versions | {"hermes_memory_pgvector": "1.0.0"}).items():
        folder = place / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        lines = [f"Name: {name.replace('_', '-')}", f"Version: {version}"]
        lines += [f"Requires-Dist: {each}" for each in needed if name == "hermes_memory_pgvector"]
        (folder / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", *lines]) + "\n")
    sys.path.insert(0, str(place))
    try:
        yield
    finally:
        sys.path.remove(str(place))


@pytest.mark.parametrize(
    ("name", "version", "check", "state"),
    [
        ("psycopg", "3.1.0", "packages", "fail"),
        ("httpx", "1.2", "packages", "fail"),
        ("hermes_agent", "0.21.3", "hermes-agent", "note"),
    ],
)
def test_need_02_a_version_that_nobody_has_tested(
    installed: Path, tmp_path: Path, name: str, version: str, check: str, state: str
) -> None:
    with distributions(tmp_path / "site", **{name: version}):
        found = line(list(check_installation(installed)), check)
    assert (found.state, version in found.said, bool(found.fix)) == (state, True, True), found


def test_need_02_what_is_switched_off_is_switched_on_but_nobodys_choice_is_changed(
    installed: Path, dsn: str, capsys: Capture
) -> None:
    configure(installed, provider=None, enabled=False, dsn=dsn)
    found = line(list(check_installation(installed)), "active")
    assert (found.state, found.repair) == ("fail", "activate")
    _, answer = doctor(installed, capsys, "--fix")
    assert {(each["name"], each["done"]) for each in answer["repairs"]} == {("active", True)}
    assert (states(answer)["active"], "enabled" in states(answer)) == ("ok", False)

    configure(installed, enabled=False, dsn=dsn)
    assert line(list(check_installation(installed)), "enabled").repair == "enable"

    configure(installed, provider="mem0", dsn=dsn)
    found = line(list(check_installation(installed)), "active")
    assert (found.state, "mem0" in found.said, found.repair) == ("fail", True, "")
    code, answer = doctor(installed, capsys, "--fix")
    assert code == 1
    assert yaml.safe_load((installed / "config.yaml").read_text())["memory"]["provider"] == "mem0"


# -- the database ------------------------------------------------------------------------------------------------------


def on(statement: str) -> Callable[[str, str], str]:
    """Breaks a database by statements of its admin."""

    def harm(admin_dsn: str, dsn: str) -> str:
        with psycopg.connect(admin_dsn, autocommit=True) as conn:
            for each in statement.split(";;"):
                conn.execute(each.encode())
        return dsn

    return harm


def _as_admin(admin_dsn: str, dsn: str) -> str:
    return admin_dsn


def _no_theme(admin_dsn: str, dsn: str) -> str:
    with connect(admin_dsn) as admin:
        row_security.enable(admin)
        row_security.revoke(admin, "hermes", [])
    return dsn


OLD_POSTGRES = (
    "CREATE FUNCTION public.current_setting(name text) RETURNS text LANGUAGE sql AS "
    "$$ SELECT CASE name WHEN 'server_version' THEN '14.11' ELSE pg_catalog.current_setting(name) END $$;;"
    "DO $$ BEGIN EXECUTE format('ALTER ROLE hermes IN DATABASE %I SET search_path = public, pg_catalog', "
    "current_database()); END $$"
)
READ_ONLY = (
    "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$"
)
UNCODED = (
    "INSERT INTO conversations (session_id, role, content, embedding)"
    f" VALUES ('s', 'user', 'said', array_fill(0.5, ARRAY[{DIMS}])::vector); UPDATE conversations SET code = NULL"
)
NEWER = "INSERT INTO hermes_migrations (version, name, checksum) VALUES (999, 'later', repeat('a', 64))"
OTHER_COLLATION = "UPDATE pg_database SET datcollversion = '0.9' WHERE datname = current_database()"
INVALID = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'conversations_theme_time_idx'::regclass"


@pytest.mark.parametrize(
    ("harm", "name", "state", "said"),
    [
        (on("SELECT"), "postgres", "ok", "answers in"),
        (on("SELECT"), "row security", "ok", "on" if os.environ.get("PGVECTOR_TEST_ROW_SECURITY") else "off"),
        (on(OLD_POSTGRES), "postgres", "fail", "Postgres 14.11"),
        (on(READ_ONLY), "postgres", "fail", "takes no writes"),
        (lambda admin, dsn: make_conninfo(dsn, dbname="nowhere"), "postgres", "fail", "nowhere"),
        (on("UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'"), "pgvector", "fail", "0.7.4"),
        (on("UPDATE pg_extension SET extversion = '0.8.2' WHERE extname = 'vector'"), "pgvector", "note", "0.8.2"),
        (on("DELETE FROM hermes_migrations"), "schema", "fail", "is not applied"),
        (on("DELETE FROM hermes_migrations"), "schema", "fail", "has the memory, correct `dsn`"),
        (lambda admin, dsn: make_conninfo(dsn, dbname="postgres"), "pgvector", "fail", "than 'postgres' has"),
        (on("UPDATE hermes_migrations SET checksum = repeat('a', 64)"), "schema", "note", "was another text"),
        (on(NEWER), "schema", "note", "migration 999 here is of a newer version"),
        (on(INVALID), "index", "fail", "conversations_theme_time_idx is invalid"),
        (on("DROP INDEX conversations_embedding_idx"), "index", "note", "no whole HNSW index"),
        (on("DROP INDEX conversations_tsv_idx"), "index", "fail", "conversations_tsv_idx"),
        (on("ALTER TABLE hermes_operations DROP CONSTRAINT hermes_operations_pkey"), "index", "fail", "no primary key"),
        (on("ALTER TABLE conversations SET UNLOGGED"), "unlogged", "fail", "the server empties conversations"),
        (on(OTHER_COLLATION), "locale", "fail", "version 0.9 of the database's collation"),
        (on(UNCODED), "index", "note", "rows of conversations were stored by an older version"),
        (on("REVOKE DELETE ON memory_entries FROM hermes"), "rights", "fail", "DELETE on memory_entries"),
        (_as_admin, "rights", "note", "is a superuser"),
        (on("ALTER TABLE conversations OWNER TO hermes"), "rights", "note", "owns the tables"),
        (_no_theme, "row security", "fail", "no theme"),
    ],
)  # fmt: skip
def test_need_02_what_is_wrong_with_the_database(
    admin_dsn: str, dsn: str, home: Path, harm: Callable[[str, str], str], name: str, state: str, said: str
) -> None:
    reached = harm(admin_dsn, dsn)
    checks = list(check_database(DoctorContext(Settings(dsn=reached, dims=DIMS), home)))
    found = line(checks, name)
    assert (found.state, said in found.said) == (state, True), render_text(checks)
    assert bool(found.fix or state == "ok" or ";" in found.said), "each fault comes with what to do"


def test_need_40_the_tables_as_1_0_0_made_them_first_need_no_word(admin_dsn: str, dsn: str, home: Path) -> None:
    first = "42e09cfedd0d4588a100251a212dbcbb29a0739dc8c77e461ccaa08f145b07f4"
    reached = on(f"UPDATE hermes_migrations SET checksum = '{first}' WHERE version = 1")(admin_dsn, dsn)
    checks = check_database(DoctorContext(Settings(dsn=reached, dims=DIMS), home))
    assert [check.state for check in checks if check.name == "schema"] == ["ok"]


def test_need_02_a_table_that_was_restored_alone_is_mended_by_what_is_printed(
    admin_dsn: str, dsn: str, home: Path, capsys: Capture
) -> None:
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))
    arguments = ["--hermes-home", str(home)]
    assert main(["add", "Crane a is red", *arguments]) == 0
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        # What pg_restore --table brings back: columns, rows and rights.
        admin.execute("CREATE TABLE kept (LIKE memory_entries INCLUDING DEFAULTS INCLUDING GENERATED)")
        admin.execute("ALTER TABLE kept ALTER id DROP DEFAULT")
        admin.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON kept TO hermes")
        admin.execute("ALTER TABLE memory_entries RENAME TO gone")
        admin.execute("ALTER TABLE kept RENAME TO memory_entries")
        ours = "id, agent_identity, target, content, created_at, updated_at, metadata, text_language, owners"
        admin.execute(f"INSERT INTO memory_entries ({ours}) SELECT {ours} FROM gone".encode())
        admin.execute("DROP TABLE gone CASCADE")
        checks = list(check_database(DoctorContext(Settings(dsn=dsn, dims=DIMS), home)))
        unnumbered, unkeyed = line(checks, "sequences"), next(each for each in checks if "primary key" in each.said)
        assert unnumbered.state == "fail" and "memory_entries" in unnumbered.said
        assert "postgres" not in [check.name for check in checks if check.state == "fail"]
        for fix in (unnumbered.fix, unkeyed.fix):
            admin.execute(fix.partition(": ")[2].encode())
    main(["doctor", "--fix", "--admin-dsn", admin_dsn, *arguments])
    assert main(["add", "Crane b is blue", *arguments]) == 0
    capsys.readouterr()
    assert main(["list", "--json", *arguments]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {row["content"] for row in listed} == {"Crane a is red", "Crane b is blue"}
    left = check_database(DoctorContext(Settings(dsn=dsn, dims=DIMS), home))
    assert [check for check in left if check.state == "fail"] == []


def test_need_40_a_model_whose_folder_is_gone_is_to_be_installed_not_verified(
    home: Path, dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    section = {"dsn": dsn, "dims": DIMS, "embed_url": "local:bge-small-en-v1.5"}
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": section}}))
    main(["doctor", "--hermes-home", str(home)])
    said = capsys.readouterr().out
    assert "FAIL  embedding: there is no model in" in said
    assert "-> hermes-pgvector model install bge-small-en-v1.5; recall goes by words meanwhile" in said


def test_a_role_that_may_not_read_the_rows_sets_no_sequence_back(admin_dsn: str) -> None:
    with connect(admin_dsn) as conn:
        added = b"INSERT INTO memory_entries (target, content) VALUES ('memory', %(text)s) RETURNING id"
        for crane in "abc":
            conn.execute(added, {"text": f"Crane {crane} is red"})
        tables = ("memory_entries", "conversations", "memory_history", "hermes_maintenance")
        sequences = conn.execute(
            b"SELECT string_agg(pg_get_serial_sequence(name, 'id'), ', ') FROM unnest(%(tables)s::text[]) AS name",
            {"tables": list(tables)},
        ).fetchone()
        assert sequences is not None
        conn.execute(b"CREATE ROLE half_an_admin")
        try:
            conn.execute(f"GRANT UPDATE ON {', '.join(tables)} TO half_an_admin".encode())
            conn.execute(f"GRANT UPDATE ON SEQUENCE {sequences[0]} TO half_an_admin".encode())
            conn.execute(b"SET ROLE half_an_admin")
            server_health.advance_sequences(conn)
            conn.execute(b"RESET ROLE")
            row = conn.execute(added, {"text": "Crane d is red"}).fetchone()
            assert row is not None and row.id == 4
        finally:
            conn.execute(b"RESET ROLE")
            conn.execute(b"DROP OWNED BY half_an_admin")
            conn.execute(b"DROP ROLE half_an_admin")


@pytest.mark.parametrize(("locale", "told"), [("C", True), ("C.UTF-8", False)])
def test_need_20_a_locale_without_capitals_beyond_ascii_is_told(
    locale: str, told: bool, admin_dsn: str, home: Path
) -> None:
    name = str(conninfo_to_dict(admin_dsn)["dbname"]) + "_locale"
    with psycopg.connect(make_conninfo(admin_dsn, dbname="postgres"), autocommit=True) as connection:
        made = "CREATE DATABASE {} ENCODING 'UTF8' LOCALE_PROVIDER libc LOCALE {} TEMPLATE template0"
        connection.execute(sql.SQL(made).format(sql.Identifier(name), sql.Literal(locale)))
        try:
            admin = make_conninfo(admin_dsn, dbname=name)
            migrate(admin, dims=DIMS)
            checks = check_database(DoctorContext(Settings(dsn=admin, dims=DIMS), home))
            noted = [check for check in checks if check.name == "locale"]
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
    assert [(check.state, "only as it was written" in check.said) for check in noted] == [("note", True)] * told


@pytest.mark.parametrize(
    ("kind", "said"), [("asciiword", "makes a capital I a dotless one"), ("word", "no capital letters beyond ASCII")]
)
def test_need_20_what_text_search_makes_of_capitals_is_told_whatever_lower_makes_of_them(
    kind: str, said: str, admin_dsn: str, dsn: str, home: Path
) -> None:
    # No locale of the tests' machines does this: a dictionary that finds nothing for these words stands in for one.
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        assert connection.execute("SELECT lower('\u0416') = '\u0436'").fetchone() == (True,)
        connection.execute(f"ALTER TEXT SEARCH CONFIGURATION pg_catalog.simple DROP MAPPING FOR {kind}".encode())
    found = line(list(check_database(DoctorContext(Settings(dsn=dsn, dims=DIMS), home))), "locale")
    assert found.state == "note" and said in found.said


@pytest.mark.parametrize(("wrong_by_s", "state"), [(0.0, "ok"), (30.0, "note"), (-7200.0, "fail")])
def test_need_02_a_clock_that_is_wrong(dsn: str, home: Path, wrong_by_s: float, state: str) -> None:
    patient = DoctorContext(Settings(dsn=dsn, dims=DIMS), home, now=lambda: time.time() + wrong_by_s)
    found = line(list(check_database(patient)), "clock")
    assert found.state == state
    assert ("ahead of" if wrong_by_s > 0 else "behind") in found.said or state == "ok"


@pytest.mark.parametrize(
    ("harm", "name"),
    [
        (INVALID, "index"),
        ("DROP INDEX memory_entries_theme_digest_key", "index"),
        ("DROP TRIGGER hermes_note_memory ON memory_entries", "triggers"),
        ("REVOKE DELETE ON memory_entries FROM hermes", "rights"),
        ("DELETE FROM hermes_migrations", "schema"),
    ],
)
def test_need_02_what_an_admin_can_mend_is_mended_with_an_admins_login_only(
    admin_dsn: str, dsn: str, home: Path, capsys: Capture, harm: str, name: str
) -> None:
    configure(home, dsn=dsn)
    on(harm)(admin_dsn, dsn)
    _, answer = doctor(home, capsys, "--fix")
    (repair,) = [each for each in answer["repairs"] if each["name"] == name]
    assert not repair["done"] and "--admin-dsn" in repair["said"]
    assert states(answer)[name] == "fail"

    _, answer = doctor(home, capsys, "--fix", "--admin-dsn", admin_dsn)
    (repair,) = [each for each in answer["repairs"] if each["name"] == name]
    assert repair["done"], repair
    assert states(answer).get(name, "ok") == "ok"
    assert name in {check["name"] for check in answer["before"] if check["state"] == "fail"}


def test_need_02_rights_go_to_the_role_that_a_variable_names(
    admin_dsn: str, direct_dsn: str, home: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = conninfo_to_dict(direct_dsn)
    configure(home, dsn=make_conninfo("", **(known | {"user": None})))
    monkeypatch.setenv("PGUSER", str(known["user"]))
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute("REVOKE INSERT ON conversations FROM hermes")
    assert states(doctor(home, capsys)[1])["rights"] == "fail"

    _, answer = doctor(home, capsys, "--fix", "--admin-dsn", admin_dsn)

    assert states(answer)["rights"] == "ok"
    assert "the role hermes has its rights" in next(
        each["said"] for each in answer["repairs"] if each["name"] == "rights"
    )


def test_need_02_an_old_extension_is_updated(admin_dsn: str, dsn: str, home: Path, capsys: Capture) -> None:
    # A version from which the server's files know the way to the newest one.
    on("UPDATE pg_extension SET extversion = '0.8.1' WHERE extname = 'vector'")(admin_dsn, dsn)
    configure(home, dsn=dsn)
    _, answer = doctor(home, capsys, "--fix", "--admin-dsn", admin_dsn)
    assert [each["done"] for each in answer["repairs"] if each["name"] == "pgvector"] == [True], answer["repairs"]
    assert states(answer)["pgvector"] == "ok"


# -- the endpoints -----------------------------------------------------------------------------------------------------


def test_need_02_the_endpoints_answer_or_not(dsn: str, home: Path, capsys: Capture) -> None:
    def lines() -> dict[str, dict[str, str]]:
        return {check["name"]: check for check in doctor(home, capsys)[1]["checks"]}

    with ScriptedReranker() as reranker, ScriptedEmbedder(dims=DIMS) as embedder:
        configure(home, dsn=dsn, embed_url=embedder.url, rerank_url=reranker.url)
        found = lines()
        assert found["embedding"]["state"] == found["reranking"]["state"] == "ok"
        assert "ms" in found["embedding"]["said"] and "ms" in found["reranking"]["said"]
    found = lines()
    assert found["embedding"]["state"] == found["reranking"]["state"] == "fail"
    assert "embed_url" in found["embedding"]["fix"] and "rerank_url" in found["reranking"]["fix"]


@pytest.mark.parametrize(
    ("mode", "fix"),
    [
        ("unauthorized", "dims and the API key in MY_KEY; recall"),
        ("rate_limited", "start the endpoint or wait for it, or correct embed_url; recall"),
    ],
)
def test_need_40_what_to_do_about_an_endpoint_fits_its_answer(
    dsn: str, home: Path, capsys: Capture, mode: Mode, fix: str
) -> None:
    with ScriptedEmbedder(dims=DIMS, mode=mode) as embedder:
        configure(home, dsn=dsn, embed_url=embedder.url, embed_api_key_env="MY_KEY")
        found = {check["name"]: check for check in doctor(home, capsys)[1]["checks"]}["embedding"]
    assert found["state"] == "fail" and fix in found["fix"]


def test_need_40_another_prefix_is_told_where_the_name_of_the_model_has_its_tag(
    dsn: str, home: Path, capsys: Capture, make_provider: MakeProvider
) -> None:
    with ScriptedEmbedder(dims=DIMS) as embedder:
        provider = make_provider({"embed_url": embedder.url, "embed_model": "m:latest"})
        provider.on_memory_write("add", "memory", "Atlas is blue")
        landed(provider)
        configure(home, dsn=dsn, embed_url=embedder.url, embed_model="m", embed_document_prefix="passage: ")
        found = {check["name"]: check for check in doctor(home, capsys)[1]["checks"]}["vectors"]
    assert "and 'passage: ' before a text instead of ''" in found["said"] and "embed_document_prefix" in found["fix"]


class RenamedModel:
    """Another model than ScriptedEmbedder's: the same text has nothing in common there."""

    def embed(self, text: str) -> list[float]:
        return hash_vector(f"{hash_vector(text, DIMS)[0]}", DIMS)


def test_need_02_an_endpoint_with_another_model_by_the_same_name_is_told(
    dsn: str, home: Path, capsys: Capture, make_provider: MakeProvider
) -> None:
    """As after `ollama pull` of a newer one: old vectors and new ones are compared, and nothing fits any more."""

    def found() -> dict[str, str]:
        return next(check for check in doctor(home, capsys)[1]["checks"] if check["name"] == "embedding")

    with ScriptedEmbedder(dims=DIMS) as embedder:
        configure(home, dsn=dsn, embed_url=embedder.url, embed_model="m")
        provider = make_provider({"embed_url": embedder.url, "embed_model": "m"})
        for name in ("Atlas is blue", "Borealis is green", "Cygnus is red"):
            provider.on_memory_write("add", "memory", name)
            provider.sync_turn(f"Which colour has {name.split()[0]}, by the way?", f"{name}, as you have told me.")
        landed(provider)
        assert found()["state"] == "ok"
    with EmbeddingServer(RenamedModel()) as other:
        configure(home, dsn=dsn, embed_url=other.url, embed_model="m")
        said = found()
        assert said["state"] == "fail" and "another model" in said["said"] and "of 7 stored texts" in said["said"], said
        assert "reembed --again --yes --admin-dsn DSN" in said["fix"]


def test_need_02_texts_that_were_embedded_in_parts_are_of_no_other_model(
    dsn: str, home: Path, capsys: Capture, make_provider: MakeProvider
) -> None:
    with ScriptedEmbedder(dims=DIMS) as embedder:
        parts = {"embed_url": embedder.url, "embed_model": "m", "chunk_tokens": 64}
        configure(home, dsn=dsn, **parts)
        provider = make_provider(parts)
        for crane in ("первый", "второй", "третий"):
            text = f"{crane} портовый кран стоит у южного причала, его смазывают по понедельникам и средам утром"
            provider.on_memory_write("add", "memory", text)
        landed(provider)
        found = next(check for check in doctor(home, capsys)[1]["checks"] if check["name"] == "embedding")
    assert found["state"] == "ok", found


# -- the disk ----------------------------------------------------------------------------------------------------------


def spooled(home: Path, count: int, *, age_s: float = 0.0, content: str = "Atlas is blue") -> SpoolDirectory:
    """A process's spool with writes that wait; it counts as living while the directory is kept."""
    directory = SpoolDirectory(spool_folder(home), max_bytes=1 << 40)
    spool = directory.open_own()
    for number in range(count):
        payload = {"target": "memory", "content": f"{content} {number}", "origin": "", "metadata": {}}
        spool.append(operation("add", "marketing", payload, time.time() - age_s))
    spool.close()
    return directory


def disk(home: Path, **settings: Any) -> list[Check]:
    return list(check_disk(DoctorContext(Settings(dsn="host=elsewhere", **settings), home)))


@pytest.mark.parametrize(
    ("writes", "settings", "state", "said"),
    [
        ({"count": 3}, {}, "ok", "3 writes on their way"),
        ({"count": 1001}, {}, "note", "1001 writes wait"),
        ({"count": 2, "age_s": 3600.0}, {}, "note", "has waited for 60 min"),
        ({"count": 3, "content": "x" * 300_000}, {"spool_max_mb": 1}, "fail", "90% full"),
    ],
)
def test_need_02_a_spool_that_is_held_up(
    home: Path, writes: dict[str, Any], settings: dict[str, Any], state: str, said: str
) -> None:
    living = spooled(home, **writes)
    found = line(disk(home, **settings), "spool")
    assert (found.state, said in found.said) == (state, True), found
    del living


def test_need_02_a_spool_file_that_was_deleted_under_a_running_process(home: Path) -> None:
    living = spooled(home, 3)
    (path,) = spool_folder(home).glob("*.db")
    path.unlink()

    found = disk(home)

    (deleted,) = [check for check in found if check.name == "spool" and check.state == "fail"]
    assert str(path) in deleted.said and str(os.getpid()) in deleted.said and deleted.fix == "restart that agent"
    del living


def test_need_02_writes_of_a_stopped_process_are_delivered(dsn: str, home: Path, capsys: Capture) -> None:
    directory = spooled(home, 5)
    for path in spool_folder(home).glob("*.db"):
        directory.release(path)
    configure(home, dsn=dsn)
    assert line(disk(home), "spool").repair == "deliver"
    _, answer = doctor(home, capsys, "--fix")
    assert [each["done"] for each in answer["repairs"] if each["name"] == "spool"] == [True], answer["repairs"]
    assert states(answer)["spool"] == "ok"
    assert len(Database(dsn).column("SELECT content FROM memory_entries")) == 5


def test_need_02_writes_of_a_stopped_process_wait_where_postgres_is_away(home: Path, capsys: Capture) -> None:
    directory = spooled(home, 5)
    for path in spool_folder(home).glob("*.db"):
        directory.release(path)
    configure(home, dsn="host=127.0.0.1 port=1 dbname=x user=y")
    code, answer = doctor(home, capsys, "--fix")
    assert code == 1
    (repair,) = [each for each in answer["repairs"] if each["name"] == "spool"]
    assert not repair["done"] and "left of stopped processes: 5 writes; connection failed" in repair["said"]
    assert "5 writes of stopped processes wait" in line(disk(home), "spool").said


def test_need_02_little_room(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert line(disk(home), "disk").state == "ok"
    found = line(disk(home, spool_max_mb=1_000_000), "disk")
    assert (found.state, "spool_max_mb" in found.fix) == ("note", True)
    monkeypatch.setattr("hermes_memory_pgvector.admin.doctor.check_disk.SPARE_BYTES", 1 << 62)
    assert line(disk(home), "disk").state == "fail"


def test_need_02_a_spool_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    home = Path("/proc/self") if os.geteuid() == 0 else tmp_path / "locked"
    if os.geteuid():
        home.mkdir(mode=0o500)
    found = line(disk(home), "spool")
    assert (found.state, "writable" in found.fix) == ("fail", True)


# -- how it is told ----------------------------------------------------------------------------------------------------


def test_need_02_for_people_and_for_machines(dsn: str, home: Path, capsys: Capture) -> None:
    configure(home, dsn=dsn)
    assert main(["doctor", "--hermes-home", str(home)]) == 1
    said = capsys.readouterr().out
    assert "FAIL  plugin:" in said and "-> hermes-pgvector install" in said
    assert "hermes-pgvector doctor --fix mends" in said
    assert main(["doctor", "--fix", "--hermes-home", str(home)]) == 0
    said = capsys.readouterr().out
    assert "fixed  plugin: plugin created" in said
    assert said.count("  python:") == 2, "before and after"
    code, answer = doctor(home, capsys, "--fix")
    assert (code, answer["healthy"], answer["repairs"]) == (0, True, [])
    assert as_json([]) == {"healthy": True, "checks": []}


@pytest.mark.parametrize("as_json", [False, True])
def test_need_02_settings_that_cannot_be_read_are_a_line_of_the_checklist(
    home: Path, as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "config.yaml").write_text("memory:\n  provider: pgvector\n plugins: [\n", encoding="utf-8")

    assert main(["doctor", "--hermes-home", str(home), *(["--json"] if as_json else [])]) == 1

    printed = capsys.readouterr().out
    if as_json:
        assert {"name": "settings", "state": "fail"}.items() <= json.loads(printed)["checks"][-1].items()
    else:
        assert "FAIL  settings: " in printed and "config.yaml" in printed


def test_need_40_settings_that_are_not_used_as_they_stand_are_lines_of_the_checklist(
    dsn: str, home: Path, capsys: Capture
) -> None:
    configure(home, dsn=dsn, dns="host=elsewhere", prefetch_limit="many")
    _, answer = doctor(home, capsys)
    said = [check["said"] for check in answer["checks"] if check["name"] == "settings"]
    assert [sentence for sentence in said if "unknown setting 'dns'" in sentence and "did you mean dsn?" in sentence]
    assert [sentence for sentence in said if "prefetch_limit" in sentence and "using the default 5" in sentence]
    assert len(said) == 2


def test_need_40_doctor_names_itself_as_no_remedy(home: Path, capsys: Capture) -> None:
    configure(home, dsn="service=nobody-wrote-this")
    _, answer = doctor(home, capsys)
    said = next(check["said"] for check in answer["checks"] if check["name"] == "postgres")
    assert "nobody-wrote-this" in said and "doctor" not in said


@pytest.mark.parametrize(
    ("granted", "state", "said"),
    [
        ((), "fail", "this role has no theme: it finds nothing, and its writes are refused"),
        (("marketing",), "note", "this role lacks the theme 'default': sessions that name no other find nothing"),
    ],
)
def test_need_40_a_tenant_without_the_theme_of_its_home_is_told_so(
    postgres: EmbeddedServer,
    admin_dsn: str,
    home: Path,
    capsys: Capture,
    granted: tuple[str, ...],
    state: str,
    said: str,
) -> None:
    configure(home, dsn=tenant_of(postgres, admin_dsn, "marketing"))
    if not granted:
        with connect(admin_dsn) as conn:
            conn.execute("DELETE FROM hermes_tenants WHERE role = 'tenant_marketing'::regrole")

    found = {check["name"]: check for check in doctor(home, capsys)[1]["checks"]}

    assert found["row security"]["state"] == state and said in found["row security"]["said"]
    assert main(["status", "--hermes-home", str(home)]) == 0
    assert said in capsys.readouterr().out


def test_need_02_a_tenants_home_is_checked_to_the_end_and_told_whose_the_log_is(
    postgres: EmbeddedServer, admin_dsn: str, home: Path, capsys: Capture
) -> None:
    configure(home, dsn=tenant_of(postgres, admin_dsn, "default", "ads"))

    found = {check["name"]: (check["state"], check["said"]) for check in doctor(home, capsys)[1]["checks"]}

    assert found["postgres"][0] == "ok", found["postgres"]
    assert found["row security"] == ("ok", "on, and this role has 2 themes")
    assert main(["themes", "log", "--hermes-home", str(home)]) == 1
    said = capsys.readouterr().err
    assert "limits this role to some themes" in said
    assert "--admin-dsn DSN" in said
