"""Through a real PgBouncer in transaction mode: every transaction may run in another session of the server."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from hermes_memory_pgvector.admin.common import row_security
from hermes_memory_pgvector.admin.common.migrations import migrate
from hermes_memory_pgvector.admin.common.pooler import shares_sessions
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.store.pool import backend_pid, connect
from hermes_memory_pgvector.store.round_trip import make_round_trip
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import called, landed, recalled, runtime_of
from tests.support.password_role import PASSWORD, password_role
from tests.support.pooler import Pooler, pgbouncer
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.turns import ANSWER, turn
from tests.support.waiting import until

ROUNDS = 8  # a statement is prepared from its sixth time on


@pytest.fixture(scope="module")
def pooler(postgres: EmbeddedServer) -> Iterator[Pooler]:
    with pgbouncer(postgres.ensure().admin) as running:
        yield running


@pytest.fixture(scope="module")
def session_pooler(postgres: EmbeddedServer) -> Iterator[Pooler]:
    with pgbouncer(postgres.ensure().admin, "session") as running:
        yield running


def test_need_30_a_pooler_that_takes_turns_among_two_sessions_is_known_to_lend_them(
    postgres: EmbeddedServer, dsn: str
) -> None:
    """Each client of it gets the same session again while the other one is in a transaction."""
    with pgbouncer(postgres.ensure().admin, sessions=2, port=6434) as pooler:
        through = pooler.conninfo(dsn)
        # Both sessions are open from then on.
        with connect(through) as first, connect(through) as second, first.transaction(), second.transaction():
            assert backend_pid(first) != backend_pid(second)
        with connect(through) as conn:
            assert shares_sessions(conn, through)


def use_everything(make_provider: MakeProvider, config: dict[str, Any]) -> None:
    """What agents do, often enough that a statement would be prepared, from two providers in turn."""
    providers = [make_provider(config, gateway_session_key=theme) for theme in ("marketing", "sales")]
    for number in range(ROUNDS):
        for provider in providers:
            provider.on_memory_write("add", "memory", f"Atlas has the colour number {number}")
            provider.on_memory_write("replace", "memory", f"Atlas has the shade number {number}", {
                "old_text": f"Atlas has the colour number {number}"
            })  # fmt: skip
            provider.sync_turn(turn(number), ANSWER)
        for provider in providers:
            landed(provider)
            assert f"Atlas has the shade number {number}" in recalled(provider, f"shade number {number}")
            assert turn(number) in recalled(provider, turn(number), tool="recall_conversation")
            assert called(provider, "recall_memory", {"query": "Atlas", "scope": "all"})["count"] > 0
            provider.prefetch(f"Which shade number {number} has Atlas?")
    for provider in providers:
        provider.on_memory_write("remove", "memory", "", {"old_text": "Atlas has the shade number 1"})
        landed(provider)
        assert len(recalled(provider, "Atlas")) == ROUNDS - 1


@pytest.mark.parametrize("setting", ["auto", "transaction"])
def test_need_30_everything_works_through_transaction_pooling(
    pooler: Pooler, dsn: str, make_provider: MakeProvider, embedder: ScriptedEmbedder,
    records: Callable[[int], list[str]], setting: str,
) -> None:  # fmt: skip
    config = {"dsn": pooler.conninfo(dsn), "embed_url": embedder.url, "pooler": setting}
    use_everything(make_provider, config)
    assert Database(dsn).column("SELECT count(*) FROM conversations WHERE embedding IS NULL") == [0]
    assert records(logging.WARNING) == []


def test_need_30_a_role_with_some_themes_works_through_transaction_pooling(
    pooler: Pooler, dsn: str, admin_dsn: str, make_provider: MakeProvider, embedder: ScriptedEmbedder
) -> None:
    with connect(admin_dsn) as admin:
        row_security.enable(admin)
        row_security.revoke(admin, "hermes", [])
        row_security.grant(admin, "hermes", ["marketing", "sales", "default"])
    use_everything(make_provider, {"dsn": pooler.conninfo(dsn), "embed_url": embedder.url})


@pytest.fixture(scope="module")
def narrow_pooler(postgres: EmbeddedServer) -> Iterator[Pooler]:
    """All clients take turns in the same session of the server."""
    with pgbouncer(postgres.ensure().admin, sessions=1) as running:
        yield running


def test_need_30_without_the_setting_it_is_named_and_nothing_is_lost(
    narrow_pooler: Pooler, dsn: str, make_provider: MakeProvider, records: Callable[[int], list[str]]
) -> None:
    # Two processes as far as the pooler can tell: each has a pool of its own and prepares statements by the same names.
    config = {"dsn": narrow_pooler.conninfo(dsn), "pooler": "none"}
    providers = [make_provider(config | {"pool_max_size": size}) for size in (2, 3)]
    accepted: list[str] = []

    def complained() -> bool:
        for provider in providers:
            accepted.append(turn(len(accepted)))
            provider.sync_turn(accepted[-1], ANSWER)
            runtime_of(provider).writer.flush_own(5)
        return any("plugins.pgvector.pooler: transaction" in line for line in records(logging.WARNING))

    until(complained, 30, "a warning that names the setting")
    for provider in providers:
        provider.shutdown()
    healed = make_provider({"dsn": narrow_pooler.conninfo(dsn), "pooler": "transaction"})
    for text in accepted:
        Database(dsn).wait_for_turn(text)
    landed(healed)
    stored = Database(dsn).column("SELECT content FROM conversations WHERE role = 'user' ORDER BY id")
    assert sorted(stored) == sorted(accepted), "each of them once"


def test_need_30_a_pooler_that_kept_the_sessions_of_a_dropped_role_is_named_and_nothing_is_lost(
    postgres: EmbeddedServer, direct_dsn: str, admin_dsn: str, make_provider: MakeProvider
) -> None:
    """A role that was made anew under its name is another one, which those sessions are not of."""
    with password_role(postgres, direct_dsn) as dsn, pgbouncer(postgres.ensure().admin, password=PASSWORD) as running:
        migrate(admin_dsn, dims=DIMS, runtime_role="guarded")
        provider = make_provider({"dsn": running.conninfo(dsn)})
        provider.sync_turn(turn(1), ANSWER)
        landed(provider)
        with psycopg.connect(admin_dsn, autocommit=True) as admin:
            admin.execute("DROP OWNED BY guarded")
            admin.execute("DROP ROLE guarded")
            admin.execute(f"CREATE ROLE guarded LOGIN PASSWORD '{PASSWORD}'".encode())
        migrate(admin_dsn, dims=DIMS, runtime_role="guarded")
        provider.sync_turn(turn(2), ANSWER)
        until(lambda: "RECONNECT" in str(runtime_of(provider).backend.problem), 30, "the name of what helps")
        running.say("RECONNECT")
        landed(provider)
        assert Database(direct_dsn).column("SELECT content FROM conversations WHERE role = 'user' ORDER BY id") == [
            turn(1), turn(2),
        ]  # fmt: skip
        provider.shutdown()


def test_need_30_without_the_setting_nobody_has_anothers_statement_answered(postgres: EmbeddedServer, dsn: str) -> None:
    """Two clients, each of which has prepared a statement in a session of its own, change sessions."""
    with pgbouncer(postgres.ensure().admin, sessions=2) as running, ExitStack() as stack:
        one, other, first, second = (
            stack.enter_context(connect(running.conninfo(dsn), prepares=number < 2)) for number in range(4)
        )
        for holding in (first, second):
            holding.execute(b"BEGIN")  # each has taken one of the two sessions, and lends it by letting go of it
        for client, said, holding in (
            (one, "one", first), (other, "other", second), (other, "other", first), (one, "one", second),
        ):  # fmt: skip
            holding.execute(b"COMMIT")
            assert make_round_trip(client, [(f"SELECT '{said}' AS said".encode(), [])]) == [[(said,)]]
            holding.execute(b"BEGIN")


@pytest.mark.parametrize(
    ("way", "setting", "state", "said"),
    [
        ("direct", "auto", "ok", "none, a connection of our own"),
        ("direct", "transaction", "note", "none is to be seen"),
        ("transaction", "auto", "ok", "transaction mode"),
        ("transaction", "transaction", "ok", "transaction mode"),
        ("transaction", "none", "fail", "the setting `pooler` says none"),
        ("narrow", "auto", "ok", "transaction mode"),
        ("session", "none", "ok", "session mode"),
    ],
)
def test_need_30_doctor_knows_the_pooler_and_the_setting_it_needs(
    pooler: Pooler, narrow_pooler: Pooler, session_pooler: Pooler, direct_dsn: str, home: Path,
    capsys: pytest.CaptureFixture[str],
    way: str, setting: str, state: str, said: str,
) -> None:  # fmt: skip
    through = {
        "direct": direct_dsn, "transaction": pooler.conninfo(direct_dsn), "narrow": narrow_pooler.conninfo(direct_dsn),
        "session": session_pooler.conninfo(direct_dsn),
    }[way]  # fmt: skip
    section = {"dsn": through, "dims": DIMS, "pooler": setting}
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": section}}))
    main(["doctor", "--json", "--hermes-home", str(home)])
    checks = json.loads(capsys.readouterr().out)["checks"]
    (line,) = [check for check in checks if check["name"] == "pooler"]
    assert (line["state"], said in line["said"]) == (state, True), line
    assert bool(line["fix"]) == (state != "ok")
    assert not [check for check in checks if check["name"] in ("schema", "rights") and check["state"] == "fail"]


def test_need_30_a_pooler_in_statement_mode_is_named_with_what_to_set(
    postgres: EmbeddedServer, direct_dsn: str, make_provider: MakeProvider, home: Path,
    records: Callable[[int], list[str]], capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with pgbouncer(postgres.ensure().admin, "statement") as running:
        dsn = running.conninfo(direct_dsn)
        make_provider({"dsn": dsn}).sync_turn(turn(1), ANSWER)
        until(lambda: records(logging.WARNING), 20, "what is wrong")
        (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))
        assert main(["doctor", "--hermes-home", str(home)]) == 1
    for said in (capsys.readouterr().out, records(logging.WARNING)[0]):
        assert "set PgBouncer's pool_mode to transaction or session" in said, said


def test_need_30_a_pooler_whose_password_the_server_refuses_is_told_of(
    postgres: EmbeddedServer, direct_dsn: str, admin_dsn: str, make_provider: MakeProvider,
    records: Callable[[int], list[str]],
) -> None:  # fmt: skip
    """It has let its client in before it finds out."""
    with password_role(postgres, direct_dsn) as dsn, pgbouncer(postgres.ensure().admin, password=PASSWORD) as running:
        psycopg.connect(running.conninfo(dsn)).close()
        with psycopg.connect(admin_dsn, autocommit=True) as admin:
            admin.execute("ALTER ROLE guarded PASSWORD 'changed'")
        running.say("RECONNECT")
        make_provider({"dsn": running.conninfo(dsn)}).sync_turn(turn(1), ANSWER)
        until(lambda: records(logging.WARNING), 20, "what is wrong")
    assert "check the user and password in `dsn`" in records(logging.WARNING)[0]


@pytest.mark.parametrize(
    "command", [["migrate", "--runtime-role", "hermes"], ["reembed", "--abort", "--yes"]], ids=["migrate", "reembed"]
)
def test_need_30_what_needs_a_session_of_its_own_refuses_the_pooler(
    pooler: Pooler, admin_dsn: str, dsn: str, home: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    section = {"dsn": dsn, "dims": DIMS}
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": section}}))
    through = pooler.conninfo(admin_dsn)
    assert main([*command, "--admin-dsn", through, "--hermes-home", str(home)]) == 1
    assert "name the database server itself in --admin-dsn" in capsys.readouterr().err
    held = "SELECT count(*) FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database "
    held += "WHERE l.locktype = 'advisory' AND d.datname = current_database()"
    assert Database(dsn).column(held) == [0], "no lock is left behind in the pooler's session"
