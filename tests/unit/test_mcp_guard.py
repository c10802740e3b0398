"""What stands before the MCP server on HTTP: tokens, names, sizes and rates, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from hermes_memory_pgvector.admin.mcp.token_changes import add_token, remove_token
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.domain.errors import ConfigurationError
from hermes_memory_pgvector.mcp.access import SCOPE_KEY
from hermes_memory_pgvector.mcp.header_deadline import HeaderDeadline
from hermes_memory_pgvector.mcp.http_guard import HttpGuard, HttpLimits
from hermes_memory_pgvector.mcp.tokens import TokenFile
from tests.support.asgi_server import AsgiServer
from tests.support.waiting import until

Serve = Callable[..., AsgiServer]


async def tell(scope: Any, receive: Any, send: Any) -> None:
    """Answers with what it was called with."""
    if scope["type"] == "lifespan":
        for step in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{step}.complete"})
        return
    body = (await receive())["body"]
    access = scope.get(SCOPE_KEY)
    told = {
        "themes": access and access.themes,
        "read_only": access and access.read_only,
        "bytes": len(body),
        "then": "nothing more" if body != b"wait" else (await receive())["type"],
    }
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": json.dumps(told).encode()})


@pytest.fixture
def serve(home: Path) -> Iterator[Serve]:
    """Serves `tell` behind a guard of the home."""
    with ExitStack() as servers:

        def serve(**options: Any) -> AsgiServer:
            options = {"listen": "127.0.0.1"} | options
            return servers.enter_context(AsgiServer(HttpGuard(tell, TokenFile(home), **options)))

        yield serve


def error(answer: httpx.Response) -> str:
    """The message of an error, as a client of JSON-RPC finds it."""
    told = answer.json()
    assert (told["jsonrpc"], told["id"]) == ("2.0", None)
    message: str = told["error"]["message"]
    return message


def bearer(secret: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}", **more}


def test_on_loopback_without_tokens_everybody_of_this_machine_is_served(serve: Serve) -> None:
    answer = httpx.post(serve().url, content=b"12345")

    assert answer.json() == {"themes": None, "read_only": None, "bytes": 5, "then": "nothing more"}


def test_a_token_says_which_themes_and_whether_to_write(serve: Serve, home: Path) -> None:
    work = add_token(home, "work", ["work", "home"], read_only=True).secret
    every = add_token(home, "every", [], read_only=False).secret
    url = serve().url

    assert httpx.post(url, headers=bearer(work)).json() | {"bytes": 0} == {
        "themes": ["work", "home"], "read_only": True, "bytes": 0, "then": "nothing more",
    }  # fmt: skip
    told = httpx.post(url, headers=bearer(every)).json()
    assert (told["themes"], told["read_only"]) == ([], False)


@pytest.mark.parametrize(
    "header", [None, "Bearer", "Bearer wrong", "Basic {}", "{}", "Bearer {}x", "Bearer x{}", "Bearer \u00fc"]
)
def test_whoever_shows_no_token_of_ours_is_told_so(serve: Serve, home: Path, header: str | None) -> None:
    secret = add_token(home, "a", ["work"], read_only=False).secret
    headers = [] if header is None else [(b"Authorization", header.format(secret).encode())]

    answer = httpx.post(serve().url, headers=headers)

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert "token" in error(answer)


def test_a_running_server_follows_the_file_and_never_opens_again(serve: Serve, home: Path) -> None:
    url = serve().url
    assert httpx.get(url).status_code == 200

    secret = add_token(home, "a", ["work"], read_only=False).secret
    assert httpx.get(url).status_code == 401
    assert httpx.get(url, headers=bearer(secret)).status_code == 200

    remove_token(home, "a", really=True)
    assert httpx.get(url, headers=bearer(secret)).status_code == 401
    TokenFile(home).path.unlink()
    assert httpx.get(url).status_code == 401


def test_a_damaged_file_of_tokens_lets_nobody_in(serve: Serve, home: Path, records: Callable[[int], list[str]]) -> None:
    secret = add_token(home, "a", ["work"], read_only=False).secret
    url = serve().url
    TokenFile(home).path.write_text("{oops", encoding="utf-8")

    answer = httpx.get(url, headers=bearer(secret))

    assert answer.status_code == 503
    assert str(home) not in answer.text
    assert any("mcp-tokens.json" in line for line in records(logging.WARNING))


@pytest.mark.parametrize("listen", ["0.0.0.0", "::", "192.0.2.7", "memory.example.com"])
def test_beyond_loopback_nobody_listens_without_a_token(home: Path, listen: str) -> None:
    with pytest.raises(ConfigurationError, match="mcp token add"):
        HttpGuard(tell, TokenFile(home), listen=listen)

    add_token(home, "a", ["work"], read_only=False)
    HttpGuard(tell, TokenFile(home), listen=listen)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "localhost"}, 200),
        ({"Host": "localhost:9999"}, 200),
        ({"Host": "[::1]:8766"}, 200),
        ({"Host": "Memory.Example.com"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "localhost.evil.example"}, 403),
        ({"Host": "0.0.0.0"}, 403),
        ({"Host": "[oops"}, 403),
        ({"Host": ""}, 403),
        ({"Origin": "http://localhost:6274"}, 200),
        ({"Origin": "https://memory.example.com"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "https://localhost.evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_pages_of_other_names_are_kept_out(serve: Serve, headers: dict[str, str], status: int) -> None:
    url = serve(names=["memory.example.com"]).url

    answer = httpx.post(url, headers=headers)

    assert answer.status_code == status
    if status == 403:
        assert "--allow-host" in error(answer)


@pytest.mark.parametrize("name", ["Host", "Origin", "Authorization", "X-Hermes-Session-Key"])
def test_a_header_that_stands_twice_is_refused(serve: Serve, name: str) -> None:
    server = serve()
    headers = [("Host", "localhost")] * (name != "Host") + [(name, "localhost"), (name, "localhost")]

    assert status_of(server, headers, b"") == 400


def status_of(server: AsgiServer, headers: list[tuple[str, str]], body: bytes) -> int:
    """The status of an answer to a request that is written byte by byte."""
    lines = ["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as wire:
        wire.sendall("\r\n".join(lines).encode() + body)
        return int(wire.recv(65536).split()[1])


def test_a_body_that_is_too_large_is_refused_by_what_it_says_and_by_what_it_is(serve: Serve) -> None:
    server = serve(limits=HttpLimits(body_bytes=1000))
    local = ("Host", "localhost")

    assert status_of(server, [local, ("Content-Length", "1001")], b"") == 413
    assert status_of(server, [local, ("Content-Length", "9" * 5000)], b"") in (400, 413)
    chunk = b"400\r\n" + b"x" * 1024 + b"\r\n"
    assert status_of(server, [local, ("Transfer-Encoding", "chunked")], chunk) == 413
    assert httpx.post(server.url, content=b"x" * 1000).json()["bytes"] == 1000


def test_a_large_body_is_answered_before_it_was_read(serve: Serve) -> None:
    answer = httpx.post(serve().url, content=b"x" * 20_000_000, timeout=60)

    assert answer.status_code == 413
    assert "4,194,304" in error(answer)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(("host", "status"), [("localhost", 413), ("evil.example", 403)])
def test_a_client_that_reads_only_after_its_whole_body_was_sent_gets_the_refusal(
    serve: Serve, host: str, status: int, chunked: bool
) -> None:
    """As Python's own client does."""
    body = b"x" * 20_000_000
    pieces = (body[at : at + 65536] for at in range(0, len(body), 65536))
    with closing(http.client.HTTPConnection("127.0.0.1", serve().port, timeout=60)) as client:
        headers = {"Host": host}
        client.request("POST", "/mcp", pieces if chunked else body, headers, encode_chunked=chunked)

        assert client.getresponse().status == status


