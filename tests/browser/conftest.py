"""Fixtures for tests of the dashboard's page: the real host, a demo database, a real browser."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import yaml
from playwright.sync_api import Browser, BrowserContext

from tests.conftest import DIMS
from tests.support.databases import Databases
from tests.support.demo_dashboard import demo_dashboard, runtime_dsn
from tests.support.host_dashboard import HostDashboard
from tests.support.page import Opened, chromium, opened, window
from tests.support.stored import Database

EDITED = "The colour of the Atlas logo is RAL 5017, traffic blue."

Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for a module: while it is driven, nothing else in this process has an event loop."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def demo_dsn(databases: Databases, migrated_template: str) -> Iterator[str]:
    """The runtime role's conninfo of the demo's database."""
    with databases.copy(migrated_template) as admin_dsn:
        yield runtime_dsn(admin_dsn)


@pytest.fixture(scope="session")
def dashboard(demo_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostDashboard]:
    """A dashboard over a database that the demo has filled."""
    with demo_dashboard(tmp_path_factory.mktemp("demo") / "user", demo_dsn) as running:
        yield running


class Demo:
    """What the tests know of the demo's rows."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def number(self, content: str) -> str:
        """Return a memory's number, as the page shows it."""
        (number,) = self.database.column("SELECT id FROM memory_entries WHERE content = %s", content)
        return f"m{number}"

    def session(self, theme: str) -> str:
        """Return the newest session of a theme."""
        query = "SELECT session_id FROM conversations WHERE agent_identity = %s ORDER BY ts DESC LIMIT 1"
        (session,) = self.database.column(query, theme)
        return str(session)

    def params(self, view: str) -> dict[str, str]:
        """Return the parameters of a view that depend on what is stored."""
        if view == "session":
            return {"session": self.session("sre")}
        if view == "row":
            return {"ref": self.number(EDITED)}
        return {}


@pytest.fixture(scope="session")
def demo(dashboard: HostDashboard, demo_dsn: str) -> Demo:
    """What stands in the demo's database."""
    return Demo(Database(demo_dsn))


@contextmanager
def profile(dashboard: HostDashboard, name: str, dsn: str) -> Iterator[None]:
    """Give the home of a dashboard a profile with a database of its own."""
    path = dashboard.home.path / "profiles" / name
    path.mkdir(parents=True)
    config = {"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}
    (path / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    try:
        yield
    finally:
        shutil.rmtree(path)


@pytest.fixture(scope="module")
def module_dsn(databases: Databases, migrated_template: str) -> Iterator[str]:
    """The runtime role's conninfo of a new database for the tests of a module."""
    with databases.copy(migrated_template) as admin_dsn:
        yield runtime_dsn(admin_dsn)


@pytest.fixture(scope="module")
def tabs(browser: Browser) -> Iterator[BrowserContext]:
    """The browser's profile of a module: the host's own files are loaded once."""
    with window(browser) as context:
        yield context


@pytest.fixture
def open_page(tabs: BrowserContext, dashboard: HostDashboard) -> Iterator[Open]:
    """Opens a view of the demo's page in a tab of its own; whatever it complains of fails the test."""
    with opened(tabs, dashboard) as opening:
        yield opening
