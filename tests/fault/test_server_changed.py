"""The server is another one than a moment ago: its tables made anew, its sequences set back, or read-only."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from hermes_memory_pgvector.admin.common.migrations import migrate
from hermes_memory_pgvector.admin.common.retrying import retry_deadlocks
from hermes_memory_pgvector.capture import batches
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import landed, recalled, rejected_writes, runtime_of, write_entries
from tests.support.password_role import PASSWORD, password_role
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.streaming import replicated_postgres
from tests.support.traffic import LANDED_TIMEOUT_S, Log, Traffic, assert_all_embedded, assert_all_landed, report
from tests.support.turns import finds, memories, turn, user_turns
from tests.support.waiting import until


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    return Log(caplog)


def as_admin(admin_dsn: str, *statements: str) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        for statement in statements:
            retry_deadlocks(partial(connection.execute, statement.encode()))


def set_read_only(admin_dsn: str, value: str, *, end: bool = True) -> None:
    """Turn the agents' role in this database read-only or back, for connections made from now on; `end` the others."""
    database = psycopg.conninfo.conninfo_to_dict(admin_dsn)["dbname"]
    as_admin(admin_dsn, f'ALTER ROLE hermes IN DATABASE "{database}" SET default_transaction_read_only = {value}')
    if not end:
        return
    as_admin(
        admin_dsn,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE usename = 'hermes' AND datname = current_database()",
    )


def schema_made_anew(admin_dsn: str) -> None:
    as_admin(
        admin_dsn,
        "DROP EXTENSION vector CASCADE; DROP SCHEMA public CASCADE; CREATE SCHEMA public; "
        "GRANT USAGE ON SCHEMA public TO public",
    )
    migrate(admin_dsn, dims=DIMS, runtime_role="hermes")


