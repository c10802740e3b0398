"""What a request to the page's routes must be: everything else is refused with a sentence, and changes nothing."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import httpx
import psycopg
import pytest
from fastapi import FastAPI

from hermes_memory_pgvector.dashboard import routing
from hermes_memory_pgvector.dashboard.page_route import PageRoute
from hermes_memory_pgvector.dashboard.params import Params
from hermes_memory_pgvector.dashboard.routes import ROUTES
from hermes_memory_pgvector.dashboard.served_homes import ServedHome
from tests.support.asgi_server import AsgiServer
from tests.support.dashboard import BASE, DashboardApi
from tests.support.waiting import until

QUESTIONS = sorted(route.path for route in ROUTES if not route.changes)
CHANGES = sorted(route.path for route in ROUTES if route.changes)
JSON = {"Content-Type": "application/json"}
BODY_MOST = 8_000_000
NO_OBJECTS = (
    b"",
    b"{",
    b"[]",
    b"null",
    b'"x"',
    b'{"refs": NaN}',
    b"\xff\xfe{\x00",
    b'{"a": "\xff"}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"n": ' + b"9" * 5_000 + b"}",
)
ODD_VALUES: tuple[object, ...] = (
    0, -1, 1e308, True, "", "\0", "\ud800", "x" * 100_000, "m" + "9" * 400, [], {}, [[]], {"$ne": 1}, ["m1", 2], [None],
)  # fmt: skip
ODD_QUERIES = (
    "theme=%00&q=%00&ref=%00&session=%00&message=%00",
    "theme=%ff%fe&q=%ff&ref=%ff&session=%ed%a0%80&message=%ff",
    "theme=a&theme=b&q=x&q=y&ref=m1&ref=m2&session=s&message=m",
    "theme='%20OR%201=1--&q='&ref=m1%27&session='&message='",
    "theme[]=x&q[$ne]=1&ref=m1&session=s&message=m",
    "&&=&==&%&theme=default&q=%&ref=m1&session=s&message=m",
    "theme=default&q=x&ref=m99999999999999999999999&session=s&message=m",
    "theme=default&q=x&ref=m1&session=s&message=m&limit=9999999999999999999999&offset=-1",
    "theme=default&q=x&ref=m1&session=s&message=m&limit=1e3",
    "theme=default&q=x&ref=m1&session=s&message=m&limit=%D9%A3&since=%00&until=9999-99-99",
    "theme=default&q=x&ref=m1&session=s&message=m&since=-infinity&until=294277-01-01",
    "theme=../../etc&q=x&ref=../m1&session=../s&message=m",
    "profile=..%2F..%2Fetc&theme=default&q=x&ref=m1&session=s&message=m",
    "theme=" + "x" * 20_000 + "&q=x&ref=m1&session=s&message=m",
    "theme=default&ref=m1&session=s&message=m&q=" + "(" * 5_000,
)


def everything(dsn: str) -> dict[str, list[object]]:
    """Every row of every table that the role can read."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        names = conn.execute(
            "SELECT c.oid::regclass::text FROM pg_class c WHERE c.relkind = 'r' "
            "AND c.relnamespace = 'public'::regnamespace AND has_table_privilege(c.oid, 'SELECT') ORDER BY 1"
        ).fetchall()
        return {
            name: sorted(str(row) for row in conn.execute(f"SELECT t FROM {name} t").fetchall())  # type: ignore[misc]
            for (name,) in names
        }


def answer_to(api: DashboardApi, path: str, query: str) -> httpx.Response:
    """The answer to a question, asked again while a busy machine takes too long for it."""

    def ask() -> httpx.Response | None:
        answer = api.http.get(f"{BASE}{path}?{query}")
        return None if answer.status_code == 503 else answer

    return until(ask) or pytest.fail("never answered")


# -- what changes something ------------------------------------------------------------------------------------------


def test_a_change_is_json_from_this_page(api: DashboardApi, dsn: str) -> None:
    before = everything(dsn)
    foreign: tuple[dict[str, str], ...] = (
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": ""},
        JSON | {"Origin": "https://evil.example"},
        JSON | {"Origin": "null"},
        JSON | {"Origin": "http://[::1"},
        JSON | {"Origin": "http://127.0.0.1"},
    )
    own = JSON | {"Origin": str(api.http.base_url)}
    for path in CHANGES:
        for headers in foreign:
            answer = api.http.post(BASE + path, content=b"{}", headers=headers)
            assert (answer.status_code, bool(answer.json()["error"])) == (400, True), (path, headers)
        assert "another site" not in api.http.post(BASE + path, content=b"{}", headers=own).text
    assert everything(dsn) == before


@pytest.mark.parametrize("path", CHANGES[:2])
def test_what_is_no_json_object_is_refused(api: DashboardApi, path: str) -> None:
    for body in NO_OBJECTS:
        answer = api.http.post(BASE + path, content=body, headers=JSON)
        assert (answer.status_code, "JSON" in answer.json()["error"]) == (400, True), (body[:20], answer.text)


