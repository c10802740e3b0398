"""The command `server`: start, stop or show the embedded Postgres by hand."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from ...server.cluster import EmbeddedServer
from ..common.commands import EXIT_FAILED, EXIT_OK, Command, action, printed
from ..common.console import say, warn
from ..common.database import settings_of
from ..common.embedded_server import embedded_server, starting_said

_LEAVING_S = 1.0  # how long a command that has just ended may still be counted as a user of the server


@dataclass(frozen=True, slots=True)
class ServerReport:
    """The state of the embedded server. `unused`: agents of this home use another server, by `dsn`."""

    up: bool
    in_use: bool
    kept: bool
    directory: Path
    unused: bool

    def lines(self) -> list[str]:
        """Return the report as lines of text."""
        lines = [f"embedded Postgres in {self.directory}", f"it is {'up' if self.up else 'down'}"]
        if self.kept:
            lines.append("it stays up until: hermes-pgvector server stop")
        if self.unused:
            lines.append("note: `dsn` is set, so agents use that server and never this one")
        return lines


def _start(args: argparse.Namespace, home: Path) -> int:
    def start(server: EmbeddedServer) -> None:
        server.ensure()
        server.keep_up()
        server.release()

    return _report(args, home, start)


def _stop(args: argparse.Namespace, home: Path) -> int:
    def stop(server: EmbeddedServer) -> None:
        if _stays_in_use(server):
            warn("agents or commands are using it; an agent starts it again when it next needs it")
        server.stop()

    _report(args, home, stop)
    return EXIT_OK


def _stays_in_use(server: EmbeddedServer) -> bool:
    """Return whether others use the server, asked again for a moment while somebody may be leaving."""
    ends = time.monotonic() + _LEAVING_S
    while server.in_use():
        if time.monotonic() >= ends:
            return True
        time.sleep(_LEAVING_S / 20)
    return False


def _status(args: argparse.Namespace, home: Path) -> int:
    def look(server: EmbeddedServer) -> None:
        server.answers()  # or it says why nobody can tell

    return _report(args, home, look)


def _report(args: argparse.Namespace, home: Path, act: Callable[[EmbeddedServer], None]) -> int:
    """Run `act` on the home's server, then print the server's state."""
    settings = settings_of(home)
    server = embedded_server(settings)
    with starting_said(server):
        act(server)
    report = ServerReport(server.running(), server.in_use(), server.is_kept_up(), server.root, bool(settings.dsn))
    printed(args, asdict(report), lambda: say("\n".join(report.lines())))
    return EXIT_OK if report.up else EXIT_FAILED


_EXAMPLE = "hermes-pgvector server "
SERVER = Command(
    f"{_EXAMPLE}status\n{_EXAMPLE}stop",
    actions=[
        action("start", "start it and keep it up until `server stop`", f"{_EXAMPLE}start", _start),
        action("stop", "stop it; agents start it again", f"{_EXAMPLE}stop", _stop),
        action("status", "show whether it is up, and where its data is", f"{_EXAMPLE}status", _status),
    ],
)