def database_made_anew(admin_dsn: str) -> None:
    name = str(psycopg.conninfo.conninfo_to_dict(admin_dsn)["dbname"])
    with psycopg.connect(admin_dsn, dbname="postgres", autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
    migrate(admin_dsn, dims=DIMS, runtime_role="hermes")


def assert_nothing_missing_since(provider: PgvectorMemoryProvider, database: Database, numbers: list[int]) -> None:
    """What was reported since some moment is stored, each once and in order, with its vector; nothing is set aside."""
    writer = runtime_of(provider).writer
    until(lambda: not writer.depth(), LANDED_TIMEOUT_S, "the spool to be empty")
    assert writer.rejected_count() == 0
    stored = user_turns(database)
    assert stored
    assert stored == [turn(number) for number in numbers][-len(stored) :]
    assert_all_embedded(database)


@pytest.mark.parametrize("made_anew", [schema_made_anew, database_made_anew])
def test_need_03_tables_made_anew_under_an_agent_are_no_fault_of_its_writes(
    made_anew: Callable[[str], None],
    direct_dsn: str,
    admin_dsn: str,
    endpoint: ScriptedEmbedder,
    make_provider: MakeProvider,
    log: Log,
) -> None:
    provider = make_provider({"dsn": direct_dsn, "embed_url": endpoint.url})
    database = Database(direct_dsn)
    # Often enough that every statement is prepared.
    for number in range(1, 41):
        report(provider, number)
        if number % 5 == 0:
            landed(provider)
    assert finds(provider, "number0002", turn(2))
    with Traffic(provider, first=41) as traffic:
        traffic.wait_for(20)
        made_anew(admin_dsn)
        after = traffic.numbers[-1] + 1
        traffic.wait_for(50)

    assert_nothing_missing_since(provider, database, [*range(1, 41), *traffic.numbers])
    assert turn(after) in user_turns(database)
    assert len(memories(database)) >= 10
    until(lambda: finds(provider, f"number{after:04d}", turn(after)), 30, "recall")
    traffic.assert_never_waited()
    assert not [line for line in log.warnings() if "ERROR" in line or "rejects" in line]


@pytest.mark.parametrize("made_anew", [schema_made_anew, database_made_anew])
def test_need_03_what_tables_made_anew_lack_is_written_before_what_is_new(
    made_anew: Callable[[str], None], direct_dsn: str, admin_dsn: str, make_provider: MakeProvider
) -> None:
    """The agent was silent meanwhile: nothing has told it of the change but its next write."""
    provider = make_provider({"dsn": direct_dsn})
    database = Database(direct_dsn)
    for number in range(1, 4):
        report(provider, number)
    provider.on_memory_write("add", "memory", "Atlas is blue")
    landed(provider)
    made_anew(admin_dsn)
    provider.on_memory_write("remove", "memory", "", metadata={"old_text": "Atlas is blue"})
    report(provider, 4)
    landed(provider)
    assert user_turns(database) == [turn(number) for number in range(1, 5)]
    assert memories(database) == []


@pytest.mark.parametrize("made_anew", [schema_made_anew, database_made_anew])
def test_need_15_what_a_server_lacks_of_the_memory_files_is_read_in_anew(
    made_anew: Callable[[str], None], direct_dsn: str, admin_dsn: str, make_provider: MakeProvider, home: Path
) -> None:
    """An old backup was restored: what was read in is longer ago than acknowledged writes are kept."""
    settings = {"dsn": direct_dsn, "spool_keep_s": 0}
    write_entries(home, "Atlas is blue", "Borealis is green")
    provider = make_provider(settings)
    landed(provider)
    backend = runtime_of(provider).backend
    before = backend.server
    made_anew(admin_dsn)
    until(lambda: backend.server != before, LANDED_TIMEOUT_S, "the agent to see it")
    provider = make_provider(settings)
    landed(provider)
    assert set(recalled(provider, "atlas borealis", scope="default")) == {"Atlas is blue", "Borealis is green"}


def test_need_03_a_write_that_fails_alone_for_no_reason_of_the_server_is_set_aside_in_the_end(
    direct_dsn: str,
    admin_dsn: str,
    make_provider: MakeProvider,
    monkeypatch: pytest.MonkeyPatch,
    log: Log,
) -> None:
    monkeypatch.setattr(batches, "PATIENCE_S", 0.5)
    as_admin(
        admin_dsn,
        """CREATE FUNCTION odd() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF NEW.content LIKE '%number0002%' THEN RAISE EXCEPTION USING ERRCODE = 'XX000', MESSAGE = 'odd'; END IF;
             RETURN NEW; END $$""",
        "CREATE TRIGGER odd BEFORE INSERT ON conversations FOR EACH ROW EXECUTE FUNCTION odd()",
    )
    provider = make_provider({"dsn": direct_dsn})
    for number in range(1, 5):
        report(provider, number)
    writer = runtime_of(provider).writer
    until(writer.rejected_count, LANDED_TIMEOUT_S, "the odd one")
    until(lambda: not writer.depth(), LANDED_TIMEOUT_S, "the others")
    (left,) = rejected_writes(provider)
    assert "odd" in str(left)
    assert user_turns(Database(direct_dsn)) == [turn(1), turn(3), turn(4)]
    told: list[Any] = [line for line in log.ours() if "out of reach" in line]
    assert told == []


def test_need_03_sequences_that_were_set_back_hold_writes_up_until_doctor_sets_them_right(
    direct_dsn: str,
    admin_dsn: str,
    home: Path,
    endpoint: ScriptedEmbedder,
    make_provider: MakeProvider,
    capsys: pytest.CaptureFixture[str],
    log: Log,
) -> None:
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": direct_dsn, "dims": DIMS}}}))
    provider = make_provider({"dsn": direct_dsn, "embed_url": endpoint.url})
    database = Database(direct_dsn)
    for number in range(1, 101):
        report(provider, number)
    landed(provider)
    numbers = "memory_entries", "conversations", "memory_history"
    as_admin(admin_dsn, *(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), 1)" for table in numbers))
    with Traffic(provider, first=101) as traffic:
        until(lambda: runtime_of(provider).writer.counts["retries"] >= 3, 30, "some attempts")
        assert main(["doctor", "--json", "--hermes-home", str(home)]) == 1
        (check,) = [each for each in json.loads(capsys.readouterr().out)["checks"] if each["name"] == "sequences"]
        assert "conversations" in check["said"] and "memory_entries" in check["said"]
        assert "doctor --fix" in check["fix"]
        main(["doctor", "--fix", "--json", "--hermes-home", str(home), "--admin-dsn", admin_dsn])
        printed = json.loads(capsys.readouterr().out)
        assert all(each["name"] != "sequences" for each in printed["checks"]), printed
        traffic.wait_for(20)

    assert_all_landed(provider, database, [*range(1, 101), *traffic.numbers])
    assert len(log.warnings()) == 1 and "doctor --fix" in log.warnings()[0], log.warnings()
    traffic.assert_never_waited()


def test_need_03_a_role_that_is_read_only_for_a_while_recalls_and_writes_again_by_itself(
    direct_dsn: str, admin_dsn: str, endpoint: ScriptedEmbedder, make_provider: MakeProvider, log: Log
) -> None:
    provider = make_provider({"dsn": direct_dsn, "embed_url": endpoint.url})
    report(provider, 1)
    landed(provider)
    with Traffic(provider, first=2) as traffic:
        traffic.wait_for(5)
        set_read_only(admin_dsn, "on")
        until(lambda: "read-only" in "".join(log.warnings()), 30, "a line about it")
        until(lambda: finds(provider, "number0001", turn(1)), 10, "recall from a server that takes no writes")
        assert runtime_of(provider).backend.is_up()
        # The connections of before stay, and must not be used for ever.
        set_read_only(admin_dsn, "off", end=False)
        until(lambda: len(user_turns(Database(direct_dsn))) > 20, 25, "writes")
        traffic.wait_for(20)

    assert_all_landed(provider, Database(direct_dsn), [1, *traffic.numbers])
    assert sum("read-only" in line for line in log.warnings()) == 1, log.warnings()
    traffic.assert_never_waited()


def test_need_02_a_second_cause_that_holds_writes_up_is_told_as_the_first_was(
    direct_dsn: str, admin_dsn: str, make_provider: MakeProvider, log: Log
) -> None:
    provider = make_provider({"dsn": direct_dsn})
    report(provider, 1)
    landed(provider)
    as_admin(admin_dsn, "REVOKE INSERT ON conversations FROM hermes")
    set_read_only(admin_dsn, "on")
    report(provider, 2)
    until(lambda: "read-only" in "".join(log.warnings()), LANDED_TIMEOUT_S, "a line about it")
    set_read_only(admin_dsn, "off")
    until(lambda: "permission denied" in "".join(log.warnings()), LANDED_TIMEOUT_S, "a line about what is left")
    as_admin(admin_dsn, "GRANT INSERT ON conversations TO hermes")
    report(provider, 3)
    landed(provider)
    assert user_turns(Database(admin_dsn)) == [turn(number) for number in range(1, 4)]


def test_need_03_a_role_that_was_dropped_and_made_anew_is_used_without_a_restart(
    postgres: EmbeddedServer, direct_dsn: str, admin_dsn: str, make_provider: MakeProvider, log: Log
) -> None:
    """The sessions of before stay open, and are of a role that nothing is granted to any more."""
    with password_role(postgres, direct_dsn) as dsn:
        migrate(admin_dsn, dims=DIMS, runtime_role="guarded")
        provider = make_provider({"dsn": psycopg.conninfo.make_conninfo(dsn, password=PASSWORD)})
        report(provider, 1)
        landed(provider)
        as_admin(admin_dsn, "DROP OWNED BY guarded", "DROP ROLE guarded")
        report(provider, 2)
        until(log.warnings, LANDED_TIMEOUT_S, "a line about it")
        as_admin(admin_dsn, f"CREATE ROLE guarded LOGIN PASSWORD '{PASSWORD}'")
        migrate(admin_dsn, dims=DIMS, runtime_role="guarded")
        report(provider, 3)
        landed(provider)
        assert user_turns(Database(admin_dsn)) == [turn(number) for number in range(1, 4)]
        assert finds(provider, "number0003", turn(3))
        provider.shutdown()


def both_hosts(primary: str, standby: str, **asked: str) -> str:
    """A conninfo of two hosts, the standby's first."""
    ways = [psycopg.conninfo.conninfo_to_dict(each) for each in (standby, primary)]
    hosts, ports = (",".join(str(way[key]) for way in ways) for key in ("host", "port"))
    return psycopg.conninfo.make_conninfo(primary, host=hosts, port=ports, **asked)


@pytest.mark.parametrize("asked", ["", "read-write", "primary"])
def test_need_03_of_two_servers_the_one_that_takes_writes_is_used(
    asked: str, make_provider: MakeProvider, home: Path, capsys: pytest.CaptureFixture[str], log: Log
) -> None:
    with replicated_postgres(DIMS) as (primary, standby):
        database = primary.database()
        standby.caught_up(primary)
        how = {"target_session_attrs": asked} if asked else {}
        both = both_hosts(database.dsn, standby.conninfo(database.dsn), **how)
        provider = make_provider({"dsn": both})
        report(provider, 1)
        landed(provider)
        standby.caught_up(primary)

        (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": both, "dims": DIMS}}}))
        assert main(["add", "Atlas is blue.", "--theme", "marketing", "--hermes-home", str(home)]) == 0
        assert memories(database) == ["Atlas is blue."]
        capsys.readouterr()
        main(["doctor", "--json", "--hermes-home", str(home)])
        (check,) = [each for each in json.loads(capsys.readouterr().out)["checks"] if each["name"] == "postgres"]
        assert check["state"] == "ok", check
        standby.caught_up(primary)

        primary.stop("immediate")
        report(provider, 2)
        until(lambda: finds(provider, "number0001", turn(1)), 30, "recall from the standby")
        standby.tell("SELECT pg_promote()")
        landed(provider)
        assert user_turns(Database(standby.conninfo(database.dsn))) == [turn(1), turn(2)]
        assert runtime_of(provider).writer.rejected_count() == 0
