"""What of a spool file is in memory as well, in case somebody takes the file away."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from ..domain.operations import Operation

WINDOW_BYTES = 16_000_000


class Window:
    """The operations that a process has appended and that wait, or were set aside: at most `WINDOW_BYTES` of them.

    Not thread safe: the spool's lock is around it.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[Operation, int]] = {}
        self._aside: dict[uuid.UUID, tuple[Operation, str, int]] = {}
        self._bytes = 0

    def add(self, seq: int, op: Operation, size: int) -> None:
        """Hold `op` if there is room."""
        if self._bytes + size <= WINDOW_BYTES:
            self._bytes += size
            self._waiting[seq] = (op, size)

    def forget(self, seqs: Iterable[int]) -> None:
        """Let go of what no longer waits."""
        for seq in seqs:
            self._bytes -= self._waiting.pop(seq, (None, 0))[1]

    def set_aside(self, op: Operation, error: str) -> None:
        """Hold on to what waits no longer, and was refused."""
        held = self._waiting.pop(op.seq, None)
        if held is not None:
            self._aside[op.op_id] = (op, error, held[1])

    def forget_aside(self) -> None:
        """Let go of all that was set aside: an operator has changed that."""
        self._bytes -= sum(size for _, _, size in self._aside.values())
        self._aside.clear()

    def counts(self) -> tuple[int, int]:
        """How many operations wait, and how many were set aside."""
        return len(self._waiting), len(self._aside)

    def holds(self, seq: int) -> bool:
        """Whether this one waits."""
        return seq in self._waiting

    def waiting(self) -> list[tuple[int, Operation]]:
        """What waits, by its number in the file, oldest first."""
        return [(seq, op) for seq, (op, _) in self._waiting.items()]

    def aside(self) -> list[tuple[Operation, str]]:
        """What was set aside, with the reason, oldest first."""
        return [(op, error) for op, error, _ in self._aside.values()]
