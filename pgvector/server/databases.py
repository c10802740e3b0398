"""The contents of the server: the cluster created by initdb, the access rules, the role and the database."""

from __future__ import annotations

import os
import secrets
import sys

from ..domain.errors import EmbeddedServerError
from .binaries import Binaries
from .connecting import ADMIN, DATABASE, RUNTIME, ServerAnswer, ServerState, connect_as_admin, look
from .layout import Account, Layout
from .run_as import must_run, run, write
from .waiting import ProgressTimeout

_HBA = """\
# Written at every start. Only the socket, and only for accounts that pg_ident.conf maps.
local  all  postgres,hermes  peer map=embedded
local  all  all              reject
host   all  all  all         reject
"""

_OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


def look_closer(layout: Layout) -> ServerAnswer:
    """Return what `look` does, but recognize a server without the database as well. Raises: EmbeddedServerError."""
    import psycopg

    seen = look(layout)
    if seen.state is ServerState.SILENT:
        try:
            with connect_as_admin(layout, "postgres"):
                return ServerAnswer(ServerState.BARE, seen.error)
        except psycopg.Error:
            pass
    return seen


def other_clients(layout: Layout) -> int | None:
    """Return how many clients are connected besides us; None if the server does not answer."""
    import psycopg

    try:
        with connect_as_admin(layout, "postgres") as connection:
            row = connection.execute(_OTHERS).fetchone()
    except psycopg.Error:
        return None
    return int(row[0]) if row else None


def provide(layout: Layout) -> None:
    """Create the role and the database if they are missing. Only for the holder of `layout.lock`.

    Raises: EmbeddedServerError.
    """
    import psycopg

    try:
        with connect_as_admin(layout, "postgres") as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                connection.execute("CREATE DATABASE hermes_memory OWNER postgres TEMPLATE template0 ENCODING 'UTF8'")
        with connect_as_admin(layout, DATABASE) as connection:
            # Granted by default before Postgres 15.
            connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
            # Optional, and not in every build: with it a misspelt word finds what was meant.
            if connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_trgm'").fetchone():
                connection.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
            # Last, because `look` takes the role's presence as a sign that all of this is done.
            if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [RUNTIME]).fetchone():
                connection.execute("CREATE ROLE hermes LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION")
    except psycopg.Error as error:
        raise EmbeddedServerError(f"the database {DATABASE} cannot be created: {str(error).strip()}") from error


def make_cluster(layout: Layout, account: Account, binaries: Binaries, *, timeout: ProgressTimeout, claim: int) -> None:
    """Run initdb, which inherits `claim`: if we are killed, the next process waits for its end and then cleans up.

    If interrupted, it leaves nothing that looks like a cluster. Raises: EmbeddedServerError.
    """
    must_run(account, ["/bin/sh", "-c", 'rm -rf -- "$1"/data.init-*', "sh", layout.root])
    unfinished = layout.root / f"data.init-{secrets.token_hex(4)}"
    command: list[str | os.PathLike[str]] = [binaries["initdb"], "-D", unfinished, "-U", ADMIN, "-E", "UTF8", "-k"]
    command += ["--auth-local=reject", "--auth-host=reject"]
    if binaries.major >= 17:
        # Sorts the same whatever the machine's libraries, so that indexes survive the machine's upgrades.
        command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    locale = "C.UTF-8" if sys.platform == "linux" else "C"
    done = run(account, [*command, f"--locale={locale}"], timeout=timeout, pass_fds=[claim])
    if "invalid locale" in done.output:
        done = run(account, [*command, "--locale=C"], timeout=timeout, pass_fds=[claim])
    if done.code:
        raise EmbeddedServerError(f"initdb failed: {done.output[-1500:]}")
    if layout.data.is_dir():
        must_run(account, ["rmdir", layout.data])
    must_run(account, ["mv", unfinished, layout.data])


def check_cluster(layout: Layout, binaries: Binaries) -> bool:
    """Return True when there is a cluster.

    Raises: EmbeddedServerError, which says what to do, when these binaries cannot run it.
    """
    version_file = layout.data / "PG_VERSION"
    major = version_file.read_text(errors="replace").strip() if version_file.is_file() else ""
    if major == str(binaries.major):
        return True
    if (layout.data / "global").is_dir() and not major.isdecimal():
        raise EmbeddedServerError(
            f"the memory in {layout.data} is damaged, as by a copy that was interrupted: its file PG_VERSION is "
            "missing, or names no version; restore a backup of the folder; it is left as it is, and no other is begun"
        )
    if not major:
        if layout.data.is_dir() and os.listdir(layout.data):
            raise EmbeddedServerError(f"{layout.data} has files in it, but no Postgres cluster; move it away")
        return False
    old, new, where = f"PostgreSQL {major}", f"PostgreSQL {binaries.major}", f"-h {layout.sockets} -U {ADMIN}"
    raise EmbeddedServerError(
        f"the memory in {layout.data} was written by {old}, and the binaries in {binaries.directory} are {new}.\n"
        f"Stop the agents. With the binaries of {old} in place (`embedded_bin_dir`), run\n"
        "  hermes-pgvector server start\n"
        f"  (umask 077; pg_dump {where} -Fc -f memory.dump {DATABASE})\n"
        "  hermes-pgvector server stop\n"
        f"Move {layout.data} away, go back to {new}, and run\n"
        "  hermes-pgvector server start\n"
        f"  pg_restore {where} -d {DATABASE} --clean --if-exists memory.dump"
    )


def write_access_rules(layout: Layout, account: Account) -> None:
    """Admit the account that owns the server, and root if root had it started. Raises: EmbeddedServerError."""
    names = [account.name, "root"] if account.switched else [account.name]
    quoted = [name.replace('"', '""') for name in names]
    lines = [f'embedded  "{name}"  {role}\n' for name in quoted for role in (ADMIN, RUNTIME)]
    write(account, layout.data / "pg_hba.conf", _HBA)
    write(account, layout.data / "pg_ident.conf", "".join(lines))
