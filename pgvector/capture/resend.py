"""What Postgres has acknowledged, kept a while longer: a server that takes over may lack the last of it."""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..domain.errors import SpoolError
from ..domain.gil import in_slices
from ..domain.operations import (
    ForgetMemories,
    MemoryOperation,
    Operation,
    ReconcileFile,
    RemoveMemory,
    ReplaceMemory,
    StoreTurn,
    encode,
)
from ..domain.text import digest
from ..store.backend import Backend
from .spool import Spool
from .spool_directory import Destination
from .spool_format import COLUMNS, row_of

logger = logging.getLogger(__name__)

_MOST_BYTES = 64_000_000
_SLICE = 16  # operations written while a hook may have to wait
_ASKED_AT_ONCE = 1000


class AcknowledgedWrites:
    """Acknowledged operations of the last `keep_s`, in the file of this process. Used by the drain thread only.

    They are sent again when the server is another one than before, or its tables are; what it has is skipped.
    """

    def __init__(self, backend: Backend, keep_s: float) -> None:
        self._backend = backend
        self._keep_s = keep_s
        self._server = ""
        self._spool: Spool | None = None
        self._spans: deque[tuple[float, int, int]] = deque()  # until when, up to which number, how many bytes
        self._bytes = 0

    def add(self, spool: Spool | None, ops: Sequence[Operation]) -> None:
        """Keep what Postgres has committed just now; where the disk does not take it, it is not kept."""
        if spool is None or not self._keep_s:
            return
        if spool is not self._spool:
            self._spool, self._bytes = spool, 0
            self._spans.clear()
        with contextlib.suppress(SpoolError):
            for part in in_slices(ops, _SLICE):
                self._put(spool, part)
        for forget in (op for op in ops if isinstance(op, ForgetMemories)):
            with contextlib.suppress(SpoolError):
                change_kept(spool, forget.theme, _without_removed(forget))

    def _put(self, spool: Spool, ops: Sequence[Operation]) -> None:
        rows = [row_of(op) for op in ops]
        size = sum(len(row[3]) + 100 for row in rows)
        with spool.written() as conn:
            conn.executemany(f"INSERT INTO kept ({COLUMNS}) VALUES (?, ?, ?, ?, ?)", rows)
            (last,) = conn.execute("SELECT max(seq) FROM kept").fetchone()
        self._spans.append((time.monotonic() + self._keep_s, last, size))
        self._bytes += size

    def expire(self) -> None:
        """Forget what is old enough, and the oldest of too much."""
        now = time.monotonic()
        with contextlib.suppress(SpoolError):
            while self._spool is not None and self._spans and (self._spans[0][0] < now or self._bytes > _MOST_BYTES):
                _, last, size = self._spans.popleft()
                self._bytes -= size
                with self._spool.written() as conn:
                    conn.execute("DELETE FROM kept WHERE seq <= ?", (last,))

    def look(self, spools: Sequence[Spool], here: Destination) -> None:
        """Send again what the server lacks, once it is another one. Raises HermesPgvectorError."""
        server = self._backend.server
        if server and server != self._server:
            if self._server:
                sent = sum(self.send_again(spool, here) for spool in spools)
                if sent:
                    logger.warning(
                        "hermes-pgvector: the server of Postgres is another one, or was set back, and lacks %d "
                        "acknowledged writes; they are sent again",
                        sent,
                    )
            self._server = server

    def send_again(self, spool: Spool, here: Destination) -> int:
        """Have those of a file that the server lacks wait again, before all others; return how many.

        None of a file whose writes are for another database. Raises HermesPgvectorError.
        """
        try:
            if not here.takes(*spool.accepted_for()):
                return 0
            ops = spool.kept()
        except SpoolError:
            return 0
        lacking: list[Operation] = []
        for part in in_slices(ops, _ASKED_AT_ONCE):
            ids = self._backend.lacking(part)
            lacking += [op for op in part if op.op_id in ids]
        if lacking:
            with spool.written() as conn:
                (lowest,) = conn.execute("SELECT min(0, coalesce(min(seq), 0)) FROM operations").fetchone()
                numbered = [replace(op, seq=lowest - len(lacking) + at, again=True) for at, op in enumerate(lacking)]
                conn.executemany(
                    f"INSERT INTO operations (seq, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
                    [(op.seq, *row_of(op)) for op in numbered],
                )
            spool.recount()
        return len(lacking)


Spare = Callable[[Operation], Operation | None]  # what is to be left of a write, None for nothing


def change_kept(spool: Spool, theme: str, spare: Spare) -> int:
    """Leave of the acknowledged writes of `theme` what `spare` leaves; returns how many changed. Raises SpoolError."""
    changed = [(op, left) for op in spool.kept() if op.theme == theme and (left := spare(op)) is not op]
    if changed:
        with spool.written() as conn:
            conn.executemany("DELETE FROM kept WHERE seq = ?", [(op.seq,) for op, left in changed if left is None])
            conn.executemany(
                "UPDATE kept SET kind = ?, payload = ? WHERE seq = ?",
                [(left.kind, encode(left), left.seq) for _, left in changed if left],
            )
    return len(changed)


def _without_removed(forget: ForgetMemories) -> Spare:
    """Leave nothing of the texts that `forget` names, by target and digest."""
    gone = set(forget.removals)

    def spare(op: Operation) -> Operation | None:
        if not isinstance(op, MemoryOperation):
            return op
        target = op.target
        return without_texts(op, lambda text: (target, digest(text).hex()) in gone)

    return spare


def without_texts(op: Operation, gone: Callable[[str], bool]) -> Operation | None:
    """Return what is left of `op` without the texts that are gone: what it ended by removing or replacing stays so."""
    if not any(map(gone, op.texts())):
        return op
    match op:
        case ReplaceMemory():
            return RemoveMemory(
                theme=op.theme, at=op.at, op_id=op.op_id, seq=op.seq, again=op.again, target=op.target,
                origin=op.origin, noted_at=op.noted_at, old_text=op.old_text,
            )  # fmt: skip
        case ReconcileFile():
            return replace(op, contents=tuple(text for text in op.contents if not gone(text)))
        case StoreTurn():
            left = tuple(message for message in op.messages if not gone(message.content))
            return replace(op, messages=left) if left else None
    return None