def test_a_body_that_does_not_come_is_not_waited_for(serve: Serve) -> None:
    server = serve(limits=HttpLimits(body_s=0.1))

    assert status_of(server, [("Host", "localhost"), ("Content-Length", "10")], b"12345") == 408


def test_the_application_still_hears_that_the_client_left(tmp_path: Path) -> None:
    heard: list[str] = []

    async def listening(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            heard.append((await receive())["type"])
            heard.append((await receive())["type"])
        else:
            await tell(scope, receive, send)

    with AsgiServer(HttpGuard(listening, TokenFile(tmp_path), listen="127.0.0.1")) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as wire:
            wire.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
            until(lambda: heard, what="the request")
        until(lambda: len(heard) == 2, what="the end of it")

    assert heard == ["http.request", "http.disconnect"]


def test_who_asks_too_often_waits_and_others_do_not(serve: Serve, home: Path) -> None:
    first = add_token(home, "first", ["work"], read_only=False).secret
    second = add_token(home, "second", ["work"], read_only=False).secret
    url = serve(limits=HttpLimits(requests_per_s=0.01, burst=3)).url

    answers = [httpx.get(url, headers=bearer(first)) for _ in range(4)]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert 90 <= int(answers[-1].headers["retry-after"]) <= 100
    assert "too many requests" in error(answers[-1])
    assert httpx.get(url, headers=bearer(second)).status_code == 200


def test_guessing_is_slowed_down_and_keeps_nobody_else_out(serve: Serve, home: Path) -> None:
    secret = add_token(home, "a", ["work"], read_only=False).secret
    url = serve().url

    with httpx.Client() as client:
        guesses = [client.get(url, headers=bearer(f"guess-{number}")).status_code for number in range(60)]
        assert set(guesses) == {401, 429}
        assert client.get(url, headers=bearer(secret)).status_code == 200


@pytest.mark.parametrize("name", ["https://memory.example", "memory.example:443", "memory.example/", "*", ""])
def test_a_name_that_no_client_could_send_is_not_allowed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["mcp", "--http", "127.0.0.1:8766", "--allow-host", name])
    assert ended.value.code == 2
    assert "write the name alone" in capsys.readouterr().err


