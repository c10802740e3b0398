"""Who gets in, and what the two roles may do."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from hermes_memory_pgvector.domain.errors import EmbeddedServerError
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.server.layout import choose_account
from tests.support.embedded import BIN_DIR, MakeServer, ask, is_root, postmaster_of, starts_in
from tests.support.places import server_place


@pytest.fixture(scope="module")
def shared() -> Iterator[EmbeddedServer]:
    """One server for the tests that only look."""
    with server_place() as place:
        server = EmbeddedServer(place / "pg", bin_dir=BIN_DIR)
        try:
            yield server
        finally:
            server.stop()
            server.release()


def test_the_roles_and_the_database(shared: EmbeddedServer) -> None:
    ready = shared.ensure()
    role = "SELECT (rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls)::text FROM pg_roles"
    assert ask(ready.runtime, f"{role} WHERE rolname = 'hermes'") == "(f,f,f,f,f)"
    database = "SELECT (pg_get_userbyid(datdba), pg_encoding_to_char(encoding))::text FROM pg_database"
    assert ask(ready.runtime, f"{database} WHERE datname = current_database()") == "(postgres,UTF8)"
    assert ask(ready.runtime, "SELECT current_database()::text") == "hermes_memory"
    assert ask(ready.runtime, "SELECT lower('ÄÖ')") == "äö"
    assert ask(ready.admin, "SELECT current_user::text") == "postgres"
    for statement in (
        "CREATE TABLE mine (x int)",
        "CREATE DATABASE mine",
        "CREATE ROLE mine",
        "CREATE EXTENSION vector",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ask(ready.runtime, statement)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PGHOSTADDR", "127.0.0.1"),
        ("PGHOST", "db.invalid"),
        ("PGOPTIONS", "-c no_such_setting=1"),
        ("PGSSLMODE", "verify-full"),
        ("PGREQUIREAUTH", "scram-sha-256"),
        ("PGCHANNELBINDING", "require"),
        ("PGGSSENCMODE", "require"),
        ("PGTARGETSESSIONATTRS", "standby"),
        ("PGCLIENTENCODING", "no_such_encoding"),
        ("PGSSLCERTMODE", "require"),
        ("PGSERVICE", "elsewhere"),
    ],
)
def test_variables_for_other_servers_lead_nowhere_else(
    shared: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    """An operator's shell has them for psql."""
    shared.ensure()
    service = tmp_path / "service.conf"
    elsewhere = "hostaddr=127.0.0.1\nport=1\nuser=stranger\noptions=-c no_such_setting=1\nreplication=yes\n"
    service.write_text(f"[elsewhere]\n{elsewhere}")
    monkeypatch.setenv("PGSERVICEFILE", str(service))
    monkeypatch.setenv(variable, value)
    other = EmbeddedServer(shared.root, bin_dir=BIN_DIR)
    try:
        assert ask(other.ensure().runtime, "SELECT current_user::text") == "hermes"
    finally:
        other.release()


