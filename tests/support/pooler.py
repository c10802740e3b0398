"""A real PgBouncer before the tests' Postgres."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from .pooler_files import pooler_program
from .waiting import until

_READY_S = 20.0
_PORT = 6432  # of its socket's name only
_ROLES = ("hermes", "postgres", "tenant_marketing", "tenant_sales", "guarded")

_CONFIG = """
[databases]
* = host={sockets} port={port}

[pgbouncer]
listen_port = {own_port}
unix_socket_dir = {place}
unix_socket_mode = 0777
auth_file = {place}/users.txt
logfile = {place}/log
pool_mode = {mode}
default_pool_size = {sessions}
max_client_conn = 200
; Each transaction gets the connection that was used longest ago: what a session leaves behind is seldom met again.
server_round_robin = 1
ignore_startup_parameters = extra_float_digits
"""


# Whoever reaches its socket is let in.
_OPEN = {"listen_addr": "", "auth_type": "trust", "admin_users": "hermes"}


class Pooler:
    """A running PgBouncer; `conninfo` leads a conninfo of its server through it."""

    def __init__(self, place: Path, port: int) -> None:
        self.place = place
        self.port = port

    def conninfo(self, conninfo: str) -> str:
        parts = conninfo_to_dict(conninfo) | {"host": str(self.place), "port": self.port}
        parts.pop("requirepeer", None)
        return make_conninfo("", **parts)

    def say(self, command: str) -> None:
        """Give a command to its console."""
        console = make_conninfo(host=str(self.place), port=self.port, user="hermes", dbname="pgbouncer")
        with closing(psycopg.connect(console, autocommit=True)) as connection:
            connection.execute(command.encode())


@contextmanager
def pgbouncer(
    server_dsn: str,
    mode: Literal["transaction", "session", "statement"] = "transaction",
    *,
    sessions: int = 8,
    port: int = _PORT,
    password: str = "",
    settings: Mapping[str, str] = _OPEN,
) -> Iterator[Pooler]:
    """A PgBouncer before the server whose Unix socket `server_dsn` names; it ends with the block.

    It lends at most so many sessions of a database. `settings` are more of its settings, `password` that of every role.
    """
    program, environment = pooler_program()
    parts = conninfo_to_dict(server_dsn)
    place = Path(tempfile.mkdtemp(prefix="hermes-pgb-", dir="/tmp"))
    text = _CONFIG.format(
        sockets=parts["host"], port=parts["port"], own_port=port, place=place, mode=mode, sessions=sessions
    )
    text += "".join(f"{name} = {value}\n" for name, value in settings.items())
    # The server lets in the account that it runs as; and PgBouncer refuses to run as root.
    owner = os.stat(str(parts["host"])).st_uid
    if os.geteuid() == 0:
        text += f"user = {pwd.getpwuid(owner).pw_name}\n"
    (place / "pgbouncer.ini").write_text(text)
    (place / "users.txt").write_text("".join(f'"{role}" "{password}"\n' for role in _ROLES))
    place.chmod(0o755)
    if os.geteuid() == 0:
        shutil.chown(place, owner)
    process = subprocess.Popen(
        [program, "--quiet", place / "pgbouncer.ini"], env=dict(environment), stdin=subprocess.DEVNULL
    )
    try:
        pooler = Pooler(place, port)
        until(lambda: _answers(make_conninfo(pooler.conninfo(server_dsn), password=password)), _READY_S, "PgBouncer")
        yield pooler
    finally:
        process.kill()  # newer versions wait for their clients at any gentler signal
        process.wait()
        shutil.rmtree(place)


def _answers(conninfo: str) -> bool:
    try:
        psycopg.connect(conninfo).close()
    except psycopg.OperationalError:
        return False
    return True
