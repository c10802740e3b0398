"""A process's share of the embedded server: being present, connecting and leaving.

Starting and stopping are not part of it: an agent has that done by the operator's tool, in a process of its own.
"""

from __future__ import annotations

import os
import sys
import threading
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ..domain.errors import EmbeddedServerError
from .connecting import ADMIN, RUNTIME, ServerState, conninfo, look
from .layout import Account, Layout, choose_account, default_root, require_posix, reserve
from .locks import Presence, is_free


class Conninfo(NamedTuple):
    """libpq connection strings over the socket: `admin` may do everything, `runtime` is for daily work."""

    admin: str
    runtime: str


class ServerShare:
    """One process's share of the server in one directory. Nothing is read or written before the first call."""

    def __init__(self, root: Path | None = None, *, run_as: str = "") -> None:
        self.root = (default_root() if root is None else root).expanduser().absolute()
        self._run_as = run_as
        self._presence = Presence()
        self._mutex = threading.Lock()
        self._left = False

    def reserve(self) -> None:
        """Create the directory before the home contains any other sign that an agent has run."""
        if self.root != default_root():
            reserve(self.root)

    def join(self) -> Conninfo | None:
        """Return how to connect, and be present until `leave`; return None, without presence, if no server is ready.

        Costs one connection. Raises: EmbeddedServerError on Windows, if a server on other data answers, or if no
        account could own the server.
        """
        require_posix()
        layout = self._layout
        with self._mutex:
            try:
                # Creates no lock file: ours would be in the way of the account that is to own the directory.
                if self._left or not self._presence.take(layout.presence_lock, make=False):
                    return None
            except OSError:  # no server was ever here, or whoever starts it will report the problem
                return None
        try:
            if look(layout).state is ServerState.READY:
                return self._conninfo()
        except EmbeddedServerError:
            self._drop()
            raise
        self._drop()
        return None

    def leave(self) -> bool:
        """Give up presence for good; return True if nobody is present any more, so that the server may be stopped."""
        with self._mutex:
            self._left = True
            if not self._presence.held:
                return False
            self._presence.drop()
        try:
            return is_free(self._layout.presence_lock)
        except OSError:
            return False

    def notice(self) -> str:
        """Return one line that says which account and directory are used because we are root; else empty."""
        if sys.platform == "win32" or os.geteuid() != 0:
            return ""
        try:
            name = self._account.name
        except EmbeddedServerError:
            return ""
        return (
            f"running as root, which Postgres refuses: the embedded Postgres runs as the account {name!r}, "
            f"with its files in {self.root}"
        )

    @cached_property
    def _account(self) -> Account:
        return choose_account(self._run_as)

    @cached_property
    def _layout(self) -> Layout:
        return Layout.of(self.root, self._account)

    def _conninfo(self) -> Conninfo:
        return Conninfo(admin=conninfo(self._layout, user=ADMIN), runtime=conninfo(self._layout, user=RUNTIME))

    def _drop(self) -> None:
        with self._mutex:
            self._presence.drop()
