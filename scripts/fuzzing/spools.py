"""The target `spool`: a spool file of a dead process, damaged in any way, and what a living one makes of it."""

from __future__ import annotations

import functools
import os
import shutil
import sqlite3
import struct
import tempfile
from contextlib import closing
from pathlib import Path

from hermes_memory_pgvector.admin.common.spool_views import published
from hermes_memory_pgvector.capture.spool import Spool
from hermes_memory_pgvector.capture.spool_directory import SpoolDirectory
from hermes_memory_pgvector.domain.errors import SpoolError
from hermes_memory_pgvector.domain.operations import Message, StoreTurn

_OPERATIONS = 24
_NAME = "1-0000000000000001-00000000.db"


def _text(number: int) -> str:
    return f"turn {number:03d} " + "of the harbour " * (number % 5 * 20)


@functools.cache
def whole() -> bytes:
    """A spool as a process leaves it."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        path = Path(folder, _NAME)
        made = Spool(path, max_bytes=1 << 30)
        for number in range(_OPERATIONS):
            said = (Message("user", _text(number)),)
            made.append(StoreTurn(theme="marketing", at=float(number), session_id="s", messages=said))
        made.close()
        with closing(sqlite3.connect(path)) as conn:
            conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return path.read_bytes()


def damaged(data: bytes) -> bytes:
    """The whole file with what `data` says done to it; data that begins as a SQLite file is the file itself.

    Of each six bytes, four say where, one what, one how much.
    """
    if data.startswith(b"SQLite format 3\0"):
        return data
    body = bytearray(whole())
    for start in range(0, len(data) - 5, 6):
        at, how, much = struct.unpack("<IBB", data[start : start + 6])
        at %= len(body) or 1
        if how < 8:
            del body[at:]
        elif how < 16:
            body[at : at + 8 * much] = bytes(len(body[at : at + 8 * much]))
        elif how < 24:
            body[at:at] = bytes([much]) * how
        elif body:
            body[at] = much
    return bytes(body)


def spool(data: bytes) -> None:
    """Spool files, damaged anyhow: only SpoolError, an end, and no file is deleted in which something is left."""
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        path, body = Path(folder, _NAME), damaged(data)
        path.write_bytes(body)
        readable = _readable(path)
        directory = SpoolDirectory(Path(folder), max_bytes=1 << 30)
        read: list[int] = []
        for adopted in directory.adopt():
            try:
                while ops := adopted.take(7):
                    for op in ops:
                        if op.kind.startswith("unreadable"):
                            adopted.reject(op, "unreadable")
                        else:
                            adopted.ack([op])
                    read += [op.seq for op in ops]
                    assert len(read) <= 10_000, "the same again and again"
                published(adopted)
                adopted.rejected()
                adopted.recount()
            except SpoolError as exc:
                directory.give_up(adopted, exc)
                continue
            directory.discard(adopted)
        assert path.exists() or readable <= set(read), f"lost {sorted(readable - set(read))}"
        if body == whole():
            assert not path.exists() and len(read) == _OPERATIONS


def _readable(path: Path) -> set[int]:
    """The numbers of the operations that a patient reader finds in a copy, one by one."""
    copy = path.with_suffix(".copy")
    shutil.copyfile(path, copy)
    found: set[int] = set()
    try:
        with closing(sqlite3.connect(copy)) as conn:
            conn.text_factory = bytes
            for seq in range(1, _OPERATIONS + 1):
                try:
                    if conn.execute(
                        "SELECT payload FROM operations WHERE seq = ? AND error IS NULL", (seq,)
                    ).fetchone():
                        found.add(seq)
                except (sqlite3.Error, UnicodeDecodeError):
                    continue
    except (sqlite3.Error, UnicodeDecodeError):
        pass
    for left in (copy, Path(f"{copy}-wal"), Path(f"{copy}-shm"), Path(f"{copy}-journal")):
        left.unlink(missing_ok=True)
    return found
