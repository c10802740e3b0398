"""Assembles the parts: in a process, one runtime for each pair of settings and home, shared by all provider instances.

The host makes an instance for each API request and never shuts it down, so nothing here is bound to an instance.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import itertools
import logging
import os
import time
import weakref
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..capture.batches import lanes_of
from ..capture.housekeeping import Housekeeping
from ..capture.mirror import Mirror
from ..capture.outcomes import RejectionLog
from ..capture.writer import Writer
from ..config.settings import Settings
from ..domain.errors import HermesPgvectorError, StoreMisconfigured
from ..domain.fork_safety import SLOW, fork_lock
from ..domain.measures import latest
from ..domain.session_turns import SessionTurns
from ..recall.hot import HotBlocks, HotLimits
from ..recall.transcripts import Transcripts
from .agent_server import AgentServer
from .parts import Models, backend_of
from .retention_process import RetentionProcess
from .spools import spools_of
from .version import LOADED_VERSION

logger = logging.getLogger(__name__)

_LAST_BATCH_S = 60.0  # how long what newer settings write waits for the last batch of earlier ones
_COLLECT_EVERY_S = 60.0  # a full collection holds up every thread for a moment
_collecting = fork_lock()  # during a collection, Python returns from another one at once


class _Registry:
    """The runtimes of this process."""

    def __init__(self) -> None:
        self.lock = fork_lock(SLOW)  # a forked child gets no half-built runtime
        self.runtimes: dict[tuple[Settings, Path, str, str], Runtime] = {}
        self.acquired = itertools.count(1)
        self._abandoned: list[Runtime] = []

    def withdraw_succeeded_by(self, runtime: Runtime) -> list[Runtime]:
        """Remove and return what earlier settings have left in the runtime's home, and what is of no use there.

        What waits in it for another database keeps it.
        """
        with self.lock:
            found = [each for each in self.runtimes.values() if runtime.succeeds(each)]
            for each in found:
                each.withdraw()
                each.writer.write_no_more()  # nor what others have left: this would go before it
            return found

    def has_stranded(self, runtime: Runtime) -> bool:
        """Return whether writes wait under earlier settings of the runtime's home that somebody may still use."""
        with self.lock:
            beside = [each for each in self.runtimes.values() if each.home == runtime.home and each.users]
            return any(each.acquired < runtime.acquired and each.writer.depth() for each in beside)

    def forget_after_fork(self) -> None:
        """Drop every runtime: a child has neither our threads nor a right to our connections, and starts its own."""
        # Kept alive, so that no destructor talks to the parent's server.
        self._abandoned.extend(self.runtimes.values())
        self.runtimes.clear()
        for runtime in self._abandoned:
            runtime.forget_after_fork()


_registry = _Registry()


