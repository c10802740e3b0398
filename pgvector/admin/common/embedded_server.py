"""The embedded server for a command and, run as a separate program, for the agents."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ...config.settings import Settings
from ...domain.commandline import command_of
from ...domain.errors import HermesPgvectorError
from ...runtime.agent_server import ANSWER, OPERATOR, STARTUP_S, is_migrated, root_in
from ...server.cluster import EmbeddedServer
from ...server.share import Conninfo
from ...store.pool import connect
from . import codes, hnsw, words
from .console import said_while
from .migrations import complete, migrate

LocateDatabase = Callable[[], str]
_COMPLETE = "complete"


def embedded_server(settings: Settings) -> EmbeddedServer:
    """Return the embedded server of these settings; does no I/O."""
    return EmbeddedServer(root_in(settings), bin_dir=settings.embedded_bin_dir, run_as=settings.embedded_run_as)


def has_cluster(settings: Settings) -> bool:
    """Return whether the embedded server of these settings has been created."""
    return (embedded_server(settings).root / "data" / "PG_VERSION").exists()


@contextmanager
def existing_database(settings: Settings) -> Iterator[LocateDatabase]:
    """Yield a function that returns the conninfo of the existing database, for one command; empty if there is none."""
    server = embedded_server(settings)
    started = False

    def locate() -> str:
        nonlocal started
        if settings.dsn or not has_cluster(settings):
            return settings.dsn
        started = True
        return server.ensure().runtime

    try:
        yield locate
    finally:
        if started:
            server.release()


@contextmanager
def started_server(settings: Settings) -> Iterator[Conninfo]:
    """Yield how to connect to the embedded server, brought up for one command, with its tables as they are."""
    server = embedded_server(settings)
    try:
        with starting_said(server):
            conninfo = server.ensure(timeout_s=STARTUP_S)
        yield conninfo
    finally:
        server.release()


def bring_up(server: EmbeddedServer, *, dims: int) -> Conninfo:
    """Start the embedded server unless it is up, migrate the database if needed, and return how to connect."""
    was_up = server.running()
    conninfo = server.ensure(timeout_s=STARTUP_S)
    if not is_migrated(conninfo.runtime, dims) or not (was_up or _is_complete(conninfo.admin)):
        migrate(conninfo.admin, dims=dims, runtime_role="hermes")
    return conninfo


def _bring_up_for_an_agent(server: EmbeddedServer, *, dims: int) -> bool:
    """Do as `bring_up`, but leave what takes long in a filled database to `complete`; return whether that is needed."""
    conninfo = server.ensure(timeout_s=STARTUP_S)
    if not is_migrated(conninfo.runtime, dims):
        migrate(conninfo.admin, dims=dims, runtime_role="hermes", completes=False)
    return not _is_complete(conninfo.admin, indexes=True)


def _is_complete(admin: str, *, indexes: bool = False) -> bool:
    """Return False if a migration was killed before every row had its words and code, or an HNSW index was complete.

    The index is only checked with `indexes`, because building one takes long.
    """
    with connect(admin) as conn:
        begun = indexes and any(index.state == "unfinished" for index in hnsw.indexes(conn))
        return not begun and words.are_read(conn) and not codes.lacking_rows(conn)


@contextmanager
def starting_said(server: EmbeddedServer) -> Iterator[None]:
    """Tell the waiting person on stderr that Postgres is being started in the block, if that takes 300 ms."""
    if server.running():
        yield
        return
    with said_while("starting Postgres ...", lambda: True):
        yield


@contextmanager
def borrowed_server(settings: Settings) -> Iterator[Callable[[], str]]:
    """Yield a function that brings the embedded server up for one command; the server is released at the end."""
    with ExitStack() as stack:

        def locate() -> str:
            server = embedded_server(settings)
            stack.callback(server.release)
            with starting_said(server):
                return bring_up(server, dims=settings.dims).runtime

        yield locate


def account_notice(settings: Settings) -> str:
    """Return a notice naming the account the embedded server runs as; empty if it is our own, or a `dsn` is set."""
    return "" if settings.dsn else embedded_server(settings).notice()


def main() -> int:
    """Do what an agent asks for in the arguments, answer in one line, and hold the server until the agent holds it."""
    action, root, bin_dir, run_as, dims = sys.argv[1:]
    server = EmbeddedServer(Path(root), bin_dir=bin_dir, run_as=run_as)
    if action == _COMPLETE:
        return _complete(server, dims=int(dims))
    lacks = False
    try:
        if action == "stop-unused":
            server.stop_unused()
        else:
            lacks = _bring_up_for_an_agent(server, dims=int(dims))
        _answer()
    except HermesPgvectorError as exc:
        _answer(exc)
    if lacks:
        _complete_beside_agents(sys.argv[2:])
    sys.stdin.readline()  # or until the agent ends
    server.release()
    return 0


def _complete(server: EmbeddedServer, *, dims: int) -> int:
    """Make what a filled database lacks; answer once this process is registered at the server."""
    try:
        conninfo = server.ensure(timeout_s=STARTUP_S)
        _answer()
        complete(conninfo.admin, dims=dims)
    finally:
        server.release()  # the next start continues if this did not finish; doctor reports what is missing
    return 0


def _complete_beside_agents(arguments: Sequence[str]) -> None:
    """Start a process that makes what a filled database lacks and outlives this one; return once it is registered.

    Meanwhile agents recall with what is there.
    """
    command = command_of(OPERATOR, _COMPLETE, *arguments)
    with suppress(OSError):  # the next start tries again
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert process.stdout is not None
        process.stdout.readline()


def _answer(problem: HermesPgvectorError | None = None) -> None:
    # The message as it was raised: the agent knows how commands can be typed in its place.
    said = (type(problem).__name__, problem.args[0]) if problem is not None else ("", "")
    with suppress(BrokenPipeError):  # the agent was killed meanwhile
        print(ANSWER + json.dumps(said), flush=True)
