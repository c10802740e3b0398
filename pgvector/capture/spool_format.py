"""The format of a spool file, checks of the file from outside, and the translation of SQLite's errors."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..domain.errors import SpoolBusy, SpoolError, SpoolGone
from ..domain.gil import yielding_gil
from ..domain.operations import Envelope, MalformedWrite, Operation, decode, encode, seconds
from ..server.locks import is_owned, process_exists

# The errors that a damaged file causes: SQLite quotes the file in its messages, which Python may fail to decode.
FAULTS = (sqlite3.Error, UnicodeDecodeError)
UNREADABLE_KIND = "unreadable"
_UNREADABLE = uuid.UUID("0d7f7f0e-58a4-4b53-9d0b-6b6d2a6a1c55")
FORMAT = 2  # PRAGMA user_version of the files this version writes; it reads lower ones as well
_OPERATION = "op_id BLOB NOT NULL, theme TEXT NOT NULL, kind TEXT NOT NULL, payload TEXT NOT NULL, at REAL NOT NULL"
COLUMNS = "op_id, theme, kind, payload, at"
Row = tuple[bytes, str, str, str, float]  # the values of COLUMNS
# Rejected operations have a table of their own, so that a query for waiting ones does not have to skip them.
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS operations (seq INTEGER PRIMARY KEY, {_OPERATION});
CREATE TABLE IF NOT EXISTS aside (seq INTEGER PRIMARY KEY, {_OPERATION}, error TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS aside_op_id ON aside (op_id);
CREATE TABLE IF NOT EXISTS kept (seq INTEGER PRIMARY KEY, {_OPERATION});
CREATE TABLE IF NOT EXISTS accepted_for (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1), place TEXT NOT NULL, database TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS report (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1), at REAL NOT NULL, body TEXT NOT NULL
);
"""
# Each append writes whole pages to the write-ahead log, so small ones keep it small.
PAGE_BYTES = 1024
# The drain thread empties the log long before this limit. The limit bounds the log while the drain thread is held up,
# at the cost of some milliseconds for one hook.
_LOG_PAGES = 16_000
HOOK_PATIENCE_MS = 5  # how long a hook waits for another program's lock before it uses another file
# How long opening waits for a lock. The only file that a hook opens is a new one, which no other program has locked.
_OPENING_S = 1.0


