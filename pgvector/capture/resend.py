"""Recently acknowledged operations, kept a while longer: a server that takes over may lack the latest of them."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from uuid import UUID

from ..domain.errors import SpoolError
from ..domain.gil import SHORT_SLICE, in_slices
from ..domain.operations import ForgetMemories, MalformedWrite, MemoryOperation, Operation
from ..domain.text import digest
from ..store.backend import Backend
from .kept import (
    PAGE,
    Spare,
    change_kept,
    end_of_surplus,
    forget_until,
    keep,
    kept_bytes,
    pages,
    size_of,
    without_texts,
)
from .memory_queue import MemoryQueue
from .spool import Spool
from .spool_directory import Destination

logger = logging.getLogger(__name__)

_MOST_BYTES = 64_000_000
_LOOK_AGAIN_S = 1.0  # pause after a check in which a file could not be read


class ResendQueue(MemoryQueue):
    """Acknowledged writes that a server lacks, in the order in which they were first acknowledged.

    They are sent before all other writes, and a full disk does not hold them up. Nothing is lost with the process: what
    waits here is also kept in a spool file, and the next process that reads it queries the server again.
    """

    def __init__(self, current: Callable[[], Spool | None]) -> None:
        """Create an empty queue; `current` returns the file for operations that Postgres rejects this time."""
        super().__init__()
        self._current = current

    def put(self, ops: Sequence[Operation]) -> int:
        """Add the operations that are not in the queue yet; return how many."""
        with self._lock:
            fresh = [op for op in ops if op.op_id not in self._waiting and op.op_id not in self._rejected]
            again = [*self._waiting.values(), *(replace(op, again=True) for op in fresh)]
            self._waiting = {op.op_id: op for op in sorted(again, key=lambda op: op.seq)}
        return len(fresh)

    def oldest(self) -> int | None:
        """Return the number of the first operation, None if the queue is empty. For the thread that empties it."""
        return next((op.seq for op in self._waiting.values()), None)

    def __contains__(self, op: Operation) -> bool:
        return op.op_id in self._waiting

    def reject(self, op: Operation, error: str) -> None:
        """Set `op` aside in this process's file, or in memory while the disk cannot be written."""
        super().reject(op, error)
        self.move_rejected()

    def move_rejected(self) -> None:
        """Move rejected operations that are only in memory to the file."""
        with contextlib.suppress(SpoolError):
            while (item := next(iter(self.rejected()), None)) and (spool := self._current()) is not None:
                spool.take_in([(item.operation, item.error)], 1)
                self.ack([item.operation])


