"""The spools of all processes of a home, as an operator sees them: waiting writes, rejected writes, counters."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from ...capture.damaged_log import is_damaged
from ...capture.private_folders import is_in_other_hands, is_private
from ...capture.spool import Spool
from ...capture.spool_directory import Destination, spool_folder, spool_folders
from ...capture.spool_format import COLUMNS, RejectedWrite, made_at_ns, move
from ...config.sources import CONFIG_NAME, DOTENV_NAME
from ...domain.errors import InvalidArgument, SpoolError, SpoolGone
from ...domain.gil import SHORT_SLICE, in_slices
from ...domain.operations import MalformedWrite, Operation, RemoveMemory
from ...domain.text import on_one_line
from .installation import package_version

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_TEXT_SHOWN = 200
_PATIENCE_MS = 5000
_UNBOUNDED = 1 << 62  # nothing is appended here, so no limit applies


@dataclass(frozen=True)
class SpoolView:
    """One process's spool. `living`: the process still runs; `report_age_s`: time since it last published its counters.

    `oldest_at` is when (seconds since the epoch) the oldest waiting write was accepted, None if nothing waits.
    """

    path: Path
    living: bool
    waiting: int
    size_bytes: int
    rejected: tuple[RejectedWrite, ...]
    report: dict[str, Any]
    report_age_s: float | None
    problem: str = ""
    oldest_at: float | None = None
    place: str = ""  # the database that its writes were accepted for, and below what identifies that database
    database: str = ""

    def is_for(self, here: Destination) -> bool:
        """Return whether its waiting writes may go to that database."""
        return not self.waiting or self.leads_to(here)

    def leads_to(self, here: Destination) -> bool:
        """Return whether what its process writes may go to that database."""
        return here.takes(self.place, self.database)

    def is_outdated(self, home: Path) -> bool:
        """Return whether its process reaches no database, and began before the settings of the home were changed."""
        down = self.living and self.report.get("postgres") == "down"
        return down and made_at_ns(self.path) < _settings_changed_ns(home)

    def other_version(self) -> str:
        """Return that its process runs code of another version than this command does; empty if it does not."""
        theirs, ours = self.report.get("version", "1.0"), package_version()
        told = self.living and self.report and theirs != ours
        return f"is of version {theirs}, this command of {ours}" if told else ""

    @property
    def pid(self) -> str:
        """Return the process id in the file's name."""
        return self.path.name.split("-")[0]


def persists(report: Mapping[str, Any]) -> bool:
    """Return whether a process's last error had not ended when it told of it."""
    return bool(report.get("last_error") and not report.get("last_error_over_at"))


def last_error(report: Mapping[str, Any]) -> str:
    """Return the last error of a process with its time, and the time since when it is over."""
    at, over_at = (str(report.get(name) or "") for name in ("last_error_at", "last_error_over_at"))
    since = f" at {_local_time(at)}" if at else ""  # version 1.0 noted none
    over = f", over since {_local_time(over_at)}" if over_at else ""
    return f"last error{since}{over}: {report['last_error']}"


def _local_time(iso: str) -> str:
    """Return the time of an error in this machine's time zone, with its offset from UTC."""
    try:
        return datetime.fromisoformat(iso).astimezone().isoformat(sep=" ", timespec="seconds")
    except ValueError:
        return iso


def _settings_changed_ns(home: Path) -> int:
    changed = [0]
    for name in (CONFIG_NAME, DOTENV_NAME):
        with contextlib.suppress(OSError):
            changed.append((home / name).stat().st_mtime_ns)
    return max(changed)


def send(views: Sequence[SpoolView], here: Destination, *, really: bool) -> list[SpoolView]:
    """Readdress the writes that stopped processes accepted for another database to the one `here`.

    Return the spool files concerned, which are changed only if `really`.
    """
    meant = [view for view in views if not view.living and not view.is_for(here)]
    for view in meant if really else ():
        with _unless_gone(view.path), opened_spool(view.path) as spool:
            spool.label(here.place, here.database, anew=True)
    return meant