@pytest.mark.parametrize(
    ("variable", "value", "cause"),
    [
        ("PGSERVICE", "undefined", 'definition of service "undefined" not found'),
        ("PGTZ", "Mars/Olympus", 'invalid value for parameter "TimeZone"'),
        ("PGDATESTYLE", "stardate", 'invalid value for parameter "DateStyle"'),
        ("PGGEQO", "perhaps", "requires a Boolean value"),
    ],
)
def test_a_variable_that_keeps_libpq_from_every_server_is_named_at_once(
    shared: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, cause: str
) -> None:
    shared.ensure()
    (tmp_path / "service.conf").write_text("[elsewhere]\nhost=db.invalid\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "service.conf"))
    monkeypatch.setenv(variable, value)
    other = EmbeddedServer(shared.root, bin_dir=BIN_DIR)
    starts = starts_in(shared)
    for use in (other.ensure, other.answers):
        with pytest.raises(EmbeddedServerError, match=f"the environment has {variable}={value}.*{cause}.*correct it"):
            use()
    assert starts_in(shared) == starts
    monkeypatch.delenv(variable)
    other.ensure()
    other.release()


def test_only_the_owner_and_root_are_let_in_and_only_by_the_socket(shared: EmbeddedServer) -> None:
    ready = shared.ensure()
    assert ask(ready.admin, "SHOW listen_addresses") == ""
    rules = "SELECT string_agg(concat_ws(' ', type, user_name::text, auth_method), '; ' ORDER BY line_number)"
    assert ask(ready.admin, f"{rules} FROM pg_hba_file_rules") == (
        "local {postgres,hermes} peer; local {all} reject; host {all} reject"
    )
    names = ask(ready.admin, "SELECT string_agg(DISTINCT sys_name, ',' ORDER BY sys_name) FROM pg_ident_file_mappings")
    owner = choose_account().name
    assert names == (",".join(sorted([owner, "root"])) if is_root() else owner)
    with psycopg.connect(ready.admin, autocommit=True) as connection:
        connection.execute("CREATE ROLE stranger LOGIN SUPERUSER")
    with pytest.raises(psycopg.OperationalError, match=r"pg_hba\.conf rejects"):
        ask(ready.admin.replace("user=postgres", "user=stranger"), "SELECT 1")


def test_another_account_cannot_connect(server: EmbeddedServer) -> None:
    ready = server.ensure()
    assert stat.S_IMODE((server.root / "run").stat().st_mode) == 0o700
    socket = next((server.root / "run").glob(".s.PGSQL.*[0-9]"))
    assert stat.S_IMODE(socket.stat().st_mode) == 0o700
    stranger = pwd.getpwnam("nobody")
    assert stranger.pw_uid != choose_account().uid
    if not is_root():
        # An ordinary user cannot become another one; the modes above are what keeps others out.
        assert server.root.stat().st_uid == os.geteuid()
        return
    # Root opens the doors, and the peer check alone must hold.
    for path in (server.root, server.root / "run"):
        path.chmod(0o755)
    socket.chmod(0o777)
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.setgroups([])
        os.setgid(stranger.pw_gid)
        os.setuid(stranger.pw_uid)
        try:
            psycopg.connect(ready.runtime)
            os.write(writer, b"connected")
        except psycopg.OperationalError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        assert "Peer authentication failed" in answer.read()


def test_the_files_belong_to_the_account_alone(shared: EmbeddedServer) -> None:
    shared.ensure()
    owner = choose_account().uid
    for path in (shared.root, shared.root / "data", shared.root / "run", shared.root / "server.log"):
        found = path.stat()
        assert found.st_uid == owner
        assert found.st_mode & 0o077 == 0


def test_the_socket_of_a_long_path_is_closed_to_others_too(place: Path, make_server: MakeServer) -> None:
    server = make_server(place / ("x" * 120))
    ready = server.ensure()
    sockets = Path(str(psycopg.conninfo.conninfo_to_dict(ready.runtime)["host"]))
    assert len(str(sockets)) < 90
    assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    assert sockets.stat().st_uid == choose_account().uid
    # Others can make files in /tmp: neither is theirs used for the socket, nor is their server talked to.
    assert psycopg.conninfo.conninfo_to_dict(ready.runtime)["requirepeer"] == choose_account().name
    assert server.release()
    assert not sockets.exists()
    (place / "elsewhere").mkdir()
    sockets.symlink_to(place / "elsewhere")
    try:
        with pytest.raises(EmbeddedServerError, match="remove it"):
            server.ensure()
    finally:
        sockets.unlink()


def test_need_22_the_server_does_not_inherit_secrets(server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-very-secret")
    server.ensure()
    if Path("/proc/self/environ").exists():
        variables = Path(f"/proc/{postmaster_of(server)}/environ").read_bytes()
        assert b"PATH=" in variables
        assert b"sk-very-secret" not in variables