class RejectedWrite(NamedTuple):
    """An operation that Postgres will never accept as it is, with the reason."""

    operation: Operation
    error: str


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection to a file that other programs may have open as well."""
    conn = sqlite3.connect(path, timeout=_OPENING_S, isolation_level=None, check_same_thread=False)
    conn.execute(f"PRAGMA page_size={PAGE_BYTES}")
    # Damaged text is for an operator to look at, and must not make reading fail.
    conn.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return conn


def prepare(path: Path, front: sqlite3.Connection, back: sqlite3.Connection, *, sync: str, patience_ms: int) -> None:
    """Create the file's tables and configure both connections. Raises SpoolError for a file of a newer version or
    another program.

    Each of their statements waits up to `patience_ms` for another program's lock.
    """
    version = _version(path, front)
    levels = {front: sync.upper(), back: "NORMAL"}
    for conn, level in levels.items():
        # A file that is being created holds nothing to lose yet, and syncing each step to the disk takes time.
        conn.execute(f"PRAGMA synchronous={'OFF' if version == 0 and level != 'FULL' else level}")
        conn.execute("PRAGMA journal_mode=WAL")
    if version < FORMAT:
        front.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version={FORMAT}; COMMIT;")
    if version == 1:
        _set_rejected_aside(front)
    for conn, level in levels.items():
        conn.execute(f"PRAGMA synchronous={level}")
        conn.execute(f"PRAGMA busy_timeout={patience_ms}")
    front.execute(f"PRAGMA wal_autocheckpoint={_LOG_PAGES}")
    back.execute("PRAGMA wal_autocheckpoint=0")  # a hook may wait for its commits


def _version(path: Path, conn: sqlite3.Connection) -> int:
    """Return the version of the file, 0 for a new one. Raises SpoolError if it cannot be used."""
    version = int(conn.execute("PRAGMA user_version").fetchone()[0])
    if version > FORMAT:
        raise SpoolError(f"{path} was written by a newer version of hermes-memory-pgvector; upgrade to read it")
    tables = {name for (name,) in conn.execute("SELECT name FROM sqlite_master")}
    if tables and "operations" not in tables:  # it would be found empty, and deleted
        raise SpoolError(f"{path} is no spool, but a file of another program; move it away")
    return version


def _set_rejected_aside(conn: sqlite3.Connection) -> None:
    """Move the rejected operations of a file of version 1 into their own table."""
    with contextlib.suppress(*FAULTS):  # the file is damaged: its rejected operations will be rejected once more
        conn.executescript(
            f"BEGIN IMMEDIATE; INSERT INTO aside ({COLUMNS}, error) SELECT {COLUMNS}, error FROM operations "
            "WHERE error IS NOT NULL ORDER BY seq; DELETE FROM operations WHERE error IS NOT NULL; COMMIT;"
        )
    if conn.in_transaction:
        conn.execute("ROLLBACK")


def holds(path: Path, at_least: int, last: int | None, *, copies: Sequence[Operation] | None = None) -> bool:
    """Return whether a new connection finds at least `at_least` operations, and among them the one numbered `last`.

    With `copies`, also whether the file is sound and holds these operations as they were given to it. Raises SQLite's
    own errors.
    """
    with contextlib.closing(connect(path)) as fresh:
        fresh.execute(f"PRAGMA busy_timeout={HOOK_PATIENCE_MS}")
        if not fresh.execute("SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'operations')").fetchone()[0]:
            return False  # the file was emptied after its log had been checkpointed into it
        (count,) = fresh.execute("SELECT count(*) FROM operations").fetchone()
        found = fresh.execute("SELECT EXISTS (SELECT 1 FROM operations WHERE seq = ?)", (last,)).fetchone()
        whole = copies is None or (
            fresh.execute("PRAGMA quick_check(1)").fetchone() == ("ok",) and _has_all(fresh, copies)
        )
    return whole and count >= at_least and (last is None or found == (1,))


def _has_all(conn: sqlite3.Connection, copies: Sequence[Operation]) -> bool:
    """Return whether the file holds all these operations, unchanged."""
    left = {op.seq: op for op in copies}
    for seq, *row in yielding_gil(conn.execute(f"SELECT seq, {COLUMNS} FROM operations")):
        if (op := left.pop(seq, None)) is not None and tuple(row) != row_of(op):
            return False
    return not left


@contextlib.contextmanager
def transaction(conn: sqlite3.Connection) -> Iterator[None]:
    """Commit what the block does, all or nothing of it."""
    conn.execute("BEGIN IMMEDIATE")
    try:
        yield
        conn.execute("COMMIT")
    finally:
        if conn.in_transaction:
            conn.execute("ROLLBACK")


def move(
    conn: sqlite3.Connection, source: str, target: str, into: str, values: str, ops: Sequence[Operation], *more: str
) -> None:
    """Move the rows of `ops` from one table to the other, inside the caller's transaction."""
    numbers = json.dumps([op.seq for op in ops])
    chosen = "WHERE seq IN (SELECT value FROM json_each(?))"
    found = f"SELECT {values} FROM {source} {chosen} ORDER BY at, seq"
    conn.execute(f"INSERT INTO {target} ({into}) {found}", (*more, numbers))
    conn.execute(f"DELETE FROM {source} {chosen}", (numbers,))


