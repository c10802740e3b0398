"""The durable queue: one SQLite file a process, written by the hooks, emptied by the drain.

An append survives the death of the process the moment it returns (`normal`), or a power cut as well (`full`).
`spool_files.py` says whose file is whose.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..domain.errors import SpoolError, SpoolFull
from ..domain.forking import BACKGROUND, fork_lock
from ..domain.models import Operation
from ..domain.pace import breathe, paced

logger = logging.getLogger(__name__)

# What a damaged file raises: SQLite quotes it in its words, and Python may not be able to read them.
_FAULTS = (sqlite3.Error, UnicodeDecodeError)
_UNREADABLE_KIND = "unreadable"
_UNREADABLE = uuid.UUID("0d7f7f0e-58a4-4b53-9d0b-6b6d2a6a1c55")
FORMAT = 1  # PRAGMA user_version of the files this version writes and reads
_SCHEMA = """
CREATE TABLE IF NOT EXISTS operations (
    seq INTEGER PRIMARY KEY,
    op_id BLOB NOT NULL,
    theme TEXT NOT NULL,
    kind TEXT NOT NULL,
    payload TEXT NOT NULL,
    at REAL NOT NULL,
    error TEXT
);
CREATE TABLE IF NOT EXISTS report (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    at REAL NOT NULL,
    body TEXT NOT NULL
);
"""
_ROW_OVERHEAD_BYTES = 64
_ACK_SLICE = 16  # operations deleted while a hook may have to wait
# Each append writes whole pages to the write-ahead log, so small ones keep it small.
_PAGE_BYTES = 1024
# The drain empties the log long before; this bounds it while the drain is held up, at some milliseconds for one hook.
_LOG_PAGES = 16_000


@dataclass(frozen=True, slots=True)
class SetAside:
    """An operation that Postgres will never take as it is, with the reason."""

    operation: Operation
    error: str


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))  # dumps() would make one for each operation


class Spool:
    """One file of operations, in the order in which they were accepted. Safe to use from several threads."""

    def __init__(self, path: Path, *, max_bytes: int, sync: str = "normal") -> None:
        """Open or create `path`, whose lock the caller holds. Raises SpoolError."""
        self.path = path
        self._max_bytes = max_bytes
        # SQLite's own locks are nobody's to make anew in a forked child, so it is used under one of ours only.
        self._back_lock = fork_lock(BACKGROUND)  # for the back connection
        self._lock = fork_lock()  # for the front connection, and what a hook sees
        self._done: set[int] = set()  # committed in Postgres, but not deleted here: the disk took nothing
        self._passed: set[int] = set()  # set aside, but that could not be noted, or the damaged file gives them again
        with self._back_lock, contextlib.ExitStack() as opened, as_spool_error(path):
            self._front = opened.enter_context(contextlib.closing(_connect(path)))  # the hooks' connection
            self._back = opened.enter_context(contextlib.closing(_connect(path)))
            version = self._front.execute("PRAGMA user_version").fetchone()[0]
            if version > FORMAT:
                raise SpoolError(f"{path} was written by a newer version of hermes-memory-pgvector; upgrade to read it")
            for conn, level in ((self._front, sync), (self._back, "normal")):
                conn.execute("PRAGMA journal_mode=WAL")
                conn.execute(f"PRAGMA synchronous={'FULL' if level == 'full' else 'NORMAL'}")
            self._front.execute(f"PRAGMA wal_autocheckpoint={_LOG_PAGES}")
            if version < FORMAT:
                self._front.executescript(_SCHEMA + f"PRAGMA user_version={FORMAT};")
            self._depth, self._bytes = self._measure("error IS NULL")
            opened.pop_all()

    def append(self, op: Operation) -> None:
        """Keep `op`; when this returns, it survives the process. Raises SpoolFull or SpoolError."""
        payload = _ENCODER.encode(op.payload)
        size = len(payload if payload.isascii() else payload.encode()) + _ROW_OVERHEAD_BYTES
        with self._lock:
            if self._bytes + size > self._max_bytes:
                raise SpoolFull(
                    f"the spool holds {self._depth} writes and reached its bound of {self._max_bytes // 1_000_000} MB; "
                    "bring Postgres back (hermes-pgvector doctor) or raise `spool_max_mb`"
                )
            try:
                self._front.execute(
                    "INSERT INTO operations (op_id, theme, kind, payload, at) VALUES (?, ?, ?, ?, ?)",
                    (op.op_id.bytes, op.theme, op.kind, payload, op.at),
                )
            except _FAULTS as exc:
                raise _cannot_use(self.path, exc) from exc
            self._depth += 1
            self._bytes += size

    def take(self, limit: int) -> list[Operation]:
        """The oldest operations, at most `limit`; they stay in the file until `ack`.

        Of a damaged file, those before the damage. Raises SpoolError when there are none.
        """
        ops: list[Operation] = []
        with self._lock:
            done = self._done | self._passed
        with as_spool_error(self.path), self._back_lock, contextlib.closing(self._back.cursor()) as cursor:
            cursor.execute(
                "SELECT seq, op_id, theme, kind, payload, at FROM operations WHERE error IS NULL ORDER BY seq LIMIT ?",
                (limit + len(done),),
            )
            try:
                ops.extend(_operation(row) for row in paced(cursor) if row[0] not in done)
            except _FAULTS:
                if not ops:
                    raise
        return ops

    def ack(self, ops: Sequence[Operation]) -> None:
        """Forget operations that Postgres has committed, in memory only while the disk takes nothing."""
        for first in range(0, len(ops), _ACK_SLICE):
            if first:
                breathe()
            self._forget({op.seq for op in ops[first : first + _ACK_SLICE]})

    def _cross_off(self) -> None:
        """Delete what could not be deleted when it was committed: left behind, it would be written again much later."""
        if self._done:
            self._forget(set())

    def _forget(self, seqs: set[int]) -> None:
        with self._lock:
            fresh = seqs - self._done
            self._done |= fresh
            done = set(self._done)
        try:
            with self._back_lock:
                self._delete(json.dumps(sorted(fresh)), done)
        except _FAULTS as exc:
            logger.debug("hermes-pgvector: %s", _cannot_use(self.path, exc))

    def _delete(self, fresh: str, done: set[int]) -> None:
        gone = self._measure("error IS NULL AND seq IN (SELECT value FROM json_each(?))", fresh)
        with self._lock:  # a hook may wait for this
            self._take_off(gone)
            deleted = self._back.execute(
                "DELETE FROM operations WHERE seq IN (SELECT value FROM json_each(?))", (json.dumps(sorted(done)),)
            )
            # A damaged file may give rows that it does not find by their number.
            left = done & self._numbers("true") if deleted.rowcount < len(done) else set()
            self._done -= done - left

    def set_aside(self, op: Operation, error: str) -> None:
        """Keep `op` out of the way of the rest, with its error, until an operator looks at it.

        While the disk takes nothing, or where the file is damaged, only for the life of this process.
        """
        try:
            with self._back_lock, self._lock:
                self._take_off(self._measure("error IS NULL AND seq = ?", op.seq))
                self._back.execute("UPDATE operations SET error = ? WHERE seq = ?", (error or "unknown error", op.seq))
                if op.kind.startswith(_UNREADABLE_KIND) and op.seq in self._numbers("error IS NULL"):
                    self._passed.add(op.seq)  # as above: it must not come again and again
        except _FAULTS as exc:
            self._passed.add(op.seq)
            logger.debug("hermes-pgvector: %s", _cannot_use(self.path, exc))

    def checkpoint(self) -> None:
        """Move the write-ahead log into the file, on the drain's time."""
        with self._back_lock, contextlib.suppress(sqlite3.Error):
            self._back.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def publish(self, report: Mapping[str, Any]) -> None:
        """Leave the process's counters in the file, for whoever looks from outside."""
        body = json.dumps(report)
        with as_spool_error(self.path), self._back_lock, self._lock:
            self._back.execute("INSERT OR REPLACE INTO report VALUES (1, ?, ?)", (time.time(), body))

    def report(self) -> tuple[float, dict[str, Any]]:
        """When (seconds since the epoch) the counters were last published, and the counters."""
        with as_spool_error(self.path), self._back_lock:
            row = self._back.execute("SELECT at, body FROM report").fetchone()
        try:
            return (0.0, {}) if row is None else (float(row[0]), dict(json.loads(row[1])))
        except (ValueError, TypeError):
            return 0.0, {}

    def retry(self, op: Operation) -> None:
        """Put an operation that was set aside back in its place."""
        with as_spool_error(self.path), self._back_lock, self._lock:
            self._back.execute("UPDATE operations SET error = NULL WHERE seq = ?", (op.seq,))

    def drop(self, op: Operation) -> None:
        """Delete an operation that was set aside."""
        with as_spool_error(self.path), self._back_lock, self._lock:
            self._back.execute("DELETE FROM operations WHERE seq = ? AND error IS NOT NULL", (op.seq,))

    def recount(self) -> None:
        """Count again what waits: an operator may have changed the file."""
        self._cross_off()
        with as_spool_error(self.path), self._back_lock, self._lock:
            done = json.dumps(sorted(self._done))
            self._depth, self._bytes = self._measure(
                "error IS NULL AND seq NOT IN (SELECT value FROM json_each(?))", done
            )

    def depth(self) -> int:
        """How many operations wait."""
        return self._depth

    def size_bytes(self) -> int:
        """Roughly how many bytes wait."""
        return self._bytes

    def aside(self) -> list[SetAside]:
        """The operations that were set aside, oldest first."""
        with as_spool_error(self.path), self._back_lock:
            rows = self._back.execute(
                "SELECT seq, op_id, theme, kind, payload, at, error FROM operations "
                "WHERE error IS NOT NULL ORDER BY seq"
            ).fetchall()
        return [SetAside(_operation(row[:6]), row[6]) for row in rows]

    def empty(self) -> bool:
        """True when nothing waits and nothing is set aside."""
        self._cross_off()
        with as_spool_error(self.path), self._back_lock:
            return not self._back.execute("SELECT EXISTS (SELECT 1 FROM operations)").fetchone()[0]

    def close(self) -> None:
        """Close the file; calling twice is fine."""
        with self._back_lock, self._lock, contextlib.suppress(sqlite3.Error):
            self._front.close()
            self._back.close()

    def _numbers(self, condition: str) -> set[int]:
        """The numbers of those operations that a reading of the whole file gives."""
        return {row[0] for row in self._back.execute(f"SELECT seq FROM operations WHERE {condition}")}

    def _take_off(self, gone: tuple[int, int]) -> None:
        self._depth, self._bytes = max(0, self._depth - gone[0]), max(0, self._bytes - gone[1])

    def _measure(self, condition: str, *values: object) -> tuple[int, int]:
        """Operations and bytes; none in a damaged file, where `take` finds what can be read."""
        try:
            row = self._back.execute(
                f"SELECT count(*), coalesce(sum(length(CAST(payload AS BLOB)) + {_ROW_OVERHEAD_BYTES}), 0) "
                f"FROM operations WHERE {condition}",
                values,
            ).fetchone()
        except sqlite3.OperationalError:
            raise
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            return 0, 0
        return int(row[0]), int(row[1])


