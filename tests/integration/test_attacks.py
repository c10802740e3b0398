"""Attacks from outside that no other module plays: files of strangers, endpoints and models that turn on us."""

from __future__ import annotations

import gzip
import http.server
import json
import logging
import sqlite3
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest

from hermes_memory_pgvector import cli
from hermes_memory_pgvector.config.settings import TOOLS
from hermes_memory_pgvector.domain.errors import EmbedderError
from hermes_memory_pgvector.embed.http_client import MAX_REPLY_BYTES
from hermes_memory_pgvector.embed.http_embedder import HttpEmbedder
from hermes_memory_pgvector.embed.model_folder import read_model_folder
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import called, landed, recalled
from tests.support.records import all_rows
from tests.support.stored import Database

DEEP = "[" * 100_000
STATEMENTS = [
    "'; DROP TABLE memory_entries; --",
    "' OR agent_identity <> '' --",
    "\\'; DELETE FROM conversations WHERE true; --",
    "%(theme)s %s {theme} $1 :theme",
    "marketing' UNION SELECT content FROM memory_entries WHERE agent_identity = 'sales",
    "x\0' OR 1=1",
    "{{''.__class__.__mro__}} ${jndi:ldap://127.0.0.1/x} $(touch /tmp/x) `id`",
    "../../../../etc/passwd",
]


@pytest.fixture
def configured(home: Path, dsn: str) -> str:
    """The home's configuration names the test's database."""
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))
    return dsn


