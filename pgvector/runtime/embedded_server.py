"""Starting, stopping and looking at the embedded server by hand."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from ..config.settings import Settings
from ..server.cluster import EmbeddedServer


def embedded_server(settings: Settings) -> EmbeddedServer:
    """The embedded server these settings mean; does no I/O."""
    return EmbeddedServer(
        Path(settings.embedded_dir).expanduser() if settings.embedded_dir else None,
        bin_dir=settings.embedded_bin_dir,
        run_as=settings.embedded_run_as,
    )


@dataclass(frozen=True, slots=True)
class ServerState:
    """How the embedded server stands."""

    up: bool
    directory: Path
    unused: bool

    def render(self) -> str:
        """The state for people."""
        lines = [f"embedded Postgres in {self.directory}", f"it is {'up' if self.up else 'down'}"]
        if self.unused:
            lines.append("note: `dsn` is set, so agents use that server and never this one")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The state for machines."""
        return asdict(self) | {"directory": str(self.directory)}


def serve(settings: Settings, action: Literal["start", "stop", "status"]) -> ServerState:
    """Do `action` and say how the server stands then."""
    server = embedded_server(settings)
    if action == "start":
        server.ensure()
    elif action == "stop":
        server.stop()
    return ServerState(server.running(), server.root, bool(settings.dsn))


def whereabouts(settings: Settings) -> str:
    """Where the embedded server keeps its data."""
    return f"embedded Postgres in {embedded_server(settings).root}"


def account_notice(settings: Settings) -> str:
    """As whom the embedded server runs when that is not ourselves; empty when it is, or a `dsn` is set."""
    return "" if settings.dsn else embedded_server(settings).notice()
