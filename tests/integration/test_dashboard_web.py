"""`hermes-pgvector web`: the page without hermes, for whoever has the address that was printed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
import yaml
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from hermes_memory_pgvector.dashboard.web_server import Admission
from tests.conftest import DIMS
from tests.support.blocked_packages import PoorEnvironment
from tests.support.browser_files import browser_program
from tests.support.open_files import at_most_open_files
from tests.support.waiting import until

from .conftest import started_cli

API = "/api/plugins/pgvector"
# What a server has imported once it serves.
PREPARED = ("hermes_memory_pgvector.dashboard.web_server", "uvicorn.protocols.http.auto", "uvicorn.lifespan.on")
Start = Callable[..., "subprocess.Popen[str]"]


@dataclass(frozen=True)
class Web:
    """A server, and the address it printed."""

    process: subprocess.Popen[str]
    address: str

    @property
    def base(self) -> str:
        return f"http://{urlsplit(self.address).netloc}"

    @property
    def token(self) -> str:
        return urlsplit(self.address).fragment

    def session(self) -> str:
        """The session that the address is exchanged for."""
        answer = httpx.post(f"{self.base}/session", json={"token": self.token})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["session"])


@contextmanager
def served(start_cli: Start, *arguments: str) -> Iterator[Web]:
    with start_cli("web", "--no-open", "--port", "0", *arguments, prepared=PREPARED) as process:
        try:
            assert process.stdout is not None
            yield Web(process, process.stdout.readline().strip())
        finally:
            process.kill()


@pytest.fixture
def web(home: Path, dsn: str, start_cli: Start) -> Iterator[Web]:
    section = {"pgvector": {"dsn": dsn, "dims": DIMS}}
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": section}), encoding="utf-8")
    with served(start_cli) as found:
        yield found


@pytest.fixture(scope="module")
def shut_web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A server for all who do not get in: nothing that they ask for reaches a database."""
    home = tmp_path_factory.mktemp("shut")
    section = {"pgvector": {"dsn": "host=/nowhere", "dims": DIMS}}
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": section}), encoding="utf-8")
    with served(partial(started_cli, home, home)) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program, environment = browser_program()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"], env=dict(environment))
        yield browser
        browser.close()


@pytest.fixture
def visitor(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context()
    yield context
    context.close()


def test_the_address_works_once(web: Web) -> None:
    asked = httpx.get(f"{web.base}{API}/overview")
    assert (asked.status_code, "hermes-pgvector web" in asked.json()["error"]) == (401, True)

    headers = {"X-Hermes-Session-Token": web.session()}

    until(lambda: httpx.get(f"{web.base}{API}/overview", headers=headers).status_code == 200)
    again = httpx.post(f"{web.base}/session", json={"token": web.token})
    assert (again.status_code, "used already" in again.json()["error"]) == (401, True)
    assert httpx.get(f"{web.base}{API}/overview", headers={"X-Hermes-Session-Token": web.token}).status_code == 401


def test_the_address_works_for_a_short_time() -> None:
    late = Admission(valid_s=0)
    assert late.exchange(late.token) == ""
    admission = Admission()
    for wrong in ("", "x", None, 7, ["x"], "ä\ud800"):
        assert admission.exchange(wrong) == ""
    session = admission.exchange(admission.token)
    assert admission.admits(session) and not admission.admits("") and not admission.admits("\udc80")


def test_who_has_no_token_cannot_fill_the_memory(shut_web: Web) -> None:
    answer = httpx.post(f"{shut_web.base}/session", json={"token": "x" * 10_000})
    assert (answer.status_code, "1,000 bytes" in answer.json()["error"]) == (400, True)


LED_HERE = ("evil.example", "127.0.0.1.evil.example", "127.0.0.2", "", "[::1", "localhost@evil", "me@localhost")
OF_A_PATH = ("localhost/x", "localhost?x", "localhost#x", "localhost:1/x")  # of which some Starlettes make the path


@pytest.mark.parametrize("host", [*LED_HERE, *OF_A_PATH])
def test_a_name_that_was_led_here_is_refused(shut_web: Web, host: str) -> None:
    for path in ("/", "/dist/index.js", f"{API}/overview"):
        assert httpx.get(f"{shut_web.base}{path}", headers={"Host": host}).status_code in (400, 403)


def test_pages_of_other_sites_may_not_ask(web: Web) -> None:
    headers = {"X-Hermes-Session-Token": web.session()}
    own = {"Origin": web.base, "Sec-Fetch-Site": "same-origin"}
    for other in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": web.base.replace("127.0.0.1", "localhost")},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site"},
    ):
        answer = httpx.get(f"{web.base}{API}/overview", headers={**headers, **other})
        assert answer.status_code == 403, other
    assert httpx.get(f"{web.base}{API}/overview", headers={**headers, **own}).status_code != 403
    asked = httpx.options(f"{web.base}{API}/overview", headers={"Origin": "https://evil.example"})
    assert not [name for name in asked.headers if name.startswith("access-control")]
    elsewhere = httpx.post(f"{web.base}/session", json={"token": web.token}, headers={"Origin": "https://evil.example"})
    assert elsewhere.status_code == 400
    assert httpx.post(f"{web.base}/session", content=json.dumps({"token": web.token})).status_code == 400


