"""The one drain thread of a process: spool -> embedding -> a batch in one transaction or a few -> acknowledgement."""

from __future__ import annotations

import contextlib
import functools
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..domain.errors import HermesPgvectorError, SpoolError, SpoolGone, StoreMisconfigured
from ..domain.gil import note_hook
from ..domain.measures import LastError, Latencies
from ..domain.operations import Operation
from ..store.backend import Backend
from ..store.memories import Embeddings
from .adopted_spools import AdoptedSpools
from .batches import BATCH_SIZE, REJECTIONS, BatchSize, FailedAttempts, apply_batches, split, write_one_by_one
from .document_embedding import DocumentEmbedder, PendingRows
from .housekeeping import Due, Housekeeping
from .outcomes import TOLD_EACH, Delivery, Outcomes, RejectionLog, RetryLog, log_rejected
from .queues import OwnQueues, Queue
from .resend import AcknowledgedWrites
from .spool import Spool
from .spool_directory import SpoolDirectory

logger = logging.getLogger(__name__)

LINGER_S = 0.02  # how long a batch that is not full waits for more operations
_RETRY_FIRST_S, _RETRY_MAX_S = 0.2, 10.0
_RETRY_REFUSED_S = 2.0  # when an operator has to fix something: they check at once whether it helped
_IDLE_S = 5.0  # how often an idle drain thread looks for what is left: dead spools, pending rows, a lost server
_ADOPT_S = 5.0  # how often the files of dead processes are looked for
_REPORT_S = 5.0  # how often the counters are published


