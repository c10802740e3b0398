"""What Postgres has acknowledged, kept a while longer: a server that takes over may lack the last of it."""

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
_LOOK_AGAIN_S = 1.0  # after a look for which a file could not be read


class ResendQueue(MemoryQueue):
    """Acknowledged writes that a server lacks, in the order in which they were acknowledged first.

    They go before all others, and a full disk does not hold them up. Nothing is lost with the process: what waits here
    is kept in a spool file as well, and whoever reads that next asks the server anew.
    """

    def __init__(self, current: Callable[[], Spool | None]) -> None:
        """`current` returns the file that takes what Postgres refuses this time."""
        super().__init__()
        self._current = current

    def put(self, ops: Sequence[Operation]) -> int:
        """Add those that are not here yet; return how many."""
        with self._lock:
            fresh = [op for op in ops if op.op_id not in self._waiting and op.op_id not in self._rejected]
            again = [*self._waiting.values(), *(replace(op, again=True) for op in fresh)]
            self._waiting = {op.op_id: op for op in sorted(again, key=lambda op: op.seq)}
        return len(fresh)

    def oldest(self) -> int | None:
        """Return the number of the first one, None where there is none. For the thread that empties it."""
        return next((op.seq for op in self._waiting.values()), None)

    def __contains__(self, op: Operation) -> bool:
        return op.op_id in self._waiting

    def reject(self, op: Operation, error: str) -> None:
        """Put `op` aside in the file of this process; while the disk takes nothing, only for its life."""
        super().reject(op, error)
        self.move_rejected()

    def move_rejected(self) -> None:
        """Put aside in the file what was rejected and no disk took before."""
        with contextlib.suppress(SpoolError):
            while (item := next(iter(self.rejected()), None)) and (spool := self._current()) is not None:
                spool.take_in([(item.operation, item.error)], 1)
                self.ack([item.operation])


class AcknowledgedWrites:
    """Acknowledged operations of the last `keep_s`, in the file of this process. Used by the drain thread only.

    Those that the server lacks wait in `resend` when it is another one than before, or its tables are. They outlive
    the file: what another one keeps is taken over before its end, and a process that ends leaves its own to the next
    one.
    """

    def __init__(
        self,
        backend: Backend,
        keep_s: float,
        here: Destination,
        files: Callable[[], Sequence[Spool]],
        current: Callable[[], Spool | None],
    ) -> None:
        """`files` returns all that may keep some, also those that are gone; `current` what it writes to."""
        self._backend = backend
        self._keep_us = int(keep_s * 1e6)
        self._here = here
        self._files = files
        self._current = current
        self.resend = ResendQueue(current)
        self._server = ""
        self._look_at = 0.0
        self._began_us, self._began = time.time_ns() // 1000, time.monotonic()  # a clock that steps is not followed
        self._last = 0  # number
        self._unwritten: list[Operation] = []  # those that no disk took
        self._measured: Spool | None = None  # the file in which there are `_bytes` of them
        self._bytes = 0

    def add(self, ops: Sequence[Operation]) -> None:
        """Keep what Postgres has committed just now; in memory while no disk takes it."""
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
        """Move what is in memory to the file, as far as the disk takes it."""
        del self._unwritten[: self._keep(self._unwritten)]

    def _keep(self, ops: Sequence[Operation]) -> int:
        """Keep them in the file, as far as the disk takes them; return how many."""
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
        """Forget what is old enough, and the oldest of too much; not what is to be sent again."""
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
        """Keep what another file keeps, which is to be let go of; False while the disk does not take it.

        What belongs to another database stays in the file until it is old enough. What a file that is gone keeps waits
        in memory for the disk instead.
        """
        now = self._now_us()
        oldest = now - self._keep_us
        with contextlib.suppress(SpoolError):  # it cannot be read, or has become so
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
                with contextlib.suppress(SpoolError):  # it is gone
                    forget_until(spool, page[-1].seq)
                for written in filter(None, (self._current(), spool)):
                    written.checkpoint()
        return True

    def look(self) -> None:
        """Have what the server lacks be sent again, once it is another one. Raises HermesPgvectorError."""
        server = self._backend.server
        if not server or server == self._server or time.monotonic() < self._look_at:
            return
        if self._server and not self._look_into_files():
            self._look_at = time.monotonic() + _LOOK_AGAIN_S
            return
        self._server = server

    def _look_into_files(self) -> bool:
        """Have what the server lacks of what is kept anywhere be sent again; False where a file cannot be read now."""
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
        """Have what a dead process's file keeps be sent again, or kept on; False while the disk does not take it.

        Raises HermesPgvectorError.
        """
        if self._here.takes(*spool.accepted_for()):
            self._send_again(self._lacking(pages(spool)))
        return self.take_over(spool)

    def _lacking(self, kept: Iterable[Sequence[Operation]]) -> list[Operation]:
        """Return those that the server lacks. Raises HermesPgvectorError."""
        lacking: list[Operation] = []
        for page in kept:
            for part in in_slices([op for op in page if not isinstance(op, MalformedWrite)], PAGE):
                ids = self._backend.lacking(part)
                lacking += [op for op in part if op.op_id in ids]
        return lacking

    def _send_again(self, lacking: Sequence[Operation]) -> int:
        """Have them wait to be sent again; return how many."""
        now = self._now_us()  # beyond which nothing is numbered that was taken over: it is kept until it is sent
        once: dict[UUID, Operation] = {}  # what was sent again is kept twice: its first place is the right one
        for op in sorted(lacking, key=lambda op: op.seq):
            once.setdefault(op.op_id, replace(op, seq=min(op.seq, now)))
        return self.resend.put([*once.values()])


def _without_removed(forget: ForgetMemories) -> Spare:
    """Leave nothing of the texts that `forget` names, by target and digest."""
    gone = set(forget.removals)

    def spare(op: Operation) -> Operation | None:
        if not isinstance(op, MemoryOperation):
            return op
        target = op.target
        return without_texts(op, lambda text: (target, digest(text).hex()) in gone)

    return spare