def test_no_token_stands_in_a_log(serve: Serve, home: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = add_token(home, "a", ["work"], read_only=False).secret
    url = serve(limits=HttpLimits(requests_per_s=0.01, burst=1)).url
    for headers in (bearer(secret), bearer(secret), bearer(secret + "x"), bearer(secret, Host="evil.example")):
        httpx.post(url, headers=headers)

    ours = [record for record in caplog.records if record.name.startswith("hermes_memory_pgvector")]
    assert len(ours) == 3
    assert not any(
        secret[4:] in record.getMessage() for record in caplog.records if record.name.startswith(("herm", "uvi"))
    )


def test_whoever_is_refused_often_does_not_fill_the_log(serve: Serve, records: Callable[[int], list[str]]) -> None:
    url = serve().url

    with httpx.Client(headers={"Host": "evil.example"}) as client:
        assert {client.get(url).status_code for _ in range(200)} == {403}

    lines = [line for line in records(logging.WARNING) if "was refused" in line]
    assert 20 <= len(lines) < 100
    assert all("127.0.0.1" in line and "evil.example" in line for line in lines)


class _Hasty(HeaderDeadline):
    headers_s = 2.0


@pytest.mark.parametrize("began", [b"", b"POST / HTTP/1.1\r\nHost: loc", b"whole"])
def test_headers_that_never_end_are_not_waited_for(home: Path, began: bytes) -> None:
    whole = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx"
    guard = HttpGuard(tell, TokenFile(home), listen="127.0.0.1")
    with AsgiServer(guard, _Hasty) as server, socket.create_connection(("127.0.0.1", server.port), timeout=60) as wire:
        wire.sendall(whole + b"GET / HTTP/1.1\r\nHo" if began == b"whole" else began)
        answer = b""
        while part := wire.recv(4096):
            answer += part
        assert answer.count(b"HTTP/1.1 200 OK") == (began == b"whole")


def test_a_request_that_takes_long_is_answered_all_the_same(home: Path) -> None:
    released = threading.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            while not released.is_set():
                await asyncio.sleep(0.05)
        await tell(scope, receive, send)

    guard = HttpGuard(slow, TokenFile(home), listen="127.0.0.1")
    with AsgiServer(guard, _Hasty) as server:
        timer = threading.Timer(3.0, released.set)
        timer.start()
        assert httpx.post(server.url, content=b"12345", timeout=60).json()["bytes"] == 5
        timer.join()


class _Few(HeaderDeadline):
    headers_s = 600.0
    most = 5


def slow_until(released: threading.Event, begun: list[str] | None = None) -> Any:
    """An application that answers requests of `/slow` once it is told to, and others at once; `begun` lists them."""

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        if begun is not None and scope["type"] == "http":
            begun.append(scope["path"])
        while scope["type"] != "lifespan" and scope["path"] == "/slow" and not released.is_set():
            await asyncio.sleep(0.05)
        await tell(scope, receive, send)

    return slow


def test_connections_without_end_keep_nobody_out(home: Path) -> None:
    """They would take the files that the process needs to write memories down."""
    released = threading.Event()
    guard = HttpGuard(slow_until(released), TokenFile(home), listen="127.0.0.1")
    with AsgiServer(guard, _Few) as server, ExitStack() as wires:
        address = ("127.0.0.1", server.port)
        asking = wires.enter_context(socket.create_connection(address, timeout=60))
        asking.sendall(b"POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx")
        for began in (b"", b"POST / HTTP/1.1\r\nHo"):
            opened = [wires.enter_context(socket.create_connection(address, timeout=60)) for _ in range(30)]
            for wire in opened:
                with contextlib.suppress(OSError):
                    wire.sendall(began)
            assert httpx.post(server.url, content=b"12345", timeout=60).json()["bytes"] == 5
            with contextlib.suppress(ConnectionError):
                assert opened[0].recv(1) == b"", "the one that was quiet for longest is closed"
        released.set()
        assert b"200 OK" in asking.recv(65536)


def test_streams_without_end_keep_nobody_out(home: Path) -> None:
    """Their clients take up their sessions again; a request that is being answered is not given up for another."""
    released = threading.Event()
    begun: list[str] = []
    guard = HttpGuard(slow_until(released, begun), TokenFile(home), listen="127.0.0.1")
    with AsgiServer(guard, _Few) as server, ExitStack() as wires:

        def asking(request: bytes) -> socket.socket:
            before = len(begun)
            wire = wires.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            wire.sendall(request)
            until(lambda: len(begun) > before, 60, "the request to begin, before others do")
            return wire

        call = asking(b"POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx")
        streams = [asking(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(_Few.most + 3)]

        assert httpx.post(server.url, content=b"12345", timeout=60).json()["bytes"] == 5

        with contextlib.suppress(ConnectionError):
            assert streams[0].recv(1) == b"", "the one that has listened for longest is closed"
        released.set()
        assert b"200 OK" in call.recv(65536)
        assert b"200 OK" in streams[-1].recv(65536)


@pytest.mark.parametrize(("files", "connections"), [("256", 128), ("64", 32)])
def test_half_of_the_files_of_a_process_are_for_the_memory(files: str, connections: int) -> None:
    code = "from hermes_memory_pgvector.mcp.header_deadline import HeaderDeadline; print(HeaderDeadline.most)"
    command = ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", sys.executable, "-P", "-c", code]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.stdout.strip() == str(connections), done.stderr


def test_headers_without_end_are_refused(home: Path) -> None:
    guard = HttpGuard(tell, TokenFile(home), listen="127.0.0.1")
    with (
        AsgiServer(guard, HeaderDeadline) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=60) as wire,
    ):
        wire.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        with contextlib.suppress(OSError):
            for number in range(20_000):
                wire.sendall(b"X-%d: %s\r\n" % (number, b"y" * 1000))
            pytest.fail("20 MB of headers were taken")
