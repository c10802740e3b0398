"""The embedded Postgres as the rest of the package sees it: ensured, released, stopped."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ..domain.errors import EmbeddedServerError
from . import databases, options, processes
from .binaries import Binaries, find_binaries
from .connecting import ServerAnswer, ServerState, look
from .directories import delete_files, make_root, make_socket_dir, others_files, put_right, remove_socket_dir
from .layout import require_posix
from .locks import Presence, is_free, open_lock, try_exclusive
from .relocation import within_reach
from .run_as import check_account, run, write
from .share import Conninfo, ServerShare
from .waiting import ProgressTimeout, exclusive

POLL_S = 0.03

# A fast shutdown writes a checkpoint first; after this time without progress the server is stopped immediately, and
# recovers at its next start.
FAST_STOP_S = 30.0
HARD_STOP_S = 10.0
LINGER_S = 3.0  # for the other processes of a server whose postmaster is gone

# The backend of a connection that was just closed needs a moment to exit. The wait is counted in queries, each of which
# needs a backend of its own: a busy machine slows them down as much as it does the exit.
LAST_CLIENT_LOOKS = 25

# In the background and with its own log, so that neither our end nor our terminal affects the server.
_START = 'umask 077; exec </dev/null >>"$1" 2>&1; shift; "$@" &'

# Messages of Postgres or the system when something outside of Postgres is wrong, and the remedy.
_REMEDIES = (
    (
        ("No space left", "quota exceeded", "File too large"),
        "free space on the disk, or choose another directory (`embedded_dir`)",
    ),
    (("Read-only file system",), "choose a directory that can be written (`embedded_dir`)"),
    (("Permission denied",), "let the account use that directory, or choose another (`embedded_dir`)"),
    (("Cannot allocate memory", "could not map anonymous"), "give the machine memory, or lower shared_buffers"),
)


class EmbeddedServer(ServerShare):
    """A private Postgres in one directory, shared by all processes that name the same directory.

    Safe for many threads, processes and instances at once. `bin_dir` names a directory of Postgres programs (else they
    are looked for), `run_as` the account to run them as when we are root, `settings` Postgres settings that override
    the defaults from the next start on. Nothing is read or written before the first call.
    """

    def __init__(
        self,
        root: Path | None = None,
        *,
        bin_dir: str = "",
        run_as: str = "",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(root, run_as=run_as)
        self._bin_dir = bin_dir
        self._settings = dict(settings or {})
        self._pid = os.getpid()
        self._ready: Conninfo | None = None

    def ensure(self, *, timeout_s: float = 60.0) -> Conninfo:
        """Return how to connect to the running server; start it and create role and database as needed.

        From then on this process counts as present, until `release` or its end. Costs one connection when the server
        is up. Raises: EmbeddedServerError, with cause and remedy, when there is no progress for `timeout_s`.
        """
        require_posix()
        self._notice_fork()
        with self._explained():
            ready = self._ready
            if ready and look(self._layout).state is ServerState.READY:
                return ready
            timeout = processes.progress_timeout(self._layout, timeout_s)
            with self._threads_excluded(timeout):
                self._ready = None
                make_root(self._layout, self._account)
                was_present = self._presence.held
                self._take_presence(timeout)
                try:
                    if look(self._layout).state is not ServerState.READY:
                        self._bring_up(timeout)
                except BaseException:
                    if not was_present:
                        self._presence.drop()
                    raise
                self._ready = self._conninfo()
                return self._ready

    def release(self) -> bool:
        """Give up presence, and stop the server if nobody else is present or connected; return True if it stopped.

        Close this process's own connections first. Does nothing without a successful `ensure` before it, as in a
        forked child. Raises: EmbeddedServerError when the server does not stop.
        """
        if sys.platform == "win32" or not self._presence.held:
            return False
        with self._explained(), self._threads_excluded(timeout := self._timeout()):
            return self._presence.held and self._stop_if_last(timeout)

    def stop_unused(self) -> bool:
        """Stop the server if nobody is present or connected; return True if it stopped. Raises: EmbeddedServerError."""
        require_posix()
        with self._explained():
            if not self._layout.root.is_dir():
                return False
            timeout = self._timeout()
            self._take_presence(timeout)
            return self._stop_if_last(timeout)

    def keep_up(self) -> None:
        """Keep the running server up without users, until `stop` or its own end. Raises: EmbeddedServerError."""
        with self._explained():
            write(self._account, self._layout.kept, processes.instance(self._layout))

    def is_kept_up(self) -> bool:
        """Return True when the running server is kept up after its last user leaves."""
        try:
            running = processes.instance(self._layout)
        except EmbeddedServerError:
            return False
        return bool(running) and running == processes.kept_instance(self._layout)

    def in_use(self) -> bool:
        """Return True when another process is present or connected."""
        try:
            return not is_free(self._layout.presence_lock) or bool(databases.other_clients(self._layout))
        except (EmbeddedServerError, OSError):
            return False

    def check(self) -> None:
        """Raise EmbeddedServerError if no server can be started here, as far as can be told without starting one."""
        require_posix()
        with self._explained():
            check_account(self._account)
            find_binaries(self._bin_dir)
            there = next(path for path in (self.root, *self.root.parents) if path.exists())
            if not os.access(there, os.W_OK):
                raise EmbeddedServerError(
                    f"{there} cannot be written; choose another directory (`embedded_dir`), or set `dsn`"
                )

    def answers(self) -> bool:
        """Return True when the server answers. Raises: EmbeddedServerError when that cannot be told, and why."""
        if sys.platform == "win32":
            return False
        return databases.look_closer(self._layout).state is not ServerState.SILENT

    def running(self) -> bool:
        """Return True when the server is known to answer."""
        try:
            return self.answers()
        except (EmbeddedServerError, OSError):
            return False

    def stop(self) -> None:
        """Stop the server even if it is in use; its users start it again when they next need it.

        Raises: EmbeddedServerError when it does not stop, or is not ours to stop.
        """
        require_posix()
        with self._explained():
            if self._layout.root.is_dir():
                with exclusive(self._layout.lock, self._timeout()):
                    self._shut_down()

    def remove(self, *, force: bool = False) -> bool:
        """Stop the server and delete its files, with all data; return False if there are none.

        Raises: EmbeddedServerError, and changes nothing, while another process uses it, unless `force`.
        """
        require_posix()
        layout = self._layout
        if not layout.root.is_dir():
            return False
        self.release()
        with self._explained(), exclusive(layout.lock, self._timeout()):
            presence = open_lock(layout.presence_lock)
            try:
                # Processes that come now wait for the lock, and create a new server when we are done.
                if not (try_exclusive(presence) or force):
                    raise EmbeddedServerError(
                        f"another process uses the embedded Postgres in {layout.root}; stop it first"
                    )
                self._shut_down()
                delete_files(layout)
            finally:
                os.close(presence)
        return True

    def others_files(self) -> list[Path]:
        """Return the files in the server's directory that `remove` leaves, since they are not the server's."""
        try:
            return others_files(self._layout)
        except OSError:
            return []

    def _notice_fork(self) -> None:
        """Forget, in a forked child, what belongs to the parent: a thread that is not here may hold the old mutex."""
        if self._pid != os.getpid():
            self._presence.forget()
            self._pid = os.getpid()
            self._mutex = threading.Lock()
            self._ready = None
            self._presence = Presence()

    @contextmanager
    def _threads_excluded(self, timeout: ProgressTimeout) -> Iterator[None]:
        while not self._mutex.acquire(timeout=POLL_S):
            if timeout.over():
                raise EmbeddedServerError("another thread has been starting the embedded Postgres for too long")
        try:
            yield
        finally:
            self._mutex.release()

    def _take_presence(self, timeout: ProgressTimeout) -> None:
        path = self._layout.presence_lock
        while not self._presence.take(path):
            if timeout.over():
                raise EmbeddedServerError(f"another process has been stopping the server for too long ({path})")
            time.sleep(POLL_S)

    def _stop_if_last(self, timeout: ProgressTimeout) -> bool:
        self._ready = None
        try:
            with exclusive(self._layout.lock, timeout):
                # While presence is held exclusively nobody can join: others start it again once it is down.
                return self._presence.alone() and not self.is_kept_up() and self._is_idle() and self._shut_down()
        except FileNotFoundError:
            return False
        finally:
            self._presence.drop()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Translate errors of the system into ours, and add to every error the remedy that is known."""
        try:
            yield
        except (EmbeddedServerError, OSError) as error:
            text = str(error)
            remedy = next((help_ for signs, help_ in _REMEDIES if any(sign in text for sign in signs)), "")
            if isinstance(error, OSError):
                text = f"the embedded Postgres in {self.root} cannot be used: {text}"
            elif not remedy or "`dsn`" in text:
                raise
            raise EmbeddedServerError(f"{text}\n{remedy}; or set `dsn`" if remedy else text) from error

    def _bring_up(self, timeout: ProgressTimeout) -> None:
        """Start the server, or wait for one that is starting or stopping, and create what is missing in it."""
        layout = self._layout
        with exclusive(layout.lock, timeout):
            while (seen := databases.look_closer(layout)).state is ServerState.SILENT:
                if (claim := processes.claim(layout)) is not None:
                    try:
                        if processes.postmaster(layout) is None:
                            self._start(claim, timeout)
                    finally:
                        os.close(claim)
                    # The server has inherited the claim by now, so when it ends, the lock becomes free.
                    seen = self._wait(timeout)
                    break
                self._check_time(timeout, seen)
                time.sleep(POLL_S)
            if seen.state is ServerState.BARE:
                databases.provide(layout)

    def _start(self, claim: int, timeout: ProgressTimeout) -> None:
        layout, account = self._layout, self._account
        make_socket_dir(layout, account)
        settings = options.arguments(layout, self._settings)
        binaries = self._binaries()
        if not databases.check_cluster(layout, binaries):
            databases.make_cluster(layout, account, binaries, timeout=timeout, claim=claim)
        put_right(layout, account)
        databases.write_access_rules(layout, account)
        processes.clear_pid_files(layout, account)
        processes.rotate_log(layout, account)
        server = [str(binaries["postgres"]), "-D", str(layout.data), *settings]
        done = run(account, ["/bin/sh", "-c", _START, "sh", layout.log, *server], pass_fds=[claim])
        if done.code:
            raise EmbeddedServerError(f"the embedded Postgres cannot be started: {done.output}")

    def _binaries(self) -> Binaries:
        return within_reach(find_binaries(self._bin_dir), self._account)

    def _wait(self, timeout: ProgressTimeout) -> ServerAnswer:
        while (seen := databases.look_closer(self._layout)).state is ServerState.SILENT:
            if processes.is_gone(self._layout):
                raise EmbeddedServerError(f"the embedded Postgres ended while starting{self._tail()}")
            self._check_time(timeout, seen)
            time.sleep(POLL_S)
        return seen

    def _check_time(self, timeout: ProgressTimeout, seen: ServerAnswer) -> None:
        if timeout.over():
            raise EmbeddedServerError(
                f"the embedded Postgres in {self.root} runs but does not become ready: {seen.error}; "
                f"`hermes-pgvector server stop` ends it, and its next user starts it again{self._tail()}"
            )

    def _is_idle(self) -> bool:
        for _ in range(LAST_CLIENT_LOOKS):
            if not (others := databases.other_clients(self._layout)):
                return others == 0
            time.sleep(POLL_S)
        return False

    def _shut_down(self) -> bool:
        """Stop the server; return False if there is none. Only for the holder of `layout.lock`."""
        for request, wait_s in ((signal.SIGINT, FAST_STOP_S), (signal.SIGQUIT, HARD_STOP_S)):
            pid = processes.postmaster(self._layout)
            if pid is None:
                break
            os.kill(pid, request)
            if self._ends_within(wait_s):
                remove_socket_dir(self._layout, self._account)
                return True
        # The last processes of a server that was killed may outlive its postmaster for a moment.
        if self._ends_within(LINGER_S):
            return False
        raise EmbeddedServerError(f"the embedded Postgres in {self.root} {self._why_it_runs()}{self._tail()}")

    def _why_it_runs(self) -> str:
        """Return why the server cannot be stopped, and what ends it."""
        pid = processes.postmaster(self._layout)
        if pid is None:
            return "does not stop, or runs in another container"
        # Children that hang would outlive their parent, and keep another server from starting.
        return f"does not stop: `kill -9 {pid} $(pgrep -P {pid})` ends it, and its next start recovers what was written"

    def _ends_within(self, still_s: float) -> bool:
        timeout = self._timeout(still_s)
        while not timeout.over():
            if processes.is_gone(self._layout):
                return True
            time.sleep(POLL_S)
        return False

    def _timeout(self, still_s: float = FAST_STOP_S) -> ProgressTimeout:
        return processes.progress_timeout(self._layout, still_s)

    def _tail(self) -> str:
        return processes.log_tail(self._layout)
