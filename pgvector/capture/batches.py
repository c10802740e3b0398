"""Batches of writes to Postgres: how large, in which transactions, and which write is to blame for a failure."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ..domain.errors import (
    DeadlineExceeded,
    HermesPgvectorError,
    OperationRejected,
    StatementCancelled,
    StoreUnavailable,
    StoreUnsettled,
)
from ..domain.operations import Operation, TurnOperation
from ..store.backend import Backend
from ..store.memories import Embeddings

# Operations, and the timeout in seconds. If this process is stopped meanwhile, others wait that long for the theme's
# lock. The last is for one long text that a small machine reads for minutes: all later writes wait until it is stored.
_SIZES = ((64, 8.0), (8, 8.0), (1, 8.0), (1, 30.0), (1, 300.0))
_AMPLE = 8  # a batch that took less than 1/_AMPLE of its timeout leaves room for longer ones
BATCH_SIZE = _SIZES[0][0]


class BatchSize:
    """The size of batches: smaller after one that missed its timeout, larger when there is time to spare."""

    def __init__(self) -> None:
        self._level = 0

    @property
    def ops(self) -> int:
        """Return how many operations a batch holds at most."""
        return _SIZES[self._level][0]

    @property
    def timeout_s(self) -> float:
        """Return how long a transaction may take, in seconds."""
        return _SIZES[self._level][1]

    @property
    def is_last(self) -> bool:
        """Return whether a batch that misses this timeout gets no longer one."""
        return self._level == len(_SIZES) - 1

    def note(self, took_s: float) -> None:
        """Note that a batch was written in `took_s` seconds."""
        if took_s < self.timeout_s / _AMPLE:
            self._level = max(0, self._level - 1)

    def failed(self, exc: Exception) -> None:
        """Note that a batch was not written."""
        if isinstance(exc, DeadlineExceeded):
            self._level = min(len(_SIZES) - 1, self._level + 1)


# Errors that no retry can fix: Postgres rejects the content, or the operation has an unknown shape.
REJECTIONS = (OperationRejected, LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
_MOST = 4  # transactions at once: Postgres uses one core for each to update the indexes
_WORTH_SHARING = 8  # operations; beginning and committing a transaction costs about as much as inserting two turns


@dataclass(eq=False)
class SubBatch:
    """Operations that share a transaction; once applied, the counts of what happened, or the error."""

    ops: list[Operation]
    counts: Counter[str] = field(default_factory=Counter)
    error: Exception | None = field(default_factory=lambda: StoreUnavailable("a batch was not written completely"))


def lanes_of(pool_max_size: int) -> int:
    """Return how many transactions the drain thread has open at once: half of the connections are left for recall."""
    return max(1, min(_MOST, pool_max_size // 2))


def split(ops: Sequence[Operation], lanes: int) -> list[SubBatch]:
    """Split a batch into at most `lanes` parts of turns, about equally long, and one of memories; each is in order.

    The turns of a theme stay together, with the operations that undo them. So do the memories of all themes: through a
    host's file, an operation of one theme may affect another's memories.
    """
    if lanes == 1 or len(ops) < _WORTH_SHARING:
        return [SubBatch(list(ops))]
    lane_of = _lanes_of_themes(ops, lanes)
    parts: list[list[Operation]] = [[] for _ in range(lanes + 1)]
    for op in ops:
        parts[lane_of[op.theme] if isinstance(op, TurnOperation) else lanes].append(op)
    return [SubBatch(part) for part in parts if part]


def _lanes_of_themes(ops: Sequence[Operation], lanes: int) -> dict[str, int]:
    """Return the lane of each theme's turns, chosen so that the lanes are about equally loaded."""
    sizes = Counter(op.theme for op in ops if isinstance(op, TurnOperation))
    loads, lane_of = [0] * lanes, {}
    for theme, size in sizes.most_common():
        lane_of[theme] = lane = loads.index(min(loads))
        loads[lane] += size
    return lane_of


def apply_batches(
    backend: Backend, parts: Sequence[SubBatch], embeddings: Embeddings, lanes: int, timeout_s: float
) -> Iterator[SubBatch]:
    """Apply each part in a transaction of its own, `lanes` at the same time; yield each part when it is done.

    No part is written once one of them has found another server: what that server lacks goes first.
    """
    server = backend.server
    if len(parts) == 1:
        _apply(backend, parts[0], embeddings, timeout_s, server)
        yield parts[0]
        return
    waiting = deque(parts)
    through: queue.SimpleQueue[SubBatch | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            while waiting:
                part = waiting.popleft()
                _apply(backend, part, embeddings, timeout_s, server)
                through.put(part)
        except IndexError:  # another lane took the last one
            pass
        finally:
            through.put(None)

    at_work = min(lanes, len(parts))
    for _ in range(at_work):
        try:
            threading.Thread(target=run, name="hermes-pgvector-lane", daemon=True).start()
        except RuntimeError:  # an interpreter that is ending starts no thread
            run()
    left = list(parts)
    while at_work:
        done = through.get()
        if done is None:
            at_work -= 1
        else:
            left.remove(done)
            yield done
    yield from left  # the parts of a lane that ended unexpectedly


def _apply(backend: Backend, part: SubBatch, embeddings: Embeddings, timeout_s: float, server: str) -> None:
    try:
        part.counts, part.error = backend.apply(part.ops, embeddings, timeout_s, server), None
    except (HermesPgvectorError, *REJECTIONS) as exc:
        part.error = exc


PATIENCE_S = 120.0  # tables that are being recreated or restored are back by then
TRIES = 6
_LONG_TRIES = 3  # with the longest timeout, for which all later writes wait
_IN_DOUBT = (StoreUnsettled, StatementCancelled)


class FailedAttempts:
    """Counts failed attempts at a batch.

    The server's state is suspected first: writes are tried one by one only after `TRIES` attempts and `PATIENCE_S`, or
    after three attempts at which Postgres worked for the longest timeout.
    """

    def __init__(self) -> None:
        self._since = 0.0
        self._tries = 0
        self._long_tries = 0

    def reset(self) -> None:
        """Note that a batch was written completely."""
        self._tries = self._long_tries = 0

    def suspect(self, trouble: Exception, *, longest: bool) -> bool:
        """Note a failed attempt, with the `longest` timeout or not; return True if each write is to be tried alone."""
        if isinstance(trouble, StatementCancelled):
            self._long_tries += longest
            return self._long_tries >= _LONG_TRIES
        if not isinstance(trouble, StoreUnsettled):
            return False
        if not self._tries:
            self._since = time.monotonic()
        self._tries += 1
        return self._tries >= TRIES and time.monotonic() - self._since >= PATIENCE_S


def write_one_by_one(
    ops: Iterable[Operation],
    kinds_passed: Iterable[str],
    write: Callable[[Operation, tuple[type[Exception], ...]], None],
) -> None:
    """Write each operation alone; retry those whose content may be the cause, then rejecting the ones that still fail.

    Raises StoreUnsettled or StatementCancelled if no write of a kind passes: then their content is not the cause.
    """
    passed = set(kinds_passed)
    failed: list[tuple[Operation, Exception]] = []
    for op in ops:
        try:
            write(op, REJECTIONS)
            passed.add(op.kind)
        except _IN_DOUBT as exc:
            failed.append((op, exc))
            if not passed and len(failed) > _LONG_TRIES and isinstance(exc, StatementCancelled):
                raise  # a server that is slow with everything
    for op, reason in failed:
        if op.kind not in passed:
            raise reason
        write(op, (*REJECTIONS, *_IN_DOUBT))
