"""What the page works with: opened when somebody asks, by the settings of that moment, and let go of in time."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
import yaml

from hermes_memory_pgvector.dashboard.routes import ROUTES
from hermes_memory_pgvector.dashboard.served_homes import ServedHomes
from hermes_memory_pgvector.dashboard.workers import Workers
from hermes_memory_pgvector.domain.errors import StoreUnavailable
from tests.conftest import DIMS
from tests.support.dashboard import BASE, DashboardApi, dashboard_api
from tests.support.mcp_client import mcp_home
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import until

PAGE_WAITS_S = 1.0
SLACK_S = 2.0  # of a machine that does other things as well
NEEDED = {"theme": "default", "session": "s", "q": "atlas", "message": "When does it begin?", "ref": "m1"}
QUESTIONS = sorted(route.path for route in ROUTES if not route.changes)
WITHOUT_DATABASE = ("/overview", "/profiles", "/settings")  # which say something all the same


def write_settings(home: Path, dsn: str, **more: object) -> None:
    section = {"dsn": dsn, "dims": DIMS, **more}
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": section}}), encoding="utf-8")


def new_home(folder: Path, dsn: str) -> Path:
    return mcp_home(folder, dsn=dsn, dims=DIMS).path


@pytest.fixture
def home(tmp_path: Path, dsn: str) -> Path:
    return new_home(tmp_path / "agent", dsn)


@pytest.fixture
def served_homes() -> Iterator[ServedHomes]:
    made = ServedHomes()
    yield made
    made.close()


@pytest.fixture
def connections(admin_dsn: str) -> Iterator[Callable[[], int]]:
    """How many connections there are to the test's database, but for the one that asks."""
    with psycopg.connect(admin_dsn, autocommit=True) as conn:
        yield lambda: conn.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND usename = 'hermes'"
        ).fetchone()[0]  # type: ignore[index]


@pytest.fixture
def proxy(dsn: str) -> Iterator[TcpProxy]:
    with TcpProxy.before(dsn) as proxy:
        yield proxy


