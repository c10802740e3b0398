"""Fixtures for tests in the real host: a home with our plugin, a scripted model, a running gateway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import Gateway
from tests.support.hermes import HermesHome
from tests.support.model_server import ModelServer
from tests.support.stored import Database


@pytest.fixture
def database(dsn: str) -> Database:
    return Database(dsn)


@pytest.fixture
def settings(dsn: str) -> dict[str, Any]:
    return {"dsn": dsn, "dims": 384}


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def bare_home(tmp_path: Path) -> HermesHome:
    """A home without configuration and without the plugin."""
    return HermesHome(tmp_path / "user")


@pytest.fixture
def active_home(bare_home: HermesHome, model: ModelServer, settings: dict[str, Any]) -> HermesHome:
    """A home with the plugin copied into it, active, and set up for the test's database."""
    bare_home.copy_plugin()
    bare_home.write_config(model.base_url, settings)
    return bare_home


@pytest.fixture
def gateway(active_home: HermesHome) -> Iterator[Gateway]:
    with Gateway(active_home) as running:
        yield running
    print(running.log())  # shown beside the failure of a test, if it failed