class Writer:
    """Accepts operations from the hooks and brings them to Postgres, in order within a theme, each exactly once."""

    def __init__(
        self,
        *,
        directory: SpoolDirectory,
        backend: Backend,
        embedder: DocumentEmbedder,
        housekeeping: Housekeeping,
        embed_on_write: bool,
        memory_max_bytes: int,
        keep_s: float,
        lanes: int,
        latencies: Latencies,
        report: Callable[[], dict[str, Any]],
        on_stored: Callable[[Sequence[Operation]], None],
        take_over: Callable[[], bool],
    ) -> None:
        self._directory = directory
        self._backend = backend
        self._embedder = embedder
        self._embed_on_write = embed_on_write
        self._lanes = lanes
        self._housekeeping = housekeeping
        self._pending = PendingRows(backend, embedder)
        self._wake = threading.Event()
        self._outcomes = Outcomes()
        self._stopping = threading.Event()
        self._due = Due()
        self._rated = (time.monotonic(), 0)
        self.counts: Counter[str] = Counter()
        self.trouble = LastError()
        self.latencies = latencies
        self._report = report
        self._on_stored, self._take_over = on_stored, take_over
        self._own = OwnQueues(directory, memory_max_bytes)
        self._acknowledged = AcknowledgedWrites(
            backend, keep_s, directory.destination, lambda: [*self._adopted, *self._own.keeping()], self._own.open
        )
        self._adopted = AdoptedSpools(directory, self._own, self._acknowledged)
        self._rejections = RejectionLog(each=TOLD_EACH)
        self._retries = RetryLog()
        self._failures = FailedAttempts()
        self._batch_size = BatchSize()
        backend.on_down = self._wake.set
        self._starting = threading.Lock()
        self._thread = threading.Thread()  # not started

    def start(self) -> None:
        """Start the drain thread, or replace one that ended on an error; several callers at once start only one."""
        with self._starting:
            if not self._thread.is_alive() and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._run, name="hermes-pgvector-writer", daemon=True)
                with contextlib.suppress(RuntimeError):  # no thread can be started now: the next write tries again
                    self._thread.start()

    def submit(self, op: Operation) -> None:
        """Accept `op`: once this returns, it is on disk, or in memory if no disk can be written. Raises SpoolFull."""
        note_hook()
        self._own.append(op)
        if not self._wake.is_set():  # otherwise the drain thread has yet to look, and will find this as well
            self._wake.set()
        if not self._thread.is_alive():
            self.start()
            if self._stopping.is_set():
                self._own.let_go()

    def deliver(self, op: Operation, timeout_s: float) -> Delivery:
        """Submit `op` and wait until Postgres has stored or rejected it, or is known to be down, or time runs out."""
        return self._outcomes.deliver(op, self.submit, lambda: self._backend.problem is not None, timeout_s)

    def flush(self, timeout_s: float) -> bool:
        """Wait until all accepted writes are in Postgres; return False if the timeout comes first."""
        self._wake.set()
        return self._outcomes.wait_for(lambda: not self.depth(), timeout_s)

    def flush_own(self, timeout_s: float) -> int:
        """Wait until Postgres has all writes of this process or is known to be down; return how many it lacks."""
        self._wake.set()
        self._outcomes.wait_for(lambda: not self._own.depth() or self._backend.problem is not None, timeout_s)
        return self._own.depth()

    def stop(self, timeout_s: float, *, last_batch_s: float = 0.0) -> int:
        """Drain for at most `timeout_s`, then stop; return how many writes are not in Postgres. May be called twice.

        The end of the thread, which may be writing a last batch, is awaited for `last_batch_s` more.
        """
        deadline = time.monotonic() + timeout_s
        left = self.flush_own(timeout_s)
        self.write_no_more()
        if self._thread.is_alive():
            self._thread.join(max(0.0, deadline - time.monotonic()) + last_batch_s)
        self._own.move_to_disk()  # in case the thread did not get to it
        self._own.tell_why_they_wait(self._report)
        if not self._thread.is_alive():
            self._own.let_go()
        return left

    def write_no_more(self) -> None:
        """Have the drain thread end without another batch; what waits stays in the files, which it releases."""
        self._stopping.set()
        self._wake.set()

    def depth(self) -> int:
        """Return how many accepted writes are not in Postgres yet."""
        return self._acknowledged.resend.depth + self._adopted.depth() + self._own.depth()

    def rejected_count(self) -> int:
        """Return how many writes were rejected, including those of stopped processes."""
        return self._directory.rejected_count() + sum(queue.rejected_count for queue in self._queues())

    def stats(self) -> dict[str, int]:
        """Return the counters; `lost` is how many writes were lost because somebody removed or damaged their file."""
        return {
            "queue_depth": self.depth(),
            "spool_bytes": sum(queue.size_bytes for queue in self._queues()),
            "set_aside": self.rejected_count(),
            "lost": self._own.lost,
            **self.counts,
        }

    def in_memory(self) -> int:
        """Return how many accepted writes are in memory only, because no disk can be written."""
        return self._own.in_memory()

    def _queues(self) -> Iterator[Queue]:
        yield self._acknowledged.resend
        yield from self._adopted.queues()
        yield from self._own.queues()

    # -- the drain thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._drain()
        except BaseException as exc:
            logger.error(
                "hermes-pgvector: the writer stopped on an unexpected %s, accepted writes wait in the spool; the next "
                "write starts it again: %s",
                type(exc).__name__,
                exc,
            )
            raise

    def _drain(self) -> None:
        retry_s = _RETRY_FIRST_S
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                self._backend.bring_up()
                if self._directory.destination.saw(self._backend.database):
                    self._own.label()
                self._acknowledged.look()
                busy = self._step()
                retry_s = _RETRY_FIRST_S
                if not self._stopping.is_set():  # then this step may not have tried to write
                    self.trouble.over()
            except HermesPgvectorError as exc:
                self._note(exc)
                self._look_after_files()
                self._tell_counters()
                self._own.move_to_disk()
                self._own.checkpoint()
                self._stopping.wait(retry_s * random.uniform(0.7, 1.3))
                longest_s = _RETRY_REFUSED_S if isinstance(exc, StoreMisconfigured) else _RETRY_MAX_S
                retry_s = min(retry_s * 2, longest_s)
                continue
            if not busy:
                self._wake.wait(max(0.0, min(_IDLE_S, self._due.housekeeping - time.monotonic())))
                self._stopping.wait(LINGER_S)
        self._own.move_to_disk()
        self._own.look_after(self._acknowledged, at_end=True)
        self._acknowledged.expire()
        self._adopted.close()
        self._own.tell_why_they_wait(self._report)
        self._own.let_go()

    def _note(self, exc: HermesPgvectorError) -> None:
        self._outcomes.tell()
        self.counts["retries"] += 1
        self.trouble.note(exc)
        self._retries.failed(exc, lost_connection=not self._backend.is_up())

    def _note_stored(self, queue: Queue, ops: Sequence[Operation], counts: Counter[str]) -> None:
        """Acknowledge and count operations that Postgres has committed."""
        self.counts.update(counts)
        self._acknowledged.add(ops)
        self._on_stored(ops)  # before the queue is empty: who waits for that may begin a session, which reads the files
        queue.ack(ops)
        self._outcomes.note(ops, "stored")
        self.counts["operations"] += len(ops)

    def _step(self) -> bool:
        """Write one batch, or do the periodic tasks that are due; return True if there may be more to do at once."""
        now = time.monotonic()
        self._look_after_spools(now)
        if self._write_next():
            return True
        if self._adopted.let_go_of_empty():
            self._due.adopt = 0.0  # there may be more of them
        if now >= self._due.pending:
            more = self._fill_pending()
            self._due.pending = 0.0 if more else now + _IDLE_S
            if more:
                return True
        if now >= self._due.housekeeping:
            self._due.housekeeping = now + self._housekeeping.step()
        for spool in self._own.spools():
            spool.recount()
        self._outcomes.tell()
        return self._due.adopt == 0.0

    def _look_after_spools(self, now: float) -> None:
        """When due, adopt what others have left, publish the counters and check whether the server has changed."""
        if self._take_over() or now >= self._due.adopt:
            self._own.move_to_disk()
            self._look_after_files()
            self._adopted.take_more()
            self._due.adopt = now + _ADOPT_S
        if self._tell_counters():
            self._own.checkpoint()
            self._backend.refresh_space()
            self._acknowledged.look()
            self._acknowledged.expire()

    def _write_next(self) -> bool:
        """Write a batch from the first queue that has waiting operations; return False if none has any."""
        if self._stopping.is_set():
            return False
        self._own.finish_moves()
        self._own.let_go_of_moved(self._acknowledged)
        if any(map(self._write_from, (self._acknowledged.resend, *self._adopted.queues()))):
            return True
        if self._adopted.look_again():
            self._due.adopt = 0.0
            return True
        queues = self._own.queues()
        return any(self._write_from(queue, queues[:place]) for place, queue in enumerate(queues))

    def _write_from(self, queue: Queue, earlier: Sequence[Queue] = ()) -> bool:
        """Write a batch from a queue, or from the `earlier` ones if they hold older operations by now; return False if
        nothing waits in it."""
        ops, size = self._take(queue), self._batch_size.ops
        # A hook may have filled an earlier queue, and then this one, since the earlier one was found empty.
        if ops and not any(map(self._write_from, earlier)):
            self._write(queue, ops[:size], ops[size:])
        return ops is None or bool(ops)

    def _tell_counters(self) -> bool:
        """Publish the counters if they are due, also during an outage; return True if they were."""
        if time.monotonic() < self._due.report:
            return False
        self._due.report = time.monotonic() + _REPORT_S
        self._own.publish(lambda: self._report() | {"operations_per_s": self._rate()})
        return True

    def _take(self, queue: Queue) -> list[Operation] | None:
        """Return the oldest operations of a queue; None if the set of queues has changed. Raises SpoolError."""
        try:
            # One batch, and the next one as well where embedding is slow.
            ahead = self._embed_on_write and self._embedder.is_slow()
            return queue.take(2 * BATCH_SIZE if ahead else BATCH_SIZE)
        except SpoolError as exc:
            if queue in self._adopted:
                self._adopted.rescue(queue, exc)
            elif not (isinstance(exc, SpoolGone) and isinstance(queue, Spool) and self._own.rescue(queue, exc)):
                raise
            return None

    def _look_after_files(self) -> None:
        self._own.look_after(self._acknowledged)
        self._adopted.check_files()
        self._own.finish_moves()

    def _rate(self) -> float:
        """Return how many operations a second were written since the last call."""
        now, done = time.monotonic(), self.counts["operations"]
        (then, before), self._rated = self._rated, (now, done)
        return round((done - before) / max(now - then, 1e-3), 1)

    def _write(self, queue: Queue, ops: list[Operation], upcoming: list[Operation]) -> None:
        """Write a batch. Raises HermesPgvectorError when a part of it has to be retried."""
        embeddings: Embeddings = {}
        try:
            if self._embed_on_write:
                embeddings = self._embed(ops, upcoming)
        except REJECTIONS:
            self._finish(queue, embeddings, ops)
            return
        embedded = time.monotonic()
        rejected: list[Operation] = []
        waiting: list[Operation] = []
        passed: set[str] = set()
        trouble: Exception | None = None
        parts = split(ops, self._lanes)
        for part in apply_batches(self._backend, parts, embeddings, self._lanes, self._batch_size.timeout_s):
            if part.error is None:
                self._note_stored(queue, part.ops, part.counts)
                passed.update(op.kind for op in part.ops)
            elif isinstance(part.error, REJECTIONS):
                rejected += part.ops
            else:
                trouble = part.error
                waiting += part.ops
        if trouble is not None:
            if self._failures.suspect(trouble, longest=self._batch_size.is_last):
                # A batch of one says nothing of others: those after it do.
                write_one_by_one(waiting + upcoming, passed, functools.partial(self._write_alone, queue, embeddings))
            self._batch_size.failed(trouble)
            raise trouble
        self._finish(queue, embeddings, rejected)
        self._batch_size.note(time.monotonic() - embedded)
        self.counts["batches"] += 1
        self.latencies.add("write", time.monotonic() - embedded)
        if self.counts["batches"] % 16 == 0:
            queue.checkpoint()

    def _embed(self, ops: list[Operation], upcoming: list[Operation]) -> Embeddings:
        texts = [(op.theme, text) for op in ops for text in op.texts()]
        embeddings = self._embedder.embed(texts)
        if self._embedder.has_long(texts):
            self._due.pending = 0.0
        # A batch that is not full yet will hold other texts when its turn comes.
        if len(upcoming) == BATCH_SIZE:
            self._embedder.prepare([(op.theme, text) for op in upcoming for text in op.texts()])
        return embeddings

    def _finish(self, queue: Queue, embeddings: Embeddings, rejected: list[Operation]) -> None:
        """Write the rejected operations of a batch alone, and note that no part of it has to be retried."""
        for op in rejected:
            self._write_alone(queue, embeddings, op)
        self._failures.reset()
        self._retries.over()

    def _write_alone(
        self,
        queue: Queue,
        embeddings: Embeddings,
        op: Operation,
        rejections: tuple[type[Exception], ...] = REJECTIONS,
    ) -> None:
        """Write an operation in a transaction of its own; reject it if that fails with one of `rejections`."""
        try:
            counts = self._backend.apply([op], embeddings, self._batch_size.timeout_s)
        except rejections as exc:
            queue.reject(op, f"{type(exc).__name__}: {exc}")
            self.counts["set_aside"] += 1
            self._outcomes.note([op], "rejected")
            log_rejected(self._rejections, op, exc)
            return
        self._note_stored(queue, [op], counts)

    def _fill_pending(self) -> bool:
        """Embed rows that were written without a vector; return True if there may be more to do at once."""
        if not self._embed_on_write:
            return False
        filled, more = self._pending.fill()
        self.counts["embedded_later"] += filled
        return more
