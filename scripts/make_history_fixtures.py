"""Makes tests/fixtures anew: what other memory providers write, recorded from a run of their own code.

Each needs an environment of its own, because their dependencies and ours do not agree:

    python -m venv /tmp/mem0 && /tmp/mem0/bin/pip install mem0ai==2.2.1 "psycopg[binary,pool]"
    python -m venv /tmp/hindsight && /tmp/hindsight/bin/pip install hindsight-api-slim==1.1.0
    pip install --target /tmp/client --no-deps hindsight-client==0.6.1 aiohttp-retry==2.9.1
    python -m venv /tmp/other && /tmp/other/bin/pip install hermes-memory-pgvector==1.0.0
    python -m venv /tmp/facts && /tmp/facts/bin/pip install hermes-memory==0.3.0
    python scripts/make_history_fixtures.py --mem0 /tmp/mem0 --other /tmp/other --hermes-memory /tmp/facts \\
        --hindsight /tmp/hindsight --client /tmp/client

Run by an environment with the extras `test` and `embedded`. A fixture whose environment is not named stays as it is.
Recorded are rows, and what the catalogue says of the columns; vectors and what is made for search are left out.
"""

from __future__ import annotations

import argparse
import hashlib
import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_memory_pgvector.server.cluster import EmbeddedServer

REPOSITORY = Path(__file__).resolve().parents[1]
FIXTURES = REPOSITORY / "tests" / "fixtures"
WRITERS = REPOSITORY / "scripts" / "history_writers"
NOT_RECORDED = ("vector", "tsvector")
START_TIMEOUT_S = 120.0
# What the model answers to every question: facts, of which the first stands word by word in a document.
FACTS = [
    {"what": "The staging Postgres listens on port 5433", "fact_type": "world"},
    {"what": "The log-in rules of staging were explained", "who": "the deploy role", "fact_type": "assistant"},
]


class _Model(http.server.BaseHTTPRequestHandler):
    """An endpoint for embeddings and for a model that always says the same."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "messages" in asked:
            blank = {name: "N/A" for name in ("what", "when", "where", "who", "why")}
            said = json.dumps({"facts": [blank | {"entities": []} | fact for fact in FACTS]})
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            answer: dict[str, Any] = {
                "id": "1", "object": "chat.completion", "created": 1, "model": "any", "choices": [choice],
                "usage": usage,
            }  # fmt: skip
        else:
            texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
            vectors = [_vector(text, self.server.dims) for text in texts]  # type: ignore[attr-defined]
            rows = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
            answer = {
                "object": "list", "model": "any", "data": rows, "embeddings": vectors,
                "usage": {"prompt_tokens": 1, "total_tokens": 1},
            }  # fmt: skip
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


def _vector(text: str, dims: int) -> list[float]:
    raw = hashlib.sha256(text.encode()).digest()
    return [(raw[n % len(raw)] + 1) / 256 for n in range(dims)]


@contextmanager
def model(dims: int) -> Iterator[str]:
    """The address of such an endpoint."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    server.dims = dims  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def databases(place: Path) -> Iterator[Any]:
    """Makes an empty database by its name and returns how an admin logs in to it."""
    server = EmbeddedServer(place / "pg", settings={"fsync": "off"})
    admin = server.ensure().admin

    def make(name: str) -> str:
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return make_conninfo(admin, dbname=name)

    try:
        yield make
    finally:
        server.stop()
        server.release()


def record(dsn: str, software: str, tables: list[str], file: str) -> None:
    """Write the rows of these tables, and the types of their columns."""
    found: dict[str, Any] = {}
    with psycopg.connect(dsn) as connection:
        for table in tables:
            columns = connection.execute(
                "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = %s::regclass "
                "AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
                [table],
            ).fetchall()
            kept = {name: kind for name, kind in columns if not kind.startswith(NOT_RECORDED)}
            rows = connection.execute(
                sql.SQL("SELECT {} FROM {} ORDER BY 1").format(
                    sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in kept),
                    sql.Identifier(table),
                )
            ).fetchall()
            found[table] = {"columns": kept, "rows": rows}
    text = json.dumps({"software": software, "tables": found}, indent=1, ensure_ascii=False)
    (FIXTURES / file).write_text(text + "\n", encoding="utf-8")


