"""The database and the models of a home, kept open for the page while somebody uses it."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..admin.common.command_context import CommandContext, opened_context
from ..admin.common.database import EndpointKeys
from ..config.settings import Settings
from ..domain.errors import DeadlineExceeded, StoreUnavailable
from ..domain.theme import ThemeRules
from ..domain.theme_access import SharedChats
from ..host.session_context import Policy, load_settings
from ..store.connection import DeadlineConnection
from .answer_cache import AnswerCache
from .model_loading import ModelLoading
from .workers import in_background

READ_S = 0.9  # for work that a page waits for; the rest of the second is for the way there and back
_CONNECTIONS = 4
_IDLE_S = 300.0  # until an unused home is closed, so that an embedded Postgres may stop
_MOST = 4  # homes open at once
_LEAVE_S = 2.0  # for homes to be closed when the process ends
_DOCTOR = "see: hermes-pgvector doctor"
# Agents' statements are planned without sorting; those of an operator rely on it.
_READS_AS_OPERATOR = (
    "SELECT set_config('transaction_read_only', 'on', true) AS reads, set_config('enable_sort', 'on', true) AS sorts"
)


class Configuration(NamedTuple):
    """The configuration with which a home is opened; the home is reopened when it changes."""

    settings: Settings
    keys: EndpointKeys

    @classmethod
    def of(cls, home: Path) -> Configuration:
        """Return the present configuration of the home's files and the environment. Raises ConfigurationError."""
        settings = load_settings(None, home).settings
        return cls(settings, EndpointKeys.of(settings, home))


class ServedHome:
    """One home, whose database and models are opened in the background by the first request."""

    def __init__(self, home: Path, settings: Settings) -> None:
        self.home = home
        self.settings = settings
        self.rules: ThemeRules = Policy.of(settings).rules
        self.chats = SharedChats(settings.shared_chats, settings.identity_key)
        self.answers = AnswerCache()
        self.models = ModelLoading()
        self._stack = ExitStack()
        self._opening: Future[CommandContext] | None = None
        self._opened: CommandContext | None = None
        self._down = False
        self._problem = ""
        self._lock = threading.Lock()

    def context(self, timeout_s: float = READ_S) -> CommandContext:
        """Return the opened parts. Raises what opening them raised, and StoreUnavailable while it is in progress."""
        with self._lock:
            if self._opening is None or (self._opening.done() and not self._is_open(self._opening)):
                self._down = False
                self._opening = in_background("hermes-pgvector-home", self._open)
            opening, problem = self._opening, self._problem
        try:
            return opening.result(timeout_s)
        except TimeoutError:
            raise StoreUnavailable(
                problem or f"Postgres does not answer yet; ask again in a moment, or {_DOCTOR}"
            ) from None

    def _is_open(self, opening: Future[CommandContext]) -> bool:
        if (exc := opening.exception()) is not None:
            self._problem = str(exc)
            return False
        return not self._down and opening.result().backend.is_up()

    def _open(self) -> CommandContext:
        """Open everything, or, if it is open already, reconnect to a database that was down."""
        if self._opened is None:
            self._opened = self._stack.enter_context(opened_context(self.settings, self.home, connections=_CONNECTIONS))
            self._opened.backend.on_down = self._note_down
        self._opened.backend.bring_up()
        self._problem = ""
        return self._opened

    def _note_down(self) -> None:
        self._down = True

    @contextmanager
    def reading(self, timeout_s: float = READ_S) -> Iterator[DeadlineConnection]:
        """Yield a read-only transaction. Raises StoreUnavailable when it takes longer than `timeout_s`."""
        began = time.monotonic()
        backend = self.context(timeout_s).backend
        try:
            with backend.connection(max(0.05, timeout_s - (time.monotonic() - began))) as conn:
                conn.execute(_READS_AS_OPERATOR)
                yield conn
        except DeadlineExceeded:
            raise StoreUnavailable(f"Postgres did not answer within {timeout_s:g} s; ask again, or {_DOCTOR}") from None

    def close(self) -> None:
        """Close everything, after any opening in progress has ended."""
        with self._lock:
            opening = self._opening
        if opening is not None:
            wait([opening])
        self._stack.close()


@dataclass
class _Kept:
    home: ServedHome
    configuration: Configuration
    users: int = 0
    used_at: float = 0.0


class ServedHomes:
    """The homes that are open in this process. A home is closed in the background, once nobody uses it."""

    def __init__(self, idle_s: float = _IDLE_S, most: int = _MOST) -> None:
        self._idle_s = idle_s
        self._most = most
        self._lock = threading.Lock()
        self._kept: dict[Path, _Kept] = {}
        self._sweeping = False
        self._closing: list[Future[None]] = []

    @contextmanager
    def at(self, home: Path) -> Iterator[ServedHome]:
        """Yield a home, reopened if its configuration has changed. Raises ConfigurationError."""
        configuration = Configuration.of(home)
        with self._lock:
            kept = self._current(home, configuration)
            kept.users += 1
        try:
            yield kept.home
        finally:
            with self._lock:
                kept.users -= 1
                kept.used_at = time.monotonic()
                if self._kept.get(home) is not kept:
                    self._close_unused(kept)

    def _current(self, home: Path, configuration: Configuration) -> _Kept:
        kept = self._kept.get(home)
        if kept is not None and kept.configuration == configuration:
            return kept
        if kept is not None:
            del self._kept[home]
            self._close_unused(kept)
        self._make_room()
        self._kept[home] = fresh = _Kept(ServedHome(home, configuration.settings), configuration)
        if not self._sweeping:
            self._sweeping = True
            in_background("hermes-pgvector-idle-homes", self._sweep)
        return fresh

    def _make_room(self) -> None:
        """Close the home that has been unused for longest, if the most allowed are open."""
        if len(self._kept) < self._most:
            return
        unused = [(kept.used_at, home) for home, kept in self._kept.items() if not kept.users]
        if not unused:
            raise StoreUnavailable(f"{self._most} profiles are being looked at; ask again in a moment")
        self._close_unused(self._kept.pop(min(unused)[1]))

    def _close_unused(self, kept: _Kept) -> None:
        if not kept.users:
            self._closing = [each for each in self._closing if not each.done()]
            self._closing.append(in_background("hermes-pgvector-home", kept.home.close))

    def _sweep(self) -> None:
        """Close homes that have been unused for a while, until none is left."""
        while True:
            time.sleep(self._idle_s / 4)
            with self._lock:
                long_ago = time.monotonic() - self._idle_s
                for home, kept in list(self._kept.items()):
                    if not kept.users and kept.used_at < long_ago:
                        self._close_unused(self._kept.pop(home))
                if not self._kept:
                    self._sweeping = False
                    return

    def close(self) -> None:
        """Close all homes, those in use as soon as they are not."""
        with self._lock:
            kept, self._kept = list(self._kept.values()), {}
            for each in kept:
                self._close_unused(each)
            closing = list(self._closing)
        wait(closing, _LEAVE_S)


served_homes = ServedHomes()
atexit.register(served_homes.close)