def readable(
    conn: sqlite3.Connection, table: str, error: str, chosen: str = "true", most: int = -1, **values: object
) -> list[tuple[Operation, str]]:
    """Return the readable rows of a table, each operation with its `error`: all, or the first `most` that match.

    Raises SQLite's error for a lock held by another program.
    """
    found: list[tuple[Operation, str]] = []
    try:
        rows = conn.execute(
            f"SELECT seq, {COLUMNS}, {error} FROM {table} WHERE {chosen} ORDER BY seq LIMIT :most",
            {"most": most} | values,
        )
        found.extend((operation_of(row[:6]), row[6]) for row in yielding_gil(rows))
    except FAULTS as exc:
        if _is_held(exc):
            raise
    return found


def is_empty(conn: sqlite3.Connection) -> bool:
    """Return whether nothing waits, is rejected or, as far as a damaged file can be read, is kept.

    Raises SQLite's own errors, such as one of the disk, after which nothing is known.
    """
    if conn.execute("SELECT EXISTS (SELECT 1 FROM operations)").fetchone() != (0,):
        return False
    try:
        found = conn.execute("SELECT EXISTS (SELECT 1 FROM aside) OR EXISTS (SELECT 1 FROM kept)").fetchone()
    except FAULTS as exc:
        if not _is_damage(exc):
            raise
        # An index, which is read in the table's place, may be all that is damaged.
        rejected = conn.execute("SELECT EXISTS (SELECT 1 FROM aside NOT INDEXED)").fetchone()
        return bool(rejected == (0,)) and not readable(conn, "kept", "''", most=1)
    return bool(found == (0,))


def row_of(op: Operation) -> Row:
    """Return the row that stores an operation."""
    return op.op_id.bytes, op.theme, op.kind, encode(op), op.at


def operation_of(row: tuple[Any, ...]) -> Operation:
    """Return the operation of a row; for an unreadable row, return a MalformedWrite, which is to be rejected."""
    seq, op_id, theme, kind, payload, at = row
    number = uuid.uuid5(_UNREADABLE, repr(row))
    try:
        body = json.loads(payload)
        if isinstance(body, dict):
            number = uuid.UUID(bytes=op_id)
            every: Envelope = {"theme": str(theme), "at": seconds(at, "time"), "op_id": number, "seq": seq}
            return decode(str(kind), body, every)
    except (ValueError, TypeError, RecursionError):
        pass
    return MalformedWrite(
        theme=str(theme),
        at=0.0,
        op_id=number,
        seq=seq,
        said_kind=f"{UNREADABLE_KIND} {kind}",
        payload={"content": str(payload)},
        flaw="its row in the spool is damaged",
    )


@contextlib.contextmanager
def as_spool_error(path: Path) -> Iterator[None]:
    """Translate errors of SQLite and of the file system about `path` into SpoolError."""
    try:
        yield
    except (*FAULTS, OSError) as exc:
        raise cannot_use(path, exc) from exc


_HELD = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}  # readers get the last one, after 10 s
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def _is_held(exc: Exception) -> bool:
    return getattr(exc, "sqlite_errorcode", 0) & 0xFF in _HELD


def _is_damage(exc: Exception) -> bool:
    code = getattr(exc, "sqlite_errorcode", 0)
    return code & 0xFF in _DAMAGED or code in (sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_READONLY_DBMOVED)


def cannot_use(path: Path, exc: Exception) -> SpoolError:
    """Return the error that `exc` means: the file is locked by another program, changed or damaged, or unusable."""
    if _is_held(exc):
        return SpoolBusy(f"another program holds a lock on the spool {path} ({exc})")
    if _is_damage(exc):
        return SpoolGone(f"the spool {path} was changed by somebody else, or is damaged ({exc})")
    return SpoolError(f"the spool {path} cannot be used ({exc}); {_remedy(path)}")


