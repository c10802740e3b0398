"""What somebody has to put right: said once, with the command that does it, while the agent goes on."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_memory_pgvector.capture.spool_directory import destination_of
from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.domain.errors import ConfigurationError
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.host.session_context import load_settings
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from tests.conftest import DIMS, MakeProvider
from tests.integration.conftest import Run
from tests.support.blocked_packages import PoorEnvironment
from tests.support.memory import called, landed, recalled, runtime_of
from tests.support.tcp_proxy import TcpProxy
from tests.support.turns import ANSWER, turn
from tests.support.waiting import until

Records = Callable[[int], list[str]]

SECRET = "correct-horse-battery"

USE_EVERYTHING = """
import json, logging, sys
logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(message)s")
import hermes_memory_pgvector

class Host:
    def register_memory_provider(self, provider):
        self.provider = provider

host = Host()
hermes_memory_pgvector.register(host)
provider = host.provider
said = [provider.is_available(), provider.is_available()]
provider.get_tool_schemas()
provider.initialize("session-1", hermes_home=sys.argv[1], platform="cli")
provider.sync_turn("What colour did we choose for Atlas in the end?", "Blue, as decided on Monday.")
provider.on_memory_write("add", "memory", "Atlas is blue")
said += [provider.prefetch("Which colour is Atlas?"), provider.handle_tool_call("recall_memory", {"query": "atlas"})]
provider.shutdown()
print(json.dumps(said))
"""
DOCTOR = "import sys; from hermes_memory_pgvector.cli import main; sys.exit(main(['doctor']))"


def configure(home: Path, **settings: Any) -> None:
    config = {"memory": {"provider": "pgvector"}, "plugins": {"pgvector": {"dims": DIMS} | settings}}
    (home / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")


def warned_of(home: Path, records: Records) -> str:
    """The one WARNING of an agent whose database cannot be used: it has a provider all the same, which keeps a turn."""
    provider = PgvectorMemoryProvider()
    assert len(provider.get_tool_schemas()) >= 2
    assert provider.is_available()
    provider.initialize("session-1", hermes_home=str(home), platform="cli")
    provider.sync_turn(turn(1), ANSWER)
    until(lambda: records(logging.WARNING), what="the cause")
    (warning,) = records(logging.WARNING)
    assert "writes are kept on disk" in warning
    assert provider.is_available()
    assert runtime_of(provider).stats()["queue_depth"] == 1
    assert provider.prefetch("What was number0001?") == ""
    assert called(provider, "recall_memory", {"query": "number0001"})["error"] in warning
    return warning


@contextmanager
def password_required(postgres: EmbeddedServer, dbname: str) -> Iterator[None]:
    """Makes the server ask for a password in one database."""
    rules = postgres.root / "data" / "pg_hba.conf"
    before = rules.read_text()
    try:
        rules.write_text(f"local {dbname} hermes scram-sha-256\n{before}")
        reload(postgres)
        yield
    finally:
        rules.write_text(before)
        reload(postgres)


def reload(postgres: EmbeddedServer) -> None:
    """Returns when the server has read its rules again."""
    with psycopg.connect(postgres.ensure().admin, autocommit=True) as connection:
        (before,) = connection.execute("SELECT pg_conf_load_time()").fetchone() or (None,)
        connection.execute("SELECT pg_reload_conf()")
    # A connection sees the time of the server it was made by.
    until(lambda: loaded_at(postgres) != before, 20, "the server's rules")


def loaded_at(postgres: EmbeddedServer) -> object:
    with psycopg.connect(postgres.ensure().admin, autocommit=True) as connection:
        (at,) = connection.execute("SELECT pg_conf_load_time()").fetchone() or (None,)
    return at


@pytest.mark.parametrize(("lost", "named"), [("psycopg", "psycopg[binary]"), ("httpx", "httpx"), ("yaml", "PyYAML")])
def test_need_02_a_missing_package_is_named_and_the_agent_goes_on(
    lost: str, named: str, tmp_path: Path, home: Path
) -> None:
    configure(home, dsn="host=/nowhere dbname=x user=y")
    poor = PoorEnvironment(tmp_path / "packages", [lost, "_yaml" if lost == "yaml" else lost])

    agent = poor.run(USE_EVERYTHING, str(home), home=home)
    assert agent.returncode == 0, agent.stderr
    available, again, block, answer = json.loads(agent.stdout)
    assert (available, again, block) == (False, False, "")
    assert "doctor" in json.loads(answer)["error"]
    (warning,) = agent.stderr.strip().splitlines()
    assert warning.startswith("WARNING")
    assert named in warning

    doctor = poor.run(DOCTOR, home=home)
    assert doctor.returncode == 1
    assert named in doctor.stdout + doctor.stderr
    assert "Traceback" not in doctor.stderr


def test_need_02_a_healthy_setup_is_available_and_says_nothing(
    home: Path, dsn: str, cli: Run, records: Records
) -> None:
    configure(home, dsn=dsn)
    assert cli("install").returncode == 0
    doctor = cli("doctor")
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    assert PgvectorMemoryProvider().is_available()
    assert records(logging.WARNING) == []


def test_need_02_a_wrong_password_is_named_and_never_shown(
    home: Path, direct_dsn: str, admin_dsn: str, postgres: EmbeddedServer, cli: Run, records: Records
) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute("ALTER ROLE hermes PASSWORD 'another one'")
    configure(home, dsn=make_conninfo(direct_dsn, password=SECRET))
    with password_required(postgres, str(conninfo_to_dict(direct_dsn)["dbname"])):
        warning = warned_of(home, records)
        doctor = cli("doctor")
    for said in (warning, doctor.stdout):
        assert "password authentication failed" in said
        assert "check the user and password in `dsn`" in said
    assert doctor.returncode == 1
    assert SECRET not in warning + doctor.stdout + doctor.stderr


def test_need_02_a_missing_role_or_database_is_named(home: Path, direct_dsn: str, cli: Run, records: Records) -> None:
    configure(home, dsn=make_conninfo(direct_dsn, dbname="nowhere_to_be_found"))
    warning = warned_of(home, records)
    doctor = cli("doctor")
    for said in (warning, doctor.stdout):
        assert "nowhere_to_be_found" in said
        assert "create it, or correct `dsn`" in said
    assert doctor.returncode == 1


@pytest.mark.parametrize(
    ("taken", "given_back", "remedy"),
    [
        ("ALTER ROLE hermes NOLOGIN", "ALTER ROLE hermes LOGIN", "ALTER ROLE ... LOGIN"),
        ("ALTER ROLE hermes CONNECTION LIMIT 0", "ALTER ROLE hermes CONNECTION LIMIT -1", "raise its CONNECTION LIMIT"),
        (
            "REVOKE CONNECT ON DATABASE {} FROM PUBLIC",
            "GRANT CONNECT ON DATABASE {} TO PUBLIC",
            "GRANT CONNECT ON DATABASE",
        ),
        ("ALTER DATABASE {} ALLOW_CONNECTIONS false", "ALTER DATABASE {} ALLOW_CONNECTIONS true", "ALLOW_CONNECTIONS"),
    ],
)
def test_need_02_what_keeps_a_role_out_is_named_with_what_lets_it_in(
    taken: str, given_back: str, remedy: str, home: Path, direct_dsn: str, admin_dsn: str, cli: Run, records: Records
) -> None:
    name = sql.Identifier(str(conninfo_to_dict(admin_dsn)["dbname"]))
    configure(home, dsn=direct_dsn)
    with psycopg.connect(admin_dsn, dbname="postgres", autocommit=True) as connection:
        connection.execute(sql.SQL(taken).format(name))
        try:
            warning = warned_of(home, records)
            doctor = cli("doctor")
        finally:
            connection.execute(sql.SQL(given_back).format(name))
    for said in (warning, doctor.stdout):
        assert remedy in said, said
        assert "`dsn` is right" not in said


def test_need_02_a_missing_migration_is_named_with_the_command(
    home: Path, empty_admin_dsn: str, cli: Run, records: Records
) -> None:
    configure(home, dsn=empty_admin_dsn)
    warning = warned_of(home, records)
    doctor = cli("doctor")
    for said in (warning, doctor.stdout):
        assert "hermes-pgvector migrate --admin-dsn" in said
    assert doctor.returncode == 1

    assert cli("migrate", "--admin-dsn", empty_admin_dsn, "--dims", str(DIMS)).returncode == 0
    assert "FAIL  postgres" not in (healed := cli("doctor").stdout)
    assert "FAIL  schema" not in healed


def test_need_02_rights_that_lack_are_named(home: Path, dsn: str, admin_dsn: str, cli: Run) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute("REVOKE INSERT ON conversations FROM hermes")
    configure(home, dsn=dsn)
    doctor = cli("doctor")
    assert doctor.returncode == 1
    assert "INSERT on conversations" in doctor.stdout
    assert "hermes-pgvector migrate" in doctor.stdout


def test_need_02_other_dimensions_leave_recall_by_words_and_are_named_once(
    make_provider: MakeProvider, dsn: str, home: Path, cli: Run, records: Records
) -> None:
    # need 18: a mismatch is reported and lexical recall goes on, so there is a memory to be had.
    config = {"dims": 768, "embed_url": "http://127.0.0.1:9"}
    for _ in range(2):
        provider = make_provider(config)
        assert provider.is_available()
        provider.sync_turn(turn(1), ANSWER)
        landed(provider)
        assert turn(1) in recalled(provider, "number0001", tool="recall_conversation")
        provider.shutdown()
    assert PgvectorMemoryProvider({"dsn": dsn} | config).is_available()
    warnings = set(records(logging.WARNING))
    assert len(warnings) == 1
    assert f"set plugins.pgvector.dims to {DIMS}" in warnings.pop()

    configure(home, dsn=dsn, dims=768)
    doctor = cli("doctor")
    assert doctor.returncode == 1
    assert f"set plugins.pgvector.dims to {DIMS}" in doctor.stdout
    assert "hermes-pgvector migrate" not in doctor.stdout


def test_need_02_a_server_that_is_only_down_needs_nobody(home: Path, cli: Run, records: Records) -> None:
    configure(home, dsn=f"host=127.0.0.1 port=1 dbname=x user=y password={SECRET}")
    provider = PgvectorMemoryProvider()
    assert provider.is_available()
    assert records(logging.WARNING) == []
    doctor = cli("doctor")
    assert doctor.returncode == 1
    assert "start Postgres there" in doctor.stdout
    assert SECRET not in doctor.stdout + doctor.stderr


@pytest.mark.parametrize(
    "config",
    [
        "memory: {{provider: pgvector}}\nplugins: {{pgvektor: {{dsn: {dsn!r}, dims: {dims}}}}}\n",
        "memory: {{provider: pgvector}}\nplugin: {{pgvector: {{dsn: {dsn!r}, dims: {dims}}}}}\n",
        "memory: {{provider: pgvector, pgvector: {{dsn: {dsn!r}, dims: {dims}}}}}\n",
        "memory: {{provider: pgvector}}\nplugins: {{pgvector: {{dims: {dims}}}, pgvektor: {{dsn: {dsn!r}}}}}\n",
    ],
)
def test_trap_12_a_section_that_nobody_reads_sends_no_memory_to_another_database(
    config: str, home: Path, dsn: str, cli: Run, records: Records
) -> None:
    (home / "config.yaml").write_text(config.format(dsn=dsn, dims=DIMS), encoding="utf-8")

    for command in (["status"], ["add", "Atlas is blue"], ["doctor"]):
        ran = cli(*command)
        assert ran.returncode == 1, ran.stdout
        assert "move them to plugins.pgvector" in ran.stdout + ran.stderr
        assert "starting Postgres" not in ran.stderr, "no other memory is begun"
    provider = PgvectorMemoryProvider()
    provider.initialize("s-1", hermes_home=str(home), platform="cli")

    (said,) = [line for line in records(logging.WARNING) if "move them to" in line]
    assert said.endswith("memory stays off rather than use another database")


def test_a_section_that_nobody_reads_turns_off_no_memory_that_the_embedded_postgres_has(home: Path, dsn: str) -> None:
    """As of an earlier try, which the right section has worked beside ever since."""
    config = {"plugins": {"pgvector": {"dims": DIMS}, "pgvektor": {"dsn": dsn}}}
    (home / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    with pytest.raises(ConfigurationError, match="memory stays off"):
        load_settings(None, home)
    destination_of(Settings(), home).saw("the database there")

    loaded = load_settings(None, home)

    assert not loaded.settings.dsn
    assert any("move them to plugins.pgvector, or take them out" in warning for warning in loaded.warnings)
    config["plugins"] = {"pgvektor": {"dsn": dsn}}
    (home / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    with pytest.raises(ConfigurationError, match="memory stays off"):
        load_settings(None, home)


def test_settings_of_a_section_that_nobody_reads_are_told_where_the_database_is_named_elsewhere(
    home: Path, dsn: str, cli: Run
) -> None:
    text = f"memory: {{provider: pgvector}}\nplugins: {{pgvektor: {{dsn: {dsn!r}, recall_off: [support]}}}}\n"
    (home / "config.yaml").write_text(text, encoding="utf-8")
    (home / ".env").write_text(f"HERMES_PGVECTOR_DSN='{dsn}'\nHERMES_PGVECTOR_DIMS={DIMS}\n", encoding="utf-8")

    doctor = cli("doctor")

    assert "note  settings: " in doctor.stdout and "plugins.pgvektor holds settings of this plugin" in doctor.stdout


@pytest.mark.parametrize(
    "config", ["plugins:\n  pgvector:\n    dsn: 'never closed\n", "plugins: {pgvector: {dsn: [1]}}\n"]
)
def test_need_02_a_broken_configuration_is_named_by_the_doctor(config: str, home: Path, cli: Run) -> None:
    (home / "config.yaml").write_text(config, encoding="utf-8")
    doctor = cli("doctor")
    assert doctor.returncode == 1
    assert "FAIL  settings: " in doctor.stdout
    assert "config.yaml" in doctor.stdout or "plugins.pgvector.dsn" in doctor.stdout
    assert "Traceback" not in doctor.stderr


def test_need_34_what_was_said_before_the_migration_arrives_after_it_without_a_restart(
    home: Path, empty_admin_dsn: str, cli: Run, make_provider: MakeProvider
) -> None:
    config = {"dsn": empty_admin_dsn}
    assert PgvectorMemoryProvider(config).is_available()
    provider = make_provider(config)
    provider.sync_turn(turn(1), ANSWER)
    provider.on_memory_write("add", "memory", "Atlas is blue")
    until(lambda: runtime_of(provider).backend.problem, 20, "the cause")
    assert PgvectorMemoryProvider(config).is_available()
    assert provider.prefetch("What was number0001?") == ""
    for tool in ("recall_memory", "recall_conversation"):
        assert "run: hermes-pgvector migrate" in called(provider, tool, {"query": "number0001"})["error"]

    assert cli("migrate", "--admin-dsn", empty_admin_dsn, "--dims", str(DIMS)).returncode == 0
    until(lambda: runtime_of(provider).backend.problem is None, 10, "the end of the cause")
    landed(provider)
    assert turn(1) in recalled(provider, "number0001", tool="recall_conversation")
    assert recalled(provider, "atlas") == ["Atlas is blue"]


def test_need_34_a_schema_older_than_the_code_costs_no_write(
    home: Path, admin_dsn: str, dsn: str, cli: Run, make_provider: MakeProvider, records: Records
) -> None:
    # As a database that a release with fewer migrations has made.
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute("DELETE FROM hermes_migrations WHERE version = (SELECT max(version) FROM hermes_migrations)")
    configure(home, dsn=dsn)
    warning = warned_of(home, records)
    assert "run: hermes-pgvector migrate" in warning
    assert cli("migrate", "--admin-dsn", admin_dsn, "--runtime-role", "hermes", "--dims", str(DIMS)).returncode == 0
    provider = make_provider(platform="cli", gateway_session_key="")
    until(lambda: runtime_of(provider).backend.problem is None, 10, "the end of the cause")
    until(lambda: turn(1) in recalled(provider, "number0001", tool="recall_conversation"), 20, "what was kept")


def test_need_34_what_a_server_lacks_that_was_down_is_said_when_it_is_up(
    empty_admin_dsn: str, make_provider: MakeProvider, records: Records
) -> None:
    with TcpProxy.before(empty_admin_dsn) as proxy:
        proxy.stop()
        make_provider({"dsn": proxy.conninfo(empty_admin_dsn)})
        until(lambda: records(logging.WARNING), what="the outage")
        proxy.start()
        until(lambda: len(records(logging.WARNING)) == 2, 30, "what is missing")
    down, missing = records(logging.WARNING)
    assert "migrate" not in down and "run: hermes-pgvector migrate" in missing
