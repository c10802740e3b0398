"""What this process has accepted: on disk, and while the disk takes nothing, in memory."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from ..domain.errors import SpoolError, SpoolFull
from ..domain.models import Operation
from .memory_queue import MemoryQueue, Queue
from .spool import Spool
from .spool_files import SpoolDirectory

logger = logging.getLogger(__name__)

_MOVED_AT_ONCE = 64


class OwnQueues:
    """The spool of this process and its stand-in, which holds what came after everything in the spool."""

    def __init__(self, directory: SpoolDirectory, memory_max_items: int) -> None:
        self._directory = directory
        self._memory = MemoryQueue(memory_max_items)
        self._spool: Spool | None = None
        self._pid = os.getpid()
        self._moving = threading.Lock()
        self._warned = False
        self.open()

    def open(self) -> Spool | None:
        """The spool, opened now where that failed before; None while it cannot be. For one thread at a time."""
        if self._spool is None:
            try:
                self._spool = self._directory.open_own()
            except SpoolError as exc:
                self._warn(exc)
        return self._spool

    def append(self, op: Operation) -> None:
        """Keep `op`: when this returns it is on disk, or in memory while the disk takes nothing. Raises SpoolFull."""
        # What went to memory goes to Postgres after the spool, so what follows it has to go there as well.
        if self._spool is None or self._memory.depth():
            self._memory.append(op)
            return
        try:
            self._spool.append(op)
            self._warned = False
        except SpoolFull:
            raise
        except SpoolError as exc:
            self._warn(exc)
            self._memory.append(op)

    def move_to_disk(self) -> None:
        """Put into the spool what is in memory only, as far as the disk takes it by now.

        For the thread that empties the queues, or once that can be waited for no longer: what it writes at that moment
        is written once all the same. What Postgres has refused is refused, and set aside, once more.
        """
        # A child's copy of the memory is the parent's to bring home.
        if self._memory.empty() or self._pid != os.getpid():
            return
        with self._moving:
            moved = 0
            if (spool := self.open()) is None:
                return
            try:
                while ops := self._memory.take(_MOVED_AT_ONCE) or [item.operation for item in self._memory.aside()]:
                    for op in ops:
                        spool.append(op)
                        self._memory.ack([op])
                        moved += 1
            except SpoolError:  # that was told when it began
                return
        if moved and self._memory.empty():
            self._warned = False
            logger.info("hermes-pgvector: the writes that were in memory only are on disk now")

    def queues(self) -> list[Queue]:
        """In the order in which they are to be emptied."""
        return [*self.spools(), self._memory]

    def spools(self) -> list[Spool]:
        """The file, where there is one."""
        return [] if self._spool is None else [self._spool]

    def in_memory(self) -> int:
        """How many operations wait in memory only."""
        return self._memory.depth()

    def depth(self) -> int:
        """How many operations wait. What is being moved counts twice rather than not at all."""
        return self._memory.depth() + sum(spool.depth() for spool in self.spools())

    def checkpoint(self) -> None:
        """Have the log of the file written into it."""
        for spool in self.spools():
            spool.checkpoint()

    def publish(self, report: Callable[[], Mapping[str, Any]]) -> None:
        """Leave the counters in the file, where other processes, the operator's among them, can read them."""
        for spool in self.spools():
            with contextlib.suppress(SpoolError):  # neither a full disk nor a damaged file holds a write up
                spool.publish(report())

    def _warn(self, exc: SpoolError) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("hermes-pgvector: writes are kept in memory only and are lost with this process: %s", exc)