def test_every_answer_is_for_this_page_alone(shut_web: Web) -> None:
    for path in ("/", "/pgvector-memory", "/standalone/shell.js", f"{API}/overview", "/none"):
        headers = httpx.get(shut_web.base + path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert headers["cache-control"] == "no-store", "neither a browser nor a proxy keeps memories"
        assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")


@pytest.mark.parametrize(
    "path",
    ["/standalone/..%2froutes.py", "/routes.py", "/dist/../desk.py", "/standalone/", "/docs", "/openapi.json", "//etc"],
)
def test_only_the_files_of_the_page_are_served(shut_web: Web, path: str) -> None:
    with socket.create_connection(("127.0.0.1", urlsplit(shut_web.base).port or 0)) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        with raw.makefile("rb") as answer:
            assert b" 404 " in answer.readline()


def test_it_listens_on_loopback_only(shut_web: Web) -> None:
    port = urlsplit(shut_web.base).port or 0
    elsewhere = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in elsewhere - {"127.0.0.1"} | {"127.0.0.2"}:
        with socket.socket() as probe:
            assert probe.connect_ex((str(address), port)) != 0


def test_connections_of_other_programs_keep_nobody_out(home: Path, start_cli: Start) -> None:
    with at_most_open_files(256):
        serving = served(start_cli)
        web = serving.__enter__()
    with ExitStack() as wires:
        wires.push(serving)
        place = urlsplit(web.base)
        unsent = b"Host: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
        for began in (b"", b"GET / HTTP/1.1\r\nHo", b"POST /session HTTP/1.1\r\n" + unsent):
            for _ in range(200):
                wire = wires.enter_context(socket.create_connection((place.hostname, place.port), timeout=60))
                with suppress(ConnectionError):
                    wire.sendall(began)
            assert httpx.get(f"{web.base}/", timeout=20).status_code == 200
        assert web.session()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_ends_when_it_is_told_to(web: Web, number: signal.Signals) -> None:
    web.session()
    web.process.send_signal(number)
    _, stderr = web.process.communicate(timeout=60)
    assert (web.process.returncode, stderr) == (0, "")


def test_a_change_that_outlasts_the_server_is_told_to_be_in_doubt(web: Web, dsn: str) -> None:
    headers = {"X-Hermes-Session-Token": web.session()}
    body = {"theme": "sales", "content": "The office is in Paris"}
    with psycopg.connect(dsn) as holding, ThreadPoolExecutor(1) as pool:
        holding.execute("LOCK TABLE memory_entries IN EXCLUSIVE MODE")
        asked = pool.submit(httpx.post, f"{web.base}{API}/add", headers=headers, json=body, timeout=60)
        waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'memory_entries'::regclass"
        until(lambda: holding.execute(waits).fetchone() == (1,))
        web.process.terminate()
        answer = asked.result()
        _, stderr = web.process.communicate(timeout=60)
    assert answer.status_code == 503 and "look whether it was before you ask again" in answer.json()["error"]
    assert "Traceback" not in stderr


def test_for_programs_the_address_is_json(home: Path, start_cli: Start) -> None:
    with start_cli("web", "--no-open", "--port", "0", "--json") as process:
        assert process.stdout is not None
        text = "".join(process.stdout.readline() for _ in range(3))
        assert json.loads(text)["url"].startswith("http://127.0.0.1:")
        process.terminate()


def test_a_port_that_is_taken_is_named(start_cli: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with start_cli("web", "--no-open", "--port", port) as process:
            _, stderr = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"port {port} cannot be used" in stderr and "--port" in stderr


def test_without_its_packages_the_extra_is_named(home: Path, tmp_path: Path) -> None:
    poor = PoorEnvironment(tmp_path / "packages", ["fastapi", "uvicorn"])
    done = poor.run("import sys; from hermes_memory_pgvector.cli import main; sys.exit(main(['web']))", home=home)
    assert done.returncode == 1
    assert "the extra `web`" in done.stderr and "install fastapi uvicorn" in done.stderr


def test_no_hermes_is_needed(home: Path, tmp_path: Path) -> None:
    poor = PoorEnvironment(tmp_path / "packages", ["hermes", "plugins", "agent", "gateway"])
    program = (
        "from hermes_memory_pgvector.dashboard import web_server\n"
        "assert web_server.web_app(web_server.Admission())\nprint('fine')"
    )
    done = poor.run(program, home=home)
    assert done.stdout == "fine\n", done.stderr


def open_page(visitor: BrowserContext, address: str) -> tuple[Page, list[str]]:
    """A tab with the page, and what went wrong in it or was asked of others."""
    page, problems = visitor.new_page(), []
    base = f"http://{urlsplit(address).netloc}/"
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith((base, "data:")) else problems.append(asked.url))
    page.goto(address)
    return page, problems


def test_a_browser_shows_the_page(web: Web, visitor: BrowserContext) -> None:
    page, problems = open_page(visitor, web.address)
    expect(page.locator(".hpg-page")).to_be_visible()
    assert web.token not in page.url, "the history of the browser must not hold it"
    page.reload()
    for view in ("search", "themes", "agent", "history", "removals", "settings"):
        page.goto(f"{web.base}/pgvector-memory?view={view}")
        expect(page.locator(".hpg-page h2").first).to_be_visible()
    assert problems == []


def test_a_further_tab_is_admitted_by_the_first(web: Web, visitor: BrowserContext) -> None:
    page, _ = open_page(visitor, web.address)
    expect(page.locator(".hpg-page")).to_be_visible()
    other, problems = open_page(visitor, f"{web.base}/pgvector-memory?view=themes")
    expect(other.locator(".hpg-page")).to_be_visible()
    assert problems == []


def test_a_browser_with_an_old_address_is_told_what_to_do(web: Web, visitor: BrowserContext) -> None:
    web.session()
    page, _ = open_page(visitor, web.address)
    expect(page.get_by_text("hermes-pgvector web")).to_be_visible()
    assert page.locator(".hpg-page").count() == 0


def test_a_browser_is_opened_by_way_of_a_file_of_ones_own(
    home: Path, start_cli: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}.part && mv {seen}.part {seen}\n', encoding="utf-8")
    browser.chmod(0o755)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("BROWSER", str(browser))
    with start_cli("web", "--port", "0") as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        until(seen.exists)
        leaf = Path(urlsplit(seen.read_text().strip()).path)
        assert address in leaf.read_text()
        assert os.stat(leaf.parent).st_mode & 0o077 == 0
        process.terminate()
        process.wait(60)
    assert not leaf.exists()
