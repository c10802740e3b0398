"""What the page works with: the database and the models of a home, kept open while somebody looks."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ..admin.common.command_context import CommandContext, opened_context
from ..config.settings import Settings
from ..domain.errors import StoreUnavailable
from ..domain.theme import ThemeRules
from ..domain.theme_access import SharedChats
from ..host.session_context import Policy, load_settings
from ..store.connection import DeadlineConnection
from .lately import Lately
from .model_loading import ModelLoading

READ_S = 0.9  # for what a page waits for; the rest of the second is for the way there and back
_CONNECTIONS = 4


class Desk:
    """One home, opened in the background by whoever asks first.

    Settings that changed on disk are another desk's: see `Desks.at`.
    """

    def __init__(self, home: Path, settings: Settings) -> None:
        self.home = home
        self.settings = settings
        self.rules: ThemeRules = Policy.of(settings).rules
        self.chats = SharedChats(settings.shared_chats, settings.identity_key)
        self.lately = Lately()
        self._stack = ExitStack()
        self._opener = ThreadPoolExecutor(1, "hermes-pgvector-desk")
        self._opening: Future[CommandContext] | None = None
        self._opened: CommandContext | None = None
        self._lock = threading.Lock()
        self.models = ModelLoading()

    def context(self, timeout_s: float = READ_S) -> CommandContext:
        """Return the parts to work with. Raises what opening them raised, and StoreUnavailable while it goes on."""
        with self._lock:
            if self._opening is None or (self._opening.done() and not self._is_open(self._opening)):
                self._opening = self._opener.submit(self._open)
            opening = self._opening
        try:
            return opening.result(timeout_s)
        except TimeoutError:
            raise StoreUnavailable("the database is being connected to; ask again in a moment") from None

    @staticmethod
    def _is_open(opening: Future[CommandContext]) -> bool:
        return opening.exception() is None and opening.result().backend.is_up()

    def _open(self) -> CommandContext:
        """Open everything, or, once it is open, connect to a database again that was down."""
        if self._opened is None:
            self._opened = self._stack.enter_context(opened_context(self.settings, self.home, connections=_CONNECTIONS))
        self._opened.backend.bring_up(quietly=True)
        return self._opened

    @contextmanager
    def reading(self, timeout_s: float = READ_S) -> Iterator[DeadlineConnection]:
        """Give a transaction in which nothing can be changed."""
        with self.context().backend.connection(timeout_s) as conn:
            conn.execute("SET TRANSACTION READ ONLY")
            yield conn

    def close(self) -> None:
        """Let go of everything."""
        self.lately.close()
        self._opener.shutdown(wait=True, cancel_futures=True)
        self._stack.close()


class Desks:
    """The homes that are open in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._desks: dict[Path, Desk] = {}

    def at(self, home: Path) -> Desk:
        """Return the desk of a home, a new one where its settings have changed. Raises ConfigurationError."""
        settings = load_settings(None, home).settings
        with self._lock:
            desk = self._desks.get(home)
            if desk is not None and desk.settings == settings:
                return desk
            self._desks[home] = fresh = Desk(home, settings)
        if desk is not None:
            desk.close()
        return fresh

    def close(self) -> None:
        """Close them all."""
        with self._lock:
            desks, self._desks = list(self._desks.values()), {}
        for desk in desks:
            desk.close()


desks = Desks()
atexit.register(desks.close)
