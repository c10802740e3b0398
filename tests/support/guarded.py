"""The tests' Postgres behind TLS and passwords: a real PgBouncer ends the TLS and asks for SCRAM."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from .pooler import pgbouncer
from .ports import free_port

PASSWORD = "r1ght-Horse-Battery"


@contextmanager
def guarded_postgres(server_dsn: str, certificate: tuple[Path, Path] | None, **settings: str) -> Iterator[int]:
    """The port on loopback where every role needs PASSWORD, and TLS when there is a certificate and its key.

    Each client keeps its session, as at a server. `settings` are more of PgBouncer's.
    """
    chosen = {"listen_addr": "127.0.0.1", "auth_type": "scram-sha-256"} | settings
    if certificate is not None:
        for path in certificate:
            _hand_over(path, server_dsn)
        chosen |= {"client_tls_sslmode": "require", "client_tls_cert_file": str(certificate[0])}
        chosen |= {"client_tls_key_file": str(certificate[1])} | settings
    port = free_port()
    with pgbouncer(server_dsn, "session", port=port, password=PASSWORD, settings=chosen):
        yield port


def by_tls(conninfo: str, port: int, **more: str | Path) -> str:
    """`conninfo` led to that port of localhost; `more` are parameters of libpq."""
    parts = conninfo_to_dict(conninfo) | {"host": "localhost", "hostaddr": "127.0.0.1", "port": port}
    parts.pop("requirepeer", None)
    return make_conninfo("", **parts | {name: str(value) for name, value in more.items()})


def _hand_over(path: Path, server_dsn: str) -> None:
    """Let the account of the server, as which PgBouncer runs, read the file."""
    if os.geteuid() == 0:
        shutil.chown(path, os.stat(str(conninfo_to_dict(server_dsn)["host"])).st_uid)