def is_unopened(exc: SpoolError) -> bool:
    """Return whether the file could not be opened, so that nothing is known about what it holds."""
    return getattr(exc.__cause__, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CANTOPEN


def _remedy(path: Path) -> str:
    """Return what to do about a file that cannot be used."""
    if hasattr(os, "geteuid"):
        with contextlib.suppress(OSError):
            owner, mine = path.stat().st_uid, os.geteuid()
            if owner != mine != 0:
                return f"it belongs to another user (uid {owner}), who ran hermes here; as root: chown {mine} {path}*"
    return "check that the directory is writable and the disk has room"


def maker_of(path: Path) -> str:
    """Return the id of the process that created the file, from the file's name."""
    return path.name.partition("-")[0]


def is_of_nobody(path: Path) -> bool:
    """Return whether a locked file has no living owner: somebody only looks at it, as `status` does for a moment.

    It has none if its lock can be shared, or if no process of this machine is the one that created it, or the one that
    its lock names. A process that died may have had the id of one that lives, as in a container.
    """
    names, lock = [maker_of(path)], Path(f"{path}.lock")
    with contextlib.suppress(OSError):
        if not is_owned(lock):
            return True
        names.append(lock.read_text(errors="replace").strip())
    return not any(map(_runs, names))


def _runs(pid: str) -> bool:
    with contextlib.suppress(ValueError, OverflowError):
        return process_exists(int(pid))
    return False


def made_at_ns(path: Path) -> int:
    """Return when the file was created, from its name; 0 if the name does not say."""
    parts = path.name.split("-")
    try:
        return int(parts[1], 16) if len(parts) == 3 else 0
    except ValueError:
        return 0


def delete_files(path: Path) -> None:
    """Delete a file with what belongs to it. Raises OSError."""
    for suffix in ("", "-wal", "-shm", ".lock"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def written_at(path: Path) -> float:
    """Return when the file or its log was last written; 0 if that cannot be known."""
    times = [0.0]
    for each in (path, Path(f"{path}-wal")):
        with contextlib.suppress(OSError):
            times.append(each.stat().st_mtime)
    return max(times)


class WatchedFiles:
    """A spool's file, its write-ahead log and the shared memory of those that have it open. Not thread safe."""

    def __init__(self, path: Path) -> None:
        """Remember the files as they are. Raises SpoolGone or OSError."""
        self._path = path
        # Strings: a hook waits during `look`, and Path objects take longer.
        self._paths = (str(path), f"{path}-wal", f"{path}-shm")
        try:
            self._seen = [os.stat(each) for each in self._paths]
        except FileNotFoundError:
            raise SpoolGone(f"the spool {path} is no longer there") from None
        self._settled_ns = self._seen[0].st_mtime_ns

    def settle(self) -> None:
        """Treat all changes of the database file so far as our own: only a checkpoint writes to it."""
        with contextlib.suppress(OSError):
            self._settled_ns = os.stat(self._path).st_mtime_ns

    @contextlib.contextmanager
    def our_own(self) -> Iterator[None]:
        """Treat what the block writes to the database file as our own, unless others had written to it before."""
        others = self.written()
        yield
        if not others:
            self.settle()

    def written(self) -> bool:
        """Return whether the last `look` found the database file written to since `settle`."""
        return self._seen[0].st_mtime_ns != self._settled_ns

    def look(self) -> bool:
        """Return True if a file has become shorter, as the log does by another program's checkpoint.

        To be called before SQLite touches the files. Raises SpoolGone if they were deleted, replaced or cut.
        """
        stat, (file, log, shared) = os.stat, self._paths
        try:
            found = [stat(file), stat(log), stat(shared)]
        except (FileNotFoundError, NotADirectoryError):
            raise SpoolGone(f"the spool {self._path} was deleted or moved away") from None
        except OSError:  # we may no longer look, but the files are open
            return False
        cut = False
        for old, new in zip(self._seen, found, strict=True):
            if old.st_ino != new.st_ino or old.st_dev != new.st_dev:
                raise SpoolGone(f"the spool {self._path} was deleted or moved away, and another one is in its place")
            cut = cut or new.st_size < old.st_size
        if cut and found[2].st_size < self._seen[2].st_size:
            # SQLite has this file mapped into memory: touching a part that was cut off would kill the process.
            os.truncate(shared, self._seen[2].st_size)
            raise SpoolGone(f"the spool {self._path} was cut")
        self._seen = found
        return cut
