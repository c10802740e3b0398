"""The acknowledged writes in a spool file, each numbered by when it was acknowledged: microseconds since the epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ..domain.gil import SHORT_SLICE, in_slices, yielding_gil
from ..domain.operations import Operation, ReconcileFile, ReplaceMemory, StoreTurn, encode
from .spool import Spool
from .spool_format import COLUMNS, readable, row_of

Spare = Callable[[Operation], Operation | None]  # returns what remains of a write, None for nothing
PAGE = 500  # operations in memory at once
_SIZE = "length(payload) + 100"  # bytes of a row, about
_INSERT = f"INSERT OR IGNORE INTO kept (seq, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"


def size_of(op: Operation) -> int:
    """Return the approximate number of bytes that a kept write takes."""
    return len(encode(op)) + 100


def keep(spool: Spool, ops: Sequence[Operation]) -> int:
    """Add acknowledged writes in the order of their numbers, few at a time: a hook may have to wait. Raises SpoolError.

    A write whose number is taken gets the next free one. Returns the last number.
    """
    with spool.written() as conn:
        number = 0
        for op in ops:
            number, row = max(number + 1, op.seq), row_of(op)
            while not conn.execute(_INSERT, (number, *row)).rowcount:
                number += 1
    return number


def pages(spool: Spool, theme: str | None = None) -> Iterator[list[Operation]]:
    """Yield the kept writes of one theme or of all, oldest first, a page at a time, since all may take much memory.

    From a file that is gone or damaged, yield what can still be read. Raises SpoolError.
    """
    after = 0
    while True:
        with spool.reading() as conn:
            chosen = "seq > :after" + ("" if theme is None else " AND theme = :theme")
            page = [op for op, _ in readable(conn, "kept", "''", chosen, PAGE, after=after, theme=theme)]
        if not page or page[-1].seq <= after:  # a damaged file may return the same rows again
            return
        yield page
        after = page[-1].seq


def forget_until(spool: Spool, last: int) -> bool:
    """Delete the kept writes up to number `last`; return True if there were any. Raises SpoolError."""
    with spool.reading() as conn:
        old = [number for (number,) in yielding_gil(conn.execute("SELECT seq FROM kept WHERE seq <= ?", (last,)))]
    for part in in_slices(old, SHORT_SLICE):
        with spool.written() as conn:
            conn.execute("DELETE FROM kept WHERE seq BETWEEN ? AND ?", (part[0], part[-1]))
    return bool(old)


def kept_bytes(spool: Spool) -> int:
    """Return the approximate number of bytes that are kept. Raises SpoolError."""
    with spool.reading() as conn:
        (size,) = conn.execute(f"SELECT coalesce(sum({_SIZE}), 0) FROM kept").fetchone()
    return int(size)


def end_of_surplus(spool: Spool, surplus: int) -> int:
    """Return the number up to which the oldest writes add up to `surplus` bytes. Raises SpoolError."""
    last = 0
    with spool.reading() as conn:
        for number, size in conn.execute(f"SELECT seq, {_SIZE} FROM kept ORDER BY seq"):
            last, surplus = number, surplus - size
            if surplus <= 0:
                break
    return last


def change_kept(spool: Spool, theme: str, spare: Spare) -> int:
    """Reduce each acknowledged write of `theme` to what `spare` returns; return how many changed. Raises SpoolError."""
    count = 0
    for page in pages(spool, theme):
        changed = [(op, left) for op in page if (left := spare(op)) is not op]
        for part in in_slices(changed, SHORT_SLICE):
            with spool.written() as conn:
                conn.executemany("DELETE FROM kept WHERE seq = ?", [(op.seq,) for op, left in part if left is None])
                conn.executemany(
                    "UPDATE kept SET kind = ?, payload = ? WHERE seq = ?",
                    [(left.kind, encode(left), left.seq) for _, left in part if left],
                )
        count += len(changed)
    return count


def without_texts(op: Operation, gone: Callable[[str], bool]) -> Operation | None:
    """Return `op` without the texts that are gone, None if nothing is left; what it removed or replaced stays so."""
    if not any(map(gone, op.texts())):
        return op
    match op:
        case ReplaceMemory():
            return replace(op.without_text(), metadata={})  # which may hold the text as well
        case ReconcileFile():
            return replace(op, contents=tuple(text for text in op.contents if not gone(text)))
        case StoreTurn():
            left = tuple(message for message in op.messages if not gone(message.content))
            return replace(op, messages=left) if left else None
    return None
