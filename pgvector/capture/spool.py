"""The durable queue of writes: one SQLite file per process, filled by the hooks and emptied by the drain thread.

Once `append` returns, the operation survives the death of the process (`normal`), or a power cut as well (`full`).
`spool_directory.py` decides which process owns which file.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from ..domain.errors import SpoolBusy, SpoolError, SpoolFull, SpoolGone
from ..domain.fork_safety import BACKGROUND, fork_lock
from ..domain.gil import SHORT_SLICE, in_slices, yielding_gil
from ..domain.operations import Operation
from .memory_queue import HeldOperations
from .spool_format import (
    COLUMNS,
    FAULTS,
    HOOK_PATIENCE_MS,
    UNREADABLE_KIND,
    RejectedWrite,
    Row,
    WatchedFiles,
    as_spool_error,
    cannot_use,
    connect,
    holds,
    is_empty,
    move,
    operation_of,
    prepare,
    readable,
    row_of,
    transaction,
)

logger = logging.getLogger(__name__)

_ROW_OVERHEAD_BYTES = 64
_COPY_BYTES = 16_000_000  # of operations kept in memory as well, in case the file is lost
_INSERT = f"INSERT INTO operations ({COLUMNS}) VALUES (?, ?, ?, ?, ?)"


class Spool:
    """One file of operations, in the order in which they were accepted. Safe to use from several threads."""

    def __init__(
        self, path: Path, *, max_bytes: int, sync: str = "normal", patience_ms: int = HOOK_PATIENCE_MS
    ) -> None:
        """Open or create `path`, whose lock the caller holds. Raises SpoolError."""
        self.path = path
        self._max_bytes = max_bytes
        # A forked child cannot reinitialize SQLite's own locks, so SQLite is only used while one of our locks is held.
        self._back_lock = fork_lock(BACKGROUND)  # for the back connection
        self._lock = fork_lock()  # for the front connection and the state that hooks use
        self._done: set[int] = set()  # committed in Postgres, but the file could not be written to delete them
        self._passed: set[int] = set()  # rejected, but still in the file: it cannot be written, or is damaged
        self._held = HeldOperations(_COPY_BYTES)
        self._last = 0  # the number of the last operation appended to this file
        self._given_away = False  # `salvage` has read the file, and would miss what is appended afterwards
        self._closed = False
        with self._back_lock, contextlib.ExitStack() as opened, as_spool_error(path):
            self._front = opened.enter_context(closing(connect(path)))  # the hooks' connection
            self._back = opened.enter_context(closing(connect(path)))
            prepare(path, self._front, self._back, sync=sync, patience_ms=patience_ms)
            self.depth, self.size_bytes = self._measure("true")  # of the waiting operations
            self.rejected_count = self._count_rejected()
            self._files = WatchedFiles(path)
            opened.pop_all()

    def append(self, op: Operation) -> None:
        """Write `op` to the file; once this returns, it survives the process. Raises SpoolError or a subclass of it."""
        row = row_of(op)
        size = _size(row[3])
        with self._lock:
            if self._closed:
                raise SpoolBusy(f"this process has let go of the spool {self.path}")
            if self.size_bytes + size > self._max_bytes:
                raise SpoolFull(
                    f"the spool holds {self.depth} writes and is at its limit of {self._max_bytes // 1_000_000} MB; "
                    "bring Postgres back (hermes-pgvector doctor) or raise `spool_max_mb`"
                )
            try:
                self._must_be_there()
                inserted = self._front.execute(_INSERT, row)
            except FAULTS as exc:
                raise cannot_use(self.path, exc) from exc
            self.depth += 1
            self.size_bytes += size
            self._last = inserted.lastrowid or 0
            self._held.add(self._last, op, size)

    def take(self, limit: int) -> list[Operation]:
        """Return up to `limit` of the oldest operations; they stay in the file until `ack`.

        They are the copies in memory, if all that wait are there: the file may have been damaged since it was given
        them. From a damaged file, return those before the damage. Raises SpoolError if there are none.
        """
        with as_spool_error(self.path), self._lock:
            self._must_be_there()
            done = self._done | self._passed
            ops = self._held.waiting(limit) if self._held.counts()[0] >= self.depth else []
        ops = ops or self._read(limit, done)
        with self._lock:  # an operator may have put some back since `recount`: they wait until `ack` as well
            self.depth = max(self.depth, len(ops))
        return ops

    def _read(self, limit: int, done: set[int]) -> list[Operation]:
        """Return up to `limit` of the oldest operations in the file, without those `done`. Raises SpoolError."""
        ops: list[Operation] = []
        try:
            with self._back_lock, closing(self._back.cursor()) as cursor:
                cursor.execute(f"SELECT seq, {COLUMNS} FROM operations ORDER BY seq LIMIT ?", (limit + len(done),))
                ops.extend(operation_of(row) for row in yielding_gil(cursor) if row[0] not in done)
        except FAULTS as exc:
            if not ops:
                raise cannot_use(self.path, exc) from exc
        return ops

    def ack(self, ops: Sequence[Operation]) -> None:
        """Delete operations that Postgres has committed; while the disk cannot be written, only mark them in memory."""
        for part in in_slices(ops, SHORT_SLICE):
            self._forget({op.seq for op in part})

    def _cross_off(self) -> None:
        """Delete committed operations whose deletion failed: if left, they would be written again much later."""
        if self._done:
            self._forget(set())

    def _forget(self, seqs: set[int]) -> None:
        with self._lock:
            fresh = seqs - self._done
            self._done |= fresh
            held = self._held.forget(fresh)
            done = set(self._done)
        try:
            with self._back_lock:
                self._delete(json.dumps(sorted(fresh)), done, held)
        except SpoolGone:  # the next `take` raises it
            with self._lock:
                self._take_off((len(fresh), 0))
        except FAULTS as exc:
            logger.debug("hermes-pgvector: %s", cannot_use(self.path, exc))

    def _delete(self, fresh: str, done: set[int], at_least: int) -> None:
        with self._lock:
            self._must_be_there()
        count, size = self._measure("seq IN (SELECT value FROM json_each(?))", fresh)
        with self._lock:  # a hook may wait for this
            self._must_be_there()
            self._take_off((max(count, at_least), size))  # a damaged file may not find them
            deleted = self._back.execute(
                "DELETE FROM operations WHERE seq IN (SELECT value FROM json_each(?))", (json.dumps(sorted(done)),)
            )
            # A damaged file may return rows that it cannot find by their number.
            left = done & self._numbers() if deleted.rowcount < len(done) else set()
            self._done -= done - left
            if not self.depth:  # but an operator may have put some back, beside those that were counted
                self._count_waiting()

    def reject(self, op: Operation, error: str) -> None:
        """Set `op` aside with its error until an operator looks at it, so that it does not hold up the rest.

        While the disk cannot be written, or if the file is damaged, this lasts only for the life of this process.
        """
        with self._lock:
            self._held.reject(op, error)
        try:
            with self.written() as conn:
                self._take_off(self._measure("seq = ?", op.seq))
                move(conn, "operations", "aside", f"{COLUMNS}, error", f"{COLUMNS}, ?", [op], error or "unknown error")
                self.rejected_count += 1
                if op.kind.startswith(UNREADABLE_KIND) and op.seq in self._numbers():
                    self._passed.add(op.seq)  # still found, as above: `take` must not return it again
        except SpoolError as exc:
            self._passed.add(op.seq)
            logger.debug("hermes-pgvector: %s", exc)

    def checkpoint(self) -> None:
        """Checkpoint the write-ahead log into the file, on the drain thread rather than in a hook."""
        with self._back_lock, contextlib.suppress(SpoolGone, *FAULTS):
            with self._lock:
                self._must_be_there()
            with self._files.our_own():
                self._back.execute("PRAGMA wal_checkpoint(PASSIVE)")

    @contextlib.contextmanager
    def written(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection in one write transaction; keep it short: a hook may have to wait. Raises SpoolError."""
        with as_spool_error(self.path), self._back_lock, self._lock:
            self._must_be_there()
            with transaction(self._back):
                yield self._back

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection for reading, even if the file is gone; no hook waits for this. Raises SpoolError."""
        with as_spool_error(self.path), self._back_lock:
            if self._given_away:
                with self._lock:
                    self._mend()
            yield self._back

    def label(self, place: str, database: str, *, anew: bool = False) -> None:
        """Record the database that the writes are for; `anew` deletes what the previous database has acknowledged."""
        with self.written() as conn:
            conn.execute("INSERT OR REPLACE INTO accepted_for VALUES (1, ?, ?)", (place, database))
            if anew:
                conn.execute("DELETE FROM kept")

    def accepted_for(self) -> tuple[str, str]:
        """Return the place and database (see `Destination`) that the writes are for; both are empty if unknown."""
        row = ("", "")
        with contextlib.suppress(SpoolGone), self.reading() as conn:  # its page alone may be damaged
            row = conn.execute("SELECT coalesce(place, ''), coalesce(database, '') FROM accepted_for").fetchone() or row
        return str(row[0]), str(row[1])

    def publish(self, report: Mapping[str, Any]) -> None:
        """Store the process's counters in the file, where other processes can read them."""
        row = (time.time(), json.dumps(report))
        with self.written() as conn:
            conn.execute("INSERT OR REPLACE INTO report VALUES (1, ?, ?)", row)

    def recount(self) -> None:
        """Recount the waiting and the rejected operations: an operator may have changed the file."""
        self._cross_off()
        with as_spool_error(self.path), self._back_lock, self._lock:
            self._must_be_there()
            self._count_waiting()
            if (aside := self._count_rejected()) < self.rejected_count:
                self._held.forget_rejected()
            self.rejected_count = aside

    def _count_waiting(self) -> None:
        done = json.dumps(sorted(self._done | self._passed))
        found, self.size_bytes = self._measure("seq NOT IN (SELECT value FROM json_each(?))", done)
        self.depth = max(found, self._held.counts()[0])  # a damaged file may lack some that are held

    def rejected(self) -> list[RejectedWrite]:
        """Return the operations that were rejected, oldest first."""
        with self.reading() as conn:
            rows = conn.execute(f"SELECT seq, {COLUMNS}, error FROM aside ORDER BY at, seq").fetchall()
        return [RejectedWrite(operation_of(row[:6]), row[6]) for row in rows]

    def check(self, *, at_end: bool = False) -> None:
        """Raise SpoolGone if the files are no longer those that were opened, or their content was overwritten.

        The content is looked at if another program has written to the file, and `at_end`, if anything is left in it:
        what memory still has of it is lost then. To be called by the thread that empties the spool.
        """
        try:
            with self._lock:
                self._must_be_there()
                suspect = self._files.written() or (at_end and bool(self.depth or self._done))
                depth, copies = self.depth, self._held.waiting() if suspect else []
            if suspect:
                self._files.settle()
                if not holds(self.path, depth, None, copies=copies):
                    raise SpoolGone(f"the spool {self.path} was overwritten")
        except FAULTS as exc:
            raise cannot_use(self.path, exc) from exc

    def _must_be_there(self) -> None:
        """Raise SpoolGone if the files were deleted, replaced or cut, or SQLite's error. The caller holds the lock."""
        if self._given_away:
            raise SpoolGone(f"what the spool {self.path} held is in another file")
        if self._files.look():  # another program's checkpoint shortens the log as well
            last = self._last if self._held.holds(self._last) else None
            if not holds(self.path, self.depth, last):
                raise SpoolGone(f"the spool {self.path} was cut")

    def _mend(self) -> None:
        """Restore the length of SQLite's shared memory: it may have been cut after the file was found to be gone."""
        with contextlib.suppress(SpoolGone, OSError):
            self._files.look()

    def remembers_all(self) -> bool:
        """Return whether memory holds everything, so that `salvage` does not need the file."""
        with self._lock:
            waiting, aside = self._held.counts()
            return waiting >= self.depth and aside >= self.rejected_count

    def salvage(self) -> tuple[list[tuple[Operation, str]], int]:
        """Return the operations that can be recovered from a file that is gone, and how many are lost.

        The operations are in order, each with the error for which it was rejected, or "". Raises SpoolBusy.
        """
        with as_spool_error(self.path), self._back_lock, self._lock:
            self._mend()
            self._given_away = True
            waiting = {op.seq: op for op in self._held.waiting() if op.seq not in self._done}
            aside = {item.operation.op_id: (item.operation, item.error) for item in self._held.rejected()}
            expected = self.depth + self.rejected_count
            if len(waiting) < self.depth:
                for op in readable(self._back, "operations", "''"):
                    if op[0].seq not in self._done | self._passed:
                        waiting.setdefault(op[0].seq, op[0])
            if len(aside) < self.rejected_count:
                aside = {op.op_id: (op, error) for op, error in readable(self._back, "aside", "error")} | aside
        saved = [*aside.values(), *((waiting[seq], "") for seq in sorted(waiting))]
        return saved, max(0, expected - len(saved))

    def take_in(self, saved: Iterable[tuple[Operation, str]], max_bytes: int) -> int:
        """Write the first operations, about `max_bytes`, that `salvage` recovered from another file; return how many.

        Raises SpoolError, and then writes none.
        """
        rows: list[tuple[Operation, Row, str]] = []
        size = 0
        for op, error in saved:
            rows.append((op, row := row_of(op), error))
            if (size := size + len(row[3])) >= max_bytes:
                break
        with as_spool_error(self.path), self._lock:
            self._must_be_there()
            with transaction(self._front):
                for op, row, error in rows:
                    self._take_in(op, row, error)
            sizes = [_size(row[3]) for _, row, error in rows if not error]
            self.depth += len(sizes)
            self.size_bytes += sum(sizes)
            self.rejected_count += sum(bool(error) for _, _, error in rows)
        return len(rows)

    def _take_in(self, op: Operation, row: Row, error: str) -> None:
        if error:
            into = f"INSERT INTO aside ({COLUMNS}, error) VALUES (?, ?, ?, ?, ?, ?)"
            self._front.execute(into, (*row, error))
            return
        self._last = self._front.execute(_INSERT, row).lastrowid or 0
        self._held.add(self._last, op, _size(row[3]))

    def end(self) -> bool:
        """Close the file; return True if nothing waits, is rejected or is kept in it. No hook can append in between."""
        self._cross_off()
        empty = False
        with self._back_lock, self._lock:
            self._mend()
            with contextlib.suppress(*FAULTS):
                empty = is_empty(self._back)
            self._close()
        return empty

    def close(self) -> None:
        """Close the file; calling twice is fine."""
        with self._back_lock, self._lock:
            self._mend()
            self._close()

    def _close(self) -> None:
        self._closed = True
        with contextlib.suppress(sqlite3.Error):
            self._front.close()
            self._back.close()

    def _numbers(self) -> set[int]:
        """Return the numbers of all operations, found by scanning the whole table."""
        return {row[0] for row in self._back.execute("SELECT seq FROM operations")}

    def _count_rejected(self) -> int:
        return self._sums("SELECT count(*), 0 FROM aside")[0]

    def _take_off(self, gone: tuple[int, int]) -> None:
        self.depth, self.size_bytes = max(0, self.depth - gone[0]), max(0, self.size_bytes - gone[1])

    def _measure(self, condition: str, *values: object) -> tuple[int, int]:
        """Return the number and the bytes of the waiting operations that match `condition`."""
        return self._sums(
            f"SELECT count(*), coalesce(sum(length(CAST(payload AS BLOB)) + {_ROW_OVERHEAD_BYTES}), 0) "
            f"FROM operations WHERE {condition}",
            *values,
        )

    def _sums(self, query: str, *values: object) -> tuple[int, int]:
        """Return the two numbers of a query; zeros for a damaged file, of which `take` finds what can be read."""
        try:
            first, second = self._back.execute(query, values).fetchone()
        except sqlite3.OperationalError:
            raise
        except FAULTS:
            return 0, 0
        return int(first), int(second)


def _size(payload: str) -> int:
    """Return the approximate number of bytes that a row takes."""
    return len(payload if payload.isascii() else payload.encode()) + _ROW_OVERHEAD_BYTES
