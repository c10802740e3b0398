"""A dead process's file that can only be read, because no disk has room: its writes go to Postgres in their turn."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from ..domain.errors import SpoolError
from ..domain.operations import Operation
from .damaged_log import is_damaged
from .memory_queue import MemoryQueue
from .spool_format import COLUMNS, FORMAT, as_spool_error, operation_of


class BorrowedFile(MemoryQueue):
    """The writes that wait in a file, which stays as it is.

    Once it can be opened, it is adopted, and Postgres drops what it has of it. Used by the drain thread; other threads
    only count.
    """

    def __init__(self, path: Path) -> None:
        """Count what waits; a file of another version waits as a whole. Raises SpoolError."""
        super().__init__()
        self.path = path
        self._sent: set[int] = set()  # the numbers of what Postgres has, as far as they are above `_sent_up_to`
        self._sent_up_to = self._left = 0
        self.accepted_for = ("", "")  # the place and database that the writes are for
        with as_spool_error(path):
            if is_damaged(path):
                raise SpoolError(f"the log of {path} is damaged, and can be mended once the disk has room")
        with self._reading() as conn:
            if conn.execute("PRAGMA user_version").fetchone()[0] == FORMAT:
                self._left = int(conn.execute("SELECT count(*) FROM operations").fetchone()[0])
                for place, database in conn.execute("SELECT place, database FROM accepted_for"):
                    self.accepted_for = place or "", database or ""

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that needs no shared memory, which would be a file to write to, and waits for no lock."""
        address = f"file:{quote(str(self.path))}?mode=rw"
        with (
            as_spool_error(self.path),
            closing(sqlite3.connect(address, uri=True, timeout=0, isolation_level=None)) as conn,
        ):
            conn.execute("PRAGMA locking_mode=EXCLUSIVE")
            conn.execute("PRAGMA query_only=ON")
            conn.text_factory = lambda raw: raw.decode("utf-8", "replace")
            yield conn

    @property
    def depth(self) -> int:
        """Return how many operations wait."""
        return self._left

    def take(self, limit: int) -> list[Operation]:
        """Return up to `limit` of the oldest operations that Postgres does not have. Raises SpoolError."""
        if not self._left:
            return []
        query = f"SELECT seq, {COLUMNS} FROM operations WHERE seq > ? ORDER BY seq LIMIT ?"
        with self._reading() as conn:
            rows = conn.execute(query, (self._sent_up_to, limit + len(self._sent))).fetchall()
        found = [operation_of(row) for row in rows if row[0] not in self._sent][:limit]
        if not found:  # another process has adopted it
            self._left = 0
        elif self._sent and found[0].seq > max(self._sent):
            self._sent_up_to, self._sent = max(self._sent), set()
        return found

    def ack(self, ops: Sequence[Operation]) -> None:
        """Pass over operations that Postgres has, or rejects: it will again when the file is adopted."""
        fresh = {op.seq for op in ops} - self._sent
        self._sent |= fresh
        self._left = max(0, self._left - len(fresh))

    def reject(self, op: Operation, error: str) -> None:
        """Pass over an operation, so that it does not hold up the rest."""
        self.ack([op])