class Runtime:
    """Store, embedder, writer and search of one process. Made by `acquire`."""

    def __init__(self, settings: Settings, home: Path, embed_key: str, rerank_key: str) -> None:
        self.settings = settings
        self.home = home
        self.counts: Counter[str] = Counter()
        self.refusals = RejectionLog()
        self.server = None if settings.dsn else AgentServer(settings)
        models = self._models = Models.of(settings, home, embed_key, rerank_key)
        for consequence, reason in models.problems.items():
            logger.warning("hermes-pgvector: %s: %s", consequence, reason)
        self.embedder, self.reorderer, self.latencies = models.embedder, models.reorderer, models.latencies
        locate = self.server.locate if self.server is not None else lambda: settings.dsn
        self.backend = backend_of(settings, locate)
        self.mirror = Mirror(home)
        self.backend.on_outage, self.backend.on_return = _say_outage, _say_return
        self.backend.on_other_server = self.mirror.read_again
        self._documents = models.documents(settings, self.backend)
        self._retention = RetentionProcess(settings, locate)
        self.spools = spools_of(settings, home)
        self.writer = Writer(
            directory=self.spools,
            backend=self.backend,
            embedder=self._documents,
            housekeeping=Housekeeping(self.backend, self._retention, settings.removal_hold_days),
            embed_on_write=settings.embed_on_write,
            memory_max_bytes=settings.write_queue_max_mb * 1_000_000,
            keep_s=settings.spool_keep_s,
            lanes=lanes_of(settings.pool_max_size),
            latencies=self.latencies,
            report=self.stats,
            on_stored=self.mirror.note_stored,
            take_over=self._take_over,
        )
        if self.embedder is not None:
            self.embedder.on_query = functools.partial(self.latencies.add, "embed_query")
        self.said = SessionTurns()
        self.searcher = models.searcher(self.backend, self.said)
        limits, deadline_s = HotLimits.of(settings), settings.hot_deadline_s
        self.hot = HotBlocks(functools.partial(self.searcher.hot, limits=limits, deadline_s=deadline_s), self.counts)
        self.transcripts = Transcripts(self.said)
        self.pid = os.getpid()
        self._collect_at = 0.0
        self.acquired = 0  # which acquisition of this process was the last of this runtime
        self.users: weakref.WeakSet[object] = weakref.WeakSet()
        self.closed = False
        self._left_said: set[tuple[int, str]] = set()

    def succeeds(self, earlier: Runtime) -> bool:
        """Return whether this runtime may take over from one of earlier settings; call with the registry's lock held.

        Settings that are corrected or changed in an outage must neither strand what was accepted before nor let what is
        accepted afterwards go first. One that works with another `dsn` writes everything itself: it may have another
        role, with other rights. So does one with another database. One that is in use goes on, in an outage as well,
        unless Postgres refuses it, as after a new password. That one is no loss to its users, who may never come back:
        a host's thread keeps the last agent that ran a tool in it. Those that do acquire a runtime anew.
        """
        works = earlier.backend.problem is None
        kept = bool(earlier.users) and not isinstance(earlier.backend.problem, StoreMisconfigured)
        if earlier.home != self.home or earlier.acquired >= self.acquired or kept:
            return False
        theirs = earlier.spools.destination
        elsewhere = works and earlier.settings.dsn != self.settings.dsn
        if elsewhere or not self.spools.destination.takes(theirs.place, theirs.database):
            return not earlier.writer.depth()
        return not earlier.writer.in_memory()

    def _take_over(self) -> bool:
        """Close what earlier settings have left, once this runtime is up; return True if there was anything.

        Not before: a server that only the two use must not be stopped in between. What they have not written is in
        files that the writer adopts next. For the drain thread.
        """
        if _registry.has_stranded(self) and time.monotonic() >= self._collect_at:
            self._collect_at = time.monotonic() + _COLLECT_EVERY_S
            with _collecting:
                gc.collect()  # the host drops an instance in a cycle: it counts as a user until Python finds that
        found = _registry.withdraw_succeeded_by(self)
        for earlier in found:
            if earlier.backend.problem is not None:
                _say_return()
            earlier.close(0.0, succeeded=True)
        return bool(found)

    def leave(self, user: object, timeout_s: float) -> None:
        """Drain for at most `timeout_s`; the last user to leave closes the runtime. A dead user has left by itself.

        Unfinished writes go on in the background: the writes of a later session must not overtake them.
        """
        deadline = time.monotonic() + timeout_s
        with _registry.lock:
            self.users.discard(user)
            if self.closed:  # what it had not written is another one's
                return
        left = self.writer.flush_own(timeout_s)
        with _registry.lock:
            last = not self.users
            if last and not left:
                self.withdraw()
        if left and last:
            self._say_left(left)
        elif last:
            self.close(max(0.0, deadline - time.monotonic()))

    def forget_after_fork(self) -> None:
        """Release a forked child's copies of what belongs to the parent and ends with it."""
        self.spools.forget_after_fork()
        self._retention.forget_after_fork()

    def withdraw(self) -> None:
        """Remove this runtime from those that `acquire` returns; call with the registry's lock held."""
        for key in [key for key, runtime in _registry.runtimes.items() if runtime is self]:
            del _registry.runtimes[key]

    def close(self, timeout_s: float, *, succeeded: bool = False) -> None:
        """Drain within `timeout_s`, log what stays in the spool, and close everything. May be called twice.

        `succeeded`: what stays in the spool follows at once, by another runtime.
        """
        with _registry.lock:
            if self.closed:
                return
            self.closed = True
            self.withdraw()
        left = self.writer.stop(timeout_s, last_batch_s=_LAST_BATCH_S if succeeded else 0.0)
        if left and not succeeded:
            self._say_left(left)
        self._retention.close()
        self.backend.close()
        self._models.close()
        if self.server is not None:
            with contextlib.suppress(HermesPgvectorError):
                self.server.close()

    def _say_left(self, left: int) -> None:
        lost = min(left, self.writer.in_memory())
        for said in (
            (left - lost, "stay in the spool and follow once it is back, or at the next start"),
            (lost, "are lost"),
        ):
            if said[0] and said not in self._left_said:
                self._left_said.add(said)
                logger.warning("hermes-pgvector: %d writes did not reach Postgres before shutdown; they %s", *said)

    def _vectors(self) -> str:
        """Return whether this process makes vectors, and whether they can be compared with those of the database."""
        if self.embedder is None:
            return "none"
        return "own" if self._documents.is_there() else "incomparable"

    def stats(self) -> dict[str, Any]:
        """Return flat counters with units in their names; text values are states or the last error."""
        return {
            "version": LOADED_VERSION,
            "postgres": "up" if self.backend.is_up() else "down" if self.backend.problem else "starting",
            "endpoint": self.embedder.state() if self.embedder is not None else "none",
            "embed_model": self.embedder.model if self.embedder is not None else "",
            "vectors": self._vectors(),
            "reranker": self.reorderer.state() if self.reorderer is not None else "none",
            **latest(self.writer.trouble, self._documents.trouble),
            **self.counts,
            **self.writer.stats(),
            **self.searcher.counts,
            "embed_failures": self._documents.failures,
            "retention_deleted": self._retention.deleted,
            "embed_reused": self._documents.reused,
            **self.latencies.snapshot(),
            **(self.embedder.stats() if self.embedder is not None else {}),
            **(self.reorderer.stats() if self.reorderer is not None else {}),
            **{f"pool_{name}": value for name, value in self.backend.pool_stats().items()},
            **(self.backend.replica.stats() if self.backend.replica is not None else {}),
        }