def spool_paths(home: Path) -> list[Path]:
    """Return the spool files of all processes of the home, in whichever folder they are."""
    own = spool_folder(home)
    folders = [
        each for each in spool_folders(home) if (not is_in_other_hands(each) if each == own else is_private(each))
    ]
    return [path for folder in folders for path in sorted(folder.glob("*.db"))]


def inspect_spools(home: Path) -> list[SpoolView]:
    """Return a view of every spool of the home, read without disturbing the process that uses it."""
    views = []
    for path in spool_paths(home):
        living = _is_held(path)
        try:
            with opened_spool(path) as spool:
                with spool.reading() as conn:
                    conn.execute("SELECT sum(length(payload)) FROM operations").fetchone()
                at, report = published(spool)
                age = time.time() - at if at else None
                oldest = next((op.at for op in spool.take(1)), None)
                aside = tuple(spool.rejected())
                view = SpoolView(path, living, spool.depth, spool.size_bytes, aside, report, age, "", oldest)
                place, database = spool.accepted_for()
                views.append(replace(view, place=place, database=database))
        except SpoolError as exc:
            with contextlib.suppress(FileNotFoundError):  # its writes have reached Postgres meanwhile
                views.append(SpoolView(path, living, 0, path.stat().st_size, (), {}, None, str(exc)))
    return views


def deleted_spools(home: Path) -> list[Path]:
    """Return the spool files that living processes still write to although somebody has deleted them."""
    found = []
    for folder in filter(is_private, spool_folders(home)):
        for lock in sorted(folder.glob("*.db.lock")):
            path = lock.with_suffix("")
            if not path.exists() and _is_held(path):
                found.append(path)
    return found


def render_rejected(items: list[RejectedWrite]) -> str:
    """Return a text for people that lists the rejected writes."""
    if not items:
        return "no write was rejected"
    return "\n".join(
        f"{short_id(item)}  {entry['at']}  {entry['kind']}  theme {on_one_line(entry['theme'])}\n"
        f"          rejected: {on_one_line(entry['error'])}\n          text: {on_one_line(entry['text'])}"
        for item in items
        for entry in [rejected_as_dict(item)]
    )


def rejected_as_dict(item: RejectedWrite) -> dict[str, str]:
    """Return a rejected write as plain data; a long text is shortened to its beginning."""
    op = item.operation
    text = _shown(op)
    return {
        "id": op.op_id.hex,
        "at": _date(op.at),
        "kind": op.kind,
        "theme": op.theme,
        "error": item.error,
        "text": text if len(text) <= _TEXT_SHOWN else text[:_TEXT_SHOWN] + "…",
    }


def _date(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):  # any part of a rejected write may be invalid
        return "unknown time"


def short_id(item: RejectedWrite) -> str:
    """Return the short id by which an operator names a rejected write."""
    return item.operation.op_id.hex[:8]


def change_rejected(
    views: Sequence[SpoolView], action: Literal["retry", "drop"], ids: list[str], *, everything: bool, really: bool
) -> list[RejectedWrite]:
    """Retry or drop rejected writes, named by the first digits of their ids; return them, changed only if `really`.

    Raises InvalidArgument for an id that matches none.
    """
    change = retry if action == "retry" else drop
    _check_named(ids, views)
    prefixes = ("",) if everything else tuple(ids)
    meant = []
    for view in views:
        some = [item for item in view.rejected if item.operation.op_id.hex.startswith(prefixes)]
        meant += _changed(view, some, change) if really and some else some
    return meant


def _changed(
    view: SpoolView, some: Sequence[RejectedWrite], change: Callable[[Spool, Sequence[Operation]], set[int]]
) -> list[RejectedWrite]:
    """Change rejected writes, and return those that no other command has changed at the same time."""
    changed: set[int] = set()
    with _unless_gone(view.path), opened_spool(view.path) as spool:
        changed = change(spool, [item.operation for item in some])
    return [item for item in some if item.operation.seq in changed]