def _connect(path: Path) -> sqlite3.Connection:
    conn = sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)
    conn.execute(f"PRAGMA page_size={_PAGE_BYTES}")
    # Damaged text is for an operator to look at, not a reason to read nothing.
    conn.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return conn


def _operation(row: tuple[Any, ...]) -> Operation:
    """The operation of a row; one that cannot be read comes as a kind that nobody applies, to be set aside."""
    seq, op_id, theme, kind, payload, at = row
    try:
        body = json.loads(payload)
        if isinstance(body, dict):
            return Operation(str(kind), str(theme), body, float(at), uuid.UUID(bytes=op_id), seq)
    except (ValueError, TypeError, RecursionError):
        pass
    unreadable = {"content": str(payload)}
    return Operation(f"{_UNREADABLE_KIND} {kind}", str(theme), unreadable, 0.0, uuid.uuid5(_UNREADABLE, repr(row)), seq)


@contextlib.contextmanager
def as_spool_error(path: Path) -> Iterator[None]:
    """Raise what SQLite or the file system has against `path` as SpoolError."""
    try:
        yield
    except (*_FAULTS, OSError) as exc:
        raise _cannot_use(path, exc) from exc


def _cannot_use(path: Path, exc: Exception) -> SpoolError:
    return SpoolError(
        f"the spool {path} cannot be used ({exc}); check that the directory is writable and the disk has room"
    )
