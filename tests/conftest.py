"""What most tests stand on: a real Postgres with a database of their own, and providers that leave nothing behind."""

from __future__ import annotations

import gc
import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from psycopg.conninfo import make_conninfo
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from hermes_memory_pgvector.admin.common.migrations import migrate
from hermes_memory_pgvector.host import guard
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.runtime.process import close_all
from hermes_memory_pgvector.server.cluster import EmbeddedServer

from .support.databases import Databases
from .support.embedded import BIN_DIR
from .support.no_skips import NoSkips
from .support.places import server_place
from .support.pooler import pgbouncer
from .support.row_security import confine_runtime_role
from .support.told_once import forget_warnings
from .support.trust import trust_nobody
from .support.waiting import until

# How long an example takes is the machine's affair. In CI, which says so by its variable, they are always the same.
hypothesis.settings.register_profile(
    "suite", hypothesis.settings(), deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("suite")

DIMS = 384

MakeProvider = Callable[..., PgvectorMemoryProvider]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --no-skips."""
    parser.addoption("--no-skips", action="store_true", help="a test that is skipped has failed")


def pytest_configure(config: pytest.Config) -> None:
    """Judge skips and trust nobody, in every process that runs tests, and have Ctrl-C reach what they start.

    Who is started in the background ignores it, and so would all that comes after.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["LANGUAGE"] = "C"  # else argparse looks on the disk for a translation of each of its words
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)  # a program that is started then has it as it usually is
    trust_nobody()
    if config.getoption("--no-skips"):
        config.pluginmanager.register(NoSkips())


class Scheduling(LoadFileScheduling):  # type: ignore[misc]
    """Keep the tests of a file in one process, and all of the browser, which share a dashboard over a full memory."""

    def _split_scope(self, nodeid: str) -> str:
        return "tests/browser" if nodeid.startswith("tests/browser/") else str(super()._split_scope(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    """Return what deals out the tests, whatever --dist says."""
    return Scheduling(config, log)


def pytest_runtest_setup() -> None:
    """Let a day by UTC that is about to end be over first: else a test that names days would begin on another one."""
    ends_on = (datetime.now(UTC) + timedelta(seconds=40)).date()
    until(lambda: datetime.now(UTC).date() == ends_on, what="the end of the day")


def pytest_collection_finish() -> None:
    """Take modules and collected tests, which stay to the end, out of what Python looks through for garbage.

    And have it look less often: these processes are short, and have memory enough.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedServer]:
    """One Postgres for all tests, in a directory that other accounts can reach."""
    with server_place() as place:
        # Nothing here survives a power cut, so nothing need wait for the disk.
        server = EmbeddedServer(
            place / "pg",
            bin_dir=BIN_DIR,
            settings={"fsync": "off", "full_page_writes": "off", "max_connections": "200"},
        )
        server.ensure()
        yield server
        server.stop()
        server.release()


@pytest.fixture(scope="session")
def databases(postgres: EmbeddedServer) -> Iterator[Databases]:
    """Makes the databases of the tests."""
    with closing(Databases(postgres)) as made:
        yield made


@pytest.fixture(scope="session")
def migrated_template(databases: Databases) -> str:
    """The name of a migrated database, to be copied."""
    admin_dsn = databases.create("migrated", "template0")
    migrate(admin_dsn, dims=DIMS, runtime_role="hermes")
    if mode := os.environ.get("PGVECTOR_TEST_ROW_SECURITY"):
        confine_runtime_role(admin_dsn, mode)
    return "migrated"


@pytest.fixture
def empty_admin_dsn(databases: Databases) -> Iterator[str]:
    """An admin's conninfo of a new database without our schema."""
    with databases.copy("template0") as admin_dsn:
        yield admin_dsn


@pytest.fixture
def admin_dsn(databases: Databases, migrated_template: str) -> Iterator[str]:
    """An admin's conninfo of a new, migrated database."""
    with databases.copy(migrated_template) as admin_dsn:
        yield admin_dsn


@pytest.fixture(scope="session")
def led_through(postgres: EmbeddedServer) -> Iterator[Callable[[str], str]]:
    """Leads a conninfo through a pooler in transaction mode, where PGVECTOR_TEST_POOLER asks for one."""
    if not os.environ.get("PGVECTOR_TEST_POOLER"):
        yield str
        return
    with pgbouncer(postgres.ensure().admin) as pooler:
        yield pooler.conninfo


@pytest.fixture
def dsn(direct_dsn: str, led_through: Callable[[str], str]) -> str:
    """The runtime role's conninfo of the same database."""
    return led_through(direct_dsn)


@pytest.fixture
def direct_dsn(admin_dsn: str) -> str:
    """The runtime role's conninfo at the server itself, whatever stands before it elsewhere."""
    return make_conninfo(admin_dsn, user="hermes")


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory for a server of the test's own, which other accounts can reach."""
    with server_place() as directory:
        yield directory


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty hermes home."""
    path = tmp_path / "hermes-home"
    path.mkdir()
    return path


@pytest.fixture(autouse=True)
def fresh_process_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Every test starts without runtimes, warnings already given, or a home of the developer's."""
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "hermes-home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    guard.failures.clear()
    forget_warnings()
    yield
    close_all()
    assert not guard.failures, f"an error reached the border to the host: {dict(guard.failures)}"


@pytest.fixture
def make_provider(dsn: str, home: Path) -> Iterator[MakeProvider]:
    """Makes initialised providers on the test's database, as the API server does for each request.

    Keyword arguments of `initialize` by name; `config` adds to or replaces settings.
    """

    def make(config: dict[str, Any] | None = None, **kwargs: Any) -> PgvectorMemoryProvider:
        # Most tests count what is found, whatever its size, and name days of UTC, wherever they run.
        settings = {"dsn": dsn, "dims": DIMS, "recall_max_tokens": 100_000, "timezone": "UTC"}
        made = PgvectorMemoryProvider(settings | (config or {}))
        arguments = {"hermes_home": str(home), "platform": "api_server", "gateway_session_key": "marketing"} | kwargs
        made.initialize(arguments.pop("session_id", "session-1"), **arguments)
        return made

    yield make
    close_all()  # before the database goes


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Callable[[int], list[str]]:
    """Messages our package has logged in this test, of a level and above."""
    caplog.set_level(logging.DEBUG)

    def messages(level: int) -> list[str]:
        return [
            record.getMessage()
            for record in caplog.records
            if record.name.startswith("hermes_memory_pgvector") and record.levelno >= level
        ]

    return messages