def _check_named(ids: list[str], views: Sequence[SpoolView]) -> None:
    found = [item.operation.op_id.hex for view in views for item in view.rejected]
    for each in ids:
        if not any(op_id.startswith(each) for op_id in found):
            unread = "".join(f"; {view.problem}" for view in views if view.problem)
            raise InvalidArgument(
                f"no rejected write has an id that begins with {each!r}; see: hermes-pgvector spool list{unread}"
            )


@contextmanager
def _unless_gone(path: Path) -> Iterator[None]:
    """Ignore a SpoolError if the file is gone: its writes have reached Postgres."""
    try:
        yield
    except SpoolError:
        if path.exists():
            raise


@contextmanager
def opened_spool(path: Path) -> Iterator[Spool]:
    """Yield the spool of a file, which another process may be using. Raises SpoolError."""
    if not path.exists():  # SQLite would create one
        raise SpoolGone(f"the spool {path} is no longer there")
    if _left_damaged(path):  # SQLite would delete what it cannot read of the log
        raise SpoolError(f"the log of the spool {path} is damaged; the next agent sends what can still be read of it")
    spool = Spool(path, max_bytes=_UNBOUNDED, patience_ms=_PATIENCE_MS)
    try:
        yield spool
    finally:
        spool.close()


def published(spool: Spool) -> tuple[float, dict[str, Any]]:
    """Return when (seconds since the epoch) a process last published its counters in its file, and the counters."""
    with spool.reading() as conn:
        row = conn.execute("SELECT at, body FROM report").fetchone()
    try:
        return (0.0, {}) if row is None else (float(row[0]), dict(json.loads(row[1])))
    except (ValueError, TypeError):
        return 0.0, {}


def retry(spool: Spool, ops: Sequence[Operation]) -> set[int]:
    """Move rejected writes to the end of the queue, in the order in which they were accepted; return their numbers."""
    moved: set[int] = set()
    for part in in_slices(ops, SHORT_SLICE):
        with spool.written() as conn:
            moved |= _still_aside(conn, part)
            move(conn, "aside", "operations", COLUMNS, COLUMNS, part)
    return moved


def drop(spool: Spool, ops: Sequence[Operation]) -> set[int]:
    """Delete rejected writes; return their numbers."""
    dropped: set[int] = set()
    for part in in_slices(ops, SHORT_SLICE):
        with spool.written() as conn:
            numbers = _still_aside(conn, part)
            dropped |= numbers
            conn.execute("DELETE FROM aside WHERE seq IN (SELECT value FROM json_each(?))", (json.dumps([*numbers]),))
    return dropped


def _still_aside(conn: sqlite3.Connection, ops: Sequence[Operation]) -> set[int]:
    numbers = json.dumps([op.seq for op in ops])
    rows = conn.execute("SELECT seq FROM aside WHERE seq IN (SELECT value FROM json_each(?))", (numbers,))
    return {seq for (seq,) in rows}


def _left_damaged(path: Path) -> bool:
    """Return whether no process has the spool `path`, and its log is damaged."""
    if fcntl is None:
        return False
    with contextlib.suppress(OSError):
        try:
            with open(f"{path}.lock", "rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return is_damaged(path)
        except FileNotFoundError:  # somebody has put the file there
            return is_damaged(path)
    return False


def _is_held(path: Path) -> bool:
    """Return whether the process that created the spool `path` is alive and holds it; an adopter does not count."""
    if fcntl is None:
        return True
    try:
        handle = os.open(f"{path}.lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return os.pread(handle, 20, 0).decode(errors="replace") in ("", path.name.split("-")[0])
    finally:
        os.close(handle)
    return False


def _shown(op: Operation) -> str:
    """Return the text of a write, for people."""
    match op:
        case MalformedWrite(payload=payload):
            return str(payload.get("content") or payload.get("old_text") or payload.get("messages") or "")
        case RemoveMemory():
            return op.old_text
        case _:
            return "\n".join(op.texts())
