"""Starting, stopping and looking at the embedded server by hand."""

from __future__ import annotations

from pathlib import Path

from ..domain.settings import Settings
from ..server.cluster import EmbeddedServer


def embedded_server(settings: Settings) -> EmbeddedServer:
    """The embedded server these settings mean; does no I/O."""
    return EmbeddedServer(
        Path(settings.embedded_dir).expanduser() if settings.embedded_dir else None,
        bin_dir=settings.embedded_bin_dir,
        run_as=settings.embedded_run_as,
    )


def serve(settings: Settings, action: str) -> bool:
    """Do `action` (start, stop, status) and say how the server stands; False when status finds it down."""
    server = embedded_server(settings)
    if action == "start":
        server.ensure()
    elif action == "stop":
        server.stop()
    up = server.running()
    print(f"{whereabouts(settings)}\nit is {'up' if up else 'down'}")
    if settings.dsn:
        print("note: `dsn` is set, so agents use that server and never this one")
    return up or action == "stop"


def whereabouts(settings: Settings) -> str:
    """Where the embedded server keeps its data, and as whom it runs when that is not ourselves."""
    server = embedded_server(settings)
    return "\n".join(line for line in (f"embedded Postgres in {server.root}", server.notice()) if line)
