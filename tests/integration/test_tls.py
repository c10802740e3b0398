"""TLS, certificates and passwords between an agent and its database, and what is said where they do not fit."""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
import yaml

from hermes_memory_pgvector.admin.common.spool_views import inspect_spools
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.runtime.process import close_all
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from tests.conftest import DIMS, MakeProvider
from tests.support.certificate import Authority
from tests.support.guarded import PASSWORD, by_tls, guarded_postgres
from tests.support.limits import NOT_WAITED_S
from tests.support.memory import landed, recalled
from tests.support.stored import Database
from tests.support.turns import ANSWER, seconds, turn, user_turns
from tests.support.waiting import until

Capture = pytest.CaptureFixture[str]


class Guards(NamedTuple):
    """The same Postgres three times: with TLS, without, and with TLS for those that show a certificate."""

    authority: Authority
    stranger: Authority
    tls: int
    plain: int
    mutual: int


@pytest.fixture(scope="module")
def guards(postgres: EmbeddedServer) -> Iterator[Guards]:
    folder = Path(tempfile.mkdtemp(prefix="hermes-tls-", dir="/tmp"))
    folder.chmod(0o755)
    authority, stranger = Authority(folder), Authority(folder, "strangers")
    admin, certificate = postgres.ensure().admin, authority.issue("localhost")
    clients = {"client_tls_sslmode": "verify-full", "client_tls_ca_file": str(authority.trusted)}
    with (
        guarded_postgres(admin, certificate) as tls,
        guarded_postgres(admin, None) as plain,
        guarded_postgres(admin, certificate, **clients) as mutual,
    ):
        yield Guards(authority, stranger, tls, plain, mutual)
    shutil.rmtree(folder)


@pytest.fixture
def verified(guards: Guards, dsn: str) -> str:
    """The runtime role's conninfo by TLS that verifies the server, without a password."""
    return by_tls(dsn, guards.tls, sslmode="verify-full", sslrootcert=guards.authority.trusted)


