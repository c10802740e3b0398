"""What a test asks the database about what the provider has stored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg

from .waiting import until

# A write is on its way to the database when the hook returns; the drain takes milliseconds, a busy machine seconds.
STORED_TIMEOUT_S = 120.0


class Database:
    """What the tests ask the database, over connections of their own."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def column(self, statement: str, *parameters: object) -> list[Any]:
        """Returns the first column of every row."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            return [row[0] for row in connection.execute(statement, parameters)]

    def themes_of_turn(self, content: str) -> list[str]:
        """Returns the theme of every stored user turn with exactly this content."""
        return self.column("SELECT agent_identity FROM conversations WHERE role = 'user' AND content = %s", content)

    def themes_of_memory(self, content: str) -> list[str]:
        """Returns the theme of every stored memory with exactly this content."""
        return self.column("SELECT agent_identity FROM memory_entries WHERE content = %s", content)

    def wait_for_turn(self, content: str) -> None:
        until(lambda: self.themes_of_turn(content), STORED_TIMEOUT_S, f"the turn {content!r}")

    def wait_for_memory(self, content: str) -> None:
        until(lambda: self.themes_of_memory(content), STORED_TIMEOUT_S, f"the memory {content!r}")

    def client_connections(self) -> int:
        """Returns how many connections agents have open to this database."""
        # By their name: what a test has just closed may be there for a moment still.
        (count,) = self.column(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = 'hermes-pgvector' AND pid <> pg_backend_pid()"
        )
        return int(count)

    @contextmanager
    def writes_blocked(self) -> Iterator[None]:
        """Holds every write to both tables up; reading goes on."""
        with psycopg.connect(self.dsn) as connection:
            lock_both_tables(connection, "EXCLUSIVE")
            yield


def lock_both_tables(connection: psycopg.Connection[Any], mode: LiteralString) -> None:
    """Lock the tables until the transaction ends.

    Two tables cannot be locked at once: a writer between them may make Postgres choose us as the victim.
    """

    def locked() -> bool:
        try:
            connection.execute(f"LOCK TABLE conversations, memory_entries IN {mode} MODE")
        except psycopg.errors.DeadlockDetected:
            connection.rollback()
            return False
        return True

    until(locked, STORED_TIMEOUT_S, "a lock on both tables")
