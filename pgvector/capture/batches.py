"""A batch of writes into Postgres: how many at once, in which transactions, and which of them is to blame."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ..domain.errors import DeadlineExceeded, HermesPgvectorError, OperationRejected, StoreUnavailable, StoreUnsettled
from ..domain.operations import Operation, TurnOperation
from ..store.backend import Backend
from ..store.memories import Embeddings

# Operations, and seconds. Others wait for the theme's lock as long as that, should this process be stopped in between.
_SIZES = ((64, 8.0), (8, 8.0), (1, 8.0), (1, 30.0))
_AMPLE = 8  # a batch that took less than this part of its time leaves room for longer ones
BATCH_SIZE = _SIZES[0][0]


class BatchSize:
    """Shorter batches after one that Postgres did not take in time, longer ones when there is time to spare."""

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

    def note(self, took_s: float) -> None:
        """Note that a batch was written in that time."""
        if took_s < self.timeout_s / _AMPLE:
            self._level = max(0, self._level - 1)

    def failed(self, exc: Exception) -> None:
        """Note that one was not written."""
        if isinstance(exc, DeadlineExceeded):
            self._level = min(len(_SIZES) - 1, self._level + 1)


# What no repetition mends: Postgres refuses the content, or the operation has another shape than we know.
REJECTIONS = (OperationRejected, LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
_MOST = 4  # transactions at once: Postgres enters rows into the indexes with one core each
_WORTH_SHARING = 8  # operations; to begin and to commit costs about as much as to insert two turns


@dataclass(eq=False)
class SubBatch:
    """Operations that share a transaction; once applied, what happened, counted, or why nothing did."""

    ops: list[Operation]
    counts: Counter[str] = field(default_factory=Counter)
    error: Exception | None = field(default_factory=lambda: StoreUnavailable("a batch was not written completely"))


def lanes_of(pool_max_size: int) -> int:
    """Return how many transactions the drain has open at once: the other half of the connections is for recall."""
    return max(1, min(_MOST, pool_max_size // 2))


def split(ops: Sequence[Operation], lanes: int) -> list[SubBatch]:
    """Cut a batch into at most `lanes` parts of turns, about equally long, and one of memories; each is in order.

    The turns of a theme stay together, with what undoes them. So do the memories of all themes: by a host's file one
    may reach another's.
    """
    if lanes == 1 or len(ops) < _WORTH_SHARING:
        return [SubBatch(list(ops))]
    lane_of = _lanes_of_themes(ops, lanes)
    parts: list[list[Operation]] = [[] for _ in range(lanes + 1)]
    for op in ops:
        parts[lane_of[op.theme] if isinstance(op, TurnOperation) else lanes].append(op)
    return [SubBatch(part) for part in parts if part]


def _lanes_of_themes(ops: Sequence[Operation], lanes: int) -> dict[str, int]:
    """Return which lane takes a theme's turns, the lanes about equally loaded."""
    sizes = Counter(op.theme for op in ops if isinstance(op, TurnOperation))
    loads, lane_of = [0] * lanes, {}
    for theme, size in sizes.most_common():
        lane_of[theme] = lane = loads.index(min(loads))
        loads[lane] += size
    return lane_of


def apply_batches(
    backend: Backend, parts: Sequence[SubBatch], embeddings: Embeddings, lanes: int, timeout_s: float
) -> Iterator[SubBatch]:
    """Apply each part in a transaction of its own, `lanes` at the same time; gives each when it is through.

    None is written once one of them has found another server: what that lacks goes first.
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
    yield from left  # of a lane that came to an unexpected end


def _apply(backend: Backend, part: SubBatch, embeddings: Embeddings, timeout_s: float, server: str) -> None:
    try:
        part.counts, part.error = backend.apply(part.ops, embeddings, timeout_s, server), None
    except (HermesPgvectorError, *REJECTIONS) as exc:
        part.error = exc


PATIENCE_S = 120.0  # tables that are made anew, or restored, are there again by then
TRIES = 6


class FailedAttempts:
    """Notes failed attempts at a batch.

    The server's state is suspected first: only after `TRIES` and `PATIENCE_S` of them each write is looked at alone.
    """

    def __init__(self) -> None:
        self._since = 0.0
        self._tries = 0

    def reset(self) -> None:
        """Note that a batch was written whole."""
        self._tries = 0

    def suspect(self, trouble: Exception) -> bool:
        """Note a failed attempt; True when its writes are to be looked at one by one."""
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
    """Have `write` write what can be written; what then still fails is among the errors that it is told to reject.

    Raises StoreUnsettled when no write of a kind passes: then it is not what they hold.
    """
    passed = set(kinds_passed)
    failed: list[tuple[Operation, StoreUnsettled]] = []
    for op in ops:
        try:
            write(op, REJECTIONS)
            passed.add(op.kind)
        except StoreUnsettled as exc:
            failed.append((op, exc))
    for op, reason in failed:
        if op.kind not in passed:
            raise reason
        write(op, (*REJECTIONS, StoreUnsettled))
