"""The queues of this process, which the drain thread empties."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from ..domain.errors import SpoolBusy, SpoolError, SpoolFull, SpoolGone
from ..domain.gil import yield_gil
from ..domain.operations import Operation
from .memory_queue import MemoryQueue, StandIn
from .resend import AcknowledgedWrites
from .salvage import Salvage
from .spool import Spool
from .spool_directory import SpoolDirectory
from .spool_format import is_unopened

logger = logging.getLogger(__name__)

Queue: TypeAlias = Spool | MemoryQueue  # what the drain thread empties
_MOVED_AT_ONCE = 64
_FILES_MOST = 16  # per process: a program that locks more of them than that cannot be avoided
_ATTEMPTS = 5  # of one write to find a file that can be written
_SPARED_S = 30.0  # how long a folder that could not be written is left alone
_HOOK_MOVES_S = 0.01  # how long a hook spends on moving the operations of a lost file; the next caller goes on


class OwnQueues:
    """The spools of this process, the last of which takes new writes, and their stand-in in memory.

    Usually there is one spool. Another one is started beside it while it cannot be used: another program has locked it,
    its disk cannot be written, or it was deleted or damaged. The operations of older spools go to Postgres first.
    """

    def __init__(self, directory: SpoolDirectory, memory_max_bytes: int) -> None:
        self._directory = directory
        self._memory = StandIn(memory_max_bytes)
        self._older: list[Spool] = []
        self._moves: list[Salvage] = []
        self._moved: list[Spool] = []  # lost files whose waiting operations are all in new ones
        self._spared: dict[Path, float] = {}  # folders that could not be written, and until when to leave them alone
        self._spool: Spool | None = None
        self._pid = os.getpid()
        self._moving = threading.Lock()
        self._rescuing = threading.Lock()  # held while operations of a lost file are moved
        self._changing = threading.RLock()  # guards the set of files
        self._warned = False
        self.lost = 0  # accepted operations that are no longer in any file or in memory
        self.open()

    def open(self) -> Spool | None:
        """Return the current spool, opening it now if that failed before; None while it cannot be opened."""
        with self._changing:
            if self._spool is None:
                self._spool = self._begun()
            return self._spool

    def _begun(self, instead_of: Spool | None = None) -> Spool | None:
        """Return a new file; log a warning and return None if no disk can be written."""
        try:
            return self._begin(instead_of)
        except SpoolError as exc:
            self._warn(exc)
            return None

    def _begin(self, instead_of: Spool | None = None) -> Spool:
        now = time.monotonic()
        self._spared = {folder: until for folder, until in self._spared.items() if until > now}
        return self._directory.open_own(
            taken_bytes=sum(spool.size_bytes for spool in (*self.spools(), *(move.source for move in self._moves))),
            spare=self._spared.keys(),
            instead_of=None if instead_of is None else instead_of.path,
        )

    def append(self, op: Operation) -> None:
        """Store `op`: once this returns, it is on disk, or in memory if no disk can be written. Raises SpoolFull."""
        if self._moves:
            self._go_on_moving(in_hook=True)
        # Operations in memory go to Postgres after those in the spool, so later ones have to go to memory as well.
        for _ in range(_ATTEMPTS):
            if (spool := self._spool) is None or self._memory.depth:
                break
            try:
                spool.append(op)
                self._warned = False
                return
            except SpoolFull:
                raise
            except SpoolError as exc:
                if not self._leave_behind(spool, exc):
                    self._warn(exc)
                    break
        self._memory.append(op)

    def _leave_behind(self, spool: Spool, exc: SpoolError) -> bool:
        """Start a new file beside one that cannot be used; return False if none can be created."""
        with self._changing:
            if spool is not self._spool:  # another thread was first
                return self._spool is not None
            if isinstance(exc, SpoolGone):
                return self.rescue(spool, exc)
            if not isinstance(exc, SpoolBusy):
                self._spared[spool.path.parent] = time.monotonic() + _SPARED_S
            if len(self._older) >= _FILES_MOST:
                return False
            try:
                self._spool = self._begin()
            except SpoolError:
                return False
            self._older.append(spool)
        logger.warning("hermes-pgvector: writes go to another file of the spool, %s: %s", self._spool.path, exc)
        return True

    def rescue(self, gone: Spool, exc: SpoolGone) -> bool:
        """Start moving what can be recovered from a file of this process that was deleted, cut or overwritten.

        Return False if that cannot be done now.
        """
        with self._changing:
            if gone not in self.spools():  # another thread was first
                return True
            if (into := self.write_anew(gone, exc)) is None:
                return False
            if gone is self._spool:  # new writes go to a file of their own, emptied after the recovered operations
                fresh = self._begun()
                self._older.append(into)
                self._spool = fresh
            else:
                self._older[self._older.index(gone)] = into
        self._go_on_moving(in_hook=True)
        return True

    def write_anew(self, gone: Spool, exc: SpoolGone) -> Spool | None:
        """Return a new file, into which the operations of `gone` will be moved; None if none can be created now."""
        with self._changing:
            if (into := self._begun(gone)) is None:
                return None
            if not self.moves_into(gone):
                self._moves.append(Salvage(gone, into, exc))
                return into
            with self._rescuing:  # what was still to be moved into `gone` comes after what it holds already
                unfinished = self.moves_into(gone)
                for move in unfinished:
                    move.into = into
                at = self._moves.index(unfinished[0]) if unfinished else len(self._moves)
                self._moves.insert(at, Salvage(gone, into, exc))
            return into

    def moves_into(self, spool: Spool) -> list[Salvage]:
        """Return the unfinished moves into a file."""
        return [move for move in list(self._moves) if move.into is spool]

    def _go_on_moving(self, *, in_hook: bool = False) -> None:
        """Move operations of lost files to new ones for a moment; the next caller does the rest."""
        if not self._rescuing.acquire(blocking=not in_hook):  # another thread is doing it
            return
        try:
            while self._moves and (move := self._moves[0]).go_on(_HOOK_MOVES_S, may_read=not in_hook):
                self._note_moved(move)
                self._moves.remove(move)
        except SpoolError as exc:
            logger.debug("hermes-pgvector: %s", exc)
        finally:
            self._rescuing.release()

    def _note_moved(self, move: Salvage) -> None:
        if not move.lost:
            self._directory.delete(move.source)
        self._moved.append(move.source)  # still open: reading what it keeps takes long, and a hook may wait
        self.lost += move.lost
        logger.warning("hermes-pgvector: %s; the %d writes in it are in a new file now", move.why, move.saved)
        if move.lost:
            logger.error("hermes-pgvector: %d accepted writes cannot be recovered and are lost", move.lost)

    def finish_moves(self) -> None:
        """Move all remaining operations of lost files to new ones, without holding up a hook."""
        before = None
        while self._moves and before != (before := (len(self._moves), self._moves[0].left())):
            self._go_on_moving()
            yield_gil()

    def look_after(self, kept: AcknowledgedWrites, *, at_end: bool = False) -> None:
        """Check that the files are intact, and release those no longer needed; `kept` takes over what they keep.

        `at_end`: this is the last chance to save what only memory holds of a damaged one.
        """
        for spool in self.spools():
            if (gone := found_gone(spool, at_end=at_end)) is not None:
                self.rescue(spool, gone)
        self.finish_moves()
        self.let_go_of_moved(kept)
        with self._changing:
            older = list(self._older) if not self._moves else []
        for spool in older:  # without the lock: taking over what a file keeps takes long, and a hook may wait
            with contextlib.suppress(SpoolError):
                spool.recount()
                if not spool.depth and not spool.rejected_count and kept.take_over(spool):
                    with self._changing:
                        self._older.remove(spool)
                    self._directory.discard(spool)
        with self._changing:
            self._return_home()

    def let_go_of_moved(self, kept: AcknowledgedWrites) -> None:
        """Release lost files whose writes are all in new ones."""
        while self._moved:
            kept.take_over(self._moved[0], gone=True)
            self._directory.let_go(self._moved.pop(0))

    def _return_home(self) -> None:
        """Start a new file in the home once everything written elsewhere is in Postgres."""
        spool = self._spool
        if spool is None or self._directory.is_preferred(spool) or spool.depth or self._older:
            return
        if self._spared.get(self._directory.folder, 0.0) > time.monotonic():
            return
        with contextlib.suppress(SpoolError):
            fresh = self._begin()
            if self._directory.is_preferred(fresh):
                self._older, self._spool = [spool], fresh
            else:
                self._spared[self._directory.folder] = time.monotonic() + _SPARED_S
                self._directory.discard(fresh)

    def move_to_disk(self) -> None:
        """Move operations that are only in memory to the spool, as far as the disk can be written.

        To be called by the thread that empties the queues, or once that thread can no longer be waited for: what it is
        writing at that moment is still written only once. What Postgres has rejected will be rejected once more.
        """
        # A forked child leaves its copy of the memory alone: the parent saves it.
        if self._pid != os.getpid():
            return
        self.finish_moves()
        if self._memory.empty():
            return
        with self._moving:
            if (spool := self.open()) is None:
                return
            try:
                moved = self._write_memory(spool)
            except SpoolError as exc:  # logged when it began
                if not isinstance(exc, SpoolFull):
                    self._leave_behind(spool, exc)
                return
        if moved and self._memory.empty():
            self._warned = False
            logger.info("hermes-pgvector: the writes that were in memory only are on disk now")

    def _write_memory(self, into: Spool) -> int:
        """Move the operations in memory to a file; return how many. Raises SpoolError."""
        moved = 0
        while ops := self._memory.take(_MOVED_AT_ONCE) or [item.operation for item in self._memory.rejected()]:
            for op in ops:
                into.append(op)
                self._memory.ack([op])
            moved += len(ops)
        return moved

    def label(self) -> None:
        """Record in the files the database that their writes are for, once it is known."""
        for spool in self.spools():
            with contextlib.suppress(SpoolError):
                spool.label(self._directory.destination.place, self._directory.destination.database)

    def queues(self) -> list[Queue]:
        """Return all queues, in the order in which they are to be emptied."""
        with self._changing:
            found: list[Queue] = []
            for spool in self.spools():
                found += [spool, *self.moves_into(spool)]
            return [*found, self._memory]

    def spools(self) -> list[Spool]:
        """Return the open files, in the order in which they are to be emptied."""
        with self._changing:
            return [*self._older, *([] if self._spool is None else [self._spool])]

    def keeping(self) -> list[Spool]:
        """Return the files that may keep acknowledged operations, including lost ones that are not released yet."""
        # In the order in which a hook moves a file from list to list, so that none is missed in between.
        found = [*self.spools(), *(move.source for move in list(self._moves)), *self._moved]
        return list(dict.fromkeys(found))

    def in_memory(self) -> int:
        """Return how many operations wait in memory only."""
        return self._memory.depth

    def depth(self) -> int:
        """Return how many operations wait. One that is being moved may be counted twice, but is never left out."""
        with self._changing:  # otherwise a file may be found gone in between, and its operations be in neither sum
            moved = sum(move.depth for move in list(self._moves))  # first, because afterwards they are in a file
            return moved + self._memory.depth + sum(spool.depth for spool in self.spools())

    def let_go(self) -> None:
        """Release all files, and delete the empty ones. A later write begins another, to be released as well."""
        for spool in self.spools():
            self._directory.discard(spool)

    def checkpoint(self) -> None:
        """Checkpoint the write-ahead logs of the files."""
        for spool in self.spools():
            spool.checkpoint()

    def publish(self, report: Callable[[], Mapping[str, Any]]) -> None:
        """Store the counters in the current file, where other processes, such as the operator's, can read them."""
        for spool in self.spools()[-1:]:
            with contextlib.suppress(SpoolError):  # neither a full disk nor a damaged file holds a write up
                spool.publish(report())

    def tell_why_they_wait(self, report: Callable[[], Mapping[str, Any]]) -> None:
        """Store the counters, with the last error, if writes stay in the files. Not once these are released."""
        if self.depth():
            self.publish(report)

    def _warn(self, exc: SpoolError) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("hermes-pgvector: writes are kept in memory only and are lost with this process: %s", exc)


def found_gone(spool: Spool, *, at_end: bool = False) -> SpoolGone | None:
    """Return the error if the files of a spool were deleted, cut or overwritten; None if they are intact or locked.

    `at_end`, also if they cannot be read for another reason: nobody else has what is in memory. What a file holds that
    cannot be opened, as when the process has too many files open, stays in it.
    """
    try:
        spool.check(at_end=at_end)
    except SpoolGone as exc:
        return exc
    except SpoolError as exc:
        if at_end and not isinstance(exc, SpoolBusy) and not is_unopened(exc):
            return SpoolGone(str(exc))
    return None
