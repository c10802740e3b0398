"""Fixtures for tests of the dashboard's page: the real host, a demo database, a real browser."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser, BrowserContext, sync_playwright
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.server.cluster import EmbeddedServer
from tests.conftest import DIMS, new_database
from tests.support.browser_files import browser_program
from tests.support.hermes import HermesHome, describe
from tests.support.host_dashboard import HostDashboard
from tests.support.local_models import link_model
from tests.support.model_files import MODEL_NAME
from tests.support.page import Opened, opened, window
from tests.support.stored import Database
from tests.support.waiting import until

EDITED = "The colour of the Atlas logo is RAL 5017, traffic blue."
DEMO = Path(__file__).resolve().parents[1] / "support" / "demo_memory.py"

Open = Callable[..., Opened]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    program, environment = browser_program()
    with sync_playwright() as playwright:
        # Without a sandbox, which root cannot have: it sees nothing but our own pages.
        started = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"], env={**environment, "LANG": "en_GB.UTF-8"}
        )
        yield started
        started.close()


@contextmanager
def served_home(root: Path, dsn: str, **settings: object) -> Iterator[HostDashboard]:
    """Serve a home on a database through the host's dashboard."""
    home = HermesHome(root)
    link_model(home.path)
    config = {"dsn": dsn, "dims": DIMS, "embed_url": f"local:{MODEL_NAME}", "embed_model": MODEL_NAME}
    home.write_config("http://127.0.0.1:9/v1", config | settings)
    installed = home.shim_plugin()
    assert installed.returncode == 0, describe(installed)
    with HostDashboard(home) as dashboard:
        yield dashboard


@pytest.fixture(scope="session")
def demo_dsn(postgres: EmbeddedServer, migrated_template: str) -> Iterator[str]:
    """The runtime role's conninfo of the demo's database."""
    for admin_dsn in new_database(postgres, migrated_template):
        yield runtime_dsn(admin_dsn)


def runtime_dsn(admin_dsn: str) -> str:
    """Return the runtime role's conninfo of the same database."""
    return make_conninfo(admin_dsn, user="hermes")


@pytest.fixture(scope="session")
def dashboard(demo_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostDashboard]:
    """A dashboard over a database that the demo has filled."""
    with served_home(tmp_path_factory.mktemp("demo") / "user", demo_dsn) as running:
        filled = running.home.python(str(DEMO), str(running.home.path))
        assert filled.returncode == 0, describe(filled)
        # The first question has the database connected to and the model loaded, and is asked again meanwhile.
        with running.http() as http:
            until(lambda: http.get("/search", params={"q": "ready?"}).status_code == 200, what="the first answer")
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
def module_dsn(postgres: EmbeddedServer, migrated_template: str) -> Iterator[str]:
    """The runtime role's conninfo of a new database for the tests of a module."""
    for admin_dsn in new_database(postgres, migrated_template):
        yield runtime_dsn(admin_dsn)


@pytest.fixture(scope="session")
def tabs(browser: Browser) -> Iterator[BrowserContext]:
    """The browser's profile of all tests: the host's own files are loaded once."""
    with window(browser) as context:
        yield context


@pytest.fixture
def open_page(tabs: BrowserContext, dashboard: HostDashboard) -> Iterator[Open]:
    """Opens a view of the demo's page in a tab of its own; whatever it complains of fails the test."""
    with opened(tabs, dashboard) as opening:
        yield opening