class _Listener(http.server.ThreadingHTTPServer):
    """Answers every POST with a redirect to `to`, else with a sentence; `asked` holds the headers of each."""

    daemon_threads = True

    def __init__(self, to: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Redirect)
        self.to = to
        self.asked: list[dict[str, str]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Redirect(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        listener = cast(_Listener, self.server)
        listener.asked.append(dict(self.headers))
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(307 if listener.to else 400)
        if listener.to:
            self.send_header("Location", listener.to)
        self.send_header("Set-Cookie", f"number{len(listener.asked)}={'x' * 1000}; Max-Age=9999")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def packed_endpoint(reply: bytes, encoding: str) -> Iterator[str]:
    """The address of an endpoint that answers everything with the same bytes."""

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Encoding", encoding)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            with suppress(OSError):  # whoever has read enough hangs up
                self.wfile.write(reply)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, args=(0.01,)).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def listen() -> Iterator[Callable[[str], _Listener]]:
    """Starts listeners."""
    running: list[_Listener] = []

    def start(to: str = "") -> _Listener:
        running.append(_Listener(to))
        threading.Thread(target=running[-1].serve_forever, args=(0.01,)).start()
        return running[-1]

    yield start
    for listener in running:
        listener.shutdown()
        listener.server_close()


def test_an_endpoint_cannot_have_our_texts_and_key_sent_elsewhere(listen: Callable[[str], _Listener]) -> None:
    thief = listen("")
    endpoint = listen(f"{thief.url}/v1/embeddings")
    embedder = HttpEmbedder(url=f"{endpoint.url}/v1", model="m", dims=DIMS, api_key="sk-ours")

    with pytest.raises(EmbedderError, match="redirect"):
        embedder.embed_query("what we keep to ourselves", timeout_s=10)

    embedder.close()
    assert endpoint.asked and all(each["Authorization"] == "Bearer sk-ours" for each in endpoint.asked)
    assert thief.asked == []


def test_no_endpoint_makes_each_request_longer_than_the_one_before(listen: Callable[[str], _Listener]) -> None:
    listener = listen("")
    embedder = HttpEmbedder(url=f"{listener.url}/v1", model="m", dims=DIMS)
    for _ in range(2):
        with pytest.raises(EmbedderError):
            embedder.embed_query("hello", timeout_s=30)
    embedder.close()
    assert len(listener.asked) > 1 and not any("Cookie" in each for each in listener.asked)


@pytest.mark.parametrize(
    ("encoding", "packed", "expected"),
    [
        ("gzip", gzip.compress, ""),
        ("deflate", zlib.compress, ""),
        ("identity", lambda body: body, ""),
        ("gzip", lambda body: gzip.compress(bytes(16 << 20)) * 8, "expected JSON"),
        ("gzip", lambda body: gzip.compress(bytes(80 << 20)), "expected less than"),
        ("gzip, gzip", lambda body: gzip.compress(gzip.compress(bytes(256 << 20))), "'gzip, gzip'"),
        ("zstd", lambda body: body, "'zstd'"),
        ("gzip", lambda body: body, "expected a body in gzip"),
    ],
)
def test_a_reply_is_unpacked_no_further_than_it_may_be_long(
    encoding: str, packed: Callable[[bytes], bytes], expected: str
) -> None:
    reply = packed(json.dumps({"data": [{"index": 0, "embedding": [1.0] * DIMS}]}).encode())
    with packed_endpoint(reply, encoding) as url:
        embedder = HttpEmbedder(url=f"{url}/v1", model="m", dims=DIMS)
        tracemalloc.start()
        try:
            if expected:
                with pytest.raises(EmbedderError, match=expected):
                    embedder.embed_query("hello", timeout_s=30)
            else:
                assert embedder.embed_query("hello", timeout_s=30)[0] == pytest.approx(DIMS**-0.5)
            assert tracemalloc.get_traced_memory()[1] < 4 * MAX_REPLY_BYTES
        finally:
            tracemalloc.stop()
            embedder.close()


@pytest.mark.parametrize("tool", TOOLS)
def test_no_argument_of_a_tool_reaches_another_theme_or_the_tables(
    make_provider: MakeProvider, dsn: str, tool: str
) -> None:
    config = {"tools": list(TOOLS), "structure": True, "cross_theme": "none"}
    provider, other = (make_provider(config, gateway_session_key=theme) for theme in ("marketing", "sales"))
    for each, content in ((provider, "Atlas is blue"), (other, "the secret of sales")):
        each.on_memory_write("add", "memory", content)
        landed(each)
    (schema,) = (each for each in provider.get_tool_schemas() if each["name"] == tool)
    fine = {"query": "Atlas", "content": "something kept", "id": 1}
    arguments = schema["parameters"]["properties"]

    for name in arguments:
        for hostile in [*STATEMENTS, [STATEMENTS[0]], {"$ne": STATEMENTS[0]}, 10**400, DEEP]:
            args = {key: value for key, value in fine.items() if key in arguments} | {name: hostile}
            assert "secret of sales" not in json.dumps(called(provider, tool, args)), (name, hostile)
    landed(provider)

    assert recalled(other, "What is the secret of sales?") == ["the secret of sales"]
    themes = Database(dsn).column("SELECT DISTINCT agent_identity FROM memory_entries ORDER BY 1")
    assert themes == ["marketing", "sales"]


def test_no_name_of_a_file_and_no_word_of_an_endpoint_steers_a_terminal(
    configured: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["import", str(tmp_path / "memories\x1b[2J\x9b31m\u202e.jsonl")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ") and not {"\x1b", "\x9b", "\u202e"} & set(said)

    with packed_endpoint(b'{"error": "\\u001b[2Jout of\\r\\nmemory\\u009b31m \\u202e!"}', "identity") as url:
        embedder = HttpEmbedder(url=f"{url}/v1", model="m", dims=DIMS)
        with pytest.raises(EmbedderError) as caught:
            embedder.embed_query("hello", timeout_s=30)
        embedder.close()
    assert "out of memory" in str(caught.value) and str(caught.value).isprintable()


def test_no_error_of_postgres_is_told_without_end(
    configured: str,
    admin_dsn: str,
    make_provider: MakeProvider,
    records: Callable[[int], list[str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As that of a trigger of somebody's, which quotes the row that it refuses."""
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
            " $$BEGIN RAISE EXCEPTION 'refused: %', repeat('walrus ', 1000000); END$$"
        )
        admin.execute("CREATE TRIGGER refuse BEFORE INSERT ON memory_entries FOR EACH ROW EXECUTE FUNCTION refuse()")
    provider = make_provider({"tools": ["remember"]})
    answer = called(provider, "remember", {"content": "The walrus swims.", "sync": True})
    assert "spool list" in answer["error"]
    for command in (["spool", "list"], ["spool", "list", "--json"], ["doctor"]):
        cli.main(command)
    told = [*records(logging.INFO), *capsys.readouterr()]
    assert any("refused: walrus" in each for each in told)
    assert max(map(len, told)) < 20_000


def test_no_row_of_a_stranger_steers_a_terminal(
    configured: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = "\x1b[2J\x9b31m\u202e\u2028\x7f\U000e0041"
    with psycopg.connect(configured) as connection:
        connection.execute(
            "INSERT INTO memory_entries (agent_identity, target, content, metadata) VALUES ('sales', 'memory', %s, %s)",
            (f"Atlas costs 900 {odd} \u0645\u06cc\u200c\u062e", json.dumps({f"key{odd}": f"value{odd}"})),
        )

    assert cli.main(["show", "1"]) == 0
    shown = capsys.readouterr().out
    assert cli.main(["export", str(tmp_path / "all.jsonl")]) == 0
    exported = (tmp_path / "all.jsonl").read_text(encoding="utf-8")

    for text in (shown, exported):
        assert not set(odd.replace("[2J", "").replace("31m", "")) & set(text)
        assert "\u0645\u06cc\u200c\u062e" in text
    (row,) = [json.loads(line) for line in exported.split("\n") if '"sales"' in line and '"content"' in line]
    assert odd in row["content"] and row["metadata"] == {f"key{odd}": f"value{odd}"}


def test_no_row_of_a_stranger_forges_a_line_of_a_command(
    configured: str, admin_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What agents write has no line ends in such names; whoever has SQL may write any."""
    odd = "odd\nt99  assistant  2026-01-01 09:00\r\n  FAIL  forged: all is lost\x1b[2J\u2028"
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute("UPDATE hermes_embedding SET model = %s", [odd])
        for theme in ("sales", odd):
            connection.execute(
                "INSERT INTO memory_entries (agent_identity, target, content, kind, subject, scope, state, pinned)"
                " VALUES (%s, 'memory', 'Atlas costs 900', 'decision', %s, %s, 'active', true)",
                (theme, odd, odd),
            )
            connection.execute(
                "INSERT INTO conversations (agent_identity, session_id, role, content, ts, metadata)"
                " VALUES (%s, 's', 'user', %s, now() - interval '200 days', %s)",
                (theme, f"Atlas starts {odd}", json.dumps({"parent_session_id": odd})),
            )
        connection.execute(
            "INSERT INTO hermes_maintenance (os_user, host, verb, arguments, counts)"
            " VALUES (%s, %s, 'rename', %s, '{}')",
            (odd, odd, json.dumps({"theme": odd})),
        )
    for command in (
        ["list"], ["search", "Atlas", "--scope", "all"], ["sessions", "show", "s", "--theme", "sales"], ["doctor"],
        ["sessions", "list", "--theme", "sales"], ["facts", "list", "--theme", "sales"], ["status", "--verbose"],
        ["prune", "--all-themes", "--older-than", "90d"], ["themes", "log"], ["themes", "list"],
        ["edit", "m1", "--subject", "gate"],
    ):  # fmt: skip
        cli.main(command)
        lines = "".join(capsys.readouterr()).split("\n")
        assert any("odd" in line for line in lines) and "\x1b" not in "".join(lines), command
        assert not any(line.startswith(("t99", "  FAIL  forged")) for line in lines), command


def test_an_import_that_unpacks_without_end_is_refused(
    configured: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bomb = tmp_path / "bomb.jsonl.gz"
    bomb.write_bytes(gzip.compress(bytes(64 << 20)) * 64)
    assert bomb.stat().st_size < 8 << 20

    assert cli.main(["import", str(bomb)]) == 1

    assert "longer than" in capsys.readouterr().err
    assert all_rows(configured) == []


def test_an_import_of_hostile_lines_takes_nothing_in_and_says_it_plainly(
    configured: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"store": "memories", "theme": "sales", "target": "memory", "content": "x", "created_at": "2026-01-01"}
    odd: list[Any] = [
        {"created_at": "9" * 30}, {"created_at": "99999-01-01T00:00:00Z"}, {"created_at": {}}, {"theme": ["sales"]},
        {"theme": "\x1b]0;owned\x07\x1b[2J"}, {"content": None}, {"store": "\x1b[31mpg_authid"},
        {"embedding": "[" * 99}, {"embedding": [1e400] * DIMS}, {"embedding": ["1"] * DIMS}, {"metadata": "x"},
        {"id": 2**70}, {"id": "1; --"},
    ]  # fmt: skip
    lines = [json.dumps(row | each) for each in odd] + [DEEP, '{"store": ' + DEEP, "\x1b[2J", "9" * 5000, '"\ud800"']
    path = tmp_path / "hostile.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8", errors="surrogatepass")

    assert cli.main(["import", str(path)]) == 1
    said = capsys.readouterr()
    assert all_rows(configured) == []
    assert cli.main(["import", str(path), "--salvage"]) == 1
    salvaged = capsys.readouterr()

    for text in (said.out, said.err, salvaged.out, salvaged.err):
        assert "\x1b" not in text and "\x07" not in text
        assert "Traceback" not in text and "internal" not in text


@pytest.mark.parametrize(
    "hostile",
    [
        "CREATE VIEW messages AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) "
        "SELECT id, 's' AS session_id, 'user' AS role, 'x' AS content, 0 AS timestamp FROM n",
        "CREATE VIRTUAL TABLE messages USING fts4(id, session_id, role, content, timestamp)",
    ],
)
def test_what_a_database_of_a_stranger_would_have_run_is_no_table(
    configured: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], hostile: str
) -> None:
    """SQLite runs what a view says, without end and beyond Ctrl-C."""
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE sessions (id, source, started_at, parent_session_id)")
        file.execute(hostile)
        file.commit()

    assert cli.main(["bring", "sessions", "--path", str(path), "--yes"]) == 1

    assert "it has no table messages" in capsys.readouterr().err
    assert all_rows(configured) == []


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json", "modules.json", "sentence_bert_config.json"])
@pytest.mark.parametrize(
    "text",
    [pytest.param(DEEP, id="deep"), "[]", "null", '{"max_seq_length": 1e999}', '{"pad_token": {"content": []}}'],
)
def test_a_hostile_file_of_a_model_is_an_error_in_words_or_no_matter(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / "model.onnx").write_bytes(b"\0")
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    (tmp_path / file).write_text(text, encoding="utf-8")

    try:
        read_model_folder(tmp_path)
    except EmbedderError as error:
        assert file in str(error)
