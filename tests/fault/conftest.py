"""Servers that fail as a test asks: Postgres behind a proxy, a scripted embedding endpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.conftest import DIMS
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.tcp_proxy import TcpProxy


@pytest.fixture(autouse=True)
def no_settings_of_the_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings in the environment would win over a test's, and unknown ones would add a warning."""
    for name in [name for name in os.environ if name.startswith("HERMES_PGVECTOR_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def database(dsn: str) -> Database:
    return Database(dsn)


@pytest.fixture
def proxy(dsn: str) -> Iterator[TcpProxy]:
    """The network between the provider and the test's database."""
    with TcpProxy.before(dsn) as made:
        yield made


@pytest.fixture
def proxied(dsn: str, proxy: TcpProxy) -> str:
    """The runtime role's conninfo, by way of the proxy."""
    return proxy.conninfo(dsn)


@pytest.fixture
def endpoint() -> Iterator[ScriptedEmbedder]:
    with ScriptedEmbedder(dims=DIMS) as server:
        yield server
