"""What becomes of a server while agents use it: read-only, set otherwise, its sequences or all of it set back."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg

from tests.support.own_postgres import OwnPostgres, Stop
from tests.support.waiting import until

ROLE_SETTINGS = (
    ("DateStyle", "German"),
    ("client_encoding", "SQL_ASCII"),
    ("client_encoding", "LATIN1"),
    ("search_path", "pg_catalog"),
    ("TimeZone", "Asia/Kolkata"),
    ("idle_session_timeout", "2s"),
    ("default_transaction_isolation", "serializable"),
    ("enable_indexscan", "off"),
)
_READ_ONLY = ("default_transaction_read_only", "on")


def tell(admin_dsn: str, *statements: str) -> None:
    """Run statements as the superuser."""
    with psycopg.connect(admin_dsn, autocommit=True, connect_timeout=10) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def end_connections(admin_dsn: str) -> None:
    """Terminate the backends of all agents."""
    tell(
        admin_dsn,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'hermes'"
        " AND datname = current_database()",
    )


def set_role(admin_dsn: str, chosen: random.Random, *, read_only: bool) -> str:
    """Set the agents' role in this database otherwise, for new connections, and end the others; returns to what."""
    name, value = _READ_ONLY if read_only else chosen.choice(ROLE_SETTINGS)
    tell(admin_dsn, f"ALTER ROLE hermes IN DATABASE {_name(admin_dsn)} SET {name} = '{value}'")
    end_connections(admin_dsn)
    return f"{name} = {value}"


def reset_role(admin_dsn: str) -> None:
    """Undo that; connections that were made in between stay, as they do when a server is promoted."""
    tell(admin_dsn, f"ALTER ROLE hermes IN DATABASE {_name(admin_dsn)} RESET ALL")


def _name(admin_dsn: str) -> str:
    return f'"{psycopg.conninfo.conninfo_to_dict(admin_dsn)["dbname"]}"'


def set_sequence_back(admin_dsn: str) -> None:
    """Have memories get numbers that are taken, as after a restore of the data alone."""
    tell(admin_dsn, "SELECT setval(pg_get_serial_sequence('memory_entries', 'id'), 1)")


def mend_sequence(admin_dsn: str) -> None:
    """Do what `doctor --fix` does about it."""
    tell(
        admin_dsn,
        "SELECT setval(pg_get_serial_sequence('memory_entries', 'id'), coalesce(max(id), 1)) FROM memory_entries",
    )


class OlderCopy:
    """The server's files as they were at some moment."""

    def __init__(self, server: OwnPostgres) -> None:
        """Stop the server for the time of the copy."""
        self._server = server
        self._data = Path(server.server.root) / "data"
        self._copy = self._data.with_name("older")
        self._stop("fast")
        shutil.rmtree(self._copy, ignore_errors=True)
        subprocess.run(["cp", "-a", str(self._data), str(self._copy)], check=True)  # with its owner
        server.start()

    def _stop(self, how: Stop) -> None:
        self._server.stop(how)
        until(lambda: not (self._data / "postmaster.pid").exists(), 60, "the end of the server's files")

    def put_back(self, meanwhile: Callable[[], None]) -> None:
        """Have the server go on from there; what it took since is gone. `meanwhile` is called while it is stopped."""
        self._stop("immediate")
        meanwhile()
        shutil.rmtree(self._data)
        self._copy.rename(self._data)
        self._server.start()