def _say_outage(reason: HermesPgvectorError) -> None:
    logger.warning("hermes-pgvector: memory is out of reach, writes are kept on disk until it is back: %s", reason)


def _say_return() -> None:
    logger.info("hermes-pgvector: Postgres is back; what was written meanwhile follows now")


def acquire(settings: Settings, home: Path, environ: Mapping[str, str], user: object) -> Runtime:
    """Return the runtime of these settings and this home; start one in the background if there is none.

    Uses no network. The runtime lives at least as long as `user` does, or until `user` leaves.
    """
    if settings.dsn:  # then the directory is unused, and a home's directory changes when the home is first written to
        settings = replace(settings, embedded_dir="")
    key = (settings, home, environ.get(settings.embed_api_key_env, ""), environ.get(settings.rerank_api_key_env, ""))
    with _registry.lock:
        runtime = _registry.runtimes.get(key)
        if runtime is None:
            runtime = _registry.runtimes[key] = Runtime(*key)
            runtime.writer.start()
            if settings.prefetch_limit and settings.min_similarity == "auto":
                runtime.searcher.begin_bars()
        runtime.users.add(user)
        runtime.acquired = next(_registry.acquired)
        return runtime


def close_all() -> None:
    """Close every runtime of this process, each within its `shutdown_timeout_s`."""
    for runtime in list(_registry.runtimes.values()):
        runtime.close(runtime.settings.shutdown_timeout_s)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_registry.forget_after_fork)
atexit.register(close_all)
