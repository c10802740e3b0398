"""Execution of the setting `retention`: old turns are deleted a limited number at a time, by one process at a time.

An agent runs it in a process of its own, which does one step whenever the agent has been quiet.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import uuid
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from shlex import quote

from ...domain.commandline import typed
from ...domain.errors import DeadlineExceeded, HermesPgvectorError, StoreMisconfigured, StoreUnavailable
from ...domain.format import plural
from ...domain.text import harmless
from ...domain.theme import ROLES
from ...runtime.retention_process import ANSWER
from ...store.backend import Backend
from ...store.connection import DeadlineConnection
from ..common.operators import clock, record
from ..common.retention_policy import GRACE_S, RetentionPeriod, RetentionPolicy
from . import old_turns as store

logger = logging.getLogger(__name__)

_LEAST_STEADY_S = 7 * 86_400.0
_AHEAD_S = 3600.0  # more than hosts whose clocks are kept by nobody differ after months
EVERY_S = 86_400.0  # between two runs over the same theme, by whichever process


@dataclass(frozen=True, slots=True)
class Pacing:
    """The pacing of retention, in seconds except for `slice`, the number of turns that one transaction examines."""

    grace_s: float = GRACE_S
    every_s: float = EVERY_S
    look_s: float = 3600.0  # between two checks for what is due
    pause_s: float = 0.25  # between two transactions
    lease_s: float = 600.0  # after which another process takes over from one that has died
    timeout_s: float = 2.0  # of one transaction, and so the longest that a write may have to wait for it
    slice: int = 200


@dataclass(slots=True)
class _Due:
    """A theme that this process is working on, and its progress."""

    theme: str
    period: RetentionPeriod
    at: store.Mark = store.FIRST


class Retention:
    """One agent's part in retention."""

    def __init__(self, backend: Backend, policy: RetentionPolicy, pacing: Pacing | None = None) -> None:
        self._backend = backend
        self._policy = policy
        self._pacing = pacing or Pacing()
        self._me = uuid.uuid4()
        self._due: deque[_Due] = deque()
        self._slice = self._pacing.slice
        self._told: set[str] = set()
        self._told_ahead = False
        self._run = (0, 0)  # turns and themes
        self.deleted = 0
        self.on = bool(policy)

    @property
    def busy(self) -> bool:
        """Return whether it is working on any themes."""
        return bool(self._due)

    def step(self) -> float:
        """Do one limited step of what is due; return for how many seconds to pause. Raises StoreUnavailable.

        Other errors are logged and turn it off in this process: a setting must not delay writes.
        """
        try:
            return self._prune(self._due[0]) if self._due else self._look()
        except DeadlineExceeded:
            self._slice = max(1, self._slice // 4)
            return self._pacing.look_s / 60
        except HermesPgvectorError as exc:
            if isinstance(exc, StoreUnavailable) and not isinstance(exc, StoreMisconfigured):
                raise
            self.on = False
            logger.warning("hermes-pgvector: old turns are not deleted by this process: %s", exc)
            return self._pacing.look_s

    def _look(self) -> float:
        """Find the themes that have turns to delete; record policies that are new for their themes."""
        pacing = self._pacing
        with self._backend.connection(pacing.timeout_s) as conn:
            aged = self._aged(conn)
            if aged is None:
                return pacing.look_s / 12
            if self._is_ahead(conn):
                return pacing.look_s
            old = self._exceeding(aged)
            waiting = self._announce(conn, old)
        self._due.extend(_Due(each.theme, period) for each, period in old if each.theme not in waiting and each.due)
        return pacing.pause_s if self._due else pacing.look_s

    def _announce(self, conn: DeadlineConnection, old: Sequence[tuple[store.Aged, RetentionPeriod]]) -> set[str]:
        """Record policies that begin to wait, new ones and those after which the clock was set; return their themes."""
        new = {each.theme: period for each, period in old if each.policy != str(period)}
        # The server may have been down, or its clock may be wrong for now, so that young turns would be deleted.
        odd = {each.theme: period for each, period in old if not each.is_steady(_steady_s(period))}
        if new or odd:
            store.announce(conn, {theme: str(period) for theme, period in (new | odd).items()})
        self._tell(new)
        self._tell_odd(odd.keys() - new.keys())
        return new.keys() | odd.keys()

    def _aged(self, conn: DeadlineConnection) -> list[store.Aged] | None:
        """Return the age of the turns of each theme; None while another process is working on them."""
        if not store.try_lock(conn):
            return None
        pacing = self._pacing
        aged = store.aged(conn, self._me, lease_s=pacing.lease_s, grace_s=pacing.grace_s, every_s=pacing.every_s)
        return None if any(each.held for each in aged) else aged

    def _is_ahead(self, conn: DeadlineConnection) -> bool:
        """Return True, and say so once, if the server's clock is ahead of ours: it would make young turns old.

        If ours is the wrong one, another host's agent deletes them, or nobody until it is right.
        """
        ahead_s = clock(conn)[0].timestamp() - time.time()
        if ahead_s > _AHEAD_S and not self._told_ahead:
            logger.warning(
                "hermes-pgvector: the clock of Postgres is %.1f hours ahead of this machine's: `retention` deletes "
                "nothing until one of them is corrected",
                ahead_s / 3600,
            )
        self._told_ahead = ahead_s > _AHEAD_S
        return self._told_ahead

    def _exceeding(self, aged: Iterable[store.Aged]) -> list[tuple[store.Aged, RetentionPeriod]]:
        """Return the themes that have turns older than their period, each with its period."""
        periods = ((each, self._policy.of(each.theme)) for each in aged)
        return [(each, period) for each, period in periods if period and each.age_s > period.days * 86_400]

    def _prune(self, due: _Due) -> float:
        """Delete the old turns of a theme's next slice, unless the agents' policies disagree by now."""
        pacing = self._pacing
        ended, deleted = True, 0
        with self._backend.connection(pacing.timeout_s) as conn:
            if not store.try_lock(conn):  # another process is checking
                return pacing.pause_s
            if self._is_ahead(conn):
                self._due.clear()
                return pacing.look_s
            before = store.claim(
                conn,
                self._me,
                due.theme,
                str(due.period),
                days=due.period.days,
                lease_s=pacing.lease_s,
                grace_s=pacing.grace_s,
                every_s=pacing.every_s,
                most_s=_steady_s(due.period),
            )
            if before is not None:
                old = store.Old(due.theme, (before, 0), due.period.roles)
                done = store.prune_turns(conn, old, due.at, self._slice)
                due.at, deleted, ended = done.last, done.deleted, done.seen < self._slice
                in_all = store.note(conn, due.theme, deleted, ended=ended)
                if ended and in_all:
                    _record(conn, due, in_all)
        self.deleted += deleted
        turns, themes = self._run
        self._run = turns + deleted, themes
        if not ended:
            return pacing.pause_s
        self._due.popleft()
        self._run = turns + deleted, themes + 1
        if not self._due:
            self._tell_end()
        return pacing.pause_s if self._due else pacing.look_s

    def _tell(self, new: dict[str, RetentionPeriod]) -> None:
        fresh = [theme for theme in new if theme not in self._told]
        if not fresh:
            return
        self._told.update(fresh)
        theme = fresh[0]
        logger.warning(
            "hermes-pgvector: the setting `retention` will begin to delete old turns of %s in %d hours, for "
            "example of %r what is older than %s; to see what that is: %s",
            plural(len(fresh), "theme"),
            round(self._pacing.grace_s / 3600),
            theme,
            new[theme],
            _shown_by(theme, new[theme]),
        )

    def _tell_odd(self, themes: Collection[str]) -> None:
        if themes:
            logger.info(
                "hermes-pgvector: old turns of %s are kept for %d hours more: nothing of them was deleted for "
                "long, or the clock of Postgres was set",
                plural(len(themes), "theme"),
                round(self._pacing.grace_s / 3600),
            )

    def _tell_end(self) -> None:
        turns, themes = self._run
        self._run = (0, 0)
        if turns:
            logger.info(
                "hermes-pgvector: %d old turns of %s were deleted, as `retention` says", turns, plural(themes, "theme")
            )


def _shown_by(theme: str, period: RetentionPeriod) -> str:
    """Return the command that shows exactly what a policy deletes in a theme."""
    roles = "" if period.roles == ROLES else "".join(f" --role {role}" for role in period.roles)
    return typed("hermes-pgvector prune ") + f"--theme {quote(harmless(theme))} --older-than {period.days}d{roles}"


def _steady_s(period: RetentionPeriod) -> float:
    """Return how long a theme may go without a record of retention before the clock is distrusted.

    Agents that run seldom, and themes that are seldom used, leave such gaps as well, and then only wait one more day.
    """
    return max(_LEAST_STEADY_S, period.days * 86_400 / 4)


def _record(conn: DeadlineConnection, due: _Due, deleted: int) -> None:
    """Log the run if this role may; a role that row-level security confines to some themes may not."""
    if clock(conn)[1]:
        record(conn, "retention", {"theme": due.theme, "policy": str(due.period)}, {"turns": deleted})


_AGAIN_S = 60.0  # pause after Postgres was unavailable


class _Heard(logging.Handler):
    """Collects log messages for the agent to log."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.levelno, record.getMessage()))


def main() -> int:
    """Do one step for each line that the agent writes, and answer with a line; the first line holds the parameters."""
    heard = _Heard()
    logger.addHandler(heard)
    logger.setLevel(logging.INFO)
    given = json.loads(sys.stdin.readline())
    backend = Backend(lambda: str(given["conninfo"]), dims=given["dims"], pool_max_size=1, pooler=given["pooler"])
    retention = Retention(backend, RetentionPolicy(given["retention"], given["identity_key"]))
    with closing(backend), suppress(BrokenPipeError):  # the agent was killed meanwhile
        while True:
            wait_s = _AGAIN_S
            with suppress(HermesPgvectorError):
                backend.bring_up()
                wait_s = retention.step()
            answer = {"wait_s": wait_s, "busy": retention.busy, "on": retention.on, "deleted": retention.deleted}
            print(ANSWER + json.dumps(answer | {"said": heard.lines}), flush=True)
            heard.lines.clear()
            if not sys.stdin.readline():
                return 0
    return 0