@pytest.fixture
def behind_proxy(tmp_path: Path, dsn: str, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[DashboardApi]:
    home = new_home(tmp_path / "agent", proxy.conninfo(dsn))
    with dashboard_api(home, monkeypatch) as client:
        yield client
        proxy.start()


def answered(api: DashboardApi, path: str) -> tuple[int, float, str]:
    """Status, seconds and text of an answer."""
    began = time.monotonic()
    answer = api.http.get(BASE + path, params=NEEDED)
    return answer.status_code, time.monotonic() - began, answer.text


def works(api: DashboardApi) -> bool:
    return answered(api, "/themes")[0] == 200


# -- settings --------------------------------------------------------------------------------------------------------


def test_the_next_request_goes_by_the_settings_of_that_moment(home: Path, dsn: str, served_homes: ServedHomes) -> None:
    with served_homes.at(home) as before:
        assert before.settings.prefetch_limit == 5
    with served_homes.at(home) as same:
        assert same is before
    write_settings(home, dsn, prefetch_limit=7)
    with served_homes.at(home) as after:
        assert after.settings.prefetch_limit == 7
        with after.reading() as conn:
            assert conn.execute("SELECT 1").fetchone()


def test_a_new_key_of_the_endpoint_counts_too(home: Path, served_homes: ServedHomes) -> None:
    with served_homes.at(home) as before:
        pass
    (home / ".env").write_text("HERMES_PGVECTOR_EMBED_API_KEY=abc\n", encoding="utf-8")
    with served_homes.at(home) as after:
        assert after is not before


def test_a_request_ends_with_the_settings_it_began_with(
    home: Path, dsn: str, served_homes: ServedHomes, connections: Callable[[], int]
) -> None:
    with served_homes.at(home) as old, old.reading(5) as conn:
        write_settings(home, dsn, prefetch_limit=7)
        began = time.monotonic()
        with served_homes.at(home) as new:
            assert new is not old
        assert time.monotonic() - began < 0.5, "the old one is not waited for"
        assert conn.execute("SELECT 1").fetchone()
    until(lambda: connections() == 0, what="the old one to let its connections go")


# -- how long --------------------------------------------------------------------------------------------------------


def test_what_nobody_asks_is_closed(home: Path, connections: Callable[[], int]) -> None:
    served_homes = ServedHomes(idle_s=0.4)
    with served_homes.at(home) as first, first.reading(5):
        assert connections() > 0
    until(lambda: connections() == 0)
    with served_homes.at(home) as again, again.reading(5) as conn:
        assert again is not first
        assert conn.execute("SELECT 1").fetchone()
    served_homes.close()


def test_of_many_homes_the_one_left_first_is_closed(tmp_path: Path, dsn: str) -> None:
    served_homes, homes = ServedHomes(most=2), [new_home(tmp_path / f"home{number}", dsn) for number in range(3)]
    with served_homes.at(homes[0]) as first:
        pass
    with served_homes.at(homes[1]) as second, served_homes.at(homes[2]):
        with pytest.raises(StoreUnavailable, match="ask again"), served_homes.at(homes[0]):
            pass
        with served_homes.at(homes[1]) as same:
            assert same is second
    with served_homes.at(homes[0]) as reopened:
        assert reopened is not first
    served_homes.close()


def test_closing_does_not_wait_for_a_database_that_is_deaf(tmp_path: Path, dsn: str, proxy: TcpProxy) -> None:
    proxy.deaf()
    served_homes = ServedHomes()
    with served_homes.at(new_home(tmp_path / "agent", proxy.conninfo(dsn))) as served, pytest.raises(StoreUnavailable):
        served.context(0.05)
    began = time.monotonic()
    served_homes.close()
    assert time.monotonic() - began < 3.5
    proxy.start()


# -- outages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outage", ["stop", "deaf"])
def test_without_a_database_every_question_is_answered_in_time(
    behind_proxy: DashboardApi, proxy: TcpProxy, outage: str
) -> None:
    getattr(proxy, outage)()
    for path in QUESTIONS:
        status, took_s, text = answered(behind_proxy, path)
        assert took_s < PAGE_WAITS_S + SLACK_S, (path, took_s)
        if path not in WITHOUT_DATABASE:
            assert status == 503, (path, text)
            assert "hermes-pgvector doctor" in text or "start Postgres there" in text, (path, text)
    proxy.start()
    until(lambda: works(behind_proxy), what="the page to be back by itself")


@pytest.mark.parametrize("outage", ["stop", "deaf"])
def test_a_database_that_goes_while_somebody_looks_comes_back_by_itself(
    behind_proxy: DashboardApi, proxy: TcpProxy, outage: str, records: Callable[[int], list[str]]
) -> None:
    until(lambda: works(behind_proxy))
    for _ in range(2):
        getattr(proxy, outage)()
        for _ in range(3):
            status, took_s, text = answered(behind_proxy, "/themes")
            assert (status, took_s < PAGE_WAITS_S + SLACK_S) == (503, True), (took_s, text)
        assert answered(behind_proxy, "/overview")[1] < PAGE_WAITS_S + SLACK_S
        proxy.start()
        until(lambda: works(behind_proxy), what="the page to be back by itself")
    assert not [said for said in records(logging.INFO) if "kept on disk" in said or "meanwhile" in said], "by an agent"


def test_connections_that_break_are_made_anew(behind_proxy: DashboardApi, proxy: TcpProxy) -> None:
    until(lambda: works(behind_proxy))
    proxy.cut()
    until(lambda: works(behind_proxy))


def test_without_tables_it_is_said_how_to_make_them(
    tmp_path: Path, empty_admin_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dashboard_api(new_home(tmp_path / "agent", empty_admin_dsn), monkeypatch) as api:
        until(lambda: "hermes-pgvector migrate" in answered(api, "/themes")[2])
        assert answered(api, "/themes")[0] == 503


def test_a_configuration_that_cannot_be_read_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with dashboard_api(home, monkeypatch) as api:
        (home / "config.yaml").write_text("plugins: [\n", encoding="utf-8")
        assert "config.yaml is not valid YAML" in answered(api, "/themes")[2]


def test_many_questions_to_a_deaf_database_leave_few_threads(behind_proxy: DashboardApi, proxy: TcpProxy) -> None:
    until(lambda: works(behind_proxy))
    proxy.deaf()
    before, seen = threading.active_count(), []

    def ask() -> int:
        seen.append(threading.active_count())
        return answered(behind_proxy, "/themes")[0]

    with ThreadPoolExecutor(60) as askers:
        asked = [askers.submit(ask) for _ in range(240)]
    assert {each.result() for each in asked} == {503}
    assert max(seen) - before < 60 + 24 + 12, "those who ask, those who answer, and the connecting"


def test_beyond_what_can_be_answered_at_once_it_is_said_so() -> None:
    gate = threading.Event()
    workers, before = Workers("test", 2), threading.active_count()

    async def ask() -> list[object]:
        late = [workers.answer(gate.wait, 0.05) for _ in range(2)]
        found = await asyncio.gather(*late, return_exceptions=True)
        found += await asyncio.gather(workers.answer(gate.wait, 0.05), return_exceptions=True)
        gate.set()
        return list(found)

    kinds = [type(each) for each in asyncio.run(ask())]
    assert kinds == [TimeoutError, TimeoutError, StoreUnavailable], "what hangs counts until it ends"
    until(lambda: threading.active_count() == before)
    assert asyncio.run(workers.answer(lambda: "free again", 5)) == "free again"


# -- profiles --------------------------------------------------------------------------------------------------------


@pytest.fixture
def profiled(home: Path, dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[DashboardApi]:
    write_settings(home, dsn, default_theme="of-root")
    for name in ("coder", "writer", "No Profile", ".hidden"):
        (home / "profiles" / name).mkdir(parents=True)
        write_settings(home / "profiles" / name, dsn, default_theme=f"of-{name}")
    (home / "profiles" / "file").touch()
    with dashboard_api(home, monkeypatch) as api:
        yield api


def test_the_profiles_are_listed_with_the_one_that_is_asked_about(profiled: DashboardApi, home: Path) -> None:
    found = profiled.get("/profiles", profile="coder")
    assert found == {
        "profiles": [
            {"name": "default", "home": str(home)},
            {"name": "coder", "home": str(home / "profiles" / "coder")},
            {"name": "writer", "home": str(home / "profiles" / "writer")},
        ],
        "current": "coder",
    }
    assert profiled.get("/profiles")["current"] == profiled.get("/profiles", profile="default")["current"] == "default"


@pytest.mark.parametrize(
    "name",
    [
        "nobody",
        "No Profile",
        ".hidden",
        "file",
        "..",
        "../coder",
        "coder/..",
        "/tmp",
        "coder\0",
        "CODER",
        "x" * 65,
        "ä",
    ],
)
def test_a_profile_that_is_none_is_refused(profiled: DashboardApi, name: str) -> None:
    status, said = profiled.refused("/profiles", profile=name)
    assert (status, "there is no profile" in said) == (400, True)


def test_in_a_profiles_own_process_the_others_are_found_too(profiled: DashboardApi, home: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HERMES_HOME", str(home / "profiles" / "writer"))
        assert profiled.get("/profiles")["current"] == "writer"
        assert profiled.get("/profiles", profile="coder")["current"] == "coder"
        assert profiled.get("/profiles", profile="default")["current"] == "default"


def test_what_the_host_read_of_one_profile_does_not_hold_in_another(
    home: Path, dsn: str, served_homes: ServedHomes, monkeypatch: pytest.MonkeyPatch
) -> None:
    coder = home / "profiles" / "coder"
    coder.mkdir(parents=True)
    write_settings(coder, dsn, default_theme="of-coder")
    (home / ".env").write_text("HERMES_PGVECTOR_DEFAULT_THEME=of-root\n", encoding="utf-8")
    monkeypatch.setenv("HERMES_HOME", str(home))
    monkeypatch.setenv("HERMES_PGVECTOR_DEFAULT_THEME", "of-root")  # as the host does when it starts
    monkeypatch.setenv("HERMES_PGVECTOR_PREFETCH_LIMIT", "9")  # of whoever started it: holds everywhere
    for where, theme in ((home, "of-root"), (coder, "of-coder")):
        with served_homes.at(where) as served:
            assert (served.settings.default_theme, served.settings.prefetch_limit) == (theme, 9)