def test_odd_values_are_refused_in_words(api: DashboardApi, dsn: str) -> None:
    names = ("theme", "target", "ref", "refs", "session", "decision", "token", "changes", "kind", "expires_at")
    before = everything(dsn)
    for path in CHANGES:
        for odd in ODD_VALUES:
            body = {name: odd for name in names} | {"content": "x", "dry_run": True}
            answer = api.http.post(BASE + path, content=json.dumps(body), headers=JSON)
            assert answer.status_code in (200, 400, 404), (path, str(odd)[:20].encode(), answer.text)
            assert isinstance(answer.json(), dict)
    assert everything(dsn) == before


def test_a_body_beyond_the_limit_is_refused(api: DashboardApi) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(BODY_MOST // 1_000_000 + 2):
            yield b" " * 1_000_000

    for content in (b" " * (BODY_MOST + 1), endless()):
        answer = api.http.post(BASE + CHANGES[0], content=content, headers=JSON)
        assert (answer.status_code, "8,000,000 bytes" in answer.json()["error"]) == (400, True)


def test_a_request_that_ends_before_its_body_holds_nobody_up(api: DashboardApi) -> None:
    where = urlsplit(str(api.http.base_url))
    with socket.create_connection((where.hostname or "", where.port or 0)) as raw:
        head = f"POST {BASE}{CHANGES[0]} HTTP/1.1\r\nHost: x\r\n"
        head += "Content-Type: application/json\r\nContent-Length: 99\r\n\r\n"
        raw.sendall(head.encode() + b'{"a"')
    assert api.get("/profiles")["current"]


def test_of_a_body_that_does_not_come_it_is_said_that_nothing_was_done(
    api: DashboardApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "_BODY_S", 0.1)
    where = urlsplit(str(api.http.base_url))
    with socket.create_connection((where.hostname or "", where.port or 0)) as raw:
        head = f"POST {BASE}{CHANGES[0]} HTTP/1.1\r\nHost: x\r\n"
        head += "Content-Type: application/json\r\nContent-Length: 99\r\n\r\n"
        raw.sendall(head.encode() + b'{"a"')
        answer = HTTPResponse(raw)
        answer.begin()
        assert answer.status == 400 and "nothing was done" in json.load(answer)["error"]


# -- what only asks --------------------------------------------------------------------------------------------------


def test_a_question_writes_nothing(api: DashboardApi, dsn: str) -> None:
    added = api.post("/add", theme="default", target="memory", content="The Atlas campaign starts on 3 May.")
    ref = added["rows"][0]["ref"]
    before = everything(dsn)
    needed = {"theme": "default", "q": "Atlas", "message": "When does Atlas start?", "ref": ref}
    for path in QUESTIONS:
        answer = answer_to(api, path, urlencode(needed))
        assert answer.status_code == (400 if path == "/session" else 200), (path, answer.text)
        for method in ("PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"):
            assert api.http.request(method, BASE + path).status_code == 405
    for path in set(QUESTIONS) - set(CHANGES):
        assert api.http.post(BASE + path, json=needed).status_code == 405
    for path in set(CHANGES) - set(QUESTIONS):
        assert api.http.get(BASE + path, params=needed).status_code == 405
    assert everything(dsn) == before


@pytest.mark.parametrize("path", QUESTIONS)
def test_odd_questions_are_answered_or_refused_in_words(api: DashboardApi, path: str) -> None:
    for query in ODD_QUERIES:
        answer = answer_to(api, path, query)
        assert answer.status_code in (200, 400, 404), (query[:80], answer.text)
        assert isinstance(answer.json(), dict)
        assert "Traceback" not in answer.text and "psycopg" not in answer.text


@pytest.mark.parametrize("changes", [True, False])
def test_of_what_takes_too_long_it_is_said_whether_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: bool
) -> None:
    ended = threading.Event()

    def slow(served: ServedHome, params: Params) -> dict[str, object]:
        ended.wait()
        return {}

    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.setattr(routing, "ROUTES", [PageRoute("/slow", slow, changes=changes)])
    monkeypatch.setattr(routing, "_CHANGE_S", 0.1)
    app = FastAPI()
    app.include_router(routing._router())
    with AsgiServer(app) as server:
        answer = httpx.request("POST" if changes else "GET", f"{server.url}/slow", json={} if changes else None)
        ended.set()
    assert answer.status_code == 503 and ("it may still be done" in answer.json()["error"]) == changes


def test_there_are_no_other_routes(api: DashboardApi) -> None:
    where = urlsplit(str(api.http.base_url))
    for path in ("", "/", "/none", "/overview/", "/../overview", "/%2e%2e/overview", "/overview%00", "//overview"):
        with socket.create_connection((where.hostname or "", where.port or 0)) as raw, raw.makefile("rb") as answer:
            raw.sendall(f"GET {BASE}{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            assert answer.readline().split()[1] in (b"307", b"404"), path


def test_no_answer_is_kept_by_a_browser(api: DashboardApi) -> None:
    for path in (*QUESTIONS, "/row?ref=x"):
        assert api.http.get(BASE + path).headers["cache-control"] == "no-store"
