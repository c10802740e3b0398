"""Directories in which servers may run, and servers and clients that do not outlive their test."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_memory_pgvector.server.cluster import EmbeddedServer
from tests.support.embedded import BIN_DIR, Client, MakeServer, StartClient
from tests.support.places import server_place


@pytest.fixture
def make_server(place: Path) -> Iterator[MakeServer]:
    """Makes servers, by default in one directory of the test, and stops them at its end."""
    made: list[EmbeddedServer] = []

    def make(root: Path | None = None, **options: Any) -> EmbeddedServer:
        # Nothing here survives a power cut, so nothing need wait for the disk.
        settings = {"fsync": "off", **options.pop("settings", {})}
        made.append(EmbeddedServer(root or place / "pg", **{"bin_dir": BIN_DIR, "settings": settings} | options))
        return made[-1]

    yield make
    for server in made:
        if server.root.is_dir():
            server.stop()
        server.release()


@pytest.fixture
def new_server(make_server: MakeServer) -> EmbeddedServer:
    """A server whose first start makes its data."""
    return make_server()


@pytest.fixture(scope="session")
def stopped() -> Iterator[Path]:
    """The directory of a server that was made and stopped."""
    with server_place() as place:
        server = EmbeddedServer(place / "pg", bin_dir=BIN_DIR, settings={"fsync": "off"})
        server.ensure()
        server.stop()
        server.release()
        (server.root / "server.log").unlink()
        yield server.root


@pytest.fixture
def server(make_server: MakeServer, stopped: Path) -> EmbeddedServer:
    """A server whose data were made before, as almost every start finds them: making them takes ten times as long."""
    server = make_server()
    subprocess.run(["cp", "-a", stopped, server.root], check=True)
    return server


@pytest.fixture
def start_client(place: Path, make_server: MakeServer) -> Iterator[StartClient]:
    """Starts processes that use the server of the test's directory; those still there at its end are killed."""
    clients: list[Client] = []

    def start(root: Path | None = None) -> Client:
        clients.append(Client(root or place / "pg"))
        return clients[-1]

    make_server()
    yield start
    for client in clients:
        client.close()