def ran(capsys: Capture, home: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code and answer of a verb, and all that it said."""
    code = main([*arguments, "--json", "--hermes-home", str(home)])
    said = capsys.readouterr()
    answer = json.loads(said.out) if said.out else {}
    return code, answer, said.out + said.err


def configure(home: Path, **settings: object) -> None:
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": {"dims": DIMS} | settings}}))


def reached(answer: dict[str, Any]) -> dict[str, str]:
    """Doctor's line on the way to the server."""
    return next(check for check in answer["checks"] if check["name"] == "postgres")


def in_dsn(conninfo: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    return f"{conninfo} password={PASSWORD}"


def in_passfile(conninfo: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = home / "passwords"
    path.write_text(f"localhost:*:*:hermes:{PASSWORD}\n")
    path.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(path))
    return conninfo


def in_env_file(conninfo: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (home / ".env").write_text(f"HERMES_PGVECTOR_DSN=\"{conninfo} password='{PASSWORD}'\"\n")
    return ""


@pytest.mark.parametrize("keep", [in_dsn, in_passfile, in_env_file])
def test_need_30_memory_works_by_verified_tls_and_a_password(
    verified: str, dsn: str, home: Path, make_provider: MakeProvider, monkeypatch: pytest.MonkeyPatch, capsys: Capture,
    records: Callable[[int], list[str]], keep: Callable[[str, Path, pytest.MonkeyPatch], str],
) -> None:  # fmt: skip
    named = keep(verified, home, monkeypatch)
    configure(home, **({"dsn": named} if named else {}))
    provider = make_provider({"dsn": named})
    provider.sync_turn(turn(1), ANSWER)
    provider.on_memory_write("add", "memory", "The harbour office has a blue door.")
    landed(provider)
    assert turn(1) in recalled(provider, turn(1), tool="recall_conversation")
    assert user_turns(Database(dsn)) == [turn(1)]
    _, examined, said = ran(capsys, home, "doctor")
    assert reached(examined)["state"] == "ok"
    code, status, also_said = ran(capsys, home, "status")
    assert code == 0 and status
    assert records(logging.WARNING) == []
    assert PASSWORD not in "\n".join([said, also_said, *records(logging.DEBUG)])


def test_need_30_the_tests_speak_tls_and_scram(verified: str, guards: Guards) -> None:
    with psycopg.connect(verified, password=PASSWORD, require_auth="scram-sha-256") as connection:
        assert connection.pgconn.ssl_in_use
    with psycopg.connect(by_tls(verified, guards.plain, password=PASSWORD, sslmode="prefer")) as connection:
        assert not connection.pgconn.ssl_in_use


def test_need_30_an_admin_migrates_by_verified_tls(
    guards: Guards, empty_admin_dsn: str, home: Path, capsys: Capture
) -> None:
    parts = {"sslmode": "verify-full", "sslrootcert": guards.authority.trusted, "password": PASSWORD}
    admin = by_tls(empty_admin_dsn, guards.tls, **parts)
    code, _, said = ran(capsys, home, "migrate", "--admin-dsn", admin, "--dims", str(DIMS), "--runtime-role", "hermes")
    assert code == 0, said
    configure(home, dsn=by_tls(empty_admin_dsn, guards.tls, user="hermes", **parts))
    _, examined, also_said = ran(capsys, home, "doctor")
    assert {check["state"] for check in examined["checks"] if check["name"] in ("postgres", "schema", "rights")} == {
        "ok"
    }
    assert PASSWORD not in said + also_said


def test_need_30_a_client_certificate_is_shown(guards: Guards, verified: str, make_provider: MakeProvider) -> None:
    certificate, key = guards.authority.issue("hermes")
    provider = make_provider({
        "dsn": by_tls(verified, guards.mutual, password=PASSWORD, sslcert=certificate, sslkey=key)
    })  # fmt: skip
    provider.sync_turn(turn(1), ANSWER)
    landed(provider)


class Fault(NamedTuple):
    """What is wrong with a connection, and what is said about it."""

    change: Callable[[str, Guards], str]
    said: str
    do: str


FAULTS = {
    "authority": Fault(
        lambda dsn, guards: by_tls(dsn, guards.tls, sslrootcert=guards.stranger.trusted),
        "certificate verify failed",
        "`sslrootcert` in `dsn`",
    ),
    "no authority": Fault(
        lambda dsn, guards: by_tls(dsn, guards.tls, sslrootcert=guards.authority.trusted.parent / "nowhere.pem"),
        "nowhere.pem",
        "`sslrootcert` in `dsn`",
    ),
    "host name": Fault(
        lambda dsn, guards: psycopg.conninfo.make_conninfo(dsn, host="db.example"),
        'does not match host name "db.example"',
        "`host` in `dsn`",
    ),
    "password": Fault(
        lambda dsn, guards: by_tls(dsn, guards.tls, password="wr0ng-Horse"),
        "authentication failed",
        "user and password in `dsn`",
    ),
    "server without TLS": Fault(
        lambda dsn, guards: by_tls(dsn, guards.plain),
        "does not support SSL",
        "turn `ssl` on at the server",
    ),
    "server with TLS only": Fault(
        lambda dsn, guards: by_tls(dsn, guards.tls, sslmode="disable"),
        "SSL required",
        "sslmode=verify-full",
    ),
    "no certificate": Fault(
        lambda dsn, guards: by_tls(dsn, guards.mutual),
        "certificate required",
        "`sslcert` and `sslkey` in `dsn`",
    ),
    "a word": Fault(
        lambda dsn, guards: by_tls(dsn, guards.tls, sslmode="verify-fully"),
        "verify-fully",
        "correct that value in `dsn`",
    ),
    "a service": Fault(
        lambda dsn, guards: psycopg.conninfo.make_conninfo(dsn, service="nowhere"),
        'definition of service "nowhere" not found',
        "correct `service` in `dsn`",
    ),
    "a standby": Fault(
        lambda dsn, guards: psycopg.conninfo.make_conninfo(dsn, target_session_attrs="standby"),
        "not in hot standby mode",
        "leave target_session_attrs out of `dsn`",
    ),
    "a method": Fault(
        lambda dsn, guards: psycopg.conninfo.make_conninfo(dsn, require_auth="password"),
        "authentication method requirement",
        "correct require_auth in `dsn`",
    ),
}


@pytest.mark.parametrize("wrong", FAULTS)
def test_need_30_what_does_not_fit_is_said_with_its_remedy_and_no_write_is_lost(
    guards: Guards, verified: str, dsn: str, home: Path, make_provider: MakeProvider, capsys: Capture,
    records: Callable[[int], list[str]], wrong: str,
) -> None:  # fmt: skip
    fault = FAULTS[wrong]
    right = by_tls(verified, guards.tls, password=PASSWORD)
    broken = fault.change(right, guards)
    configure(home, dsn=broken)
    provider = make_provider({"dsn": broken, "shutdown_timeout_s": 0.2})
    assert seconds(lambda: provider.sync_turn(turn(1), ANSWER)) < NOT_WAITED_S
    until(lambda: any(fault.said in message for message in records(logging.WARNING)), what="a warning")
    (warning,) = [message for message in records(logging.WARNING) if fault.said in message]
    assert fault.do in warning
    assert provider.is_available()
    code, examined, said = ran(capsys, home, "doctor")
    assert (code, reached(examined)["state"]) == (1, "fail")
    assert fault.said in reached(examined)["said"] and fault.do in reached(examined)["said"]
    code, _, also_said = ran(capsys, home, "status")
    assert code == 1 and fault.do in also_said
    close_all()
    assert sum(view.waiting for view in inspect_spools(home)) > 0
    shown = "\n".join([said, also_said, *records(logging.DEBUG)])
    assert PASSWORD not in shown and "wr0ng-Horse" not in shown

    make_provider({"dsn": right})
    until(lambda: user_turns(Database(dsn)) == [turn(1)], what="the write that waited")


def test_need_30_a_certificate_that_is_trusted_later_needs_no_restart(
    guards: Guards, verified: str, dsn: str, home: Path, make_provider: MakeProvider,
    records: Callable[[int], list[str]],
) -> None:  # fmt: skip
    trusted = home / "trusted.pem"
    shutil.copy(guards.stranger.trusted, trusted)
    provider = make_provider({"dsn": by_tls(verified, guards.tls, sslrootcert=trusted, password=PASSWORD)})
    provider.sync_turn(turn(1), ANSWER)
    until(lambda: any("verify failed" in message for message in records(logging.WARNING)), what="a warning")
    trusted.write_bytes(guards.stranger.trusted.read_bytes() + guards.authority.trusted.read_bytes())
    landed(provider)
    assert user_turns(Database(dsn)) == [turn(1)]
    assert turn(1) in recalled(provider, turn(1), tool="recall_conversation")