class AcknowledgedWrites:
    """The operations acknowledged within the last `keep_s` seconds, in this process's spool file.

    Used by the drain thread only. When the server or its tables have been replaced, the operations that it lacks are
    put into `resend`. Operations outlive their file: those of another file are taken over before it is released, and a
    process that ends leaves its own to the next one.
    """

    def __init__(
        self,
        backend: Backend,
        keep_s: float,
        here: Destination,
        files: Callable[[], Sequence[Spool]],
        current: Callable[[], Spool | None],
    ) -> None:
        """Set up: `files` returns all spools that may keep some, including lost ones, `current` the one to write to."""
        self._backend = backend
        self._keep_us = int(keep_s * 1e6)
        self._here = here
        self._files = files
        self._current = current
        self.resend = ResendQueue(current)
        self._server = ""
        self._look_at = 0.0
        self._began_us, self._began = time.time_ns() // 1000, time.monotonic()  # steps of the clock are ignored
        self._last = 0  # the highest number given
        self._unwritten: list[Operation] = []  # those not yet on disk, because it could not be written
        self._measured: Spool | None = None  # the file in which there are `_bytes` of them
        self._bytes = 0

    def add(self, ops: Sequence[Operation]) -> None:
        """Keep operations that Postgres has just committed; in memory while no disk can be written."""
        if not self._keep_us:
            return
        for op in ops:
            self._last = max(self._last + 1, self._now_us())
            self._unwritten.append(replace(op, seq=self._last))
        self._write()
        for forget in (op for op in ops if isinstance(op, ForgetMemories)):
            self._drop_removed(forget)

    def _now_us(self) -> int:
        return self._began_us + int((time.monotonic() - self._began) * 1e6)

    def _write(self) -> None:
        """Move the operations in memory to the file, as far as the disk can be written."""
        del self._unwritten[: self._keep(self._unwritten)]

    def _keep(self, ops: Sequence[Operation]) -> int:
        """Keep operations in the file, as far as the disk can be written; return how many."""
        kept = 0
        try:
            for part in in_slices(ops, SHORT_SLICE):
                if (spool := self._current()) is None:
                    break
                self._last = max(self._last, keep(spool, part))
                self._bytes += sum(map(size_of, part))
                kept += len(part)
        except SpoolError as exc:
            logger.debug("hermes-pgvector: %s", exc)
        return kept

    def _drop_removed(self, forget: ForgetMemories) -> None:
        spare = _without_removed(forget)
        for spool in self._files():
            with contextlib.suppress(SpoolError):
                change_kept(spool, forget.theme, spare)
        spared = [spare(op) if op.theme == forget.theme else op for op in self._unwritten]
        self._unwritten = [op for op in spared if op is not None]

    def expire(self) -> None:
        """Delete expired operations, and the oldest above the size limit, but none that are to be resent."""
        self.resend.move_rejected()
        last = self._now_us() - self._keep_us
        if (needed := self.resend.oldest()) is not None:
            last = min(last, needed - 1)
        with contextlib.suppress(SpoolError):
            if (spool := self._current()) is not None:
                self._write()
                self._forget_until(spool, last)
                if self._bytes > _MOST_BYTES and needed is None:
                    self._forget_until(spool, end_of_surplus(spool, self._bytes - _MOST_BYTES))
        self._unwritten = [op for op in self._unwritten if op.seq > last]
        while sum(map(size_of, self._unwritten)) > _MOST_BYTES:
            del self._unwritten[: len(self._unwritten) // 2 + 1]

    def _forget_until(self, spool: Spool, last: int) -> None:
        if forget_until(spool, last) or spool is not self._measured:
            self._measured, self._bytes = spool, kept_bytes(spool)

    def take_over(self, spool: Spool, *, gone: bool = False) -> bool:
        """Take over the acknowledged operations of a file that is to be released.

        Return False while the disk cannot be written; the operations of a file that is `gone` then wait in memory
        instead. Operations for another database stay in the file until they expire.
        """
        now = self._now_us()
        oldest = now - self._keep_us
        with contextlib.suppress(SpoolError):  # the file cannot be read, from the start or part of the way
            if not self._here.takes(*spool.accepted_for()):
                forget_until(spool, oldest)
                return True
            number = 0
            for page in pages(spool):
                fresh = []
                for op in page:
                    if op.seq > oldest or op in self.resend:
                        number = max(number + 1, min(op.seq, now))  # a clock may have stepped back
                        fresh.append(replace(op, seq=number))
                if gone:
                    self._unwritten = sorted([*self._unwritten, *fresh], key=lambda op: op.seq)
                    self._write()
                elif self._keep(fresh) < len(fresh):
                    return False
                with contextlib.suppress(SpoolError):  # the file is gone
                    forget_until(spool, page[-1].seq)
                for written in filter(None, (self._current(), spool)):
                    written.checkpoint()
        return True

    def look(self) -> None:
        """When the server has changed, queue the operations that it lacks for resending. Raises HermesPgvectorError."""
        server = self._backend.server
        if not server or server == self._server or time.monotonic() < self._look_at:
            return
        if self._server and not self._look_into_files():
            self._look_at = time.monotonic() + _LOOK_AGAIN_S
            return
        self._server = server

    def _look_into_files(self) -> bool:
        """Queue all kept operations that the server lacks for resending; return False if a file cannot be read now."""
        lacking, all_read = self._lacking([self._unwritten]), True
        for spool in self._files():
            try:
                if self._here.takes(*spool.accepted_for()):
                    lacking += self._lacking(pages(spool))
            except SpoolError as exc:
                logger.debug("hermes-pgvector: %s", exc)
                all_read = False
        if sent := self._send_again(lacking):
            logger.warning(
                "hermes-pgvector: the server of Postgres is another one, or was set back, and lacks %d "
                "acknowledged writes; they are sent again. What a command deleted or changed lately may have to be "
                "deleted or changed again",
                sent,
            )
        return all_read

    def inherit(self, spool: Spool) -> bool:
        """Queue what the server lacks of a dead process's kept operations for resending, and take all of them over.

        Return False while the disk cannot be written. Raises HermesPgvectorError.
        """
        if self._here.takes(*spool.accepted_for()):
            self._send_again(self._lacking(pages(spool)))
        return self.take_over(spool)

    def _lacking(self, kept: Iterable[Sequence[Operation]]) -> list[Operation]:
        """Return the operations that the server lacks. Raises HermesPgvectorError."""
        lacking: list[Operation] = []
        for page in kept:
            for part in in_slices([op for op in page if not isinstance(op, MalformedWrite)], PAGE):
                ids = self._backend.lacking(part)
                lacking += [op for op in part if op.op_id in ids]
        return lacking

    def _send_again(self, lacking: Sequence[Operation]) -> int:
        """Queue operations for resending; return how many were added."""
        now = self._now_us()  # nothing is taken over under a higher number, so `expire` keeps it until it is resent
        once: dict[UUID, Operation] = {}  # a resent operation is kept twice, and its first position is the right one
        for op in sorted(lacking, key=lambda op: op.seq):
            once.setdefault(op.op_id, replace(op, seq=min(op.seq, now)))
        return self.resend.put([*once.values()])


def _without_removed(forget: ForgetMemories) -> Spare:
    """Return a function that removes from an operation the texts that `forget` names by target and digest."""
    gone = set(forget.removals)

    def spare(op: Operation) -> Operation | None:
        if not isinstance(op, MemoryOperation):
            return op
        target = op.target
        return without_texts(op, lambda text: (target, digest(text).hex()) in gone)

    return spare
