"""One batch into Postgres: in one transaction, or its themes shared out among several at once."""

from __future__ import annotations

import queue
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..domain.errors import HermesPgvectorError, OperationRejected, StoreUnavailable
from ..domain.operations import Operation, TurnOperation
from ..store.backend import Backend
from ..store.memories import Embeddings

# What no repetition mends: Postgres refuses the content, or the operation has another shape than we know.
POISON = (OperationRejected, LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
_MOST = 4  # transactions at once: Postgres enters rows into the indexes with one core each
_WORTH_SHARING = 8  # operations; to begin and to commit costs about as much as to insert two turns


@dataclass(eq=False)
class Part:
    """Operations that share a transaction; once applied, what happened, counted, or why nothing did."""

    ops: list[Operation]
    counts: Counter[str] = field(default_factory=Counter)
    error: Exception | None = field(default_factory=lambda: StoreUnavailable("a batch was not written to its end"))


def lanes_of(pool_max_size: int) -> int:
    """How many transactions the drain has open at once: the other half of the connections is for recall."""
    return max(1, min(_MOST, pool_max_size // 2))


def share_out(ops: Sequence[Operation], lanes: int) -> list[Part]:
    """Cut a batch into at most `lanes` parts of turns, about equally long, and one of memories; each is in order.

    The turns of a theme stay together, with what undoes them. So do the memories of all themes: by a host's file one
    may reach another's.
    """
    if lanes == 1 or len(ops) < _WORTH_SHARING:
        return [Part(list(ops))]
    sizes = Counter(op.theme for op in ops if isinstance(op, TurnOperation))
    loads, lane_of = [0] * lanes, {}
    for theme, size in sizes.most_common():
        lane_of[theme] = lane = loads.index(min(loads))
        loads[lane] += size
    parts: list[list[Operation]] = [[] for _ in range(lanes + 1)]
    for op in ops:
        parts[lane_of[op.theme] if isinstance(op, TurnOperation) else lanes].append(op)
    return [Part(part) for part in parts if part]


def apply_parts(
    backend: Backend, parts: Sequence[Part], embeddings: Embeddings, lanes: int, timeout_s: float
) -> Iterator[Part]:
    """Apply each part in a transaction of its own, `lanes` at the same time; gives each when it is through."""
    if len(parts) == 1:
        _apply(backend, parts[0], embeddings, timeout_s)
        yield parts[0]
        return
    waiting = deque(parts)
    through: queue.SimpleQueue[Part | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            while waiting:
                part = waiting.popleft()
                _apply(backend, part, embeddings, timeout_s)
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


def _apply(backend: Backend, part: Part, embeddings: Embeddings, timeout_s: float) -> None:
    try:
        part.counts, part.error = backend.apply(part.ops, embeddings, timeout_s), None
    except (HermesPgvectorError, *POISON) as exc:
        part.error = exc