def run(python: Path, writer: str, *arguments: object, **environment: str) -> None:
    """Let a writer write."""
    command = [str(python), str(WRITERS / writer), *map(str, arguments)]
    # In a folder of its own: of ours, a package would be found by the name of another.
    subprocess.run(command, check=True, cwd=tempfile.gettempdir(), env={**os.environ, **environment})


def make_mem0(environment: Path, place: Path, database: str) -> None:
    """tests/fixtures/mem0 and mem0_pgvector.json."""
    folder = place / "mem0"
    folder.mkdir()
    with model(4) as url:
        run(environment / "bin" / "python", "mem0_writer.py", folder, url, _as_url(database), HOME=str(place))
    record(database, "mem0ai 2.2.1", ["mem0"], "mem0_pgvector.json")
    target = FIXTURES / "mem0"
    shutil.rmtree(target, ignore_errors=True)
    (target / "qdrant" / "collection" / "mem0").mkdir(parents=True)
    for name in ("history.db", "qdrant/meta.json", "qdrant/collection/mem0/storage.sqlite"):
        shutil.copy(folder / name, target / name)


def make_hindsight(environment: Path, client: Path, place: Path, database: str) -> None:
    """tests/fixtures/hindsight.json."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    with model(384) as url:
        settings = {
            "DATABASE_URL": _as_url(database), "LLM_PROVIDER": "openai", "LLM_API_KEY": "none", "LLM_MODEL": "any",
            "LLM_BASE_URL": f"{url}/v1", "SKIP_LLM_VERIFICATION": "true", "EMBEDDINGS_PROVIDER": "openai",
            "EMBEDDINGS_OPENAI_API_KEY": "none", "EMBEDDINGS_OPENAI_MODEL": "any",
            "EMBEDDINGS_OPENAI_BASE_URL": f"{url}/v1", "RERANKER_PROVIDER": "rrf", "ENABLE_OBSERVATIONS": "false",
        }  # fmt: skip
        known = {f"HINDSIGHT_API_{name}": value for name, value in settings.items()}
        command = [environment / "bin" / "hindsight-api", "--host", "127.0.0.1", "--port", str(port)]
        server = subprocess.Popen(command, env={**os.environ, **known, "HOME": str(place)}, cwd=place)
        try:
            _until_it_answers(f"http://127.0.0.1:{port}/health")
            paths = {"PYTHONPATH": str(client)}
            run(Path(sys.executable), "hindsight_writer.py", place / "home", f"http://127.0.0.1:{port}", **paths)
        finally:
            server.terminate()
            server.wait()
    record(database, "hindsight-api-slim 1.1.0", ["documents", "memory_units"], "hindsight.json")


def make_predecessor(environment: Path, place: Path, database: str) -> None:
    """tests/fixtures/predecessor.json."""
    with model(768) as url:
        run(environment / "bin" / "python", "predecessor_writer.py", place / "other", database, url)
    record(database, "hermes-memory-pgvector 1.0.0", ["memory_entries", "conversations"], "predecessor.json")


def make_hermes_memory(environment: Path) -> None:
    """tests/fixtures/hermes_memory.db."""
    file = FIXTURES / "hermes_memory.db"
    file.unlink(missing_ok=True)
    run(environment / "bin" / "python", "hermes_memory_writer.py", file)


def _until_it_answers(url: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            urllib.request.urlopen(url).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _as_url(conninfo: str) -> str:
    known = conninfo_to_dict(conninfo)
    return f"postgresql://{known['user']}@/{known['dbname']}?host={known['host']}&port={known['port']}"


def main() -> None:
    """Make what environments are named for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, what in (
        ("--mem0", "an environment with mem0ai"),
        ("--hindsight", "an environment with hindsight-api-slim"),
        ("--client", "a folder with hindsight-client"),
        ("--other", "an environment with the other hermes-memory-pgvector"),
        ("--hermes-memory", "an environment with hermes-memory"),
    ):
        parser.add_argument(name, type=Path, help=what)
    args = parser.parse_args()
    if args.hermes_memory:
        make_hermes_memory(args.hermes_memory)
    place = Path(tempfile.mkdtemp(prefix="hermes-fixtures-", dir="/tmp"))
    place.chmod(0o755)
    try:
        with databases(place) as database:
            if args.mem0:
                make_mem0(args.mem0, place, database("mem0"))
            if args.hindsight:
                make_hindsight(args.hindsight, args.client, place, database("hindsight"))
            if args.other:
                make_predecessor(args.other, place, database("predecessor"))
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
